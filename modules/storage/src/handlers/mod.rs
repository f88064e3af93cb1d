//! The store's handlers on the bus: the requests of `messages/chain.rs`, `messages/state.rs` and `messages/debug.rs` that
//! need nothing but the database ([`register`]).

mod chain;
mod changes;
mod debug;
mod error;
mod forks;
mod logs;
mod raw;
mod state;

use std::sync::Arc;

use tenon_api::{
    BusError, Request, StoreError,
    messages::{
        ChainInfo, CompactDatabase, CountTransactions, DumpAccounts, GetAccount, GetAccountRange, GetAvailability,
        GetBlock, GetBlockOutline, GetBlockReceipts, GetChainChanges, GetChainInfo, GetCode, GetDatabaseStatistics,
        GetForkSchedule, GetHead, GetHeadNumber, GetHeader, GetLogs, GetModifiedAccounts, GetPreimage, GetProof,
        GetRaw, GetReceipt, GetStorage, GetTransaction, GetTransactionInBlock, GetTransactionProof,
    },
};
use tenon_bus::{Bus, CallContext, MemoryBudget, RegisterError, WorkPool};
use tenon_chain::ChainSpec;

use crate::store::Store;
use error::AnswerError;
use logs::RequestedBlocks;

/// Limits on the cost of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// Maximum number of logs in one answer; a query with more fails.
    pub log_results: usize,
    /// Maximum number of blocks that one log query may span. The index makes the span cheap: the result count and the
    /// caller's deadline limit a query too.
    pub log_blocks: u64,
    /// Maximum number of slots in one proof.
    pub proof_slots: usize,
    /// Maximum number of blocks that [`GetChainChanges`] lists in either direction.
    pub chain_changes: u64,
    /// Maximum number of accounts and slots of one page of a dumped state, of slots of one dumped account, and of
    /// accounts in one list of changes.
    pub dump_records: usize,
    /// Maximum number of keys hashed in search of a preimage.
    pub preimage_keys: usize,
}

impl StoreLimits {
    /// `log_results` and `log_blocks` as given; the other limits are fixed.
    pub const fn new(log_results: usize, log_blocks: u64) -> Self {
        Self {
            log_results,
            log_blocks,
            // As in go-ethereum.
            proof_slots: 1_024,
            chain_changes: 10_000,
            dump_records: 200_000,
            // Hashing this many takes a few seconds.
            preimage_keys: 4_000_000,
        }
    }
}

/// Resources of the handlers.
pub struct StoreResources {
    /// Limits on the cost of one request.
    pub limits: StoreLimits,
    /// Memory budget of requests, used by proofs of old blocks.
    pub memory: MemoryBudget,
}

impl From<StoreLimits> for StoreResources {
    /// With a memory budget that counts but sets no limit.
    fn from(limits: StoreLimits) -> Self {
        Self { limits, memory: MemoryBudget::unbounded() }
    }
}

/// The data from which handlers answer.
struct Answers {
    store: Arc<Store>,
    /// Its schedule gives prices of blob gas.
    spec: Arc<ChainSpec>,
    info: Arc<ChainInfo>,
    limits: StoreLimits,
    memory: MemoryBudget,
    requested_blocks: RequestedBlocks,
}

/// A request that costs a few point reads and runs on the caller's own task.
fn read<R: Request>(
    bus: &Bus,
    answers: &Arc<Answers>,
    answer: fn(&Answers, R) -> Result<R::Reply, AnswerError>,
) -> Result<(), RegisterError> {
    let answers = Arc::clone(answers);
    bus.handle_read::<R>(move |request, _| Ok(answer(&answers, request)?))
}

/// A request that scans, and runs on the pool.
fn work<R: Request>(
    bus: &Bus,
    pool: &WorkPool,
    answers: &Arc<Answers>,
    answer: fn(&Answers, R, &CallContext) -> Result<R::Reply, AnswerError>,
) -> Result<(), RegisterError> {
    let answers = Arc::clone(answers);
    bus.handle_work::<R>(pool, move |request, context| Ok(answer(&answers, request, context)?))
}

/// The answer of an attempt; `None` if the request must run on the pool.
type Attempted<R> = Option<Result<<R as Request>::Reply, AnswerError>>;

/// A request that is usually short, and else runs on the pool.
fn attempt<R: Request>(
    bus: &Bus,
    pool: &WorkPool,
    answers: &Arc<Answers>,
    attempt: fn(&Answers, &R) -> Attempted<R>,
    answer: fn(&Answers, R, &CallContext) -> Result<R::Reply, AnswerError>,
) -> Result<(), RegisterError> {
    let (trying, own) = (Arc::clone(answers), Arc::clone(answers));
    bus.handle_attempt::<R>(
        pool,
        move |request, _| Some(attempt(&trying, request)?.map_err(BusError::from)),
        move |request, context| Ok(answer(&own, request, context)?),
    )
}

/// Registers the store's handlers. `pool` runs the requests that scan: proofs, dumps, comparisons of states, searches
/// for preimages, compaction, and long reads of logs and receipts.
///
/// # Errors
/// [`RegisterError`] if one of the requests already has a handler.
pub fn register(
    bus: &Bus,
    store: Arc<Store>,
    spec: Arc<ChainSpec>,
    info: Arc<ChainInfo>,
    pool: &WorkPool,
    resources: impl Into<StoreResources>,
) -> Result<(), RegisterError> {
    let StoreResources { limits, memory } = resources.into();
    let answers = Arc::new(Answers { store, spec, info, limits, memory, requested_blocks: RequestedBlocks::default() });
    read::<GetHead>(bus, &answers, |answers, _| Ok(answers.head()))?;
    read::<GetHeadNumber>(bus, &answers, |answers, _| Ok(answers.head().number()))?;
    read::<GetChainInfo>(bus, &answers, |answers, _| Ok(Arc::clone(&answers.info)))?;
    read::<GetHeader>(bus, &answers, |answers, request| answers.header(request.block))?;
    read::<GetBlock>(bus, &answers, |answers, request| answers.block(request.block))?;
    read::<GetForkSchedule>(bus, &answers, |answers, _| answers.fork_schedule())?;
    read::<GetAvailability>(bus, &answers, |answers, _| Ok(answers.availability()))?;
    read::<GetBlockOutline>(bus, &answers, |answers, request| answers.outline(request.block))?;
    read::<CountTransactions>(bus, &answers, |answers, request| answers.count_transactions(request.block))?;
    read::<GetTransactionInBlock>(bus, &answers, |answers, request| {
        answers.transaction_in_block(request.block, request.index)
    })?;
    read::<GetTransaction>(bus, &answers, |answers, request| answers.transaction(request.hash))?;
    read::<GetChainChanges>(bus, &answers, |answers, request| answers.changes(&request))?;
    read::<GetAccount>(bus, &answers, |answers, request| answers.account(&request))?;
    read::<GetCode>(bus, &answers, |answers, request| answers.code(&request))?;
    read::<GetStorage>(bus, &answers, |answers, request| answers.storage(&request))?;
    read::<GetDatabaseStatistics>(bus, &answers, |answers, _| answers.database_statistics())?;
    work::<DumpAccounts>(bus, pool, &answers, |answers, request, context| answers.dump(&request, context))?;
    work::<GetModifiedAccounts>(bus, pool, &answers, |answers, request, context| {
        answers.modified_accounts(&request, context)
    })?;
    work::<GetPreimage>(bus, pool, &answers, |answers, request, context| answers.preimage(&request, context))?;
    work::<GetAccountRange>(bus, pool, &answers, |answers, request, context| answers.account_range(&request, context))?;
    work::<CompactDatabase>(bus, pool, &answers, |answers, _, context| answers.compact(context))?;
    attempt::<GetLogs>(bus, pool, &answers, Answers::attempt_logs, |answers, request, context| {
        answers.logs(&request, context)
    })?;
    attempt::<GetBlockReceipts>(bus, pool, &answers, Answers::attempt_block_receipts, |answers, request, _| {
        answers.block_receipts(request.block)
    })?;
    attempt::<GetReceipt>(bus, pool, &answers, Answers::attempt_receipt, |answers, request, _| {
        answers.receipt(request.hash)
    })?;
    attempt::<GetRaw>(bus, pool, &answers, Answers::attempt_raw, |answers, request, _| answers.raw(&request))?;
    work::<GetTransactionProof>(bus, pool, &answers, |answers, request, _| answers.transaction_proof(request.hash))?;
    work::<GetProof>(bus, pool, &answers, |answers, request, context| answers.proof(&request, context))
}

/// How often a read is repeated after a concurrent unwind, before the caller gets the error.
const ATTEMPTS: usize = 4;

/// Repeats a read whose block was removed from the chain while it ran.
fn repeat_after_reorganisation<T>(mut read: impl FnMut() -> Result<T, AnswerError>) -> Result<T, AnswerError> {
    for _ in 1..ATTEMPTS {
        match read() {
            Err(AnswerError::Store(StoreError::Reorganised { .. })) => {}
            outcome => return outcome,
        }
    }
    read()
}

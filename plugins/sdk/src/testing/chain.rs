//! A chain in memory, made by the test.

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::Failure;
use alloy_primitives::{B256, Bytes};
use tenon_api::{
    BlockNumber, Head, LocatedLog, LogFilter, Request, SealedHeader, SpaceLimits,
    messages::{
        BlockOutline, BlockReceipts, BlocksUnwound, ChainInfo, CommitRecords, CountTransactions, GetAccount, GetBlock,
        GetBlockOutline, GetBlockReceipts, GetChainChanges, GetChainInfo, GetCode, GetHead, GetHeadNumber, GetHeader,
        GetLogs, GetReceipt, GetRecords, GetSpaceUsage, GetStorage, GetTransaction, GetTransactionInBlock,
        LocatedReceipt, LogsChanged, NewHead, Profile, ScanRecords, StoredBlock, StoredHeader, TransactionPending,
    },
};

use super::{
    FakeHost,
    blocks::{Blocks, CHAIN_ID, Made, TestBlock},
    fake_host::lock,
    store::Space,
};
use crate::{Context, Host, LogLevel};

/// A node in memory: a chain that the test makes, its events, a clock, and storage. Cheap to clone; clones are the same
/// node.
///
/// It answers the requests of [`Node`](crate::Node) about blocks, state, logs and storage. The test answers others
/// (calls, the pool, the node itself) with [`Chain::answer`], which also overrides. Events are announced as by the
/// node: `NewHead` and `LogsChanged` for blocks that join, `BlocksUnwound` and removed logs for those that leave.
/// `BlockCommitted` is not announced.
///
/// ```
/// use tenon_sdk::{prelude::*, testing::{Chain, TestBlock}};
///
/// struct Counter;
/// impl Plugin for Counter {
///     fn start(_host: Host, _settings: &str, _handover: &[u8]) -> Result<Self, Failure> {
///         Ok(Self)
///     }
/// }
/// async fn transactions(context: Context<Counter>, number: Quantity) -> Result<Option<u64>, Failure> {
///     let block = context.block(BlockNumber(number.0)).await?;
///     Ok(block.map(|found| found.block.transactions.len() as u64))
/// }
/// fn table() -> Table<Counter> {
///     Table::new("counter", "1.0")
///         .capabilities(&[Capability::ReadChain])
///         .method("counter_transactions", &["number"], "How many a block has.", transactions)
/// }
/// tenon_sdk::export!(Counter, table);
///
/// # fn main() {
/// let chain = Chain::new();
/// chain.add(TestBlock::new().transaction(Address::ZERO, Address::ZERO, U256::from(1)));
/// let counter = chain.start::<Counter>("{}").unwrap();
/// assert_eq!(counter.call_method("counter_transactions", "[\"0x1\"]").unwrap(), "1");
///
/// chain.reorganise(0, vec![TestBlock::new(), TestBlock::new()]);
/// assert_eq!(counter.call_method("counter_transactions", "[\"0x1\"]").unwrap(), "0");
///
/// chain.fail::<GetBlock>(Failure::server("disk full"));
/// assert_eq!(counter.call_method("counter_transactions", "[\"0x1\"]").unwrap_err().message, "disk full");
/// # }
/// ```
#[derive(Clone)]
pub struct Chain {
    pub(super) fake: FakeHost,
    blocks: Arc<Mutex<Blocks>>,
    space: Arc<Mutex<Space>>,
    /// Failures to return instead of the next answers, by topic.
    failures: Arc<Mutex<HashMap<u32, VecDeque<Failure>>>>,
}

impl Default for Chain {
    fn default() -> Self {
        Self::new()
    }
}

impl Chain {
    /// A chain with an empty genesis block.
    pub fn new() -> Self {
        let chain = Self {
            fake: FakeHost::live(),
            blocks: Arc::new(Mutex::new(Blocks::new())),
            space: Arc::default(),
            failures: Arc::default(),
        };
        chain.answer_chain();
        chain.answer_transactions();
        chain.answer_state();
        chain.answer_storage();
        chain
    }

    /// Adds a block on top of the head, announces it, and returns its hash.
    pub fn add(&self, block: TestBlock) -> B256 {
        let made = {
            let mut blocks = lock(&self.blocks);
            let made = blocks.make(block);
            blocks.made.insert(made.block.hash(), made.clone());
            blocks.canonical.push(made.clone());
            made
        };
        self.fake.publish(&NewHead {
            header: made.header(),
            total_difficulty: made.total_difficulty,
            size: made.block.size,
        });
        self.publish_logs(&made, false);
        made.block.hash()
    }

    /// Removes blocks until `number` is the head, as `debug_setHead` does.
    pub fn unwind(&self, number: u64) {
        let mut removed = {
            let mut blocks = lock(&self.blocks);
            let kept = usize::try_from(number).unwrap_or(usize::MAX).saturating_add(1).min(blocks.canonical.len());
            blocks.canonical.split_off(kept)
        };
        if removed.is_empty() {
            return;
        }
        removed.reverse();
        let unwound = removed.iter().map(|made| Arc::clone(&made.block)).collect();
        self.fake.publish(&BlocksUnwound { blocks: Arc::new(unwound) });
        removed.iter().for_each(|made| self.publish_logs(made, true));
    }

    /// Replaces the blocks above `number` by another branch.
    pub fn reorganise(&self, number: u64, branch: Vec<TestBlock>) {
        self.unwind(number);
        for block in branch {
            self.add(block);
        }
    }

    /// Reports to listeners of blocks and logs that they missed this many events.
    pub fn miss(&self, count: u64) {
        self.fake.publish_missed::<NewHead>(count);
        self.fake.publish_missed::<BlocksUnwound>(count);
        self.fake.publish_missed::<LogsChanged>(count);
    }

    fn publish_logs(&self, made: &Made, removed: bool) {
        let logs: Vec<_> = made.logs(&LogFilter::default()).map(|log| LocatedLog { removed, ..log }).collect();
        if !logs.is_empty() {
            self.fake.publish(&LogsChanged { logs: Arc::new(logs) });
        }
    }

    /// Announces that a transaction became pending.
    pub fn announce_pending(&self, event: &TransactionPending) {
        self.fake.publish(event);
    }

    /// Bytes that plugins keep for a client; 0 is their own account.
    pub fn held(&self, client: u64) -> usize {
        self.fake.held(client)
    }

    /// Limits the bytes that a plugin may keep for each client.
    pub fn memory(&self, bytes: usize) {
        drop(self.fake.clone().with_memory(bytes));
    }

    /// The head's header.
    pub fn head(&self) -> Arc<SealedHeader> {
        lock(&self.blocks).head().header()
    }

    /// Answers a request with `answer` from now on: one that the chain does not answer, or to override its answer.
    #[must_use]
    pub fn answer<R: Request>(self, answer: impl Fn(R) -> Result<R::Reply, Failure> + Send + Sync + 'static) -> Self {
        self.set(answer);
        self
    }

    /// Fails the next request of this type; each call adds one failure.
    pub fn fail<R: Request>(&self, failure: Failure) {
        lock(&self.failures).entry(R::TOPIC.0).or_default().push_back(failure);
    }

    /// Maximum number of logs in one answer; by default 20,000.
    #[must_use]
    pub fn max_logs(self, max: usize) -> Self {
        lock(&self.blocks).max_logs = max;
        self
    }

    /// Bounds of the storage space.
    #[must_use]
    pub fn storage_limits(self, limits: SpaceLimits) -> Self {
        lock(&self.space).limits = limits;
        self
    }

    /// Every record of the storage space, in the order of the keys.
    pub fn records(&self) -> Vec<(Bytes, Bytes)> {
        lock(&self.space).records()
    }

    /// Advances the clock and wakes sleepers whose time has come.
    pub fn advance(&self, duration: Duration) {
        self.fake.advance(duration);
    }

    /// The log so far.
    pub fn logged(&self) -> Vec<(LogLevel, String)> {
        self.fake.logged()
    }

    /// The node as `Plugin::start` receives it.
    pub fn host(&self) -> Host {
        self.fake.host()
    }

    /// A call's context, to call a method directly as a function.
    pub fn context<S>(&self, plugin: S) -> Context<S> {
        self.fake.context(plugin)
    }

    /// Runs a future to completion.
    ///
    /// # Panics
    /// If it waits for an event or a time that the test has not produced.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        self.fake.run(future)
    }

    fn set<R: Request>(&self, answer: impl Fn(R) -> Result<R::Reply, Failure> + Send + Sync + 'static) {
        let failures = Arc::clone(&self.failures);
        self.fake.set_answer(move |request: R| {
            let of_topic = lock(&failures).get_mut(&R::TOPIC.0).and_then(VecDeque::pop_front);
            match of_topic {
                Some(failure) => Err(failure),
                None => answer(request),
            }
        });
    }

    /// Answers a request from the blocks.
    fn set_read<R: Request>(&self, answer: impl Fn(&Blocks, R) -> Result<R::Reply, Failure> + Send + Sync + 'static) {
        let blocks = Arc::clone(&self.blocks);
        self.set(move |request: R| answer(&lock(&blocks), request));
    }

    fn answer_chain(&self) {
        self.set_read(|blocks, _: GetHead| {
            let head = blocks.head();
            let (header, total_difficulty) = (head.header(), head.total_difficulty);
            Ok(Arc::new(Head { header, total_difficulty, finalized: None, safe: None }))
        });
        self.set_read(|blocks, _: GetHeadNumber| Ok(BlockNumber(blocks.head().header().number)));
        self.set_read(|blocks, _: GetChainInfo| {
            let genesis_hash = blocks.at(0).map(|genesis| genesis.block.hash()).unwrap_or_default();
            let profile = Profile::Ethereum;
            Ok(Arc::new(ChainInfo { chain_id: CHAIN_ID, network_id: CHAIN_ID, genesis_hash, profile }))
        });
        self.set_read(|blocks, request: GetHeader| {
            let found = blocks.find(request.block).map(|made| StoredHeader {
                header: made.header(),
                total_difficulty: made.total_difficulty,
                is_canonical: blocks.is_canonical(made),
            });
            Ok(found)
        });
        self.set_read(|blocks, request: GetBlock| {
            let found = blocks.find(request.block).map(|made| StoredBlock {
                block: Arc::clone(&made.block),
                total_difficulty: made.total_difficulty,
                is_canonical: blocks.is_canonical(made),
            });
            Ok(found)
        });
        self.set_read(|blocks, request: GetBlockOutline| {
            let found = blocks.find(request.block).map(|made| {
                BlockOutline::from(&StoredBlock {
                    block: Arc::clone(&made.block),
                    total_difficulty: made.total_difficulty,
                    is_canonical: blocks.is_canonical(made),
                })
            });
            Ok(found)
        });
        self.set_read(|blocks, request: CountTransactions| {
            Ok(blocks.find(request.block).map(|made| made.block.transactions.len() as u64))
        });
        self.set_read(|blocks, request: GetTransactionInBlock| {
            let position = usize::try_from(request.index).unwrap_or(usize::MAX);
            Ok(blocks.find(request.block).and_then(|made| made.locate(position)))
        });
        self.set_read(|blocks, request: GetChainChanges| blocks.changes(&request));
        self.set_read(|blocks, request: GetLogs| blocks.logs(&request.range, &request.filter));
    }

    fn answer_transactions(&self) {
        self.set_read(|blocks, request: GetBlockReceipts| {
            let found = blocks.find(request.block).map(|made| BlockReceipts {
                block: Arc::clone(&made.block),
                receipts: Arc::clone(&made.receipts),
                blob_gas_price: None,
            });
            Ok(found)
        });
        self.set_read(|blocks, request: GetTransaction| {
            Ok(blocks.located(request.hash).and_then(|(made, index)| made.locate(index)))
        });
        self.set_read(|blocks, request: GetReceipt| {
            let Some((made, index)) = blocks.located(request.hash) else { return Ok(None) };
            let first_log_index = made.receipts.iter().take(index).map(|receipt| receipt.logs.len() as u64).sum();
            let found = made.locate(index).zip(made.receipts.get(index).cloned());
            Ok(found.map(|(transaction, receipt)| LocatedReceipt {
                transaction,
                receipt,
                first_log_index,
                blob_gas_price: None,
            }))
        });
    }

    fn answer_state(&self) {
        self.set_read(|blocks, request: GetAccount| {
            let state = blocks.state(request.block)?;
            Ok(state.get(&request.address).map(|found| found.account).unwrap_or_default())
        });
        self.set_read(|blocks, request: GetCode| {
            let state = blocks.state(request.block)?;
            Ok(state.get(&request.address).map(|found| found.code.clone()).unwrap_or_default())
        });
        self.set_read(|blocks, request: GetStorage| {
            let state = blocks.state(request.block)?;
            let value = state.get(&request.address).and_then(|found| found.slots.get(&request.slot));
            Ok(value.copied().unwrap_or_default())
        });
    }

    fn answer_storage(&self) {
        let space = || Arc::clone(&self.space);
        let (of_get, of_scan, of_commit, of_usage) = (space(), space(), space(), space());
        self.set(move |request: GetRecords| Ok(lock(&of_get).get(&request.keys)));
        self.set(move |request: ScanRecords| Ok(lock(&of_scan).scan(&request)));
        self.set(move |request: CommitRecords| lock(&of_commit).commit(request).map_err(Failure::from));
        self.set(move |_: GetSpaceUsage| Ok(lock(&of_usage).usage()));
    }
}

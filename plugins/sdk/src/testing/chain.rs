//! A chain in memory, made by the test.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use tenon_api::{
    Account, Block, BlockId, BlockNumber, BlockTag, Failure, Head, Header, LocatedLog, Log, LogFilter, Receipt,
    ReceiptOutcome, RecoveredBlock, RecoveredTransaction, Request, SealedHeader, SpaceLimits, Transaction,
    TransactionPayload, TransactionSignature, TransactionType, codec,
    messages::{
        BlockReceipts, BlocksUnwound, ChainChanges, ChainInfo, CommitRecords, GetAccount, GetBlock, GetBlockReceipts,
        GetChainChanges, GetChainInfo, GetCode, GetHead, GetHeadNumber, GetHeader, GetLogs, GetReceipt, GetRecords,
        GetSpaceUsage, GetStorage, GetTransaction, LocatedReceipt, LocatedTransaction, LogRange, LogsChanged, NewHead,
        Profile, ScanRecords, StoredBlock, StoredHeader,
    },
};

use super::{FakeHost, fake_host::lock, store::Space};
use crate::{Context, Host, LogLevel};

/// A block that a test makes: what happens in it, and how it leaves the state. Everything is optional.
///
/// ```
/// # use tenon_sdk::{prelude::*, testing::TestBlock};
/// # let (alice, token, topic) = (Address::ZERO, Address::repeat_byte(1), B256::ZERO);
/// TestBlock::new()
///     .transaction(alice, token, U256::ZERO)
///     .log(token, &[topic], b"data of the log")
///     .balance(alice, U256::from(7))
///     .slot(token, B256::ZERO, U256::from(3));
/// ```
#[derive(Clone, Debug, Default)]
pub struct TestBlock {
    timestamp: Option<u64>,
    transactions: Vec<(Address, Transaction, Vec<Log>)>,
    state: Vec<StateChange>,
}

#[derive(Clone, Debug)]
enum StateChange {
    Balance(Address, U256),
    Nonce(Address, u64),
    Code(Address, Bytes),
    Slot(Address, B256, U256),
}

impl TestBlock {
    /// A block in which nothing happens, twelve seconds after the one before.
    pub fn new() -> Self {
        Self::default()
    }

    /// Unix time, seconds.
    #[must_use]
    pub const fn timestamp(mut self, seconds: u64) -> Self {
        self.timestamp = Some(seconds);
        self
    }

    /// A successful transaction. It moves nothing by itself: how the block leaves the state is said apart.
    #[must_use]
    pub fn transaction(mut self, from: Address, to: Address, value: U256) -> Self {
        let transaction = Transaction {
            hash: B256::ZERO,
            chain_id: Some(CHAIN_ID),
            nonce: self.transactions.len() as u64,
            gas_limit: GAS,
            to: Some(to),
            value,
            input: Bytes::new(),
            payload: TransactionPayload::Legacy { gas_price: U256::from(1) },
            signature: TransactionSignature { v: 27, r: U256::from(1), s: U256::from(1) },
        };
        self.transactions.push((from, transaction, Vec::new()));
        self
    }

    /// A log of the last transaction; of one to the contract when there is none.
    #[must_use]
    pub fn log(mut self, contract: Address, topics: &[B256], data: &[u8]) -> Self {
        if self.transactions.is_empty() {
            self = self.transaction(Address::ZERO, contract, U256::ZERO);
        }
        if let Some((_, _, logs)) = self.transactions.last_mut() {
            logs.push(Log { address: contract, topics: topics.to_vec(), data: Bytes::copy_from_slice(data) });
        }
        self
    }

    /// An account's balance after the block, wei.
    #[must_use]
    pub fn balance(mut self, address: Address, wei: U256) -> Self {
        self.state.push(StateChange::Balance(address, wei));
        self
    }

    /// An account's nonce after the block.
    #[must_use]
    pub fn nonce(mut self, address: Address, nonce: u64) -> Self {
        self.state.push(StateChange::Nonce(address, nonce));
        self
    }

    /// An account's code after the block.
    #[must_use]
    pub fn code(mut self, address: Address, code: &[u8]) -> Self {
        self.state.push(StateChange::Code(address, Bytes::copy_from_slice(code)));
        self
    }

    /// A slot of an account's storage after the block.
    #[must_use]
    pub fn slot(mut self, address: Address, slot: B256, value: U256) -> Self {
        self.state.push(StateChange::Slot(address, slot, value));
        self
    }
}

/// The chain id of test chains.
const CHAIN_ID: u64 = 31_337;
/// Gas of every transaction.
const GAS: u64 = 21_000;

/// An account with what belongs to it.
#[derive(Clone, Debug, Default)]
struct TestAccount {
    account: Account,
    code: Bytes,
    slots: BTreeMap<B256, U256>,
}

type State = BTreeMap<Address, TestAccount>;

/// A block with all that is known after it.
#[derive(Clone)]
struct Made {
    block: Arc<RecoveredBlock>,
    receipts: Arc<Vec<Receipt>>,
    total_difficulty: U256,
    state: Arc<State>,
}

impl Made {
    fn header(&self) -> Arc<SealedHeader> {
        Arc::new(self.block.header.clone())
    }

    fn locate(&self, index: usize) -> Option<LocatedTransaction> {
        let transaction = Arc::clone(self.block.transactions.get(index)?);
        let sender = *self.block.senders.get(index)?;
        let transaction = RecoveredTransaction { transaction, sender };
        Some(LocatedTransaction { transaction, header: self.header(), index: index as u64 })
    }

    fn logs(&self, removed: bool) -> Vec<LocatedLog> {
        let header = &self.block.header;
        let of_transactions = self.block.transactions.iter().zip(self.receipts.iter()).zip(0_u64..);
        of_transactions
            .flat_map(|((transaction, receipt), index)| receipt.logs.iter().map(move |log| (transaction, index, log)))
            .zip(0_u64..)
            .map(|((transaction, index, log), log_index)| LocatedLog {
                log: log.clone(),
                block_number: BlockNumber(header.number),
                block_hash: header.hash(),
                block_timestamp: header.timestamp,
                transaction_hash: transaction.hash,
                transaction_index: index,
                log_index,
                removed,
            })
            .collect()
    }
}

struct Blocks {
    /// Of every branch.
    made: HashMap<B256, Made>,
    canonical: Vec<Made>,
    /// Most logs in one answer.
    most_logs: usize,
}

impl Blocks {
    fn head(&self) -> &Made {
        // The genesis block is made with the chain and never goes.
        self.canonical.last().unwrap_or_else(|| unreachable!("a chain has a genesis block"))
    }

    fn is_canonical(&self, made: &Made) -> bool {
        self.at(made.block.header.number).is_some_and(|canonical| canonical.block.hash() == made.block.hash())
    }

    fn at(&self, number: u64) -> Option<&Made> {
        self.canonical.get(usize::try_from(number).ok()?)
    }

    fn find(&self, block: BlockId) -> Option<&Made> {
        match block {
            BlockId::Tag(BlockTag::Latest | BlockTag::Pending) => Some(self.head()),
            BlockId::Tag(BlockTag::Earliest) => self.at(0),
            // Nothing is final on a test chain.
            BlockId::Tag(BlockTag::Finalized | BlockTag::Safe) => None,
            BlockId::Number(number) => self.at(number.0),
            BlockId::Hash { hash, require_canonical } => {
                self.made.get(&hash).filter(|made| !require_canonical || self.is_canonical(made))
            }
        }
    }

    fn state(&self, block: BlockId) -> Result<&State, Failure> {
        self.find(block).map(|made| &*made.state).ok_or_else(|| Failure::server("header not found"))
    }

    fn logs(&self, range: &LogRange, filter: &LogFilter) -> Result<Vec<LocatedLog>, Failure> {
        let blocks: Vec<&Made> = match range {
            LogRange::Block(hash) => {
                vec![self.made.get(hash).ok_or_else(|| Failure::server("unknown block"))?]
            }
            LogRange::Numbers { from, to } => {
                self.canonical.iter().filter(|made| (from.0..=to.0).contains(&made.block.header.number)).collect()
            }
        };
        let logs = blocks.into_iter().flat_map(|made| made.logs(false));
        let found: Vec<_> = logs.filter(|located| filter.matches(&located.log)).collect();
        if found.len() > self.most_logs {
            return Err(Failure::limit(format!("query returned more than {} results", self.most_logs)));
        }
        Ok(found)
    }

    fn changes(&self, request: &GetChainChanges) -> Result<ChainChanges, Failure> {
        let unknown = || Failure::server("unknown block");
        let mut at = self.made.get(&request.since).ok_or_else(unknown)?;
        let mut changes = ChainChanges::default();
        while !self.is_canonical(at) {
            changes.removed.push((at.block.number(), at.block.hash()));
            at = self.made.get(&at.block.header.parent_hash).ok_or_else(unknown)?;
        }
        let from = usize::try_from(at.block.header.number).unwrap_or(usize::MAX).saturating_add(1);
        let joined = self.canonical.iter().skip(from).take(usize::try_from(request.limit).unwrap_or(usize::MAX));
        changes.added = joined.map(|made| (made.block.number(), made.block.hash())).collect();
        Ok(changes)
    }

    fn located(&self, hash: B256) -> Option<(&Made, usize)> {
        self.canonical.iter().find_map(|made| {
            let index = made.block.transactions.iter().position(|transaction| transaction.hash == hash)?;
            Some((made, index))
        })
    }

    /// Makes a block on the head.
    fn make(&self, block: TestBlock) -> Made {
        let parent = self.canonical.last();
        // Two blocks alike on two branches must not be one.
        let mark = self.made.len() as u64;
        let header = Header {
            parent_hash: parent.map_or(B256::ZERO, |parent| parent.block.hash()),
            difficulty: U256::from(2),
            number: parent.map_or(0, |parent| parent.block.header.number + 1),
            gas_limit: 30_000_000,
            gas_used: GAS * block.transactions.len() as u64,
            timestamp: block.timestamp.or(parent.map(|parent| parent.block.header.timestamp + 12)).unwrap_or_default(),
            extra_data: Bytes::copy_from_slice(&mark.to_be_bytes()),
            ..Header::default()
        };
        let hash = keccak256(codec::encode(&header).unwrap_or_default());
        let mut state = parent.map(|parent| (*parent.state).clone()).unwrap_or_default();
        block.state.into_iter().for_each(|change| apply(&mut state, change));
        let (mut senders, mut transactions, mut receipts) = (Vec::new(), Vec::new(), Vec::new());
        for (index, (sender, mut transaction, logs)) in (1_u64..).zip(block.transactions) {
            transaction.hash = keccak256([hash.as_slice(), &index.to_be_bytes()].concat());
            senders.push(sender);
            transactions.push(Arc::new(transaction));
            receipts.push(Receipt {
                transaction_type: TransactionType::Legacy,
                outcome: ReceiptOutcome::Status(true),
                cumulative_gas_used: GAS * index,
                gas_used: GAS,
                logs,
            });
        }
        let total_difficulty = parent.map_or(U256::ZERO, |parent| parent.total_difficulty) + header.difficulty;
        let header = SealedHeader::new_unchecked(header, hash);
        let block = Block { header, transactions, ommers: Vec::new(), withdrawals: None, size: 0 };
        let block = Arc::new(RecoveredBlock { block, senders });
        Made { block, receipts: Arc::new(receipts), total_difficulty, state: Arc::new(state) }
    }
}

fn apply(state: &mut State, change: StateChange) {
    match change {
        StateChange::Balance(address, wei) => state.entry(address).or_default().account.balance = wei,
        StateChange::Nonce(address, nonce) => state.entry(address).or_default().account.nonce = nonce,
        StateChange::Code(address, code) => {
            let account = state.entry(address).or_default();
            account.account.code_hash = keccak256(&code);
            account.code = code;
        }
        StateChange::Slot(address, slot, value) => {
            state.entry(address).or_default().slots.insert(slot, value);
        }
    }
}

/// A node in memory: a chain that the test makes, its events, a clock, and storage. Cheap to clone; clones are the same
/// node.
///
/// It answers what [`Node`](crate::Node) asks about blocks, state, logs and storage; what it does not know (calls, the
/// pool, the node itself) the test answers with [`Chain::answer`], which also overrides. Events come as the node announces
/// them: `NewHead` and `LogsChanged` for blocks that join, `BlocksUnwound` and removed logs for those that leave.
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
/// assert_eq!(counter.call("counter_transactions", "[\"0x1\"]").unwrap(), "1");
///
/// chain.reorganise(0, vec![TestBlock::new(), TestBlock::new()]);
/// assert_eq!(counter.call("counter_transactions", "[\"0x1\"]").unwrap(), "0");
///
/// chain.fail::<GetBlock>(Failure::server("disk full"));
/// assert_eq!(counter.call("counter_transactions", "[\"0x1\"]").unwrap_err().message, "disk full");
/// # }
/// ```
#[derive(Clone)]
pub struct Chain {
    pub(super) fake: FakeHost,
    blocks: Arc<Mutex<Blocks>>,
    space: Arc<Mutex<Space>>,
    /// Answers that come before the right ones, by topic.
    failures: Arc<Mutex<HashMap<u32, VecDeque<Failure>>>>,
}

impl Default for Chain {
    fn default() -> Self {
        Self::new()
    }
}

impl Chain {
    /// A chain with a genesis block in which nothing exists.
    pub fn new() -> Self {
        let mut blocks = Blocks { made: HashMap::new(), canonical: Vec::new(), most_logs: 20_000 };
        let genesis = blocks.make(TestBlock::new());
        blocks.made.insert(genesis.block.hash(), genesis.clone());
        blocks.canonical.push(genesis);
        let chain = Self {
            fake: FakeHost::live(),
            blocks: Arc::new(Mutex::new(blocks)),
            space: Arc::default(),
            failures: Arc::default(),
        };
        chain.answer_chain();
        chain.answer_transactions();
        chain.answer_state();
        chain.answer_storage();
        chain
    }

    /// Puts a block on the head, announces it, and gives its hash.
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

    /// Takes blocks off until `number` is the head, as `debug_setHead` does.
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

    /// Puts another branch in the place of what stands above `number`.
    pub fn reorganise(&self, number: u64, branch: Vec<TestBlock>) {
        self.unwind(number);
        for block in branch {
            self.add(block);
        }
    }

    /// Tells whoever listens to blocks and logs that so many events were missed.
    pub fn miss(&self, count: u64) {
        self.fake.publish_missed::<NewHead>(count);
        self.fake.publish_missed::<BlocksUnwound>(count);
        self.fake.publish_missed::<LogsChanged>(count);
    }

    fn publish_logs(&self, made: &Made, removed: bool) {
        let logs = made.logs(removed);
        if !logs.is_empty() {
            self.fake.publish(&LogsChanged { logs: Arc::new(logs) });
        }
    }

    /// The head's header.
    pub fn head(&self) -> Arc<SealedHeader> {
        lock(&self.blocks).head().header()
    }

    /// Answers a request by `answer`, from now on: what the chain does not know, or what it should say instead.
    #[must_use]
    pub fn answer<R: Request>(self, answer: impl Fn(R) -> Result<R::Reply, Failure> + Send + Sync + 'static) -> Self {
        self.set(answer);
        self
    }

    /// Answers the next such request with a failure; once for every call of this.
    pub fn fail<R: Request>(&self, failure: Failure) {
        lock(&self.failures).entry(R::TOPIC.0).or_default().push_back(failure);
    }

    /// The most logs in one answer. Default: 20 000, as the node's.
    #[must_use]
    pub fn most_logs(self, most: usize) -> Self {
        lock(&self.blocks).most_logs = most;
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

    /// Moves the clock on; who sleeps that long is woken.
    pub fn advance(&self, duration: Duration) {
        self.fake.advance(duration);
    }

    /// What was logged so far.
    pub fn logged(&self) -> Vec<(LogLevel, String)> {
        self.fake.logged()
    }

    /// The node as `Plugin::start` receives it.
    pub fn host(&self) -> Host {
        self.fake.host()
    }

    /// A call's context, for calling a method as the plain function that it is.
    pub fn context<S>(&self, plugin: S) -> Context<S> {
        self.fake.context(plugin)
    }

    /// Runs a future to its end.
    ///
    /// # Panics
    /// When it waits for an event or a time that the test has not brought about.
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

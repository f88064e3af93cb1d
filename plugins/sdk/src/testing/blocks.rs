//! The blocks of a chain in memory: what a test puts into them, and the resulting state.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::Failure;
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use tenon_api::{
    Account, Block, BlockId, BlockTag, Header, LocatedLog, Log, LogFilter, Receipt, ReceiptOutcome, RecoveredBlock,
    RecoveredTransaction, SealedHeader, Transaction, TransactionPayload, TransactionSignature, TransactionType, codec,
    messages::{ChainChanges, GetChainChanges, LocatedTransaction, LogRange},
};

/// A block that a test makes: its content, and the state after it. Everything is optional.
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
    /// An empty block, twelve seconds after its parent.
    pub fn new() -> Self {
        Self::default()
    }

    /// Unix time, seconds.
    #[must_use]
    pub const fn timestamp(mut self, seconds: u64) -> Self {
        self.timestamp = Some(seconds);
        self
    }

    /// A successful transaction. It does not change the state: set the state after the block separately.
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

    /// A log of the last transaction. Adds a transaction to the contract if there is none.
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
pub(super) const CHAIN_ID: u64 = 31_337;
/// Gas of every transaction.
const GAS: u64 = 21_000;

/// An account with its code and storage.
#[derive(Clone, Debug, Default)]
pub(super) struct TestAccount {
    pub(super) account: Account,
    pub(super) code: Bytes,
    pub(super) slots: BTreeMap<B256, U256>,
}

pub(super) type State = BTreeMap<Address, TestAccount>;

/// A block with the state and data after it.
#[derive(Clone)]
pub(super) struct Made {
    pub(super) block: Arc<RecoveredBlock>,
    pub(super) receipts: Arc<Vec<Receipt>>,
    pub(super) total_difficulty: U256,
    pub(super) state: Arc<State>,
}

impl Made {
    pub(super) fn header(&self) -> Arc<SealedHeader> {
        Arc::new(self.block.header.clone())
    }

    pub(super) fn locate(&self, index: usize) -> Option<LocatedTransaction> {
        let transaction = Arc::clone(self.block.transactions.get(index)?);
        let sender = *self.block.senders.get(index)?;
        let transaction = RecoveredTransaction { transaction, sender };
        Some(LocatedTransaction { transaction, header: self.header(), index: index as u64 })
    }

    pub(super) fn logs<'a>(&'a self, filter: &'a LogFilter) -> impl Iterator<Item = LocatedLog> + 'a {
        LocatedLog::of_block(&self.block, &self.receipts, filter)
    }
}

pub(super) struct Blocks {
    /// Of all branches.
    pub(super) made: HashMap<B256, Made>,
    pub(super) canonical: Vec<Made>,
    /// Maximum number of logs in one answer.
    pub(super) max_logs: usize,
}

impl Blocks {
    /// A chain with an empty genesis block.
    pub(super) fn new() -> Self {
        let mut blocks = Self { made: HashMap::new(), canonical: Vec::new(), max_logs: 20_000 };
        let genesis = blocks.make(TestBlock::new());
        blocks.made.insert(genesis.block.hash(), genesis.clone());
        blocks.canonical.push(genesis);
        blocks
    }

    pub(super) fn head(&self) -> &Made {
        // The genesis block is made with the chain and never removed.
        self.canonical.last().unwrap_or_else(|| unreachable!("a chain has a genesis block"))
    }

    pub(super) fn is_canonical(&self, made: &Made) -> bool {
        self.at(made.block.header.number).is_some_and(|canonical| canonical.block.hash() == made.block.hash())
    }

    pub(super) fn at(&self, number: u64) -> Option<&Made> {
        self.canonical.get(usize::try_from(number).ok()?)
    }

    pub(super) fn find(&self, block: BlockId) -> Option<&Made> {
        match block {
            BlockId::Tag(BlockTag::Latest | BlockTag::Pending) => Some(self.head()),
            BlockId::Tag(BlockTag::Earliest) => self.at(0),
            // Test chains have no finality.
            BlockId::Tag(BlockTag::Finalized | BlockTag::Safe) => None,
            BlockId::Number(number) => self.at(number.0),
            BlockId::Hash { hash, require_canonical } => {
                self.made.get(&hash).filter(|made| !require_canonical || self.is_canonical(made))
            }
        }
    }

    pub(super) fn state(&self, block: BlockId) -> Result<&State, Failure> {
        self.find(block).map(|made| &*made.state).ok_or_else(|| Failure::server("header not found"))
    }

    pub(super) fn logs(&self, range: &LogRange, filter: &LogFilter) -> Result<Vec<LocatedLog>, Failure> {
        let blocks: Vec<&Made> = match range {
            LogRange::Block(hash) => {
                vec![self.made.get(hash).ok_or_else(|| Failure::server("unknown block"))?]
            }
            LogRange::Numbers { from, to } => {
                self.canonical.iter().filter(|made| (from.0..=to.0).contains(&made.block.header.number)).collect()
            }
        };
        let found: Vec<_> = blocks.into_iter().flat_map(|made| made.logs(filter)).collect();
        if found.len() > self.max_logs {
            return Err(Failure::limit(format!("query returned more than {} results", self.max_logs)));
        }
        Ok(found)
    }

    pub(super) fn changes(&self, request: &GetChainChanges) -> Result<ChainChanges, Failure> {
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

    pub(super) fn located(&self, hash: B256) -> Option<(&Made, usize)> {
        self.canonical.iter().find_map(|made| {
            let index = made.block.transactions.iter().position(|transaction| transaction.hash == hash)?;
            Some((made, index))
        })
    }

    /// Makes a block on top of the head.
    pub(super) fn make(&self, block: TestBlock) -> Made {
        let parent = self.canonical.last();
        // Makes hashes unique: equal blocks on two branches must differ.
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

//! The chain including blocks that are still being written to the database.
//!
//! Execution of a block needs its parent's state, headers and trie nodes, but not on disk. With this, a block is
//! executed while the previous ones are being written, and a branch before it replaces another.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256, map::B256Map};
use tenon_api::{
    Account, AccountChange, Allowance, BlockCommit, BlockNumber, ChainReader, EMPTY_CODE_HASH, Head, LocatedLog,
    LogFilter, Receipt, RecoveredBlock, SealedHeader, SlotChange, StateReader, StoreError, TrieReader,
};

/// Memory of a trie node beside its RLP and path: its value, its entry in the list, its entry by hash.
const NODE_BYTES: usize = 200;
/// Memory of a changed slot.
const SLOT_BYTES: usize = size_of::<SlotChange>();
/// Memory of a changed account.
const ACCOUNT_BYTES: usize = size_of::<AccountChange>();
/// Memory of a log beside its data and topics.
const LOG_BYTES: usize = 100;

/// A block that was executed and verified, and is being written.
pub(super) struct WaitingBlock {
    pub(super) commit: Arc<BlockCommit>,
    header: Arc<SealedHeader>,
    /// Index of each node in the commit, by hash.
    nodes: B256Map<usize>,
}

impl WaitingBlock {
    pub(super) fn new(commit: BlockCommit) -> Self {
        let nodes = commit.trie_nodes.iter().enumerate().map(|(position, node)| (node.hash, position)).collect();
        let header = Arc::new(commit.block.header.clone());
        Self { commit: Arc::new(commit), header, nodes }
    }

    pub(super) fn number(&self) -> BlockNumber {
        self.commit.block.number()
    }

    pub(super) const fn header(&self) -> &Arc<SealedHeader> {
        &self.header
    }

    /// Approximate memory use, bytes.
    pub(super) fn weight(&self) -> usize {
        let commit = &self.commit;
        let nodes: usize = commit.trie_nodes.iter().map(|node| node.rlp.len() + node.position.path.len()).sum();
        let slots: usize = commit.accounts.iter().map(|change| change.slots.len()).sum();
        let codes: usize = commit.codes.iter().map(|(_, code)| code.len()).sum();
        let logs = commit.receipts.iter().flat_map(|receipt| &receipt.logs);
        let logs: usize = logs.map(|log| log.data.len() + 32 * log.topics.len() + LOG_BYTES).sum();
        let superseded = commit.superseded_trie_nodes.len();
        let block = usize::try_from(commit.block.size).unwrap_or(usize::MAX / 4);
        nodes
            + codes
            + logs
            + 3 * block
            + NODE_BYTES * (commit.trie_nodes.len() + superseded)
            + SLOT_BYTES * slots
            + ACCOUNT_BYTES * commit.accounts.len()
    }

    // Executed blocks list accounts ascending by address, and slots ascending by slot.
    fn change(&self, address: Address) -> Option<&AccountChange> {
        let changes = &self.commit.accounts;
        changes.binary_search_by_key(&address, |change| change.address).ok().map(|position| &changes[position])
    }

    fn code(&self, hash: B256) -> Option<&Bytes> {
        self.commit.codes.iter().find(|(known, _)| *known == hash).map(|(_, code)| code)
    }
}

/// A block's change to a slot.
enum Slot {
    Is(U256),
    Unchanged,
}

fn slot_after(change: &AccountChange, slot: B256) -> Slot {
    match change.slots.binary_search_by_key(&slot, |change| change.slot) {
        Ok(position) => Slot::Is(change.slots[position].value),
        Err(_) if change.storage_wiped || change.account.is_none() => Slot::Is(U256::ZERO),
        Err(_) => Slot::Unchanged,
    }
}

/// Consecutive blocks, oldest first; the oldest follows a block of the database.
pub(super) type Waiting = Vec<Arc<WaitingBlock>>;

/// The database with blocks above it. A block that reaches the database meanwhile is found in both, with the same
/// contents.
pub(super) struct ChainAhead {
    committed: Arc<dyn ChainReader>,
    waiting: Waiting,
    head: Arc<Head>,
    /// The last common block, if the blocks are a branch beside canonical ones.
    fork: Option<BlockNumber>,
}

impl ChainAhead {
    pub(super) fn new(committed: &Arc<dyn ChainReader>, waiting: Waiting) -> Self {
        let below = committed.head();
        let head = match waiting.last() {
            Some(last) if last.number() > below.number() => Arc::new(head_at(last, &below)),
            _ => below,
        };
        Self { committed: Arc::clone(committed), waiting, head, fork: None }
    }

    /// The chain with these blocks in place of the canonical ones above `base`, which is the head if there are none.
    /// The chain must not change meanwhile.
    pub(super) fn beside(committed: &Arc<dyn ChainReader>, base: &Arc<Head>, waiting: Waiting) -> Self {
        let head = waiting.last().map_or_else(|| Arc::clone(base), |last| Arc::new(head_at(last, base)));
        Self { committed: Arc::clone(committed), waiting, head, fork: Some(base.number()) }
    }

    /// Returns whether the canonical block of this height is not part of this chain.
    fn is_beside(&self, number: BlockNumber) -> bool {
        self.fork.is_some_and(|fork| number > fork)
    }

    fn by_hash(&self, hash: B256) -> Option<&Arc<WaitingBlock>> {
        self.waiting.iter().find(|block| block.header.hash() == hash)
    }

    fn by_number(&self, number: BlockNumber) -> Option<&Arc<WaitingBlock>> {
        self.waiting.iter().find(|block| block.number() == number)
    }
}

/// The head with a waiting block as the newest one.
fn head_at(newest: &WaitingBlock, below: &Head) -> Head {
    Head {
        header: Arc::clone(&newest.header),
        total_difficulty: newest.commit.total_difficulty,
        finalized: below.finalized,
        safe: below.safe,
    }
}

impl ChainReader for ChainAhead {
    fn head(&self) -> Arc<Head> {
        Arc::clone(&self.head)
    }

    fn canonical_hash(&self, number: BlockNumber) -> Result<Option<B256>, StoreError> {
        match self.by_number(number) {
            Some(block) => Ok(Some(block.header.hash())),
            None if self.is_beside(number) => Ok(None),
            None => self.committed.canonical_hash(number),
        }
    }

    fn header(&self, hash: B256) -> Result<Option<Arc<SealedHeader>>, StoreError> {
        match self.by_hash(hash) {
            Some(block) => Ok(Some(Arc::clone(&block.header))),
            None => self.committed.header(hash),
        }
    }

    fn block(&self, hash: B256) -> Result<Option<Arc<RecoveredBlock>>, StoreError> {
        match self.by_hash(hash) {
            Some(block) => Ok(Some(Arc::clone(&block.commit.block))),
            None => self.committed.block(hash),
        }
    }

    fn receipts(&self, hash: B256) -> Result<Option<Arc<Vec<Receipt>>>, StoreError> {
        match self.by_hash(hash) {
            Some(block) => Ok(Some(Arc::clone(&block.commit.receipts))),
            None => self.committed.receipts(hash),
        }
    }

    fn total_difficulty(&self, hash: B256) -> Result<Option<U256>, StoreError> {
        match self.by_hash(hash) {
            Some(block) => Ok(Some(block.commit.total_difficulty)),
            None => self.committed.total_difficulty(hash),
        }
    }

    // Execution and consensus use neither transaction positions nor logs, so the database's answer suffices.
    fn transaction_location(&self, transaction_hash: B256) -> Result<Option<(B256, u64)>, StoreError> {
        self.committed.transaction_location(transaction_hash)
    }

    fn state_at(&self, number: BlockNumber) -> Result<Arc<dyn StateReader>, StoreError> {
        let waiting: Waiting = self.waiting.iter().filter(|block| block.number() <= number).cloned().collect();
        if number > self.head.number() {
            return Err(StoreError::UnknownBlock { what: number.to_string() });
        }
        let Some(oldest) = waiting.first() else { return self.committed.state_at(number) };
        let committed = Arc::clone(&self.committed);
        let base = oldest.number().parent().unwrap_or_default();
        let is_branch = self.fork.is_some();
        let below = match committed.state_at(base) {
            Err(StoreError::Pruned { .. }) if !is_branch => state_of_head(&*committed, number)?,
            below => below?,
        };
        Ok(Arc::new(StateAhead { committed, below, number, waiting, is_branch }))
    }

    fn trie(&self) -> Arc<dyn TrieReader> {
        Arc::new(TrieAhead { committed: self.committed.trie(), waiting: self.waiting.clone() })
    }

    fn trie_of(&self, block: &SealedHeader, caller: Arc<dyn Allowance>) -> Result<Arc<dyn TrieReader>, StoreError> {
        let Some(oldest) = self.waiting.first() else { return self.committed.trie_of(block, caller) };
        let below = oldest.header.parent_hash;
        let unknown = || StoreError::UnknownBlock { what: below.to_string() };
        let below = self.committed.header(below)?.ok_or_else(unknown)?;
        let committed = self.committed.trie_of(&below, caller)?;
        Ok(Arc::new(TrieAhead { committed, waiting: self.waiting.clone() }))
    }

    fn logs(
        &self,
        from: BlockNumber,
        to: BlockNumber,
        filter: &LogFilter,
        limit: usize,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<LocatedLog>, StoreError> {
        self.committed.logs(from, to, filter, limit, is_cancelled)
    }
}

/// The state at the database's head, which equals the one below the waiting blocks for everything that they did not
/// change. The head must not be above `number`.
fn state_of_head(committed: &dyn ChainReader, number: BlockNumber) -> Result<Arc<dyn StateReader>, StoreError> {
    let head = committed.head().number();
    if head > number {
        return Err(StoreError::Pruned { number, oldest: head });
    }
    committed.state_at(head)
}

/// The state after a block that may still be waiting.
struct StateAhead {
    committed: Arc<dyn ChainReader>,
    below: Arc<dyn StateReader>,
    number: BlockNumber,
    waiting: Waiting,
    /// Whether the blocks are not on the canonical chain, so that the head's state cannot be used below them.
    is_branch: bool,
}

impl StateAhead {
    /// Reads a value that no waiting block changed. A node with minimal history may have pruned the state below
    /// meanwhile.
    fn read_below<T>(&self, read: impl Fn(&dyn StateReader) -> Result<T, StoreError>) -> Result<T, StoreError> {
        match read(&*self.below) {
            Err(StoreError::Pruned { .. }) if !self.is_branch => read(&*state_of_head(&*self.committed, self.number)?),
            answer => answer,
        }
    }

    fn changes(&self, address: Address) -> impl Iterator<Item = &AccountChange> {
        self.waiting.iter().rev().filter_map(move |block| block.change(address))
    }
}

impl StateReader for StateAhead {
    fn account(&self, address: Address) -> Result<Option<Account>, StoreError> {
        match self.changes(address).next() {
            Some(change) => Ok(change.account),
            None => self.read_below(|state| state.account(address)),
        }
    }

    fn storage(&self, address: Address, slot: B256) -> Result<U256, StoreError> {
        for change in self.changes(address) {
            if let Slot::Is(value) = slot_after(change, slot) {
                return Ok(value);
            }
        }
        self.read_below(|state| state.storage(address, slot))
    }

    fn code(&self, code_hash: B256) -> Result<Option<Bytes>, StoreError> {
        if code_hash == EMPTY_CODE_HASH {
            return Ok(Some(Bytes::new()));
        }
        match self.waiting.iter().find_map(|block| block.code(code_hash)) {
            Some(code) => Ok(Some(code.clone())),
            None => self.read_below(|state| state.code(code_hash)),
        }
    }

    fn block_hash(&self, number: BlockNumber) -> Result<Option<B256>, StoreError> {
        if number > self.number {
            return Ok(None);
        }
        match self.waiting.iter().find(|block| block.number() == number) {
            Some(block) => Ok(Some(block.header.hash())),
            None => self.committed.canonical_hash(number),
        }
    }
}

/// The trie nodes of every kept block and of the waiting ones.
struct TrieAhead {
    committed: Arc<dyn TrieReader>,
    waiting: Waiting,
}

impl TrieReader for TrieAhead {
    fn node(&self, owner: Option<B256>, path: &[u8], hash: B256) -> Result<Option<Bytes>, StoreError> {
        // Nodes are cached by hash; the position matters only for storage.
        for block in self.waiting.iter().rev() {
            if let Some(position) = block.nodes.get(&hash) {
                return Ok(Some(block.commit.trie_nodes[*position].rlp.clone()));
            }
        }
        self.committed.node(owner, path, hash)
    }
}

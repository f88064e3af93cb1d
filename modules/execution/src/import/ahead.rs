//! The chain including blocks that are still being written to the database.
//!
//! Execution of a block needs its parent's state, headers and trie nodes, but not on disk. So a block is executed while
//! the previous ones are still being written, and a branch is executed before it replaces another.

use std::{
    collections::{VecDeque, hash_map::Entry},
    sync::Arc,
};

use alloy_primitives::{
    Address, B256, Bytes, U256,
    map::{AddressMap, B256Map},
};
use tenon_api::{
    Account, AccountChange, Allowance, BlockCommit, BlockNumber, ChainReader, EMPTY_CODE_HASH, Head, LocatedLog,
    LogFilter, Receipt, RecoveredBlock, SealedHeader, SlotChange, StateReader, StoreError, TrieReader,
};

/// Memory of a trie node in addition to its RLP and path: its value, its entry in the list, its entry by hash.
const NODE_BYTES: usize = 200;
/// Memory of a changed slot.
const SLOT_BYTES: usize = size_of::<SlotChange>();
/// Memory of a changed account.
const ACCOUNT_BYTES: usize = size_of::<AccountChange>();
/// Memory of a log in addition to its data and topics.
const LOG_BYTES: usize = 100;

/// A block that was executed and verified, and is being written.
pub(super) struct WaitingBlock {
    pub(super) commit: Arc<BlockCommit>,
    header: Arc<SealedHeader>,
}

impl WaitingBlock {
    pub(super) fn new(commit: BlockCommit) -> Self {
        let header = Arc::new(commit.block.header.clone());
        Self { commit: Arc::new(commit), header }
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
///
/// There may be hundreds of them, so everything is indexed instead of searching each block.
#[derive(Clone, Default)]
pub(super) struct Waiting {
    blocks: VecDeque<Arc<WaitingBlock>>,
    /// Heights by hash.
    hashes: B256Map<u64>,
    /// Heights of the blocks that change an account, ascending.
    changes: AddressMap<VecDeque<u64>>,
    /// Height of the newest block that creates a trie node, and the node's index in its commit.
    nodes: B256Map<(u64, usize)>,
    /// Height of the newest block that adds a code.
    codes: B256Map<u64>,
}

impl Waiting {
    /// Adds the next block.
    pub(super) fn push(&mut self, block: Arc<WaitingBlock>) {
        let (number, commit) = (block.number().0, &block.commit);
        self.hashes.insert(block.header.hash(), number);
        for change in &commit.accounts {
            self.changes.entry(change.address).or_default().push_back(number);
        }
        self.nodes.extend(commit.trie_nodes.iter().enumerate().map(|(index, node)| (node.hash, (number, index))));
        self.codes.extend(commit.codes.iter().map(|(hash, _)| (*hash, number)));
        self.blocks.push_back(block);
    }

    /// Removes the oldest block.
    pub(super) fn pop(&mut self) {
        let Some(block) = self.blocks.pop_front() else { return };
        let (number, commit) = (block.number().0, &block.commit);
        self.hashes.remove(&block.header.hash());
        for change in &commit.accounts {
            if let Entry::Occupied(mut heights) = self.changes.entry(change.address) {
                heights.get_mut().pop_front();
                if heights.get().is_empty() {
                    heights.remove();
                }
            }
        }
        for node in &commit.trie_nodes {
            if let Entry::Occupied(place) = self.nodes.entry(node.hash)
                && place.get().0 == number
            {
                place.remove();
            }
        }
        for (hash, _) in &commit.codes {
            if let Entry::Occupied(height) = self.codes.entry(*hash)
                && *height.get() == number
            {
                height.remove();
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(super) fn last(&self) -> Option<&Arc<WaitingBlock>> {
        self.blocks.back()
    }

    /// The blocks, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<WaitingBlock>> {
        self.blocks.iter()
    }

    fn by_number(&self, number: u64) -> Option<&Arc<WaitingBlock>> {
        let index = number.checked_sub(self.blocks.front()?.number().0)?;
        self.blocks.get(usize::try_from(index).ok()?)
    }

    fn by_hash(&self, hash: B256) -> Option<&Arc<WaitingBlock>> {
        self.by_number(*self.hashes.get(&hash)?)
    }

    /// Changes of an account up to a height, the newest first.
    fn changes(&self, address: Address, number: u64) -> impl Iterator<Item = &AccountChange> {
        let heights = self.changes.get(&address).into_iter().flatten().rev().filter(move |height| **height <= number);
        heights.filter_map(move |height| self.by_number(*height)?.change(address))
    }

    fn node(&self, hash: B256) -> Option<&Bytes> {
        let (number, index) = self.nodes.get(&hash)?;
        Some(&self.by_number(*number)?.commit.trie_nodes.get(*index)?.rlp)
    }

    fn code(&self, hash: B256) -> Option<&Bytes> {
        self.by_number(*self.codes.get(&hash)?)?.code(hash)
    }
}

/// The database with blocks above it. A block that reaches the database meanwhile is found in both, with the same
/// contents.
pub(super) struct ChainAhead {
    committed: Arc<dyn ChainReader>,
    waiting: Arc<Waiting>,
    head: Arc<Head>,
    /// The last common block, if the blocks form a side branch.
    fork: Option<BlockNumber>,
}

impl ChainAhead {
    pub(super) fn new(committed: &Arc<dyn ChainReader>, waiting: Arc<Waiting>) -> Self {
        let below = committed.head();
        let head = match waiting.last() {
            Some(last) if last.number() > below.number() => Arc::new(head_at(last, &below)),
            _ => below,
        };
        Self { committed: Arc::clone(committed), waiting, head, fork: None }
    }

    /// The chain in which these blocks replace the canonical ones above `base`. Without blocks, `base` is the head. The
    /// canonical chain must not change meanwhile.
    pub(super) fn beside(committed: &Arc<dyn ChainReader>, base: &Arc<Head>, waiting: Arc<Waiting>) -> Self {
        let head = waiting.last().map_or_else(|| Arc::clone(base), |last| Arc::new(head_at(last, base)));
        Self { committed: Arc::clone(committed), waiting, head, fork: Some(base.number()) }
    }

    /// Returns whether the canonical block of this height is not part of this chain.
    fn is_above_fork(&self, number: BlockNumber) -> bool {
        self.fork.is_some_and(|fork| number > fork)
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
        match self.waiting.by_number(number.0) {
            Some(block) => Ok(Some(block.header.hash())),
            None if self.is_above_fork(number) => Ok(None),
            None => self.committed.canonical_hash(number),
        }
    }

    fn header(&self, hash: B256) -> Result<Option<Arc<SealedHeader>>, StoreError> {
        match self.waiting.by_hash(hash) {
            Some(block) => Ok(Some(Arc::clone(&block.header))),
            None => self.committed.header(hash),
        }
    }

    fn block(&self, hash: B256) -> Result<Option<Arc<RecoveredBlock>>, StoreError> {
        match self.waiting.by_hash(hash) {
            Some(block) => Ok(Some(Arc::clone(&block.commit.block))),
            None => self.committed.block(hash),
        }
    }

    fn receipts(&self, hash: B256) -> Result<Option<Arc<Vec<Receipt>>>, StoreError> {
        match self.waiting.by_hash(hash) {
            Some(block) => Ok(Some(Arc::clone(&block.commit.receipts))),
            None => self.committed.receipts(hash),
        }
    }

    fn total_difficulty(&self, hash: B256) -> Result<Option<U256>, StoreError> {
        match self.waiting.by_hash(hash) {
            Some(block) => Ok(Some(block.commit.total_difficulty)),
            None => self.committed.total_difficulty(hash),
        }
    }

    // Execution and consensus use neither transaction positions nor logs, so the database's answer suffices.
    fn transaction_location(&self, transaction_hash: B256) -> Result<Option<(B256, u64)>, StoreError> {
        self.committed.transaction_location(transaction_hash)
    }

    fn state_at(&self, number: BlockNumber) -> Result<Arc<dyn StateReader>, StoreError> {
        if number > self.head.number() {
            return Err(StoreError::UnknownBlock { what: number.to_string() });
        }
        let oldest = self.waiting.iter().next().filter(|oldest| oldest.number() <= number);
        let Some(oldest) = oldest else { return self.committed.state_at(number) };
        let committed = Arc::clone(&self.committed);
        let base = oldest.number().parent().unwrap_or_default();
        let is_branch = self.fork.is_some();
        let below = match committed.state_at(base) {
            Err(StoreError::Pruned { .. }) if !is_branch => state_of_head(&*committed, number)?,
            below => below?,
        };
        Ok(Arc::new(StateAhead { committed, below, number, waiting: Arc::clone(&self.waiting), is_branch }))
    }

    fn trie(&self) -> Arc<dyn TrieReader> {
        Arc::new(TrieAhead { committed: self.committed.trie(), waiting: Arc::clone(&self.waiting) })
    }

    fn trie_of(&self, block: &SealedHeader, caller: Arc<dyn Allowance>) -> Result<Arc<dyn TrieReader>, StoreError> {
        let Some(oldest) = self.waiting.iter().next() else { return self.committed.trie_of(block, caller) };
        let below = oldest.header.parent_hash;
        let unknown = || StoreError::UnknownBlock { what: below.to_string() };
        let below = self.committed.header(below)?.ok_or_else(unknown)?;
        let committed = self.committed.trie_of(&below, caller)?;
        Ok(Arc::new(TrieAhead { committed, waiting: Arc::clone(&self.waiting) }))
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

/// The state at the database's head. Where the waiting blocks changed nothing, it equals the state below them. The head
/// must not be above `number`.
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
    /// May contain blocks above `number`, too.
    waiting: Arc<Waiting>,
    /// Whether the blocks form a side branch. The state of the database's head is then not the state below them.
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
        self.waiting.changes(address, self.number.0)
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
        match self.waiting.code(code_hash) {
            Some(code) => Ok(Some(code.clone())),
            None => self.read_below(|state| state.code(code_hash)),
        }
    }

    fn block_hash(&self, number: BlockNumber) -> Result<Option<B256>, StoreError> {
        if number > self.number {
            return Ok(None);
        }
        match self.waiting.by_number(number.0) {
            Some(block) => Ok(Some(block.header.hash())),
            None => self.committed.canonical_hash(number),
        }
    }
}

/// The trie nodes of every kept block and of the waiting ones.
struct TrieAhead {
    committed: Arc<dyn TrieReader>,
    waiting: Arc<Waiting>,
}

impl TrieReader for TrieAhead {
    fn node(&self, owner: Option<B256>, path: &[u8], hash: B256) -> Result<Option<Bytes>, StoreError> {
        // Nodes are cached by hash; the position matters only for storage.
        match self.waiting.node(hash) {
            Some(rlp) => Ok(Some(rlp.clone())),
            None => self.committed.node(owner, path, hash),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::address;
    use tenon_api::{Block, Header, TrieNodeWrite, TriePosition};

    use super::*;

    const PAYER: Address = address!("00000000000000000000000000000000000000aa");

    /// A block that gives the payer a balance and a storage root node of this mark.
    fn block(number: u64, parent: B256, balance: u64, mark: u8) -> Arc<WaitingBlock> {
        let header = Header { number, parent_hash: parent, ..Header::default() };
        let header = tenon_chain::seal(header);
        let block = Block { header, transactions: Vec::new(), ommers: Vec::new(), withdrawals: None, size: 0 };
        let account = Some(Account { balance: U256::from(balance), ..Account::default() });
        Arc::new(WaitingBlock::new(BlockCommit {
            block: Arc::new(RecoveredBlock { block, senders: Vec::new() }),
            total_difficulty: U256::ZERO,
            receipts: Arc::default(),
            accounts: vec![AccountChange { address: PAYER, account, storage_wiped: false, slots: Vec::new() }],
            codes: vec![(B256::repeat_byte(mark), Bytes::from(vec![mark]))],
            trie_nodes: vec![TrieNodeWrite {
                position: TriePosition { owner: None, path: Vec::new() },
                hash: B256::repeat_byte(mark),
                rlp: Bytes::from(vec![mark, number as u8]),
            }],
            superseded_trie_nodes: Vec::new(),
        }))
    }

    /// Blocks 5, 6 and 7. The node and the code of 5 come again in 7.
    fn waiting() -> Waiting {
        let mut waiting = Waiting::default();
        let mut parent = B256::ZERO;
        for (number, mark) in [(5, 1), (6, 2), (7, 1)] {
            let block = block(number, parent, number, mark);
            parent = block.header.hash();
            waiting.push(block);
        }
        waiting
    }

    fn balance(waiting: &Waiting, number: u64) -> Option<U256> {
        waiting.changes(PAYER, number).next().and_then(|change| change.account).map(|account| account.balance)
    }

    #[test]
    fn the_newest_change_up_to_a_height_is_found() {
        let waiting = waiting();

        let found: Vec<_> = (4..=8).map(|number| balance(&waiting, number)).collect();

        let [five, six, seven] = [5, 6, 7].map(|balance| Some(U256::from(balance)));
        assert_eq!(found, [None, five, six, seven, seven]);
        assert_eq!(waiting.changes(PAYER, 7).count(), 3);
    }

    #[test]
    fn removing_a_block_keeps_nodes_and_codes_that_later_blocks_have() {
        let mut waiting = waiting();
        let hashes: Vec<B256> = waiting.iter().map(|block| block.header.hash()).collect();
        let [first, second] = [B256::repeat_byte(1), B256::repeat_byte(2)];

        waiting.pop();
        waiting.pop();

        assert_eq!((waiting.node(first), waiting.node(second)), (Some(&Bytes::from(vec![1, 7])), None));
        assert_eq!((waiting.code(first), waiting.code(second)), (Some(&Bytes::from(vec![1])), None));
        assert_eq!(
            hashes.iter().map(|hash| waiting.by_hash(*hash).is_some()).collect::<Vec<_>>(),
            [false, false, true]
        );
        assert_eq!(
            (5..=8).map(|number| waiting.by_number(number).is_some()).collect::<Vec<_>>(),
            [false, false, true, false]
        );
        assert_eq!((balance(&waiting, 6), balance(&waiting, 7)), (None, Some(U256::from(7))));
        waiting.pop();
        assert!(
            waiting.is_empty() && waiting.nodes.is_empty() && waiting.changes.is_empty() && waiting.codes.is_empty()
        );
        assert!(waiting.hashes.is_empty());
    }
}

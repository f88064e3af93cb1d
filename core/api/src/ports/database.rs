//! The database: the chain and its states, for readers and for the writer.

use std::{collections::HashMap, ops::ControlFlow, sync::Arc};

use alloy_primitives::{Address, B256, Bytes, U256};

use crate::{
    Account, Allowance, BlockCommit, BlockNumber, Head, Header, LocatedLog, LogFilter, Receipt, RecoveredBlock,
    SealedHeader, StoreError,
};

impl StoreError {
    /// How many of these consecutive blocks were committed although the writer stopped: it may have panicked after it had
    /// written them, for example while it pruned. The writer reads the head from the disk again, if it can, before it reports
    /// the error.
    ///
    /// This is here because it says what [`StoreError::WriterStopped`] means for every user of a [`ChainWriter`], and both
    /// users (the importer, the counters of commits) have only this crate in common.
    ///
    /// # Errors
    /// The error itself if none was.
    pub fn committed_despite(self, chain: &dyn ChainReader, commits: &[Arc<BlockCommit>]) -> Result<usize, Self> {
        if self != Self::WriterStopped {
            return Err(self);
        }
        let head = chain.head().header.hash();
        let newest = commits.iter().position(|commit| commit.block.hash() == head);
        newest.map(|index| index + 1).ok_or(self)
    }
}

/// The state after one block. Cheap to clone behind `Arc`; every method is a point read.
pub trait StateReader: Send + Sync {
    /// The account, `None` if it does not exist.
    ///
    /// # Errors
    /// [`StoreError`] if the database fails or the history has been pruned.
    fn account(&self, address: Address) -> Result<Option<Account>, StoreError>;
    /// The slot's value, zero when unset.
    ///
    /// # Errors
    /// As [`StateReader::account`].
    fn storage(&self, address: Address, slot: B256) -> Result<U256, StoreError>;
    /// Code by its hash; `None` if unknown. The hash of no code gives empty bytes.
    ///
    /// # Errors
    /// As [`StateReader::account`].
    fn code(&self, code_hash: B256) -> Result<Option<Bytes>, StoreError>;
    /// Hash of the canonical block of this height, `None` above the head.
    ///
    /// # Errors
    /// As [`StateReader::account`].
    fn block_hash(&self, number: BlockNumber) -> Result<Option<B256>, StoreError>;
}

/// Trie nodes by position and hash.
pub trait TrieReader: Send + Sync {
    /// The node's RLP, `None` if it is not stored.
    ///
    /// `owner` is keccak256 of the address for a storage trie and `None` for the state trie; `path` has one nibble per
    /// byte.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    fn node(&self, owner: Option<B256>, path: &[u8], hash: B256) -> Result<Option<Bytes>, StoreError>;
}

/// Nodes by their hash: those of a proof, or of one trie in memory. An empty map is a store without nodes.
impl TrieReader for HashMap<B256, Bytes> {
    fn node(&self, _owner: Option<B256>, _path: &[u8], hash: B256) -> Result<Option<Bytes>, StoreError> {
        Ok(self.get(&hash).cloned())
    }
}

/// The stored chain. All methods are point reads, except [`ChainReader::logs`] and, for old blocks, `trie_of`.
pub trait ChainReader: Send + Sync {
    /// The head, as one immutable value.
    fn head(&self) -> Arc<Head>;
    /// Hash of the canonical block of this height.
    ///
    /// # Errors
    /// [`StoreError`] if the database fails; likewise for every method below.
    fn canonical_hash(&self, number: BlockNumber) -> Result<Option<B256>, StoreError>;
    /// A header of any branch.
    ///
    /// # Errors
    /// See [`ChainReader::canonical_hash`].
    fn header(&self, hash: B256) -> Result<Option<Arc<SealedHeader>>, StoreError>;
    /// A block of any branch, with its senders.
    ///
    /// # Errors
    /// See [`ChainReader::canonical_hash`].
    fn block(&self, hash: B256) -> Result<Option<Arc<RecoveredBlock>>, StoreError>;
    /// Receipts of a block that has been executed.
    ///
    /// # Errors
    /// See [`ChainReader::canonical_hash`].
    fn receipts(&self, hash: B256) -> Result<Option<Arc<Vec<Receipt>>>, StoreError>;
    /// Sum of difficulties up to and including a block of any branch.
    ///
    /// # Errors
    /// See [`ChainReader::canonical_hash`].
    fn total_difficulty(&self, hash: B256) -> Result<Option<U256>, StoreError>;
    /// Hash of the canonical block that holds this transaction, and the position in it.
    ///
    /// # Errors
    /// See [`ChainReader::canonical_hash`].
    fn transaction_location(&self, transaction_hash: B256) -> Result<Option<(B256, u64)>, StoreError>;
    /// The state after the canonical block of this height.
    ///
    /// # Errors
    /// [`StoreError::Pruned`], [`StoreError::UnknownBlock`].
    fn state_at(&self, number: BlockNumber) -> Result<Arc<dyn StateReader>, StoreError>;
    /// Every slot of an account that has or had a value, in no particular order; `None` if there are more than `max`.
    ///
    /// # Errors
    /// See [`ChainReader::canonical_hash`]; also if the store keeps no list of slots.
    fn slots_of(&self, address: Address, max: usize) -> Result<Option<Vec<B256>>, StoreError> {
        let _ = (address, max);
        Err(StoreError::Engine("this store does not list slots".to_owned()))
    }
    /// The state after a block that is not canonical; `None` if it is not stored (any more). Parts of it may have been
    /// pruned.
    ///
    /// # Errors
    /// See [`ChainReader::canonical_hash`].
    fn state_of_branch(&self, block: &SealedHeader) -> Result<Option<Arc<dyn StateReader>>, StoreError> {
        let _ = block;
        Ok(None)
    }
    /// The slots of an account that were changed by a non-canonical block or by its once canonical ancestors on the
    /// same branch, in addition to those of [`ChainReader::slots_of`].
    ///
    /// # Errors
    /// See [`ChainReader::canonical_hash`].
    fn slots_of_branch(&self, block: &SealedHeader, address: Address) -> Result<Vec<B256>, StoreError> {
        let _ = (block, address);
        Ok(Vec::new())
    }
    /// The stored trie nodes: all nodes of the newest blocks, and a selection of the older blocks' nodes.
    fn trie(&self) -> Arc<dyn TrieReader>;
    /// All trie nodes of the state after a block. A store that does not keep those of old blocks computes them when
    /// they are read, and charges `caller` for time and memory. Such a read fails with [`StoreError::Stopped`] or
    /// [`StoreError::OutOfMemory`] when the allowance is used up.
    ///
    /// # Errors
    /// See [`ChainReader::canonical_hash`].
    fn trie_of(&self, block: &SealedHeader, caller: Arc<dyn Allowance>) -> Result<Arc<dyn TrieReader>, StoreError> {
        let _ = (block, caller);
        Ok(self.trie())
    }
    /// Matching logs of the canonical blocks `from..=to`, in chain order, answered from the log index.
    ///
    /// Returns `Ok` as soon as more than `limit` logs were found, with `limit + 1` of them; calls `is_cancelled`
    /// between blocks and stops early if it returns true.
    ///
    /// # Errors
    /// See [`ChainReader::canonical_hash`].
    fn logs(
        &self,
        from: BlockNumber,
        to: BlockNumber,
        filter: &LogFilter,
        limit: usize,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<LocatedLog>, StoreError>;
}

/// The stored chain in its encoded form, as peers receive it. Nothing is decoded or kept in a cache, so serving peers
/// costs little and does not displace what other readers use.
pub trait EncodedChainReader: ChainReader {
    /// Passes the RLP of the canonical headers from `first` to the head to `take`, in ascending order, until it returns
    /// [`ControlFlow::Break`].
    ///
    /// # Errors
    /// See [`ChainReader::canonical_hash`].
    fn encoded_headers(
        &self,
        first: BlockNumber,
        take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError>;
    /// Passes the bodies of these blocks of any branch to `take`, in the same order, until it returns
    /// [`ControlFlow::Break`]. A body is the RLP list of its transactions and its uncles, and is passed in consecutive
    /// parts. Unknown blocks are left out.
    ///
    /// # Errors
    /// See [`ChainReader::canonical_hash`].
    fn encoded_bodies(
        &self,
        hashes: &[B256],
        take: &mut dyn FnMut(&[&[u8]]) -> ControlFlow<()>,
    ) -> Result<(), StoreError>;
}

/// The only way to change the chain in the database. Of each database, one writer at a time exists.
///
/// Its methods wait until the change is written: they must not be called on a thread that serves other tasks. Blocks are
/// shared, because a writer that is an actor takes them to another thread.
pub trait ChainWriter: Send + Sync {
    /// Applies a block on top of the head in one atomic batch and moves the head.
    ///
    /// # Errors
    /// [`StoreError::NotNext`] when it does not follow the head; otherwise nothing was changed.
    fn commit(&self, commit: &Arc<BlockCommit>) -> Result<(), StoreError>;
    /// How many blocks like this one, at least 1, an import should pass to [`ChainWriter::commit_first`] together.
    fn group_size(&self, _header: &Header) -> usize {
        1
    }
    /// Applies the first of these consecutive blocks on top of the head, or several of them, in one atomic batch.
    /// Returns how many; 0 only if there are none.
    ///
    /// # Errors
    /// See [`ChainWriter::commit`].
    fn commit_first(&self, commits: &[Arc<BlockCommit>]) -> Result<usize, StoreError> {
        let Some(first) = commits.first() else { return Ok(0) };
        self.commit(first).map(|()| 1)
    }
    /// Stores a block of another branch without executing it, so that it can be executed if its branch wins.
    ///
    /// # Errors
    /// [`StoreError::Engine`].
    fn insert_side_block(&self, block: &Arc<RecoveredBlock>, total_difficulty: U256) -> Result<(), StoreError>;
    /// Stores the state changes and receipts of a block stored by [`ChainWriter::insert_side_block`], so that they can
    /// be queried. Does nothing in a store that keeps only canonical states.
    ///
    /// # Errors
    /// [`StoreError::Engine`].
    fn keep_side_state(&self, commit: &Arc<BlockCommit>) -> Result<(), StoreError>;
    /// Whether [`ChainWriter::unwind`] to this block is possible.
    ///
    /// # Errors
    /// [`StoreError::UnknownBlock`] above the head, [`StoreError::Pruned`] if the history does not reach back that far.
    fn check_unwind(&self, number: BlockNumber) -> Result<(), StoreError>;
    /// Removes canonical blocks until `number` is the head. Their headers and bodies stay as a side branch.
    ///
    /// # Errors
    /// See [`ChainWriter::check_unwind`]; nothing is changed then.
    fn unwind(&self, number: BlockNumber) -> Result<(), StoreError>;
    /// Replaces the canonical blocks above `ancestor` by a branch, oldest block first, in one atomic batch. Disk and
    /// readers have the chain before or after it, never one in between.
    ///
    /// # Errors
    /// [`StoreError::NotNext`] if the blocks do not follow one another from `ancestor` on, [`StoreError::Pruned`] if
    /// the history does not reach back that far; nothing is changed then.
    fn reorganise(&self, ancestor: BlockNumber, branch: &[Arc<BlockCommit>]) -> Result<(), StoreError>;
    /// Records the finalized and the safe block.
    ///
    /// # Errors
    /// [`StoreError::Engine`].
    fn set_finality(&self, finalized: Option<BlockNumber>, safe: Option<BlockNumber>) -> Result<(), StoreError>;
    /// Makes everything durable (flush and fsync).
    ///
    /// # Errors
    /// [`StoreError::Engine`].
    fn flush(&self) -> Result<(), StoreError>;
}

/// Small named records that a consensus engine keeps in the database across restarts. They can be computed again from
/// the chain while old state is kept, or record this node's own part in the voting.
pub trait EngineRecords: Send + Sync {
    /// A record; `None` if there is none with this name.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    fn record(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;
    /// Stores a record, replacing the previous one. After it returns, the record survives a power loss.
    ///
    /// # Errors
    /// [`StoreError::Engine`]; the previous record is kept.
    fn put(&self, name: &str, value: &[u8]) -> Result<(), StoreError>;
}

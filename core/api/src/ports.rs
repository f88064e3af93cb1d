//! The traits by which modules lend their libraries to one another. `core/node` hands the values around;
//! no module names another module's crate.

use std::{sync::Arc, time::Duration};

use alloy_primitives::{Address, B256, Bytes, U256};

use crate::{
    Account, Block, BlockCommit, BlockNumber, Head, Header, LocatedLog, LogFilter, Receipt, RecoveredBlock,
    RecoveredTransaction, SealedHeader,
};

/// Why the database could not answer or apply something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The engine below failed: disk full, I/O error, corruption that it noticed itself.
    #[error("database: {0}")]
    Engine(String),
    /// A record exists but does not decode.
    #[error("database record damaged: {what}; run `tenon db verify`")]
    Corrupt {
        /// Which record.
        what: String,
    },
    /// History of this height has been pruned.
    #[error("state of block {number} has been pruned; this node keeps history from block {oldest} on")]
    Pruned {
        /// The height asked for.
        number: BlockNumber,
        /// The oldest height that can be answered.
        oldest: BlockNumber,
    },
    /// A height above the head, or a hash that is unknown.
    #[error("block {what} is not in the database")]
    UnknownBlock {
        /// Number or hash.
        what: String,
    },
    /// A commit does not follow the head.
    #[error("commit of block {number} does not follow the head {head}")]
    NotNext {
        /// The block that was to be committed.
        number: BlockNumber,
        /// The head.
        head: BlockNumber,
    },
    /// What is read has no place in the memory of the client for which it is read.
    #[error("{reason}")]
    OutOfMemory {
        /// Whose memory is used up.
        reason: String,
    },
    /// The head moved back below the block that was being read.
    #[error("the chain was reorganised while block {number} was being read; ask again")]
    Reorganised {
        /// The block.
        number: BlockNumber,
    },
}

/// The state after one block. Cheap to clone behind `Arc`; every method is a point read.
pub trait StateReader: Send + Sync {
    /// The account, none when it does not exist.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails or the history is gone.
    fn account(&self, address: Address) -> Result<Option<Account>, StoreError>;
    /// The slot's value, zero when unset.
    ///
    /// # Errors
    /// As [`StateReader::account`].
    fn storage(&self, address: Address, slot: B256) -> Result<U256, StoreError>;
    /// Code by its hash; none when unknown. The hash of no code gives empty bytes.
    ///
    /// # Errors
    /// As [`StateReader::account`].
    fn code(&self, code_hash: B256) -> Result<Option<Bytes>, StoreError>;
    /// Hash of the canonical block of this height, none above the head.
    ///
    /// # Errors
    /// As [`StateReader::account`].
    fn block_hash(&self, number: BlockNumber) -> Result<Option<B256>, StoreError>;
}

/// Trie nodes by position and hash.
pub trait TrieReader: Send + Sync {
    /// The node's RLP, none when it is not stored.
    ///
    /// `owner` is keccak256 of the address for a storage trie and `None` for the state trie; `path` has one
    /// nibble a byte.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    fn node(&self, owner: Option<B256>, path: &[u8], hash: B256) -> Result<Option<Bytes>, StoreError>;
}

/// The chain as it is stored. All methods are point reads but [`ChainReader::logs`].
pub trait ChainReader: Send + Sync {
    /// The head, as one immutable value.
    fn head(&self) -> Arc<Head>;
    /// Hash of the canonical block of this height.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails; so for every method below.
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
    /// Every slot of an account that has or had a value, in no particular order; none when there are more than `most`.
    ///
    /// # Errors
    /// See [`ChainReader::canonical_hash`]; a store that keeps no list of slots says so.
    fn slots_of(&self, address: Address, most: usize) -> Result<Option<Vec<B256>>, StoreError> {
        let _ = (address, most);
        Err(StoreError::Engine("this store does not list slots".to_owned()))
    }
    /// The state after a block that is not canonical; none when this chain does not have it (any more). What it still
    /// has of one may be pruned.
    ///
    /// # Errors
    /// See [`ChainReader::canonical_hash`].
    fn state_of_branch(&self, block: &SealedHeader) -> Result<Option<Arc<dyn StateReader>>, StoreError> {
        let _ = block;
        Ok(None)
    }
    /// The slots of an account that a block which is not canonical changed, and its ancestors on the same branch, as
    /// far as they were canonical once; beside those of [`ChainReader::slots_of`].
    ///
    /// # Errors
    /// See [`ChainReader::canonical_hash`].
    fn slots_of_branch(&self, block: &SealedHeader, address: Address) -> Result<Vec<B256>, StoreError> {
        let _ = (block, address);
        Ok(Vec::new())
    }
    /// The trie nodes of every kept block.
    fn trie(&self) -> Arc<dyn TrieReader>;
    /// Matching logs of the canonical blocks `from..=to`, in chain order, answered from the log index.
    ///
    /// Stops with `Ok` as soon as more than `limit` logs were found, returning `limit + 1` of them; calls
    /// `is_cancelled` between blocks and stops early when it says so.
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

/// The only way in which the database changes.
pub trait ChainWriter: Send + Sync {
    /// Applies a block on top of the head in one atomic batch and moves the head.
    ///
    /// # Errors
    /// [`StoreError::NotNext`] when it does not follow the head; otherwise nothing was changed.
    fn commit(&self, commit: &BlockCommit) -> Result<(), StoreError>;
    /// Keeps a block of another branch, not executed, so that it can be executed when its branch wins.
    ///
    /// # Errors
    /// [`StoreError::Engine`].
    fn insert_side_block(&self, block: &RecoveredBlock, total_difficulty: U256) -> Result<(), StoreError>;
    /// Keeps what a block of another branch did, which [`ChainWriter::insert_side_block`] has kept: its state and its
    /// receipts can then be asked for. A store that keeps states of canonical blocks only does nothing.
    ///
    /// # Errors
    /// [`StoreError::Engine`].
    fn keep_side_state(&self, commit: &BlockCommit) -> Result<(), StoreError>;
    /// Takes canonical blocks off until `number` is the head. Their headers and bodies stay, as a side branch.
    ///
    /// # Errors
    /// [`StoreError::Pruned`] when the history does not reach back that far; otherwise nothing was changed.
    fn unwind(&self, number: BlockNumber) -> Result<(), StoreError>;
    /// Takes the canonical blocks above `ancestor` off and puts a branch on in their place, oldest block first, in one
    /// atomic batch. Disk and readers have the chain before or after it, never one in between.
    ///
    /// # Errors
    /// [`StoreError::NotNext`] when the blocks do not follow one another from `ancestor` on, [`StoreError::Pruned`] when
    /// the history does not reach back that far; otherwise nothing was changed.
    fn reorganise(&self, ancestor: BlockNumber, branch: &[Arc<BlockCommit>]) -> Result<(), StoreError>;
    /// Records what consensus says about finality.
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

/// What a consensus engine keeps over restarts beside the chain: a few small records by name. What stands there can be
/// computed again from the chain as long as old state is kept, or is what this node itself has done in the voting.
pub trait EngineRecords: Send + Sync {
    /// A record; none when nothing was kept under this name.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    fn record(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;
    /// Keeps a record in place of the one before. When this returns it survives a power loss.
    ///
    /// # Errors
    /// [`StoreError::Engine`]; the record before stands.
    fn keep(&self, name: &str, value: &[u8]) -> Result<(), StoreError>;
}

/// Why consensus refuses a header or body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("block {number} ({hash}): {reason}")]
pub struct ConsensusError {
    /// Height of the refused block.
    pub number: BlockNumber,
    /// Its hash.
    pub hash: B256,
    /// Which rule it breaks, with the value found and the value wanted.
    pub reason: String,
}

/// What a sealer wants the next block to be built with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealAttributes {
    /// Unix time in seconds.
    pub timestamp: u64,
    /// Receiver of fees.
    pub beneficiary: Address,
    /// Gas limit of the block.
    pub gas_limit: u64,
    /// Extra data.
    pub extra_data: Bytes,
    /// PREVRANDAO after the merge.
    pub mix_hash: B256,
}

/// A consensus engine: who may make blocks, and which branch wins. Holds no chain state of its own that the
/// database could not give back.
pub trait ConsensusEngine: Send + Sync {
    /// The name that logs use.
    fn name(&self) -> &'static str;
    /// The time that the chain's rules leave between two blocks after this one; none where they set no pace.
    fn pace(&self, _head: &SealedHeader) -> Option<Duration> {
        None
    }
    /// Checks a header against its parent: number, time, gas limit, difficulty, base fee, seal.
    ///
    /// # Errors
    /// [`ConsensusError`] naming the rule.
    fn verify_header(
        &self,
        header: &SealedHeader,
        parent: &SealedHeader,
        chain: &dyn ChainReader,
    ) -> Result<(), ConsensusError>;
    /// Recovers the signers of headers together, on any thread and before they are verified; verifying them then finds that
    /// done. A wrong header is refused when it is verified.
    fn recover_ahead(&self, _headers: &[&SealedHeader]) {}
    /// Checks what the header says of the body without executing it: uncles, and the roots of the lists.
    ///
    /// # Errors
    /// [`ConsensusError`] naming the rule.
    fn verify_body(&self, block: &Block, chain: &dyn ChainReader) -> Result<(), ConsensusError>;
    /// Whether a branch that ends in `candidate` wins over the head.
    fn is_better(&self, candidate: &SealedHeader, candidate_total_difficulty: U256, head: &Head) -> bool;
    /// Checks that a better branch may replace the canonical blocks above their last common ancestor.
    ///
    /// # Errors
    /// [`ConsensusError`] when a block would be undone that is final.
    fn verify_reorganisation(
        &self,
        _common_ancestor: BlockNumber,
        _head: &Head,
        _chain: &dyn ChainReader,
    ) -> Result<(), ConsensusError> {
        Ok(())
    }
    /// The address that is paid for the block and that the EVM sees as its coinbase.
    ///
    /// # Errors
    /// [`ConsensusError`] when the seal does not tell.
    fn author(&self, header: &SealedHeader) -> Result<Address, ConsensusError>;
    /// Whether the block opens an epoch, where the engine knows epochs.
    ///
    /// # Errors
    /// [`ConsensusError`] when the header does not tell.
    fn opens_epoch(&self, _header: &SealedHeader) -> Result<bool, ConsensusError> {
        Ok(false)
    }
    /// Balance credits that end a block (mining rewards), in the order in which they are applied. Wei.
    ///
    /// # Errors
    /// [`ConsensusError`] when they can't be computed.
    fn rewards(&self, block: &Block, chain: &dyn ChainReader) -> Result<Vec<(Address, U256)>, ConsensusError>;
    /// The consensus fields of a block to be built on `parent`; roots, gas used and bloom are left zero.
    ///
    /// # Errors
    /// [`ConsensusError`] when this node may not make a block now.
    fn prepare(
        &self,
        parent: &SealedHeader,
        attributes: &SealAttributes,
        chain: &dyn ChainReader,
    ) -> Result<Header, ConsensusError>;
    /// Puts the seal on a finished header.
    ///
    /// # Errors
    /// [`ConsensusError`] when this node may not make a block now.
    fn seal(&self, header: Header) -> Result<SealedHeader, ConsensusError>;
    /// Sees a block that has just become canonical, so that what later blocks need of it need not be read again.
    fn observe(&self, _block: &RecoveredBlock) {}
    /// The last block that is final, and the last that is safe, once `head` is the head.
    fn finality(&self, head: &SealedHeader, chain: &dyn ChainReader) -> (Option<BlockNumber>, Option<BlockNumber>);
}

/// What became of a block that was handed to the importer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InsertOutcome {
    /// It is the new head; `reorganised` lists what was taken off the chain before, newest first.
    Head {
        /// Hashes of blocks taken off.
        reorganised: Vec<B256>,
    },
    /// It was kept on a branch that does not win (yet).
    SideBranch,
    /// It was there already.
    Known,
}

/// Makes blocks from transactions and puts them on the chain: the write path as a sealer sees it.
pub trait BlockProducer: Send + Sync {
    /// Builds a block on the head from as many of these transactions as fit, commits it and announces it.
    /// Blocks the caller's thread until the block is canonical.
    ///
    /// # Errors
    /// [`Failure`](crate::Failure) when no block could be made; nothing was changed.
    fn produce(
        &self,
        attributes: &SealAttributes,
        transactions: Vec<RecoveredTransaction>,
    ) -> Result<Arc<RecoveredBlock>, crate::Failure>;
}

/// Signs blocks, and what their maker says about blocks. The key stays where it is.
pub trait BlockSigner: Send + Sync {
    /// The account that signs.
    fn address(&self) -> Address;
    /// Signs a digest: R, S in the lower half, recovery id; nonces follow RFC 6979. Does not wait.
    ///
    /// # Errors
    /// [`CannotSign`] while the account is locked.
    fn sign(&self, digest: B256) -> Result<[u8; 65], CannotSign>;
}

/// No signature, because the account is locked or gone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("block signer {address}: {reason}")]
pub struct CannotSign {
    /// The account.
    pub address: Address,
    /// What its wallet says.
    pub reason: String,
}

/// The accounts whose keys this node has, as the pool sees them.
pub trait OwnAccounts: Send + Sync {
    /// Whether this node signs for the address.
    fn has_key(&self, address: Address) -> bool;
}

/// The pool as a sealer sees it.
pub trait PendingTransactions: Send + Sync {
    /// Executable transactions in the order in which a block should try them: by effective tip, nonces of one
    /// sender ascending.
    fn best(&self, base_fee_per_gas: Option<u64>) -> Vec<RecoveredTransaction>;
}

//! The traits by which modules offer their functions to one another. `core/node` connects them; no module names another
//! module's crate.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use alloy_primitives::{Address, B256, Bytes, U256};

use crate::{
    Account, Allowance, Block, BlockCommit, BlockNumber, Head, Header, LocatedLog, LogFilter, Receipt, RecoveredBlock,
    RecoveredTransaction, SealedHeader, Transaction,
};

/// Kinds of messages with which masternodes agree on blocks (`docs/spec/consensus.md` 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RoundMessageKind {
    /// A masternode's vote for a block.
    Vote,
    /// A masternode's statement that a round has failed.
    Timeout,
    /// The highest certificates that a node has.
    SyncInfo,
}

/// A message of masternodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundMessage {
    /// What it is.
    pub kind: RoundMessageKind,
    /// Its RLP (`docs/spec/p2p.md` 13), which decodes.
    pub payload: Bytes,
}

/// The voting as the network sees it. No method blocks.
pub trait RoundMessages: Send + Sync {
    /// Takes a message of a peer. Drops `guard` once the message has been processed, or refused because the mailbox is
    /// full.
    fn receive(&self, message: RoundMessage, guard: Box<dyn Send>);
    /// A block of a peer was executed, on any branch. `is_announced` is false for blocks of a synchronisation.
    fn executed(&self, header: Arc<SealedHeader>, is_announced: bool);
    /// Whether messages are taken now: not while the node is far behind.
    fn set_syncing(&self, is_syncing: bool);
}

/// The network as the voting sees it. No method blocks; while the network is off nothing is sent.
pub trait RoundNetwork: Send + Sync {
    /// Sends a message to every peer that does not have it.
    fn broadcast(&self, message: RoundMessage);
    /// Sends a message to every peer, including those that were sent it before, which may not have processed it.
    fn repeat(&self, message: RoundMessage);
    /// Sends a block that this node made to every peer.
    fn announce(&self, block: Arc<Block>, total_difficulty: U256);
}

/// Builds blocks on any executed block, for the leader of a round.
pub trait RoundBuilder: Send + Sync {
    /// Executes as many of the transactions as fit on the state after `parent`, completes the header and has it sealed.
    /// Nothing is stored.
    ///
    /// # Errors
    /// [`Failure`](crate::Failure) if the state after `parent` is not available, or the seal is refused.
    fn build(
        &self,
        parent: &SealedHeader,
        draft: Header,
        transactions: Vec<RecoveredTransaction>,
        seal: &dyn Fn(Header) -> Result<SealedHeader, CannotSign>,
    ) -> Result<Block, crate::Failure>;
}

/// The pool as the network sees it. Every method may take milliseconds and belongs on a thread that may block.
pub trait PeerTransactions: Send + Sync {
    /// Offers transactions of peers, each in its canonical bytes, to the pool. Those that it refuses are dropped: a
    /// peer's pool may follow other rules.
    fn offer(&self, raw: &[Bytes]);
    /// The transactions that are ready for the next block.
    fn pending(&self) -> Vec<RecoveredTransaction>;
    /// Adds a transaction of the node itself, in its canonical bytes.
    ///
    /// # Errors
    /// [`Failure`](crate::Failure) if the pool refuses it or is off.
    fn submit_own(&self, raw: &[u8]) -> Result<(), crate::Failure>;
    /// The next nonce of an account, with its waiting transactions counted.
    ///
    /// # Errors
    /// [`StoreError`].
    fn next_nonce(&self, account: Address) -> Result<u64, StoreError>;
}

/// Why the database could not answer or apply a change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The storage engine failed: disk full, I/O error, detected corruption.
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
        /// The oldest height that is available.
        oldest: BlockNumber,
    },
    /// A height above the head, or an unknown hash.
    #[error("block {what} is not in the database")]
    UnknownBlock {
        /// Number or hash.
        what: String,
    },
    /// A commit does not follow the head.
    #[error("commit of block {number} does not follow the head {head}")]
    NotNext {
        /// The block to be committed.
        number: BlockNumber,
        /// The head.
        head: BlockNumber,
    },
    /// The data does not fit into the memory of the client for which it is read.
    #[error("{reason}")]
    OutOfMemory {
        /// The client or plugin whose memory is used up.
        reason: String,
    },
    /// The caller has gone, or its time is over.
    #[error("request timed out")]
    Stopped,
    /// The head moved back below the block that was being read.
    #[error("the chain was reorganised while block {number} was being read; try again")]
    Reorganised {
        /// The block.
        number: BlockNumber,
    },
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
    /// they are read, at the expense of `caller`; such reads fail with [`StoreError::Stopped`] or
    /// [`StoreError::OutOfMemory`] when the caller has nothing left.
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
    /// [`ControlFlow::Break`]: of each the RLP list of its transactions and its uncles. Unknown blocks are left out.
    ///
    /// # Errors
    /// See [`ChainReader::canonical_hash`].
    fn encoded_bodies(&self, hashes: &[B256], take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>)
    -> Result<(), StoreError>;
}

/// The only way to change the database.
pub trait ChainWriter: Send + Sync {
    /// Applies a block on top of the head in one atomic batch and moves the head.
    ///
    /// # Errors
    /// [`StoreError::NotNext`] when it does not follow the head; otherwise nothing was changed.
    fn commit(&self, commit: &BlockCommit) -> Result<(), StoreError>;
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
    fn insert_side_block(&self, block: &RecoveredBlock, total_difficulty: U256) -> Result<(), StoreError>;
    /// Stores the state changes and receipts of a block stored by [`ChainWriter::insert_side_block`], so that they can
    /// be queried. A store of canonical states only does nothing.
    ///
    /// # Errors
    /// [`StoreError::Engine`].
    fn keep_side_state(&self, commit: &BlockCommit) -> Result<(), StoreError>;
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

/// What a refusal says about the refused block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    /// The block breaks a rule: it is wrong for every node, at any time.
    BrokenRule,
    /// The block's time has not come. It may be right later.
    NotYetDue,
    /// This node could not check it: its database failed, or what the rule needs is not stored.
    OwnFailure,
}

/// Why consensus refuses a header or body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("block {number} ({hash}): {reason}")]
pub struct ConsensusError {
    /// Height of the refused block.
    pub number: BlockNumber,
    /// Its hash.
    pub hash: B256,
    /// What the refusal says about the block.
    pub cause: RefusalCause,
    /// The broken rule, with the value found and the value expected.
    pub reason: String,
}

/// Result of processing a block that another node sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockVerdict {
    /// It is the new head.
    Head,
    /// It belongs to another branch than the head, and its execution gave the results that its header states.
    ExecutedOnSideBranch,
    /// It belongs to another branch than the head, and is executed once that branch is the better one.
    StoredOnSideBranch,
    /// It was already stored.
    Known,
    /// Its time has not come: offer it again then.
    NotYetDue,
    /// Its parent is not stored.
    ParentUnknown,
    /// It breaks a rule: its maker, or the peer that passed it on as verified, is at fault.
    Wrong {
        /// The broken rule.
        reason: String,
    },
    /// This node could not process it. That says nothing about the block.
    OwnFailure {
        /// What failed.
        reason: String,
    },
}

/// A block of a batch that was not taken; the blocks before it were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedBlock {
    /// Its height; `None` where no block was processed.
    pub number: Option<BlockNumber>,
    /// Its hash.
    pub hash: Option<B256>,
    /// Why. Never a verdict that accepts the block.
    pub verdict: BlockVerdict,
}

/// Follows a batch of blocks through the import.
pub trait BatchObserver: Send {
    /// A block of the batch was committed or stored, or was already in the database.
    fn passed(&mut self, number: BlockNumber, hash: B256);
    /// Whether the batch ends here. Asked before each block.
    fn is_cancelled(&self) -> bool;
}

/// Takes blocks from other nodes. Every method may take as long as an execution does and belongs on a thread that may
/// block.
pub trait BlockPort: Send + Sync {
    /// Checks a header whose parent is stored; writes may run concurrently. `Head` means that the header is valid;
    /// whether its branch wins is decided by [`BlockPort::insert`].
    fn verify_header(&self, header: &SealedHeader) -> BlockVerdict;
    /// Verifies, executes and stores a block.
    fn insert(&self, block: Block) -> BlockVerdict;
    /// Takes blocks in order of height through the import pipeline, until the source ends or a block is not taken.
    ///
    /// # Errors
    /// The first block that was not taken.
    fn import(
        &self,
        blocks: Box<dyn Iterator<Item = Block> + Send>,
        observer: &mut dyn BatchObserver,
    ) -> Result<(), FailedBlock>;
}

/// A sealer's parameters for the next block.
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

/// What a consensus engine changes in the state at the end of a block, after its transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockRewards {
    /// Balance credits, wei, in the order of application. A credit of zero touches its account.
    pub credits: Vec<(Address, U256)>,
    /// An account that keeps the engine's own figures; written after the credits.
    pub record: Option<AccountRecord>,
}

/// An account without code in whose storage an engine keeps figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountRecord {
    /// Its address.
    pub account: Address,
    /// Its new nonce, above zero, so that the account is not empty.
    pub nonce: u64,
    /// Changed slots; zero deletes one.
    pub slots: Vec<(B256, U256)>,
}

impl From<Vec<(Address, U256)>> for BlockRewards {
    fn from(credits: Vec<(Address, U256)>) -> Self {
        Self { credits, record: None }
    }
}

/// A consensus engine: decides who may make blocks and which branch wins. Holds no chain state that cannot be restored
/// from the database.
pub trait ConsensusEngine: Send + Sync {
    /// The name in logs.
    fn name(&self) -> &'static str;
    /// The chain's minimum time between two blocks after this one; `None` if its rules set none.
    fn pace(&self, _head: &SealedHeader) -> Option<Duration> {
        None
    }
    /// Checks a header against its parent: number, time, gas limit, difficulty, base fee, seal.
    ///
    /// # Errors
    /// [`ConsensusError`] naming the broken rule.
    fn verify_header(
        &self,
        header: &SealedHeader,
        parent: &SealedHeader,
        chain: &dyn ChainReader,
    ) -> Result<(), ConsensusError>;
    /// Prepares the verification of several headers, in order of height, on any thread: recovers their signers in one
    /// batch, and may record that a later header vouches for earlier ones. Invalid headers are refused on verification.
    fn recover_ahead(&self, _headers: &[&SealedHeader]) {}
    /// Checks the body against the header without execution: uncles, and the roots of the lists.
    ///
    /// # Errors
    /// [`ConsensusError`] naming the broken rule.
    fn verify_body(&self, block: &Block, chain: &dyn ChainReader) -> Result<(), ConsensusError>;
    /// Whether a branch that ends in `candidate` wins over the head.
    fn is_better(&self, candidate: &SealedHeader, candidate_total_difficulty: U256, head: &Head) -> bool;
    /// Checks that a better branch may replace the canonical blocks above their last common ancestor.
    ///
    /// # Errors
    /// [`ConsensusError`] if a final block would be undone.
    fn verify_reorganisation(
        &self,
        _common_ancestor: BlockNumber,
        _head: &Head,
        _chain: &dyn ChainReader,
    ) -> Result<(), ConsensusError> {
        Ok(())
    }
    /// The address that receives the block's fees and that the EVM sees as coinbase.
    ///
    /// # Errors
    /// [`ConsensusError`] if the seal does not contain it.
    fn author(&self, header: &SealedHeader) -> Result<Address, ConsensusError>;
    /// Returns whether the block opens an epoch, in engines with epochs.
    ///
    /// # Errors
    /// [`ConsensusError`] if the header does not say.
    fn opens_epoch(&self, _header: &SealedHeader) -> Result<bool, ConsensusError> {
        Ok(false)
    }
    /// What the engine changes in the state at the end of a block.
    ///
    /// # Errors
    /// [`ConsensusError`] if it cannot be computed.
    fn rewards(&self, block: &Block, chain: &dyn ChainReader) -> Result<BlockRewards, ConsensusError>;
    /// The consensus fields of a block to be built on `parent`; roots, gas used and bloom are left zero.
    ///
    /// # Errors
    /// [`ConsensusError`] if this node is not permitted to make a block now.
    fn prepare(
        &self,
        parent: &SealedHeader,
        attributes: &SealAttributes,
        chain: &dyn ChainReader,
    ) -> Result<Header, ConsensusError>;
    /// Puts the seal on a finished header.
    ///
    /// # Errors
    /// [`ConsensusError`] if this node is not permitted to make a block now.
    fn seal(&self, header: Header) -> Result<SealedHeader, ConsensusError>;
    /// Called for each new canonical block, so that the engine can cache what later blocks need of it.
    fn observe(&self, _block: &RecoveredBlock) {}
    /// The finalized and the safe block, with `head` as the head.
    fn finality(&self, head: &SealedHeader, chain: &dyn ChainReader) -> (Option<BlockNumber>, Option<BlockNumber>);
}

/// Result of importing a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InsertOutcome {
    /// It is the new head; `reorganised` lists the blocks that it replaced, newest first.
    Head {
        /// Hashes of the replaced blocks.
        reorganised: Vec<B256>,
    },
    /// It was stored on a branch that does not win (yet).
    SideBranch {
        /// Whether it was executed, with the results that its header states. If not, it is executed when its branch
        /// wins.
        is_executed: bool,
    },
    /// It was already stored.
    Known,
}

/// Makes blocks from transactions and appends them to the chain: the sealer's view of the write path.
pub trait BlockProducer: Send + Sync {
    /// Builds a block on the head from as many of these transactions as fit, commits it and publishes it. Blocks the
    /// caller's thread until the block is canonical.
    ///
    /// # Errors
    /// [`Failure`](crate::Failure) if no block could be made; nothing was changed.
    fn produce(
        &self,
        attributes: &SealAttributes,
        transactions: Vec<RecoveredTransaction>,
    ) -> Result<Arc<RecoveredBlock>, crate::Failure>;
}

/// What a masternode signs, for signers that look at the content: a service checks it against its policy.
#[derive(Clone, Copy, Debug)]
pub enum SignerMessage<'a> {
    /// A vote (`docs/spec/consensus.md` 5.4).
    Vote {
        /// Hash of the block.
        hash: B256,
        /// Its round.
        round: u64,
        /// Its height.
        number: u64,
        /// The gap number of its epoch.
        gap_number: u64,
    },
    /// A timeout (`docs/spec/consensus.md` 5.7).
    Timeout {
        /// The failed round.
        round: u64,
        /// The gap number of its epoch.
        gap_number: u64,
    },
    /// A finished header of engine v2, without the signature.
    Seal(&'a Header),
    /// A signing transaction (`docs/spec/consensus.md` 10.1), without the signature.
    Transaction(&'a Transaction),
}

/// Signs blocks and consensus messages of this node, without exposing the key.
pub trait BlockSigner: Send + Sync {
    /// The account that signs.
    fn address(&self) -> Address;
    /// Signs a digest: R, S in the lower half, recovery id; nonces follow RFC 6979. Does not block.
    ///
    /// # Errors
    /// [`CannotSign`] if the account is locked.
    fn sign(&self, digest: B256) -> Result<[u8; 65], CannotSign>;
    /// Signs the digest of this message. Does not block: a signer outside of this process begins to sign, and returns
    /// the signature when it is asked for the same digest later.
    ///
    /// # Errors
    /// [`CannotSign`]; [`CannotSign::is_pending`] while the signature is on its way.
    fn sign_message(&self, message: SignerMessage<'_>, digest: B256) -> Result<[u8; 65], CannotSign> {
        let _ = message;
        self.sign(digest)
    }
    /// Sets the function that is called, on any thread, when a pending signature has arrived, or a signer that did not
    /// answer is back. Replaces the one set before. Signers in this process never call it.
    fn on_ready(&self, ready: Arc<dyn Fn() + Send + Sync>) {
        let _ = ready;
    }
}

/// The account cannot sign: it is locked or gone, or its signer does not answer, or has not answered yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("block signer {address}: {reason}")]
pub struct CannotSign {
    /// The account.
    pub address: Address,
    /// The wallet's reason.
    pub reason: String,
    /// The signature is on its way: ask again after the call of [`BlockSigner::on_ready`].
    pub is_pending: bool,
}

/// The pool's view of the accounts whose keys this node has.
pub trait OwnAccounts: Send + Sync {
    /// Returns whether this node has the key of the address.
    fn has_key(&self, address: Address) -> bool;

    /// The sender of a transaction by its hash, if a key in this process has just signed it.
    fn signer_of(&self, transaction: B256) -> Option<Address>;
}

/// The sealer's view of the pool.
pub trait PendingTransactions: Send + Sync {
    /// Executable transactions in the order in which a block should try them: by effective tip, nonces of one sender
    /// ascending.
    fn best(&self, base_fee_per_gas: Option<u64>) -> Vec<RecoveredTransaction>;
}

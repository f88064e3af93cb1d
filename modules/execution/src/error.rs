//! Why a block was not executed or not inserted.

use alloy_primitives::{Address, B256};
use tenon_api::{BlockNumber, ConsensusError, Failure, StoreError};

/// Why a block cannot be executed, or does not do what its header says.
#[derive(Debug, thiserror::Error)]
pub enum ExecutionError {
    /// The block was executed and the first thing compared differs from the header.
    #[error("block {number}: {what} is {computed}, the header says {expected}")]
    Mismatch {
        /// Height of the block.
        number: BlockNumber,
        /// What differs: `gas used`, `state root` …
        what: &'static str,
        /// What execution gave.
        computed: String,
        /// What the header says.
        expected: String,
    },
    /// A transaction may not stand where it stands.
    #[error("block {number}: transaction {index} ({hash}) is not valid: {reason}")]
    Transaction {
        /// Height of the block.
        number: BlockNumber,
        /// Position of the transaction.
        index: usize,
        /// Its hash.
        hash: B256,
        /// Which rule it breaks.
        reason: TransactionRejection,
    },
    /// The block needs a rule that this node does not execute; it is not known whether the block is valid.
    #[error("block {number} needs what this node does not execute: {what}")]
    Unsupported {
        /// Height of the block.
        number: BlockNumber,
        /// The rule.
        what: String,
    },
    /// A header item that this fork needs is absent.
    #[error("block {number}: the header has no {what}")]
    MissingItem {
        /// Height of the block.
        number: BlockNumber,
        /// The item.
        what: &'static str,
    },
    /// A system contract whose answer belongs to the block did not answer (EIP-7002, EIP-7251).
    #[error("block {number}: system call to {contract} failed: {reason}")]
    SystemCall {
        /// Height of the block.
        number: BlockNumber,
        /// The contract.
        contract: Address,
        /// What the EVM said.
        reason: String,
    },
    /// A log of the deposit contract has not the layout of EIP-6110.
    #[error("block {number}: deposit log: {reason}")]
    DepositLog {
        /// Height of the block.
        number: BlockNumber,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The historic exchange comes to something else than the block says, or an order may not stand there
    /// (`docs/spec/chain.md` 6.1). The reason is in the reference's words.
    #[error("block {number}: {reason}")]
    Exchange {
        /// Height of the block.
        number: BlockNumber,
        /// Which rule is broken.
        reason: String,
    },
    /// Consensus could not tell who is paid.
    #[error(transparent)]
    Consensus(#[from] ConsensusError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The trie could not be updated.
    #[error("block {number}: {source}")]
    Trie {
        /// Height of the block.
        number: BlockNumber,
        /// Why.
        source: tenon_chain::TrieError,
    },
}

impl ExecutionError {
    /// Whether the block itself is wrong, rather than what this node has or knows to judge it with.
    pub(crate) fn condemns_the_block(&self) -> bool {
        match self {
            Self::Mismatch { .. } | Self::MissingItem { .. } | Self::SystemCall { .. } | Self::DepositLog { .. } => {
                true
            }
            Self::Transaction { reason, .. } => {
                !matches!(reason, TransactionRejection::Unsupported(_) | TransactionRejection::Store(_))
            }
            Self::Unsupported { .. }
            | Self::Exchange { .. }
            | Self::Consensus(_)
            | Self::Store(_)
            | Self::Trie { .. } => false,
        }
    }
}

/// Why a transaction cannot be executed in this block at this place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransactionRejection {
    /// The rest of the block's gas is less than the transaction's limit.
    #[error("gas limit {gas_limit} exceeds the {available} that the block has left")]
    BlockGas {
        /// The transaction's limit.
        gas_limit: u64,
        /// What is left.
        available: u64,
    },
    /// The rest of the block's blob gas is less than the transaction's.
    #[error("blob gas {blob_gas} exceeds the {available} that the block has left")]
    BlockBlobGas {
        /// The transaction's blob gas.
        blob_gas: u64,
        /// What is left.
        available: u64,
    },
    /// It needs a rule that this node does not execute; it is not known whether it is valid.
    #[error("this node does not execute {0}")]
    Unsupported(&'static str),
    /// A rule of the transaction itself or of its sender's account.
    #[error("{0}")]
    Rule(String),
    /// The state could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl TransactionRejection {
    /// Whether a later block may take the transaction: only room is lacking here.
    pub(crate) const fn is_lack_of_room(&self) -> bool {
        matches!(self, Self::BlockGas { .. } | Self::BlockBlobGas { .. })
    }
}

/// Why a block was not inserted.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The parent is not known.
    #[error("block {number} ({hash}): its parent {parent} is not known")]
    UnknownParent {
        /// Height of the block.
        number: BlockNumber,
        /// Its hash.
        hash: B256,
        /// The parent that is missing.
        parent: B256,
    },
    /// A transaction's signature gives no sender.
    #[error("block {number}: {reason}")]
    Sender {
        /// Height of the block.
        number: BlockNumber,
        /// What recovery said.
        reason: String,
    },
    /// The bytes that were to be imported are not blocks.
    #[error("after block {after}: {reason}")]
    Source {
        /// The last block that was read.
        after: BlockNumber,
        /// What the reader said.
        reason: String,
    },
    /// The chain to be imported begins with another genesis block.
    #[error("block 0 is {found}, this database's is {own}: another chain")]
    OtherChain {
        /// Hash of the block 0 that was to be imported.
        found: B256,
        /// Hash of the database's.
        own: B256,
    },
    /// Consensus refuses the block.
    #[error(transparent)]
    Consensus(#[from] ConsensusError),
    /// Execution refuses the block.
    #[error(transparent)]
    Execution(#[from] ExecutionError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A better branch whose blocks do not fit into memory together.
    #[error(
        "the better branch from block {ancestor} on needs too much memory at block {number} to take the place of blocks up \
         to {from} in one step; stop the node, run `tenon db unwind {ancestor}` and import the branch"
    )]
    LargeReorganisation {
        /// The last block that both branches have.
        ancestor: BlockNumber,
        /// The head.
        from: BlockNumber,
        /// The block of the branch at which it was too much.
        number: BlockNumber,
    },
    /// A worker thread of the importer could not be started.
    #[error("cannot start a thread of the importer: {0}")]
    Thread(#[from] std::io::Error),
}

impl ExecutionError {
    /// The block that is refused; none when the fault is the database's.
    pub const fn block(&self) -> Option<BlockNumber> {
        match self {
            Self::Mismatch { number, .. }
            | Self::Transaction { number, .. }
            | Self::Unsupported { number, .. }
            | Self::MissingItem { number, .. }
            | Self::SystemCall { number, .. }
            | Self::DepositLog { number, .. }
            | Self::Exchange { number, .. }
            | Self::Trie { number, .. } => Some(*number),
            Self::Consensus(error) => Some(error.number),
            Self::Store(_) => None,
        }
    }
}

impl ImportError {
    /// The block that is refused; none when the fault is not a block's, or its place is in the words already.
    pub const fn block(&self) -> Option<BlockNumber> {
        match self {
            Self::UnknownParent { number, .. } | Self::Sender { number, .. } => Some(*number),
            Self::OtherChain { .. } => Some(BlockNumber(0)),
            Self::Consensus(error) => Some(error.number),
            Self::Execution(error) => error.block(),
            Self::LargeReorganisation { .. } | Self::Source { .. } | Self::Store(_) | Self::Thread(_) => None,
        }
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        Self::server(error.to_string())
    }
}

impl From<ExecutionError> for Failure {
    fn from(error: ExecutionError) -> Self {
        Self::server(error.to_string())
    }
}

//! Errors of executing and importing blocks.

use alloy_primitives::{Address, B256};
use tenon_api::{BlockNumber, ConsensusError, Failure, StoreError};

/// Why a block cannot be executed, or does not match its header.
#[derive(Debug, thiserror::Error)]
pub enum ExecutionError {
    /// The block was executed, and a result differs from the header; the first difference is reported.
    #[error("block {number}: {what} is {computed}, the header says {expected}")]
    Mismatch {
        /// Height of the block.
        number: BlockNumber,
        /// The differing value: `gas used`, `state root` …
        what: &'static str,
        /// The computed value.
        computed: String,
        /// The header's value.
        expected: String,
    },
    /// A transaction is not valid at its position.
    #[error("block {number}: transaction {index} ({hash}) is not valid: {reason}")]
    Transaction {
        /// Height of the block.
        number: BlockNumber,
        /// Position of the transaction.
        index: usize,
        /// Its hash.
        hash: B256,
        /// The broken rule.
        reason: TransactionRejection,
    },
    /// The block needs a rule that this node does not implement; its validity is unknown.
    #[error("block {number} requires something that this node does not support: {what}")]
    Unsupported {
        /// Height of the block.
        number: BlockNumber,
        /// The rule.
        what: String,
    },
    /// The header lacks an item that its fork requires.
    #[error("block {number}: the header has no {what}")]
    MissingItem {
        /// Height of the block.
        number: BlockNumber,
        /// The item.
        what: &'static str,
    },
    /// A system contract whose output is part of the block failed (EIP-7002, EIP-7251).
    #[error("block {number}: system call to {contract} failed: {reason}")]
    SystemCall {
        /// Height of the block.
        number: BlockNumber,
        /// The contract.
        contract: Address,
        /// The EVM's error.
        reason: String,
    },
    /// A log of the deposit contract does not have the layout of EIP-6110.
    #[error("block {number}: deposit log: {reason}")]
    DepositLog {
        /// Height of the block.
        number: BlockNumber,
        /// The problem.
        reason: &'static str,
    },
    /// The historic exchange's result differs from the block's, or an order is not valid (`docs/spec/chain.md` 6.1).
    /// The reason has the reference's text.
    #[error("block {number}: {reason}")]
    Exchange {
        /// Height of the block.
        number: BlockNumber,
        /// The broken rule.
        reason: String,
    },
    /// Consensus could not determine the receiver of a payment.
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
        /// The cause.
        source: tenon_chain::TrieError,
    },
}

impl ExecutionError {
    /// Returns whether the block itself is invalid, rather than data or rules missing on this node.
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

/// Why a transaction cannot be executed at its position in this block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransactionRejection {
    /// The rest of the block's gas is less than the transaction's limit.
    #[error("gas limit {gas_limit} exceeds the {available} that the block has left")]
    BlockGas {
        /// The transaction's limit.
        gas_limit: u64,
        /// Remaining gas.
        available: u64,
    },
    /// The rest of the block's blob gas is less than the transaction's.
    #[error("blob gas {blob_gas} exceeds the {available} that the block has left")]
    BlockBlobGas {
        /// The transaction's blob gas.
        blob_gas: u64,
        /// Remaining blob gas.
        available: u64,
    },
    /// It needs a rule that this node does not implement; its validity is unknown.
    #[error("this node does not execute {0}")]
    Unsupported(&'static str),
    /// A rule on the transaction itself or its sender's account.
    #[error("{0}")]
    Rule(String),
    /// The state could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl TransactionRejection {
    /// Returns whether a later block may include the transaction: only gas is lacking here.
    pub(crate) const fn is_out_of_block_gas(&self) -> bool {
        matches!(self, Self::BlockGas { .. } | Self::BlockBlobGas { .. })
    }
}

/// Why a block was not imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The parent is unknown.
    #[error("block {number} ({hash}): its parent {parent} is not known")]
    UnknownParent {
        /// Height of the block.
        number: BlockNumber,
        /// Its hash.
        hash: B256,
        /// The missing parent.
        parent: B256,
    },
    /// No sender can be recovered from a transaction's signature.
    #[error("block {number}: {reason}")]
    Sender {
        /// Height of the block.
        number: BlockNumber,
        /// The recovery error.
        reason: String,
    },
    /// The bytes to be imported are not valid blocks.
    #[error("after block {after}: {reason}")]
    Source {
        /// The last block read.
        after: BlockNumber,
        /// The reader's error.
        reason: String,
    },
    /// The chain to be imported has another genesis block.
    #[error("block 0 is {found}, but that of this database is {own}: it is another chain")]
    OtherChain {
        /// Hash of its block 0.
        found: B256,
        /// Hash of the database's block 0.
        own: B256,
    },
    /// Consensus refused the block.
    #[error(transparent)]
    Consensus(#[from] ConsensusError),
    /// Execution refused the block.
    #[error(transparent)]
    Execution(#[from] ExecutionError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The blocks of a better branch do not fit into memory together.
    #[error(
        "the better branch from block {ancestor} on needs too much memory at block {number} to replace the blocks up \
         to {from} in one step; stop the node, run `tenon db unwind {ancestor}` and import the branch"
    )]
    LargeReorganisation {
        /// The last common block.
        ancestor: BlockNumber,
        /// The head.
        from: BlockNumber,
        /// The block of the branch that exceeded the limit.
        number: BlockNumber,
    },
    /// A worker thread of the importer could not be started.
    #[error("cannot start a thread of the importer: {0}")]
    Thread(#[from] std::io::Error),
}

impl ExecutionError {
    /// The refused block; `None` if the database failed.
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
    /// The refused block; `None` if no block is at fault, or the text already names it.
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

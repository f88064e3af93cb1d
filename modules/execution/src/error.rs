//! Errors of importing blocks.

use alloy_primitives::B256;
use tenon_api::{BlockNumber, BusError, ConsensusError, StoreError};
use tenon_execution_interface::ExecutionError;

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
    /// The block could not be executed, or execution refused it.
    #[error("{error}")]
    Execution {
        /// Hash of the block; `None` while it is being made.
        hash: Option<B256>,
        /// The cause.
        error: Box<ExecutionError>,
    },
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

impl ImportError {
    /// The refused block; `None` if no block is at fault, or the text already names it.
    pub const fn block(&self) -> Option<BlockNumber> {
        match self {
            Self::UnknownParent { number, .. } | Self::Sender { number, .. } => Some(*number),
            Self::OtherChain { .. } => Some(BlockNumber(0)),
            Self::Consensus(error) => Some(error.number),
            Self::Execution { error, .. } => error.block(),
            Self::LargeReorganisation { .. } | Self::Source { .. } | Self::Store(_) | Self::Thread(_) => None,
        }
    }
}

impl From<ExecutionError> for ImportError {
    fn from(error: ExecutionError) -> Self {
        Self::Execution { hash: None, error: Box::new(error) }
    }
}

impl From<ImportError> for BusError {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Execution { error, .. } => (*error).into(),
            ImportError::Store(error) => error.into(),
            error => Self::failed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_database_keeps_its_kind() {
        let full = || StoreError::OutOfMemory { reason: "full".to_owned() };
        let cases = [
            (ImportError::Store(full()), BusError::limit_reached("full")),
            (ImportError::Store(StoreError::Stopped), BusError::TimedOut),
            (ImportError::from(ExecutionError::Store(full())), BusError::limit_reached("full")),
            (
                ImportError::Source { after: BlockNumber(7), reason: "no list".to_owned() },
                BusError::failed("after block 7: no list"),
            ),
        ];
        for (error, expected) in cases {
            let text = format!("{error:?}");

            assert_eq!(BusError::from(error), expected, "{text}");
        }
    }
}

//! The write path: blocks from other nodes and from the sealer.

use std::{error::Error, sync::Arc};

use alloy_primitives::B256;

use crate::{Block, BlockNumber, RecoveredBlock, RecoveredTransaction, SealAttributes, SealedHeader};

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
        /// The failure.
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
    /// Why it was not taken. Never a verdict that accepts the block.
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
    /// [`BlockProductionError`]; nothing was changed, unless the writer stopped before it answered.
    fn produce(
        &self,
        attributes: &SealAttributes,
        transactions: Vec<RecoveredTransaction>,
    ) -> Result<Arc<RecoveredBlock>, BlockProductionError>;
}

/// Why a block could not be made. The cause is an error of the module that makes blocks, or of the signer.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct BlockProductionError(Box<dyn Error + Send + Sync>);

impl BlockProductionError {
    /// An error with this cause.
    pub fn new(cause: impl Error + Send + Sync + 'static) -> Self {
        Self(Box::new(cause))
    }
}

//! Imports blocks from other nodes, and converts import errors to verdicts on blocks.

use std::convert::Infallible;

use tenon_api::{
    BatchObserver, Block, BlockPort, BlockVerdict, ConsensusError, FailedBlock, InsertOutcome, RefusalCause,
    SealedHeader,
};
use tenon_execution_interface::{ExecutionError, TransactionRejection};

use super::{ImportObserver, ImportedBlock, Importer};
use crate::ImportError;

impl BlockPort for Importer {
    fn verify_header(&self, header: &SealedHeader) -> BlockVerdict {
        match self.chain.header(header.hash()) {
            Ok(None) => {}
            Ok(Some(_)) => {
                return match self.was_unwound(header) {
                    // Its header was verified before it was stored.
                    Ok(true) => BlockVerdict::Head,
                    Ok(false) => BlockVerdict::Known,
                    Err(error) => BlockVerdict::OwnFailure { reason: error.to_string() },
                };
            }
            Err(error) => return BlockVerdict::OwnFailure { reason: error.to_string() },
        }
        let parent = match self.chain.header(header.parent_hash) {
            Ok(Some(parent)) => parent,
            Ok(None) => return BlockVerdict::ParentUnknown,
            Err(error) => return BlockVerdict::OwnFailure { reason: error.to_string() },
        };
        match self.engine.verify_header(header, &parent, &*self.chain) {
            Ok(()) => BlockVerdict::Head,
            Err(error) => of_refusal(&error),
        }
    }

    fn insert(&self, block: Block) -> BlockVerdict {
        match Self::insert(self, block) {
            Ok(InsertOutcome::Head { .. }) => BlockVerdict::Head,
            Ok(InsertOutcome::SideBranch { is_executed: true }) => BlockVerdict::ExecutedOnSideBranch,
            Ok(InsertOutcome::SideBranch { is_executed: false }) => BlockVerdict::StoredOnSideBranch,
            Ok(InsertOutcome::Known) => BlockVerdict::Known,
            Err(error) => error.verdict(),
        }
    }

    fn import(
        &self,
        blocks: Box<dyn Iterator<Item = Block> + Send>,
        observer: &mut dyn BatchObserver,
    ) -> Result<(), FailedBlock> {
        let blocks = blocks.map(Ok::<_, Infallible>);
        match Self::import(self, blocks, &mut Observed(observer)) {
            Ok(_) => Ok(()),
            Err(error) => Err(FailedBlock { number: error.block(), hash: error.hash(), verdict: error.verdict() }),
        }
    }
}

/// Adapts a [`BatchObserver`] to [`ImportObserver`].
struct Observed<'a>(&'a mut dyn BatchObserver);

impl ImportObserver for Observed<'_> {
    fn passed(&mut self, block: &ImportedBlock) {
        self.0.passed(block.number, block.hash);
    }

    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

fn of_refusal(error: &ConsensusError) -> BlockVerdict {
    let reason = error.reason.clone();
    match error.cause {
        RefusalCause::BrokenRule => BlockVerdict::Wrong { reason },
        RefusalCause::NotYetDue => BlockVerdict::NotYetDue,
        RefusalCause::OwnFailure => BlockVerdict::OwnFailure { reason },
    }
}

/// Returns whether another execution of the same block may succeed.
const fn may_succeed_later(error: &ExecutionError) -> bool {
    matches!(error, ExecutionError::Transaction { reason: TransactionRejection::Token(_), .. })
}

impl ImportError {
    /// The verdict on the block that follows from the error.
    fn verdict(&self) -> BlockVerdict {
        match self {
            Self::UnknownParent { .. } => BlockVerdict::ParentUnknown,
            Self::Consensus(error) => of_refusal(error),
            Self::Execution { error, .. } => match &**error {
                ExecutionError::Consensus(error) => of_refusal(error),
                error if error.is_block_invalid() => BlockVerdict::Wrong { reason: error.to_string() },
                error => BlockVerdict::OwnFailure { reason: error.to_string() },
            },
            Self::Sender { .. } | Self::OtherChain { .. } => BlockVerdict::Wrong { reason: self.to_string() },
            Self::Source { .. } | Self::Store(_) | Self::LargeReorganisation { .. } | Self::Thread(_) => {
                BlockVerdict::OwnFailure { reason: self.to_string() }
            }
        }
    }

    /// Hash of the refused block, if the error contains it, and the block would be refused again.
    fn hash(&self) -> Option<tenon_api::B256> {
        match self {
            Self::UnknownParent { hash, .. } => Some(*hash),
            Self::Execution { hash, error } => hash.filter(|_| !may_succeed_later(error)),
            Self::OtherChain { found, .. } => Some(*found),
            Self::Consensus(error) => Some(error.hash),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use tenon_api::{B256, BlockNumber, StoreError};
    use tenon_chain::TrieError;

    use super::*;

    fn refused(cause: RefusalCause) -> ImportError {
        let (number, hash) = (BlockNumber(7), B256::repeat_byte(1));
        ImportError::Consensus(ConsensusError { number, hash, cause, reason: "why".to_owned() })
    }

    #[test]
    fn only_errors_of_the_block_itself_make_it_wrong() {
        let wrong = |error: ImportError| matches!(error.verdict(), BlockVerdict::Wrong { .. });
        let number = BlockNumber(7);
        assert!(wrong(refused(RefusalCause::BrokenRule)));
        assert!(wrong(ImportError::Sender { number, reason: "high s".to_owned() }));
        let mismatch =
            ExecutionError::Mismatch { number, what: "state root", computed: "1".to_owned(), expected: "2".to_owned() };
        assert!(wrong(mismatch.into()));
        assert!(wrong(ExecutionError::Exchange { number, reason: "nonce too low".to_owned() }.into()));
        let failed = StoreError::Engine("disk full".to_owned());
        assert!(!wrong(failed.clone().into()));
        let unread = TransactionRejection::Store(failed);
        let unread = ExecutionError::Transaction { number, index: 0, hash: B256::ZERO, reason: unread };
        assert!(!wrong(unread.into()));
        let lost = TrieError::Missing { owner: None, path: Vec::new(), hash: B256::ZERO };
        let lost = ExecutionError::Transaction { number, index: 0, hash: B256::ZERO, reason: lost.into() };
        assert!(!wrong(lost.into()));
        assert_eq!(refused(RefusalCause::NotYetDue).verdict(), BlockVerdict::NotYetDue);
        // The sync remembers a hash that an error names, and does not import this block again.
        let (index, hash) = (0, Some(B256::repeat_byte(1)));
        let named = |reason| {
            let error = ExecutionError::Transaction { number, index, hash: B256::ZERO, reason };
            ImportError::Execution { hash, error: Box::new(error) }.hash()
        };
        assert_eq!(named(TransactionRejection::Rule("no".to_owned())), hash);
        assert_eq!(named(TransactionRejection::Token("chance".to_owned())), None);
        let parent = B256::ZERO;
        let orphan = ImportError::UnknownParent { number, hash: B256::repeat_byte(1), parent };
        assert_eq!((orphan.hash(), orphan.verdict()), (Some(B256::repeat_byte(1)), BlockVerdict::ParentUnknown));
    }
}

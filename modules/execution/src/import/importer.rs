//! Imports a single block: verifies, executes, commits and publishes it.

use std::{collections::VecDeque, sync::Arc};

use alloy_primitives::U256;
use parking_lot::{Mutex, MutexGuard};
use tenon_api::{
    Block, BlockCommit, BlockNumber, ChainReader, ChainWriter, ConsensusEngine, Head, InsertOutcome, RecoveredBlock,
    RefusalCause, SealedHeader, StoreError,
};
use tenon_bus::{
    Bus, spans,
    waits::{self, WaitPlace},
};
use tenon_chain::SignerRules;
use tenon_execution_block::{Executor, Explanation, ReferenceBlock};
use tenon_execution_interface::ChainFamily;

use super::reorganise::MAX_REORGANISATION_BYTES;
use crate::ImportError;

/// Maximum number of blocks that one step of an unwind removes and publishes together.
const UNWIND_STEP: u64 = 256;
/// Blocks of other branches deeper below the head than this are stored without being executed.
const MAX_EXECUTED_SIDE_DEPTH: u64 = 1_024;

/// Decides which blocks become canonical. Its writing methods exclude one another.
pub struct Importer {
    pub(super) executor: Executor,
    pub(super) chain: Arc<dyn ChainReader>,
    pub(super) writer: Arc<dyn ChainWriter>,
    pub(super) engine: Arc<dyn ConsensusEngine>,
    pub(super) bus: Bus,
    // Locked while a block is inserted, so that fork choice and commit use the same head. Nothing awaits under it.
    pub(super) writing: Mutex<()>,
    /// The last block that could not be executed, with its parent, for diagnosis.
    failed: Mutex<Option<(Arc<RecoveredBlock>, SealedHeader)>>,
    /// Maximum memory of the blocks of one reorganisation, bytes.
    pub(super) reorganisation_bytes: usize,
    /// Headers of the newest blocks refused by consensus or execution, oldest first.
    refused: Mutex<VecDeque<Arc<SealedHeader>>>,
}

/// Number of refused blocks that are kept, as in the reference.
const MAX_REFUSED_BLOCKS: usize = 10;

impl Importer {
    /// An importer for a chain that has been initialised with its genesis block.
    pub fn new(
        family: Arc<dyn ChainFamily>,
        chain: Arc<dyn ChainReader>,
        writer: Arc<dyn ChainWriter>,
        engine: Arc<dyn ConsensusEngine>,
        bus: Bus,
    ) -> Self {
        Self {
            executor: Executor::new(family),
            chain,
            writer,
            engine,
            bus,
            writing: Mutex::new(()),
            failed: Mutex::new(None),
            reorganisation_bytes: MAX_REORGANISATION_BYTES,
            refused: Mutex::new(VecDeque::new()),
        }
    }

    /// Sets another limit on the memory of a reorganisation. For tests that exceed it.
    #[must_use]
    pub fn with_reorganisation_bytes(self, bytes: usize) -> Self {
        Self { reorganisation_bytes: bytes, ..self }
    }

    /// Inserts a block with a known parent: it becomes the head, joins a side branch, or was already known.
    ///
    /// # Errors
    /// [`ImportError`]; the canonical chain is unchanged then, as far as this node can read its database: see
    /// [`StoreError::WriterStopped`].
    pub fn insert(&self, block: Block) -> Result<InsertOutcome, ImportError> {
        let block = Arc::new(self.recover(block)?);
        self.insert_recovered(block)
    }

    /// Like [`Importer::insert`], for a block with recovered senders.
    ///
    /// # Errors
    /// See [`Importer::insert`].
    pub fn insert_recovered(&self, block: Arc<RecoveredBlock>) -> Result<InsertOutcome, ImportError> {
        let _writing = self.lock_writing();
        self.insert_exclusively(block)
    }

    /// Takes the write lock. `waits` samples the time spent waiting for it.
    pub(super) fn lock_writing(&self) -> MutexGuard<'_, ()> {
        let (file, line) = (file!(), line!());
        let place =
            WaitPlace { function: "tenon_execution::Importer", subject: "the lock of the write path", file, line };
        waits::lock(place, || self.writing.try_lock(), || self.writing.lock())
    }

    /// Like [`Importer::insert_recovered`], for a caller that holds the write lock.
    pub(super) fn insert_exclusively(&self, block: Arc<RecoveredBlock>) -> Result<InsertOutcome, ImportError> {
        let _span = spans::span("block", "insert");
        if self.chain.canonical_hash(block.number())? == Some(block.hash()) {
            return Ok(InsertOutcome::Known);
        }
        let parent = self.parent_of(&block)?;
        let was_known = self.verify(&block, &parent, &*self.chain)?;
        let total_difficulty = self.total_difficulty_on(&block.header, &parent)?;
        if self.engine.is_better(&block.header, total_difficulty, &self.chain.head()) {
            return self.make_canonical(block, &parent);
        }
        if was_known {
            return Ok(InsertOutcome::Known);
        }
        let executed = self.execute_side_block(Arc::clone(&block), &parent)?;
        self.writer.insert_side_block(&block, total_difficulty)?;
        if let Some(commit) = &executed {
            self.writer.keep_side_state(commit)?;
        }
        Ok(InsertOutcome::SideBranch { is_executed: executed.is_some() })
    }

    /// Executes a block of another branch. The block is refused if it does not match its header; otherwise its state
    /// can be queried. `None` if that cannot be decided now, for example because its parent's state is missing. The
    /// block is then stored, and verified when its branch becomes the better one.
    fn execute_side_block(
        &self,
        block: Arc<RecoveredBlock>,
        parent: &SealedHeader,
    ) -> Result<Option<Arc<BlockCommit>>, ImportError> {
        let (number, hash) = (block.number(), block.hash());
        if number.0.saturating_add(MAX_EXECUTED_SIDE_DEPTH) < self.chain.head().header.number {
            return Ok(None);
        }
        let below = BlockNumber(parent.number);
        let state = match self.chain.canonical_hash(below)? == Some(parent.hash()) {
            true => self.chain.state_at(below).ok(),
            // Without execution, a parent's state root is only a claim, even if a state with this root is stored.
            false if self.chain.receipts(parent.hash())?.is_none() => None,
            false => self.chain.state_of_branch(parent)?,
        };
        let Some(state) = state else { return Ok(None) };
        match self.executor.execute_side_block(&*self.chain, &*self.engine, Arc::clone(&block), parent, state) {
            Ok(commit) => Ok(Some(Arc::new(commit))),
            Err(error) if error.is_block_invalid() => {
                self.remember_refusal(&block.header);
                *self.failed.lock() = Some((block, parent.clone()));
                Err(ImportError::Execution { hash: Some(hash), error: Box::new(error) })
            }
            Err(reason) => {
                tracing::debug!(%number, %hash, %reason, "side block not executed");
                Ok(None)
            }
        }
    }

    /// Whether a stored block would become the head if it were inserted again: the head was moved back below it.
    pub(super) fn was_unwound(&self, header: &SealedHeader) -> Result<bool, StoreError> {
        let hash = header.hash();
        if self.chain.canonical_hash(BlockNumber(header.number))? == Some(hash) {
            return Ok(false);
        }
        let Some(total_difficulty) = self.chain.total_difficulty(hash)? else { return Ok(false) };
        Ok(self.engine.is_better(header, total_difficulty, &self.chain.head()))
    }

    /// Checks header and body. The header of a known block was checked before, so only its body is. Returns whether the
    /// block is known.
    pub(super) fn verify(
        &self,
        block: &RecoveredBlock,
        parent: &SealedHeader,
        chain: &dyn ChainReader,
    ) -> Result<bool, ImportError> {
        let is_known = chain.header(block.hash())?.is_some();
        let header = match is_known {
            true => Ok(()),
            false => self.engine.verify_header(&block.header, parent, chain),
        };
        let verified = header.and_then(|()| self.engine.verify_body(block, chain));
        // A block from the future, or one that could not be checked, is not an invalid block.
        verified.inspect_err(|error| {
            if error.cause == RefusalCause::BrokenRule && !is_known {
                self.remember_refusal(&block.header);
            }
        })?;
        Ok(is_known)
    }

    fn remember_refusal(&self, header: &SealedHeader) {
        let mut refused = self.refused.lock();
        if refused.iter().any(|known| known.hash() == header.hash()) {
            return;
        }
        if refused.len() == MAX_REFUSED_BLOCKS {
            refused.pop_front();
        }
        refused.push_back(Arc::new(header.clone()));
    }

    /// Headers of the newest blocks refused by consensus or execution since the start, oldest first.
    pub(super) fn refused_blocks(&self) -> Vec<Arc<SealedHeader>> {
        self.refused.lock().iter().cloned().collect()
    }

    /// Moves the head back to a canonical block; the blocks above remain as a side branch.
    ///
    /// # Errors
    /// [`ImportError::Store`] if there is no such block or its state was pruned; nothing is changed then. After any other
    /// error of the database, the head may be in between; the blocks above it were removed and published.
    pub fn set_head(&self, number: BlockNumber) -> Result<(), ImportError> {
        let _writing = self.lock_writing();
        // Checked for the whole unwind: otherwise the first steps could succeed and a later one be refused.
        self.writer.check_unwind(number)?;
        while self.chain.head().number() > number {
            let target = number.0.max(self.chain.head().header.number.saturating_sub(UNWIND_STEP));
            self.unwind_step(target.into())?;
        }
        self.engine.observe_head(&self.chain.head().header, &*self.chain);
        self.update_finality()?;
        tracing::info!(%number, "head moved back");
        Ok(())
    }

    /// Removes the blocks above `target`. After an error, publishes the blocks that were already removed.
    fn unwind_step(&self, target: BlockNumber) -> Result<(), ImportError> {
        let mut removed = self.blocks_above(target)?;
        let unwound = self.writer.unwind(target);
        let reached = self.chain.head().number();
        removed.retain(|removed| removed.block.number() > reached);
        self.announce_removed(&removed);
        match unwound {
            Err(StoreError::WriterStopped) if reached == target => Ok(()),
            unwound => Ok(unwound?),
        }
    }

    /// The signature rules of a block's transactions.
    pub(super) fn signer_rules(&self, block: &Block) -> SignerRules {
        self.executor.spec().signer_rules(block.header.number, block.header.timestamp)
    }

    /// Recovers the senders of a block under the rules of its height.
    pub(super) fn recover(&self, block: Block) -> Result<RecoveredBlock, ImportError> {
        let number = block.number();
        let rules = self.signer_rules(&block);
        tenon_chain::recover_senders_under(block, &rules)
            .map_err(|error| ImportError::Sender { number, reason: error.to_string() })
    }

    /// Executes a block on the head of this chain and compares all roots.
    pub(super) fn execute(
        &self,
        chain: &dyn ChainReader,
        block: Arc<RecoveredBlock>,
        parent: &SealedHeader,
    ) -> Result<BlockCommit, ImportError> {
        self.executor.execute(chain, &*self.engine, Arc::clone(&block), parent).map_err(|error| {
            let hash = block.hash();
            if error.is_block_invalid() {
                self.remember_refusal(&block.header);
            }
            *self.failed.lock() = Some((block, parent.clone()));
            ImportError::Execution { hash: Some(hash), error: Box::new(error) }
        })
    }

    /// Makes an executed block the head, and publishes it.
    pub(super) fn commit(&self, commit: &Arc<BlockCommit>) -> Result<(), ImportError> {
        self.commit_first(std::slice::from_ref(commit)).map(|_| ())
    }

    /// Commits the first of these executed blocks, or several in one batch, and publishes them. Returns how many.
    pub(super) fn commit_first(&self, commits: &[Arc<BlockCommit>]) -> Result<usize, ImportError> {
        let written = self.writer.commit_first(commits);
        let count = written.or_else(|error| error.committed_despite(&*self.chain, commits))?;
        let added = &commits[..count.min(commits.len())];
        self.follow_up(added);
        added.iter().for_each(|commit| self.announce_added(commit));
        Ok(added.len())
    }

    /// Executes the last block that could not be executed again and reports the differences; `None` if there is none.
    ///
    /// # Errors
    /// [`ImportError`] if it cannot be begun, or its parent is no longer canonical.
    pub fn explain_failure(&self, reference: &ReferenceBlock) -> Option<Result<Explanation, ImportError>> {
        let (block, parent) = self.failed.lock().clone()?;
        let explained = self.executor.explain(&*self.chain, &*self.engine, &block, &parent, reference);
        Some(explained.map_err(ImportError::from))
    }

    /// Records the finalized and safe blocks from consensus.
    pub(super) fn update_finality(&self) -> Result<(), ImportError> {
        let head: Arc<Head> = self.chain.head();
        let (finalized, safe) = self.engine.finality(&head.header, &*self.chain);
        if (finalized, safe) != (head.finalized, head.safe) {
            self.writer.set_finality(finalized, safe)?;
        }
        Ok(())
    }

    pub(super) fn parent_of(&self, block: &Block) -> Result<Arc<SealedHeader>, ImportError> {
        let parent = block.header.parent_hash;
        self.chain.header(parent)?.ok_or(ImportError::UnknownParent {
            number: block.number(),
            hash: block.hash(),
            parent,
        })
    }

    fn total_difficulty_on(&self, header: &SealedHeader, parent: &SealedHeader) -> Result<U256, ImportError> {
        let below = self.chain.total_difficulty(parent.hash())?.unwrap_or(U256::ZERO);
        Ok(below.saturating_add(header.difficulty))
    }
}

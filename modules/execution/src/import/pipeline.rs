//! Imports many blocks. Three steps overlap: senders of later blocks are recovered, a block is executed, and previous
//! ones are written.

use std::{collections::VecDeque, fmt::Display, sync::Arc, thread};

use alloy_primitives::B256;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use parking_lot::MutexGuard;
use tenon_api::{Block, BlockCommit, BlockNumber, ChainReader, RecoveredBlock};

use super::{
    ahead::{ChainAhead, Waiting, WaitingBlock},
    importer::Importer,
    prepare::{Groups, Prepared, Workers},
};
use crate::ImportError;

/// Groups waiting to be written. One keeps the disk busy while the next is executed; the second evens out different
/// block sizes.
const COMMITS_AHEAD: usize = 2;

/// A group of more than one block also ends at this approximate memory use, bytes.
const GROUP_BYTES: usize = 4 << 20;

/// After this many blocks other writers (a sealer, a request) get their turn.
const MAX_RUN_BLOCKS: usize = 64;

/// The limit of [`MAX_RUN_BLOCKS`] for blocks that are committed in groups, as a number of groups. At the end of a run
/// the import waits for the last commit.
const MAX_RUN_GROUPS: usize = 16;

/// A block processed by an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportedBlock {
    /// Its height.
    pub number: BlockNumber,
    /// Its hash.
    pub hash: B256,
    /// How many transactions it has.
    pub transactions: u64,
    /// Gas that it used.
    pub gas_used: u64,
    /// Whether it was already canonical, so that nothing was done.
    pub was_known: bool,
}

/// Observes an import and may stop it.
pub trait ImportObserver {
    /// A block was committed or skipped.
    fn passed(&mut self, block: &ImportedBlock);

    /// Checked before each block; true ends the import at a whole block. Executed blocks are still committed.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Ignores the progress of an import.
impl ImportObserver for () {
    fn passed(&mut self, _: &ImportedBlock) {}
}

/// Result of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportSummary {
    /// Blocks executed and committed, or stored on a side branch.
    pub imported: u64,
    /// Blocks that were canonical before.
    pub known: u64,
    /// Transactions of the imported blocks.
    pub transactions: u64,
    /// Gas of the imported blocks.
    pub gas_used: u64,
    /// Whether the observer stopped the import.
    pub was_cancelled: bool,
}

/// Progress of an import, and its observer.
struct Progress<'a> {
    summary: ImportSummary,
    observer: &'a mut dyn ImportObserver,
}

impl Progress<'_> {
    fn passed(&mut self, block: &ImportedBlock) {
        if block.was_known {
            self.summary.known += 1;
        } else {
            self.summary.imported += 1;
            self.summary.transactions += block.transactions;
            self.summary.gas_used += block.gas_used;
        }
        self.observer.passed(block);
    }
}

impl Importer {
    /// Imports blocks in order of height. Canonical blocks are skipped, so an interrupted import can be restarted with
    /// the same source. Everything is durable at the end.
    ///
    /// # Errors
    /// [`ImportError`] of the first failing block; the blocks before it stay.
    pub fn import<S, E>(&self, blocks: S, observer: &mut dyn ImportObserver) -> Result<ImportSummary, ImportError>
    where
        S: Iterator<Item = Result<Block, E>> + Send,
        E: Display,
    {
        let workers = Workers::start()?;
        let (sender, groups) = workers.queue();
        let mut progress = Progress { summary: ImportSummary::default(), observer };
        let outcome = thread::scope(|scope| {
            thread::Builder::new()
                .name("import-read".to_owned())
                .spawn_scoped(scope, || self.read_ahead(blocks, &workers, &{ sender }))?;
            // Dropping the groups, on success or error, ends the other thread at its next one.
            self.insert_all(groups, &mut progress)
        });
        let flushed = self.writer.flush();
        // Reported first: on a full disk, every write after the one that failed has an error without the cause.
        outcome?;
        flushed?;
        Ok(progress.summary)
    }

    fn insert_all(&self, mut groups: Groups, progress: &mut Progress<'_>) -> Result<(), ImportError> {
        while let Some(group) = groups.wait() {
            self.run_pipelined(group, &mut groups, progress)?;
            if progress.summary.was_cancelled {
                break;
            }
        }
        Ok(())
    }

    /// Inserts this group and those that are ready by its end. Everything is committed before it returns, so that
    /// waiting for further blocks delays neither readers nor other writers.
    fn run_pipelined(
        &self,
        group: Vec<Prepared>,
        groups: &mut Groups,
        progress: &mut Progress<'_>,
    ) -> Result<(), ImportError> {
        let writing = self.lock_writing();
        let (to_commit, commits) = bounded(COMMITS_AHEAD);
        // Contains at most the blocks sent for committing.
        let (done, committed) = unbounded();
        let outcome = thread::scope(|scope| {
            thread::Builder::new()
                .name("import-commit".to_owned())
                .spawn_scoped(scope, || self.commit_each(commits, &{ done }))?;
            let mut run = PipelinedRun {
                importer: self,
                to_commit,
                committed,
                group_size: 1,
                groups_sent: 0,
                group: Vec::new(),
                group_bytes: 0,
                waiting: Arc::default(),
                passed: VecDeque::new(),
            };
            let executed = run.take(group, groups, progress);
            // The executed blocks are valid even if the block after them is not.
            run.settle(progress).and(executed)
        });
        MutexGuard::unlock_fair(writing);
        outcome
    }

    /// Commits in order, up to the first failure. `done` gets how many blocks each commit wrote.
    fn commit_each(&self, groups: Receiver<Vec<Arc<BlockCommit>>>, done: &Sender<Result<usize, ImportError>>) {
        for group in groups {
            let mut rest = &group[..];
            while !rest.is_empty() {
                let outcome = self.commit_first(rest);
                let count = *outcome.as_ref().unwrap_or(&0);
                if done.send(outcome).is_err() || count == 0 {
                    return;
                }
                rest = &rest[count..];
            }
        }
    }
}

/// Executes blocks while another thread commits the previous ones.
struct PipelinedRun<'a> {
    importer: &'a Importer,
    to_commit: Sender<Vec<Arc<BlockCommit>>>,
    /// How many blocks were committed, in order; ends with the first error.
    committed: Receiver<Result<usize, ImportError>>,
    /// How many blocks like the newest one are committed in one batch.
    group_size: usize,
    groups_sent: usize,
    /// Executed blocks that are not sent yet.
    group: Vec<Arc<BlockCommit>>,
    /// Their approximate memory use, bytes; zero if blocks are committed one by one.
    group_bytes: usize,
    /// Executed blocks whose commit is not confirmed yet, including those of `group`.
    waiting: Arc<Waiting>,
    /// The blocks of `waiting`, as reported to the observer.
    passed: VecDeque<ImportedBlock>,
}

impl PipelinedRun<'_> {
    fn take(
        &mut self,
        group: Vec<Prepared>,
        groups: &mut Groups,
        progress: &mut Progress<'_>,
    ) -> Result<(), ImportError> {
        let mut next = Some(group);
        let mut taken = 0;
        while let Some(group) = next {
            taken += group.len();
            for prepared in group {
                if progress.observer.is_cancelled() {
                    progress.summary.was_cancelled = true;
                    return Ok(());
                }
                self.insert(prepared?, progress)?;
            }
            next = if self.is_over(taken) { None } else { groups.ready() };
        }
        Ok(())
    }

    fn insert(
        &mut self,
        (passed, block): (ImportedBlock, Option<RecoveredBlock>),
        progress: &mut Progress<'_>,
    ) -> Result<(), ImportError> {
        while let Ok(outcome) = self.committed.try_recv() {
            self.note(outcome, progress)?;
        }
        let block = block.map(Arc::new);
        if let Some(block) = &block
            && let Some(executed) = self.execute_ahead(block)?
        {
            self.group_size = self.importer.writer.group_size(&block.header);
            self.add(executed, passed);
            let is_full = self.group_bytes >= GROUP_BYTES || self.group.len() >= self.group_size;
            // If the other thread has failed, the result of an earlier block contains the error.
            return if is_full && self.send().is_none() { self.settle(progress) } else { Ok(()) };
        }
        self.settle(progress)?;
        if let Some(block) = block {
            self.importer.insert_exclusively(block)?;
        }
        progress.passed(&passed);
        Ok(())
    }

    /// Returns whether the run ends after this many blocks.
    fn is_over(&self, blocks: usize) -> bool {
        let max_blocks = if self.group_size > 1 { MAX_RUN_GROUPS * self.group_size } else { MAX_RUN_BLOCKS };
        blocks >= max_blocks || self.group_size > 1 && self.groups_sent >= MAX_RUN_GROUPS
    }

    fn add(&mut self, executed: WaitingBlock, passed: ImportedBlock) {
        if self.group_size > 1 {
            self.group_bytes += executed.weight();
        }
        self.group.push(Arc::clone(&executed.commit));
        Arc::make_mut(&mut self.waiting).push(Arc::new(executed));
        self.passed.push_back(passed);
    }

    /// Sends the group for committing; `None` if the other thread has ended, after a failure.
    fn send(&mut self) -> Option<()> {
        self.group_bytes = 0;
        self.groups_sent += 1;
        self.to_commit.send(std::mem::take(&mut self.group)).ok()
    }

    /// Executes a block on top of the waiting ones; `None` if it does not belong there.
    fn execute_ahead(&self, block: &Arc<RecoveredBlock>) -> Result<Option<WaitingBlock>, ImportError> {
        let importer = self.importer;
        let chain = ChainAhead::new(&importer.chain, Arc::clone(&self.waiting));
        let head = chain.head();
        let parent = Arc::clone(&head.header);
        if block.header.parent_hash != parent.hash() {
            return Ok(None);
        }
        importer.verify(block, &parent, &chain)?;
        let total_difficulty = head.total_difficulty.saturating_add(block.header.difficulty);
        if !importer.engine.is_better(&block.header, total_difficulty, &head) {
            return Ok(None);
        }
        importer.execute(&chain, Arc::clone(block), &parent).map(|commit| Some(WaitingBlock::new(commit)))
    }

    /// Waits until all executed blocks are committed.
    fn settle(&mut self, progress: &mut Progress<'_>) -> Result<(), ImportError> {
        if !self.group.is_empty() {
            // If the other thread has failed, an earlier result contains the error.
            let _ = self.send();
        }
        while !self.waiting.is_empty() {
            // No result means that the other thread failed; an earlier result contains the error.
            let Ok(outcome) = self.committed.recv() else { break };
            self.note(outcome, progress)?;
        }
        Ok(())
    }

    /// Notes the blocks of one commit.
    fn note(&mut self, outcome: Result<usize, ImportError>, progress: &mut Progress<'_>) -> Result<(), ImportError> {
        for _ in 0..outcome? {
            Arc::make_mut(&mut self.waiting).pop();
            if let Some(passed) = self.passed.pop_front() {
                progress.passed(&passed);
            }
        }
        Ok(())
    }
}

//! Checks that the database is consistent, and names the first record that is not.

mod chain;
mod history;
mod logs;
mod state;

use tenon_api::{BlockNumber, StoreError};

use crate::store::Store;

/// A stage of the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyStage {
    /// Headers, bodies, receipts and indices of every canonical block. Steps are blocks.
    Chain,
    /// The log index against the logs. Steps are index entries.
    LogIndex,
    /// The trie of the head's state: every node exists and matches its hash. Steps are nodes.
    Trie,
    /// Latest accounts and slots against the trie. Steps are records.
    FlatState,
    /// Past states, changes of blocks, old tries, codes, and records of plugins: all can be read. Steps are records.
    History,
}

/// Progress of the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyProgress {
    /// The current stage.
    pub stage: VerifyStage,
    /// Steps done.
    pub done: u64,
    /// Total steps if known beforehand; otherwise an estimate or zero.
    pub total: u64,
}

/// An inconsistent record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {problem}")]
pub struct Damage {
    /// The record: its column and key.
    pub what: String,
    /// The problem.
    pub problem: String,
}

/// Result of the check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Consistent canonical blocks.
    pub blocks: u64,
    /// Consistent logs.
    pub logs: u64,
    /// Trie nodes of the head's state.
    pub trie_nodes: u64,
    /// Accounts of the head's state.
    pub accounts: u64,
    /// Slots of the head's state that are not zero.
    pub slots: u64,
    /// The first inconsistency; the check ended there.
    pub damage: Option<Damage>,
    /// Whether it was cancelled.
    pub was_cancelled: bool,
}

/// Why a check ends early.
#[derive(derive_more::From)]
enum Stop {
    #[from]
    Damage(Damage),
    Cancelled,
    Store(StoreError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Corrupt { what } => Self::Damage(Damage { what, problem: "does not decode".into() }),
            other => Self::Store(other),
        }
    }
}

fn damage(what: impl Into<String>, problem: impl Into<String>) -> Stop {
    Stop::Damage(Damage { what: what.into(), problem: problem.into() })
}

/// Data shared by the stages.
struct Check<'a> {
    store: &'a Store,
    head: BlockNumber,
    report: VerifyReport,
    progress: &'a mut dyn FnMut(VerifyProgress),
    is_cancelled: &'a dyn Fn() -> bool,
}

/// Steps between two calls of the observer.
const STEPS_PER_REPORT: u64 = 256;

impl Check<'_> {
    /// Reports the start of a stage.
    fn start(&mut self, stage: VerifyStage, total: u64) -> Result<(), Stop> {
        self.step(stage, 0, total)
    }

    /// Reports a step and stops when asked to.
    fn step(&mut self, stage: VerifyStage, done: u64, total: u64) -> Result<(), Stop> {
        if done.is_multiple_of(STEPS_PER_REPORT) || done == total {
            if (self.is_cancelled)() {
                return Err(Stop::Cancelled);
            }
            (self.progress)(VerifyProgress { stage, done, total });
        }
        Ok(())
    }
}

impl Store {
    /// Checks the canonical chain from block 0 to the head, its indices, and the head's state. Then reads all other
    /// records, such as past states, and checks that the changes of every block are there. Reads everything once; holds
    /// the writer's lock, so that the data does not change.
    ///
    /// `progress` receives the progress; `is_cancelled` may stop the check.
    ///
    /// # Errors
    /// [`StoreError::Engine`] if the engine fails. Inconsistencies are not errors but part of the report.
    pub fn verify(
        &self,
        progress: &mut dyn FnMut(VerifyProgress),
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<VerifyReport, StoreError> {
        let writer = self.writer.lock();
        if writer.identity.is_none() {
            return Ok(VerifyReport::default());
        }
        let head = self.shared.head.load().number();
        let mut check = Check { store: self, head, report: VerifyReport::default(), progress, is_cancelled };
        let outcome = check
            .chain()
            .and_then(|()| check.log_index())
            .and_then(|()| check.trie())
            .and_then(|leaves| check.flat_state(leaves))
            .and_then(|()| check.history());
        let mut report = check.report;
        match outcome {
            Ok(()) => {}
            Err(Stop::Damage(damage)) => report.damage = Some(damage),
            Err(Stop::Cancelled) => report.was_cancelled = true,
            Err(Stop::Store(error)) => return Err(error),
        }
        Ok(report)
    }
}

//! The actor that writes the chain of a running node, and the handle to it.

use std::{
    sync::{
        Arc,
        mpsc::{self, SyncSender},
    },
    time::Duration,
};

use alloy_primitives::U256;
use tenon_api::{BlockCommit, BlockNumber, ChainWriter, Header, RecoveredBlock, StoreError};
use tenon_supervisor::{Actor, ActorOptions, Mailbox, RestartPolicy, SpawnError, Supervisor};

use super::DirectWriter;
use crate::store::Store;

/// The actor's name.
pub const ACTOR: &str = "storage";

/// At most two or three messages wait: every caller waits for its answer, and the importer's lock admits one caller at
/// a time, except for the flush at the end of an import.
const MAILBOX_CAPACITY: usize = 16;

/// The pause is short and constant: the writer's state has been read from the disk again before the restart, and the
/// importer waits meanwhile. The ceiling is high, because a block whose write always panics is tried again every few
/// seconds, which must not end the writes of other blocks.
const RESTART: RestartPolicy = RestartPolicy {
    first_pause: Duration::from_millis(10),
    max_pause: Duration::from_millis(10),
    ceiling: 1_000,
    window: Duration::from_secs(60),
};

/// Receives the answer. Dropped without one if the actor panics.
///
/// Not tokio's channel: some callers are actors, on whose threads tokio refuses to block.
pub(crate) type Reply<T> = SyncSender<Result<T, StoreError>>;

/// A change of the chain: one for each method of [`ChainWriter`] that writes.
pub(crate) enum StorageMessage {
    /// Apply a block on top of the head.
    Commit {
        /// The block.
        commit: Arc<BlockCommit>,
        /// Receives the outcome.
        reply: Reply<()>,
    },
    /// Apply the first of these blocks on top of the head, or several.
    CommitFirst {
        /// The blocks.
        commits: Vec<Arc<BlockCommit>>,
        /// Receives how many were applied.
        reply: Reply<usize>,
    },
    /// Store a block of another branch.
    InsertSideBlock {
        /// The block.
        block: Arc<RecoveredBlock>,
        /// Sum of difficulties up to and including it.
        total_difficulty: U256,
        /// Receives the outcome.
        reply: Reply<()>,
    },
    /// Store the state and receipts of a block of another branch.
    KeepSideState {
        /// The executed block.
        commit: Arc<BlockCommit>,
        /// Receives the outcome.
        reply: Reply<()>,
    },
    /// Remove the canonical blocks above a height.
    Unwind {
        /// The new head's height.
        number: BlockNumber,
        /// Receives the outcome.
        reply: Reply<()>,
    },
    /// Replace the canonical blocks above a height by a branch.
    Reorganise {
        /// The last common block.
        ancestor: BlockNumber,
        /// The branch, oldest block first.
        branch: Vec<Arc<BlockCommit>>,
        /// Receives the outcome.
        reply: Reply<()>,
    },
    /// Record the finalized and the safe block.
    SetFinality {
        /// The finalized block.
        finalized: Option<BlockNumber>,
        /// The safe block.
        safe: Option<BlockNumber>,
        /// Receives the outcome.
        reply: Reply<()>,
    },
    /// Make everything durable.
    Flush {
        /// Receives the outcome.
        reply: Reply<()>,
    },
}

/// Owns the right to write the chain: one message at a time, in order of arrival.
///
/// It calls the store only, which sends no message and publishes no event: no write can wait for another one.
struct StorageActor {
    /// Shared with the closure that rebuilds the actor after a panic. The writer has then read the store from the disk
    /// again; if that failed, it tries again before its next write.
    writer: Arc<DirectWriter>,
}

impl Actor for StorageActor {
    type Message = StorageMessage;

    fn handle(&mut self, message: StorageMessage) {
        let writer = &self.writer;
        match message {
            StorageMessage::Commit { commit, reply } => answer(&reply, writer.commit(&commit)),
            StorageMessage::CommitFirst { commits, reply } => answer(&reply, writer.commit_first(&commits)),
            StorageMessage::InsertSideBlock { block, total_difficulty, reply } => {
                answer(&reply, writer.insert_side_block(&block, total_difficulty));
            }
            StorageMessage::KeepSideState { commit, reply } => answer(&reply, writer.keep_side_state(&commit)),
            StorageMessage::Unwind { number, reply } => answer(&reply, writer.unwind(number)),
            StorageMessage::Reorganise { ancestor, branch, reply } => {
                answer(&reply, writer.reorganise(ancestor, &branch));
            }
            StorageMessage::SetFinality { finalized, safe, reply } => {
                answer(&reply, writer.set_finality(finalized, safe));
            }
            StorageMessage::Flush { reply } => answer(&reply, writer.flush()),
        }
    }
}

fn answer<T>(reply: &Reply<T>, outcome: Result<T, StoreError>) {
    // The channel has room for one answer. An error means that the caller has panicked.
    let _ = reply.try_send(outcome);
}

/// A handle to the storage's actor: the [`ChainWriter`] of a running node. Each write waits for its answer, on a thread
/// that may block.
#[derive(Clone, derive_more::Debug)]
#[debug("StorageWriter({mailbox:?})")]
pub struct StorageWriter {
    pub(super) mailbox: Mailbox<StorageMessage>,
    /// For what only reads.
    store: Arc<Store>,
}

impl StorageWriter {
    fn ask<T>(&self, message: impl FnOnce(Reply<T>) -> StorageMessage) -> Result<T, StoreError> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.mailbox.try_send(message(reply)).map_err(StoreError::NotAccepted)?;
        answer.recv().map_err(|_| StoreError::WriterStopped)?
    }
}

impl ChainWriter for StorageWriter {
    fn commit(&self, commit: &Arc<BlockCommit>) -> Result<(), StoreError> {
        let commit = Arc::clone(commit);
        self.ask(|reply| StorageMessage::Commit { commit, reply })
    }

    fn group_size(&self, header: &Header) -> usize {
        self.store.group_size(header)
    }

    fn commit_first(&self, commits: &[Arc<BlockCommit>]) -> Result<usize, StoreError> {
        let commits = commits.to_vec();
        self.ask(|reply| StorageMessage::CommitFirst { commits, reply })
    }

    fn insert_side_block(&self, block: &Arc<RecoveredBlock>, total_difficulty: U256) -> Result<(), StoreError> {
        let block = Arc::clone(block);
        self.ask(|reply| StorageMessage::InsertSideBlock { block, total_difficulty, reply })
    }

    fn keep_side_state(&self, commit: &Arc<BlockCommit>) -> Result<(), StoreError> {
        let commit = Arc::clone(commit);
        self.ask(|reply| StorageMessage::KeepSideState { commit, reply })
    }

    fn check_unwind(&self, number: BlockNumber) -> Result<(), StoreError> {
        self.store.require_unwindable(number)
    }

    fn unwind(&self, number: BlockNumber) -> Result<(), StoreError> {
        self.ask(|reply| StorageMessage::Unwind { number, reply })
    }

    fn reorganise(&self, ancestor: BlockNumber, branch: &[Arc<BlockCommit>]) -> Result<(), StoreError> {
        let branch = branch.to_vec();
        self.ask(|reply| StorageMessage::Reorganise { ancestor, branch, reply })
    }

    fn set_finality(&self, finalized: Option<BlockNumber>, safe: Option<BlockNumber>) -> Result<(), StoreError> {
        self.ask(|reply| StorageMessage::SetFinality { finalized, safe, reply })
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.ask(|reply| StorageMessage::Flush { reply })
    }
}

/// Takes the right to write the chain, and starts the actor that has it from now on, under supervision. Not with
/// [`Supervisor::without_threads`]: there the caller and the actor have one thread, and it would wait for itself.
///
/// # Errors
/// [`SpawnError::NotBuilt`] with [`StoreError::WriterTaken`] if it is taken; otherwise those of [`Supervisor::spawn`].
pub fn spawn_writer(supervisor: &Supervisor, store: &Arc<Store>) -> Result<StorageWriter, SpawnError> {
    let options = ActorOptions { mailbox_capacity: MAILBOX_CAPACITY, restart: RESTART };
    spawn_with(supervisor, store, options)
}

pub(super) fn spawn_with(
    supervisor: &Supervisor,
    store: &Arc<Store>,
    options: ActorOptions,
) -> Result<StorageWriter, SpawnError> {
    let writer = Arc::new(store.take_writer().map_err(|taken| SpawnError::NotBuilt(taken.into()))?);
    let make = move || Ok(StorageActor { writer: Arc::clone(&writer) });
    let mailbox = supervisor.spawn(ACTOR, options, make)?;
    Ok(StorageWriter { mailbox, store: Arc::clone(store) })
}

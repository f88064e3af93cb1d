//! Why the database could not answer or apply a change.

use crate::{ActorError, BlockNumber};

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
    /// The actor that writes to the database did not accept the change. It was not made.
    #[error("{0}; this change was not made: {advice}", advice = advice(.0))]
    NotAccepted(ActorError),
    /// The actor that writes to the database panicked, or was stopped, before it answered. The change may have been made
    /// nevertheless; if the database could be read again, the head shows it.
    #[error("the storage's writer stopped before it answered; check the head before you repeat the change")]
    WriterStopped,
    /// Another owner in this process has the right to write.
    #[error("the database already has a writer in this process; report this as a defect of the node")]
    WriterTaken,
}

/// What to do after the actor that writes has refused a change.
const fn advice(error: &ActorError) -> &'static str {
    match error {
        ActorError::MailboxFull { .. } => "try again",
        ActorError::Failed { .. } => "restart the node, and report the cause",
        ActorError::Stopped { .. } => "the node is being stopped",
    }
}

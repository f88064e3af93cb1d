//! Why a call over the bus failed.

use std::fmt::Display;

use crate::{RequestError, SpaceError, StoreError, Topic, codec::CodecError};

/// Why a call over the bus failed. There is one variant for each case that a caller can tell apart. The SDK gives each
/// the code and the text that a client receives (`tenon_sdk::Failure`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// No module of this node answers the request.
    #[error("this node has no module that answers {request}")]
    NoHandler {
        /// The request's name.
        request: &'static str,
    },
    /// No module of this node answers requests with this topic.
    #[error("no handler for topic {:#06x}", topic.0)]
    UnknownTopic {
        /// The topic of the frame.
        topic: Topic,
    },
    /// This build has no event with this topic.
    #[error("there is no event with topic {:#06x}", topic.0)]
    UnknownEvent {
        /// The topic that was subscribed to.
        topic: Topic,
    },
    /// The frame was made for another form of the request.
    #[error("{request} has schema {known}, the frame has schema {sent}")]
    WrongSchema {
        /// The request's name.
        request: &'static str,
        /// Its schema number here.
        known: u16,
        /// The schema number of the frame.
        sent: u16,
    },
    /// The subscription was made for another form of the event.
    #[error("event {event} has schema {known}, not schema {sent}")]
    WrongEventSchema {
        /// The event's name.
        event: &'static str,
        /// Its schema number here.
        known: u16,
        /// The schema number that was subscribed to.
        sent: u16,
    },
    /// The frame is not an encoding of the request, or holds more than a request may.
    #[error("malformed {request} request: {error}")]
    MalformedRequest {
        /// The request's name.
        request: &'static str,
        /// Error of the codec.
        error: CodecError,
    },
    /// The answer cannot be encoded.
    #[error("cannot send the answer of {request}: {error}")]
    UnsendableReply {
        /// The request's name.
        request: &'static str,
        /// Error of the codec.
        error: CodecError,
    },
    /// The module that answers the request is stopped.
    #[error("module {module} is stopped; it can be enabled again")]
    Suspended {
        /// The module's name.
        module: String,
    },
    /// A pool of threads accepts no further jobs.
    #[error("{0}")]
    Busy(PoolBusy),
    /// The deadline passed, or the caller left, before there was an answer.
    #[error("request timed out")]
    TimedOut,
    /// The computing time of the client's message is used up.
    #[error("the computing time of this message is used up; send less work in one message")]
    OutOfTime,
    /// The node is shutting down.
    #[error("the node is shutting down")]
    ShuttingDown,
    /// The handler panicked; the cause is in the log.
    #[error("the handler of the request panicked")]
    HandlerCrashed,
    /// The actor behind the handler did not accept the message.
    #[error(transparent)]
    Actor(#[from] ActorError),
    /// The module's own error.
    #[error(transparent)]
    Module(#[from] RequestError),
}

impl BusError {
    /// An error of a module to which callers can only react by showing its text.
    pub fn failed(error: impl Display) -> Self {
        Self::Module(RequestError::Failed(error.to_string()))
    }

    /// The error of a module that has reached a limit of this node.
    pub fn limit_reached(error: impl Display) -> Self {
        Self::Module(RequestError::LimitReached(error.to_string()))
    }

    /// The error of a module that refuses an argument.
    pub fn invalid_argument(error: impl Display) -> Self {
        Self::Module(RequestError::InvalidArgument(error.to_string()))
    }
}

/// The error of a request that reads the chain.
impl From<StoreError> for BusError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::OutOfMemory { reason } => Self::limit_reached(reason),
            StoreError::Stopped => Self::TimedOut,
            StoreError::NotAccepted(actor) => Self::Actor(actor),
            error => Self::failed(error),
        }
    }
}

/// The error of a request about a module's own records.
impl From<SpaceError> for BusError {
    fn from(error: SpaceError) -> Self {
        match error {
            SpaceError::Store(error) => error.into(),
            bound => Self::limit_reached(bound),
        }
    }
}

/// Why an actor did not accept a message. The message is lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActorError {
    /// Its mailbox is full; it may have room later.
    #[error("{actor} is busy: its mailbox is full")]
    MailboxFull {
        /// The actor's name.
        actor: &'static str,
    },
    /// It has failed for good.
    #[error("{actor} has failed: {reason}")]
    Failed {
        /// The actor's name.
        actor: &'static str,
        /// Its last panic, or why it could not be built again.
        reason: String,
    },
    /// It was stopped.
    #[error("{actor} has been stopped")]
    Stopped {
        /// The actor's name.
        actor: &'static str,
    },
}

/// Why a pool of threads accepts no further jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolBusy {
    /// Its queue is full.
    #[error("the {pool} pool is busy: {waiting} requests are waiting")]
    QueueFull {
        /// The pool's name.
        pool: &'static str,
        /// Jobs that wait.
        waiting: usize,
    },
    /// The client already fills its share of the queue.
    #[error("the {pool} pool is busy: {waiting} of your requests are waiting")]
    ClientFull {
        /// The pool's name.
        pool: &'static str,
        /// Jobs of the client that wait.
        waiting: usize,
    },
    /// The waiting job lost its place to a client with fewer waiting jobs.
    #[error("the {pool} pool is busy: too many of your requests are waiting, and other clients need the places")]
    Displaced {
        /// The pool's name.
        pool: &'static str,
    },
    /// The job did not begin before its deadline.
    #[error("no thread of the {pool} pool was free in time")]
    DeadlinePassed {
        /// The pool's name.
        pool: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_database_reports_whether_to_try_again() {
        let cases = [
            (StoreError::Stopped, BusError::TimedOut),
            (StoreError::OutOfMemory { reason: "full".to_owned() }, BusError::limit_reached("full")),
            (StoreError::Engine("disk full".to_owned()), BusError::failed("database: disk full")),
            (
                StoreError::NotAccepted(ActorError::MailboxFull { actor: "storage" }),
                BusError::Actor(ActorError::MailboxFull { actor: "storage" }),
            ),
            (StoreError::WriterStopped, BusError::failed(StoreError::WriterStopped)),
        ];
        for (error, expected) in cases {
            assert_eq!(BusError::from(error.clone()), expected);
            assert_eq!(BusError::from(SpaceError::Store(error)), expected);
        }
    }
}

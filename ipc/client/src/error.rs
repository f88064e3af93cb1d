//! Errors, grouped by what the caller can do about them.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use jsonrpsee::core::client::Error as CallError;
use jsonrpsee::types::ErrorObjectOwned;

/// A failure of the connection itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The socket can't be opened. If its kind is `NotFound` or `ConnectionRefused`, no node listens there.
    #[error("{}: {}", path.display(), connect_problem(source))]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The node did not accept the connection in time.
    #[error("{}: the node accepted no connection within {timeout:?}; it has too many, or is stopped", path.display())]
    ConnectTimeout {
        /// The socket.
        path: PathBuf,
        /// The time limit.
        timeout: Duration,
    },
    /// A process of another user listens, in a folder that third users can change.
    #[error(
        "{}: the process that listens there belongs to another user (id {user}), and might not be the node, because \
        others can change the folder or one above it. Nothing was sent. Run the command as the user of the node, or keep \
        the socket where only that user and root can create files",
        path.display()
    )]
    Impostor {
        /// The socket.
        path: PathBuf,
        /// The process's user.
        user: u32,
    },
    /// The node closed the connection.
    #[error("the node closed the connection")]
    Closed,
    /// The node closed the connection within a message.
    #[error("the node closed the connection in the middle of an answer")]
    CutOff,
    /// A message is longer than the client's limit.
    #[error("an answer is longer than {limit} bytes; raise `max_message_bytes` of the client to receive it")]
    TooLong {
        /// The limit, bytes.
        limit: usize,
    },
    /// The node refused a message without answering its requests: it is too long, or not JSON.
    #[error("the node refused a message: {message}")]
    Refused {
        /// The node's error.
        message: String,
    },
    /// The node did not read a request in time.
    #[error("the node did not read a request within {timeout:?}")]
    WriteTimeout {
        /// The time limit.
        timeout: Duration,
    },
    /// Reading failed.
    #[error("reading from the node: {0}")]
    Read(#[source] io::Error),
    /// Writing failed.
    #[error("writing to the node: {0}")]
    Write(#[source] io::Error),
}

fn connect_problem(source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            "no node listens on it; start one, or give the socket that the file endpoints.json of its data folder names"
                .to_owned()
        }
        io::ErrorKind::PermissionDenied => "it belongs to another user; run as the user of the node".to_owned(),
        _ => source.to_string(),
    }
}

/// Why a call, or the next item of a subscription, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The node answered with an error.
    #[error("{}", .0.message())]
    Refused(ErrorObjectOwned),
    /// The connection could not be made or has ended. Connect again.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The connection ended earlier, or during this call. Connect again.
    #[error("{}", disconnect_text(.0))]
    Disconnected(Arc<CallError>),
    /// The node did not answer in time. The call may still be running.
    #[error("the node did not answer within {timeout:?}; raise `request_timeout` of the client for slow methods")]
    NoAnswer {
        /// The time limit.
        timeout: Duration,
    },
    /// The answer has another form than expected.
    #[error("the node's answer can't be read: {0}; are node and client of the same version?")]
    Unreadable(#[from] serde_json::Error),
    /// The subscription was closed, because this program read its items too slowly.
    #[error("the subscription was closed: more than {0} items waited to be read; subscribe again")]
    Lagged(usize),
    /// The node ended the subscription.
    #[error("{reason}")]
    SubscriptionEnded {
        /// The node's reason.
        reason: String,
    },
    /// The client could not make the call.
    #[error("the call could not be made: {0}")]
    Call(#[source] CallError),
}

impl Error {
    /// The text of the node's error, if the node answered with one.
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::Refused(error) => Some(error.message()),
            _ => None,
        }
    }
}

/// Why a connection has ended. jsonrpsee wraps the transport's error, which says it.
fn disconnect_text(reason: &CallError) -> String {
    match reason {
        CallError::Transport(error) if matches!(error.downcast_ref(), Some(SocketError::Closed)) => error.to_string(),
        reason => format!("the connection to the node broke: {reason}"),
    }
}

impl Error {
    /// Sorts jsonrpsee's error of a call with this time limit.
    pub(crate) fn of_call(error: CallError, timeout: Duration) -> Self {
        match error {
            CallError::Call(error) => Self::Refused(error),
            CallError::RestartNeeded(reason) => Self::Disconnected(reason),
            CallError::RequestTimeout => Self::NoAnswer { timeout },
            CallError::ParseError(error) => Self::Unreadable(error),
            error @ (CallError::Transport(_) | CallError::ServiceDisconnect) => Self::Disconnected(Arc::new(error)),
            error => Self::Call(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connecting(kind: io::ErrorKind) -> String {
        SocketError::Connect { path: "/data/tenon.ipc".into(), source: kind.into() }.to_string()
    }

    #[test]
    fn a_failed_connection_names_the_socket_and_what_to_do() {
        assert!(connecting(io::ErrorKind::NotFound).starts_with("/data/tenon.ipc: no node listens on it; start one"));
        assert!(connecting(io::ErrorKind::PermissionDenied).contains("run as the user of the node"));
    }

    #[test]
    fn a_closed_connection_is_told_apart_from_a_broken_one() {
        let ended = |error: SocketError| {
            let reason = CallError::RestartNeeded(Arc::new(CallError::Transport(error.into())));
            Error::of_call(reason, Duration::from_secs(1)).to_string()
        };

        assert_eq!(ended(SocketError::Closed), "the node closed the connection");
        assert_eq!(
            ended(SocketError::TooLong { limit: 8 }),
            "the connection to the node broke: an answer is longer than 8 bytes; raise `max_message_bytes` of the client \
             to receive it"
        );
    }
}

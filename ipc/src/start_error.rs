//! Errors of the front-ends' start.

use std::{io, net::SocketAddr, path::PathBuf};

/// Why the front-ends did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The front-end is already listening.
    #[error("{front_end} server already running on {address}")]
    AlreadyRunning {
        /// `HTTP` or `WebSocket`.
        front_end: &'static str,
        /// Its address.
        address: SocketAddr,
    },
    /// A TCP port could not be opened.
    #[error("cannot listen on {address}: {source}; choose another port, or 0 for a free one")]
    Listen {
        /// The requested address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The local socket could not be opened.
    #[error("cannot open the socket {path}: {source}")]
    Socket {
        /// The requested path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another process listens at the socket's path.
    #[error("another process serves the socket {path}; stop it or choose another path")]
    SocketInUse {
        /// The requested path.
        path: PathBuf,
    },
    /// A file that is not a socket exists at the path; it is left unchanged.
    #[error("{path} exists and is not a socket; remove it or choose another path")]
    NotASocket {
        /// The requested path.
        path: PathBuf,
    },
    /// The secret of bearer tokens could not be read.
    #[error("cannot use the token secret {path}: {reason}")]
    TokenSecret {
        /// The file.
        path: PathBuf,
        /// The problem with it.
        reason: String,
    },
}

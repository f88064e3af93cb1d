//! Settings of the front-ends, and errors of their start.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use crate::{
    exposure::PortExposure,
    http::{HttpLimits, Network},
    socket::SocketLimits,
    websocket::WebSocketLimits,
};

/// Settings of all front-ends. The default runs none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// HTTP.
    pub http: Option<HttpSettings>,
    /// WebSocket. With HTTP's address and port, both share the port.
    pub websocket: Option<WebSocketSettings>,
    /// The local socket, which exposes every namespace.
    pub socket: Option<SocketSettings>,
    /// The file with the secret of bearer tokens: 64 hex digits. Without it no token is accepted.
    pub token_secret: Option<PathBuf>,
}

/// HTTP's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSettings {
    /// Address to listen on.
    pub address: IpAddr,
    /// Port; 0 picks a free one.
    pub port: u16,
    /// Access rules.
    pub rules: HttpRules,
    /// Trusted proxies, which may name the client of a request.
    pub proxies: Vec<Network>,
    /// Limits.
    pub limits: HttpLimits,
}

/// Access rules of HTTP; can change while it is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRules {
    /// Exposure with and without a token.
    pub exposure: PortExposure,
    /// Origins whose web pages may read answers; `*` for all.
    pub cors_origins: Vec<String>,
    /// Host names that requests may use; addresses are always allowed; `*` for all.
    pub virtual_hosts: Vec<String>,
}

/// WebSocket's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSocketSettings {
    /// Address to listen on.
    pub address: IpAddr,
    /// Port; 0 picks a free one.
    pub port: u16,
    /// Access rules.
    pub rules: WebSocketRules,
    /// Trusted proxies, which may name the client of a connection.
    pub proxies: Vec<Network>,
    /// Limits.
    pub limits: WebSocketLimits,
}

/// Access rules of WebSocket; can change while it is served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebSocketRules {
    /// Exposure with and without a token.
    pub exposure: PortExposure,
    /// Origins whose web pages may connect; `*` for all. If empty: `http://localhost` and this machine's name.
    pub origins: Vec<String>,
}

/// The local socket's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketSettings {
    /// Path of the socket.
    pub path: PathBuf,
    /// Limits.
    pub limits: SocketLimits,
}

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

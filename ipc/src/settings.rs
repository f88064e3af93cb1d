//! Settings of the front-ends.

use std::{net::IpAddr, path::PathBuf};

use crate::{
    access_rules::{HttpRules, WebSocketRules},
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

/// The local socket's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketSettings {
    /// Path of the socket.
    pub path: PathBuf,
    /// Limits.
    pub limits: SocketLimits,
}

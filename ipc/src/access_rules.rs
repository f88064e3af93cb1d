//! Access rules of the TCP front-ends, as the settings give them.

use crate::service::Exposure;

/// Exposure of a TCP port, computed from the settings by the crate that opens the port. By default it exposes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortExposure {
    /// Without a token.
    pub open: Exposure,
    /// With a token.
    pub with_token: Exposure,
}

impl PortExposure {
    /// An exposure that needs no token.
    pub fn open(exposure: Exposure) -> Self {
        Self { open: exposure.clone(), with_token: exposure }
    }
}

impl Default for PortExposure {
    fn default() -> Self {
        Self::open(Exposure::of(Vec::<String>::new()))
    }
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

/// Access rules of WebSocket; can change while it is served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebSocketRules {
    /// Exposure with and without a token.
    pub exposure: PortExposure,
    /// Origins whose web pages may connect; `*` for all. If empty: `http://localhost` and this machine's name.
    pub origins: Vec<String>,
}

//! Access rules of a TCP port. They can change while the port serves: a connection's exposure is looked up for every
//! message.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use arc_swap::{ArcSwap, Cache};
use http::HeaderMap;

use crate::{
    access_rules::{HttpRules, PortExposure, WebSocketRules},
    http::{cors::Cors, hosts::VirtualHosts},
    service::{Exposure, Origin},
    token::{Authorization, TokenCheck},
    websocket::origin::OriginRules,
};

/// Maximum token lifetime with a timer. A later expiry is ignored, because no connection lasts that long.
const MAX_TOKEN_LIFE: Duration = Duration::from_secs(365 * 24 * 3600);

/// Result of checking a request's `Authorization` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Admission {
    /// The origin of the request.
    pub(crate) origin: Origin,
    /// Expiry of the token, if it has one.
    pub(crate) ends: Option<Instant>,
}

/// A port's exposure and token check. Replaced as a whole.
#[derive(Clone, Debug)]
pub(crate) struct AccessControl {
    exposure: PortExposure,
    tokens: Option<TokenCheck>,
}

impl AccessControl {
    fn new(exposure: &PortExposure, tokens: Option<TokenCheck>) -> Self {
        Self { exposure: exposure.clone(), tokens }
    }

    /// Checks the token of a request. `from` is its sender by transport and address.
    ///
    /// # Errors
    /// Why a token is refused.
    pub(crate) fn admit(&self, headers: &HeaderMap, from: Origin) -> Result<Admission, &'static str> {
        let without = Admission { origin: from, ends: None };
        let Some(tokens) = &self.tokens else { return Ok(without) };
        match tokens.check(headers) {
            Authorization::Absent => Ok(without),
            Authorization::Valid { client, expiry } => {
                let origin = Origin { client: client.unwrap_or(from.client), has_token: true, ..from };
                Ok(Admission { origin, ends: expiry.and_then(instant_of) })
            }
            Authorization::Refused(reason) => Err(reason),
        }
    }

    /// The exposure with or without a token.
    pub(crate) const fn exposure(&self, has_token: bool) -> &Exposure {
        if has_token { &self.exposure.with_token } else { &self.exposure.open }
    }
}

/// The instant of a Unix time; `None` if it is too far in the future to matter.
fn instant_of(seconds: u64) -> Option<Instant> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let left = Duration::from_secs(seconds).saturating_sub(now);
    (left < MAX_TOKEN_LIFE).then(|| Instant::now().checked_add(left)).flatten()
}

/// Access rules of HTTP on a port.
#[derive(Debug)]
pub(crate) struct HttpAccess {
    pub(crate) access_control: AccessControl,
    pub(crate) cors: Option<Cors>,
    pub(crate) hosts: VirtualHosts,
}

impl HttpAccess {
    pub(crate) fn new(rules: &HttpRules, tokens: Option<TokenCheck>) -> Self {
        Self {
            access_control: AccessControl::new(&rules.exposure, tokens),
            cors: Cors::new(&rules.cors_origins),
            hosts: VirtualHosts::new(&rules.virtual_hosts),
        }
    }
}

/// Access rules of WebSocket on a port.
#[derive(Debug)]
pub(crate) struct WebSocketAccess {
    pub(crate) access_control: AccessControl,
    pub(crate) origins: OriginRules,
}

impl WebSocketAccess {
    pub(crate) fn new(rules: &WebSocketRules, tokens: Option<TokenCheck>) -> Self {
        Self { access_control: AccessControl::new(&rules.exposure, tokens), origins: OriginRules::new(&rules.origins) }
    }
}

/// Exposure of a connection on which both sides may send.
#[derive(Clone)]
pub(crate) enum ConnectionExposure {
    /// Does not change while the connection lasts.
    Fixed(Exposure),
    /// The port's current exposure.
    Port {
        /// Access rules of the port. The connection's own copy of the reference is read without atomic operations.
        access: Cache<Arc<ArcSwap<WebSocketAccess>>, Arc<WebSocketAccess>>,
        /// Whether the connection began with a valid token.
        has_token: bool,
    },
}

impl ConnectionExposure {
    /// The exposure of a connection to this port. `has_token`: whether it began with a valid token.
    pub(crate) fn of_port(access: &Arc<ArcSwap<WebSocketAccess>>, has_token: bool) -> Self {
        Self::Port { access: Cache::new(Arc::clone(access)), has_token }
    }

    /// Its current exposure.
    pub(crate) fn now(&mut self) -> Exposure {
        match self {
            Self::Fixed(exposure) => exposure.clone(),
            Self::Port { access, has_token } => access.load().access_control.exposure(*has_token).clone(),
        }
    }

    /// Whether the subscriptions of a namespace may continue.
    pub(crate) fn may_continue(&self, namespace: &str) -> bool {
        match self {
            Self::Fixed(_) => true,
            Self::Port { access, has_token } => {
                let access = access.arc_swap().load();
                let exposure = access.access_control.exposure(*has_token);
                exposure.exposes(namespace) && !exposure.refuses(&format!("{namespace}_subscribe"))
            }
        }
    }
}

impl fmt::Debug for ConnectionExposure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.clone().now().fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_without_settings_exposes_nothing() {
        let exposure = PortExposure::default();

        for namespace in ["eth", "rpc", "", "*"] {
            assert!(!exposure.open.exposes(namespace) && !exposure.with_token.exposes(namespace), "{namespace}");
        }
    }

    #[test]
    fn an_open_connection_follows_changes_of_exposure() {
        let rules = |open: &[&str]| WebSocketRules {
            exposure: PortExposure { open: Exposure::of(open.to_vec()), with_token: Exposure::of(["debug"]) },
            ..WebSocketRules::default()
        };
        let access = Arc::new(ArcSwap::from_pointee(WebSocketAccess::new(&rules(&["eth"]), None)));
        let [mut without, with] = [false, true].map(|has_token| ConnectionExposure::of_port(&access, has_token));
        assert!(without.now().exposes("eth") && !without.may_continue("debug") && with.may_continue("debug"));

        access.store(Arc::new(WebSocketAccess::new(&rules(&["net"]), None)));

        assert!(!without.now().exposes("eth") && without.may_continue("net") && !without.may_continue("eth"));
    }
}

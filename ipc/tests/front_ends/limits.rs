//! Settings and limits of the front-ends under test.

use std::{net::Ipv4Addr, time::Duration};

use tenon_ipc::{
    EnvelopeLimits, Exposure, HttpLimits, HttpRules, HttpSettings, PortExposure, SocketLimits, WebSocketLimits,
    WebSocketRules, WebSocketSettings,
};

pub(crate) const ENVELOPE: EnvelopeLimits = EnvelopeLimits {
    batch_items: 10_000,
    batch_concurrency: 16,
    response_bytes: 64 << 20,
    batch_response_bytes: 25_000_000,
    call_timeout: Some(Duration::from_secs(600)),
    computing_time: Some(Duration::from_secs(30)),
    subscriptions: 256,
    client_subscriptions: 4_096,
};

pub(crate) const HTTP: HttpLimits = HttpLimits {
    envelope: ENVELOPE,
    connections: 1_000,
    body_bytes: 5 << 20,
    request_timeout: Duration::from_secs(29),
    idle_timeout: Duration::from_secs(120),
    write_timeout: Duration::from_secs(30),
};

pub(crate) const WEBSOCKET: WebSocketLimits = WebSocketLimits::new(ENVELOPE, 500, 15 << 20);

pub(crate) const SOCKET: SocketLimits = SocketLimits::new(ENVELOPE, 500, 64 << 20);

/// HTTP on a free port of this machine, with these namespaces for all clients.
pub(crate) fn http_settings(namespaces: &[&str]) -> HttpSettings {
    HttpSettings {
        address: Ipv4Addr::LOCALHOST.into(),
        port: 0,
        rules: http_rules(namespaces),
        proxies: Vec::new(),
        limits: HTTP,
    }
}

/// WebSocket on a free port of this machine, with these namespaces for all clients.
pub(crate) fn websocket_settings(namespaces: &[&str]) -> WebSocketSettings {
    WebSocketSettings {
        address: Ipv4Addr::LOCALHOST.into(),
        port: 0,
        rules: websocket_rules(namespaces),
        proxies: Vec::new(),
        limits: WEBSOCKET,
    }
}

/// Rules that expose these namespaces to all clients.
pub(crate) fn http_rules(namespaces: &[&str]) -> HttpRules {
    HttpRules {
        exposure: PortExposure::open(Exposure::of(namespaces.to_vec())),
        cors_origins: Vec::new(),
        virtual_hosts: vec!["localhost".to_owned()],
    }
}

/// Rules that expose these namespaces to all clients.
pub(crate) fn websocket_rules(namespaces: &[&str]) -> WebSocketRules {
    WebSocketRules { exposure: PortExposure::open(Exposure::of(namespaces.to_vec())), ..WebSocketRules::default() }
}

//! The front-ends: Unix socket, HTTP and WebSocket, with one JSON-RPC envelope for all of them.
//!
//! Owns the sockets, the envelope ([`Dispatcher`]), the limits ([`HttpLimits`], [`WebSocketLimits`], [`SocketLimits`],
//! [`EnvelopeLimits`]), the exposure of namespaces, and bearer tokens.
//!
//! Invariants:
//!
//! - a request is answered the same on every transport, byte for byte except for inherent differences;
//! - `params` and results are never parsed or serialised here;
//! - a client that leaves cancels its work;
//! - a client that does not read, sends half a message or sends garbage costs bounded memory;
//! - nothing that a client sends can cause a panic.
//!
//! The crate knows no namespace and no chain: the answering service implements [`RpcService`].
//!
//! ```no_run
//! # async fn example(
//! #     http: tenon_ipc::HttpSettings,
//! #     router: impl tenon_ipc::RpcService,
//! # ) -> Result<(), tenon_ipc::StartError> {
//! use tenon_ipc::{Servers, Settings};
//!
//! let settings = Settings { http: Some(http), ..Settings::default() };
//! let servers = Servers::start(settings, router, None).await?;
//! println!("{:?}", servers.endpoints());
//! servers.stop(std::time::Duration::from_secs(5)).await;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod accept;
mod access_rules;
mod connections;
mod duplex;
mod envelope;
mod exposure;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod idle_timeout;
mod rarely_ready;
mod refusals;
mod servers;
mod service;
mod settings;
mod socket;
mod start_error;
mod stop_signals;
mod token;
mod traffic;
mod websocket;

pub use access_rules::{HttpRules, PortExposure, WebSocketRules};
pub use envelope::{Dispatcher, EnvelopeLimits};
pub use http::{HealthCheck, HealthReport, HttpLimits, Network, NetworkError};
pub use servers::{Endpoints, Servers};
pub use service::{Caller, ClientId, Exposure, NoNotifications, Notifications, Origin, RawCall, RpcService, Transport};
pub use settings::{HttpSettings, Settings, SocketSettings, WebSocketSettings};
pub use socket::SocketLimits;
pub use start_error::StartError;
pub use traffic::{Traffic, TrafficCounts, TransportTraffic};
pub use websocket::WebSocketLimits;

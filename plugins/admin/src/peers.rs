//! Peers that an operator adds and removes, and what becomes of them (`docs/spec/rpc-node.md` 3.2, 3.5).
//!
//! This node has no network yet. A URL is checked as with one; then the answer says that nothing is done. `peerEvents` can be
//! subscribed to and tells of nothing, since no peer comes or goes.

use tenon_sdk::prelude::*;

use crate::{AdminContext, enode::Enode};

const NO_NETWORK: &str = "this node has no peer-to-peer network: it connects to no peers and lets none connect";

/// With the effect of all four methods.
pub(crate) async fn change(_context: AdminContext, url: String) -> Result<bool, Failure> {
    Enode::parse(&url).map_err(|cause| Failure::server(format!("invalid enode: {cause}")))?;
    Err(Failure::server(NO_NETWORK))
}

/// Open until its subscriber leaves.
pub(crate) async fn events(_context: AdminContext, sink: Sink) -> Result<(), Failure> {
    sink.accept().await;
    std::future::pending().await
}

/// The plain call where nothing can be told later. Elsewhere the front-ends make a subscription of it.
pub(crate) async fn events_once(_context: AdminContext) -> Result<bool, Failure> {
    Err(Failure::server(
        "notifications not supported: subscribe over WebSocket or the Unix socket, as admin_subscribe [\"peerEvents\"]",
    ))
}

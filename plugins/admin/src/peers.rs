//! Adding and removing peers, and their events (`docs/spec/rpc-node.md` 3.2, 3.5).
//!
//! This node has no network yet. URLs are checked as with one, and the answer then says that nothing is done.
//! `peerEvents` accepts subscriptions and sends nothing, since no peer comes or goes.

use tenon_sdk::prelude::*;

use crate::{AdminContext, enode::Enode};

const NO_NETWORK: &str = "this node has no peer-to-peer network: it connects to no peers and lets none connect";

/// Handles all four methods.
pub(crate) async fn change(_context: AdminContext, url: String) -> Result<bool, Failure> {
    Enode::parse(&url).map_err(|cause| Failure::server(format!("invalid enode: {cause}")))?;
    Err(Failure::server(NO_NETWORK))
}

/// Open until its subscriber leaves.
pub(crate) async fn events(_context: AdminContext, sink: Sink) -> Result<(), Failure> {
    sink.accept().await;
    std::future::pending().await
}

/// The plain call on connections without notifications. Elsewhere the front-ends make it a subscription.
pub(crate) async fn events_once(_context: AdminContext) -> Result<bool, Failure> {
    Err(Failure::server(
        "notifications not supported: subscribe over WebSocket or the Unix socket, as admin_subscribe [\"peerEvents\"]",
    ))
}

//! Adds and removes peers, and reports their events (`docs/spec/rpc-node.md` 3.2, 3.5, `docs/spec/p2p.md` 23).
//!
//! URLs are passed to the node unchanged: the network owns their grammar. If the network is off, URLs are still
//! checked, and the answer then says that it is off; `peerEvents` accepts subscriptions and sends nothing.

use serde::Serialize;
use tenon_sdk::prelude::*;

use crate::AdminContext;

pub(crate) async fn add(context: AdminContext, url: String) -> Result<bool, Failure> {
    context.call(ChangePeer { url, change: PeerChange::Add }).await
}

pub(crate) async fn remove(context: AdminContext, url: String) -> Result<bool, Failure> {
    context.call(ChangePeer { url, change: PeerChange::Remove }).await
}

pub(crate) async fn trust(context: AdminContext, url: String) -> Result<bool, Failure> {
    context.call(ChangePeer { url, change: PeerChange::Trust }).await
}

pub(crate) async fn distrust(context: AdminContext, url: String) -> Result<bool, Failure> {
    context.call(ChangePeer { url, change: PeerChange::Distrust }).await
}

/// A notification to subscribers.
#[derive(Debug, Serialize)]
struct PeerEvent {
    #[serde(rename = "type")]
    kind: &'static str,
    peer: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Reports each connection that was established or has ended. Open until its subscriber leaves.
pub(crate) async fn events(context: AdminContext, sink: Sink) -> Result<(), Failure> {
    let mut changes = context.events::<PeerChanged>();
    sink.accept().await;
    while let Some(delivery) = changes.next().await? {
        // After missed events, the list of peers has the current state.
        if let Delivery::Event(PeerChanged { peer, is_connected, error }) = delivery {
            let kind = if is_connected { "add" } else { "drop" };
            sink.send(&PeerEvent { kind, peer, error }).await?;
        }
    }
    Ok(())
}

/// The plain call on connections without notifications. On other connections the front-ends turn it into a
/// subscription.
pub(crate) async fn events_once(_context: AdminContext) -> Result<bool, Failure> {
    Err(Failure::server(
        "notifications not supported: subscribe over WebSocket or the Unix socket, as admin_subscribe [\"peerEvents\"]",
    ))
}

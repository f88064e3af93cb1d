//! The state of the network that is read without its actor: this node and its peers.

use std::sync::Arc;

use parking_lot::RwLock;
use tenon_api::messages::{NetworkNode, PeerInfo};
use tenon_network_sync::Progress;

/// The shared state. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PublishedState(Arc<RwLock<Content>>);

#[derive(Debug, Default)]
struct Content {
    /// `None` while the network is off.
    node: Option<NetworkNode>,
    peers: Arc<Vec<PeerInfo>>,
    /// Progress of the running cycle of synchronisation.
    progress: Option<Progress>,
}

impl PublishedState {
    pub(crate) fn node(&self) -> Option<NetworkNode> {
        self.0.read().node.clone()
    }

    pub(crate) fn peers(&self) -> Arc<Vec<PeerInfo>> {
        Arc::clone(&self.0.read().peers)
    }

    pub(crate) fn set_node(&self, node: Option<NetworkNode>) {
        let mut content = self.0.write();
        if node.is_none() {
            (content.peers, content.progress) = (Arc::default(), None);
        }
        content.node = node;
    }

    pub(crate) fn progress(&self) -> Option<Progress> {
        self.0.read().progress
    }

    pub(crate) fn set_progress(&self, progress: Option<Progress>) {
        self.0.write().progress = progress;
    }

    pub(crate) fn set_peers(&self, peers: Vec<PeerInfo>) {
        self.0.write().peers = Arc::new(peers);
    }
}

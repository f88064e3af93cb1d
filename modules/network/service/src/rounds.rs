//! Votes, timeouts and certificates between peers and the voting (`docs/spec/p2p.md` 16.4).

use std::collections::BTreeMap;

use alloy_primitives::{B256, keccak256};
use tenon_api::{RoundMessage, RoundMessageKind};
use tenon_network_identity::NodeId;
use tenon_network_sync::BoundedSet;
use tenon_network_wire::Kind;

/// Maximum number of remembered messages of a peer: about 150 rounds of votes from 108 masternodes.
const MAX_KNOWN: usize = 16_384;

/// The messages that each peer knows.
#[derive(Debug, Default)]
pub(crate) struct RoundGossip {
    /// Sorted, so that messages leave in the same order in every run of a simulation.
    known: BTreeMap<NodeId, BoundedSet<B256>>,
}

impl RoundGossip {
    pub(crate) fn joined(&mut self, peer: NodeId) {
        self.known.entry(peer).or_insert_with(|| BoundedSet::new(MAX_KNOWN));
    }

    pub(crate) fn left(&mut self, peer: &NodeId) {
        self.known.remove(peer);
    }

    /// Records that a peer knows a message, because it sent it.
    pub(crate) fn received(&mut self, peer: &NodeId, message: &RoundMessage) {
        if let Some(known) = self.known.get_mut(peer) {
            known.insert(keccak256(&message.payload));
        }
    }

    /// Returns the peers that do not know a message, and its kind on the wire. Records that they know it now.
    pub(crate) fn peers_without(&mut self, message: &RoundMessage) -> (Kind, Vec<NodeId>) {
        let hash = keccak256(&message.payload);
        let lacking = self.known.iter_mut().filter_map(|(peer, known)| known.insert(hash).then_some(*peer));
        (kind_of(message), lacking.collect())
    }

    /// Returns all peers, and the kind of a message on the wire. Records that they know it now.
    pub(crate) fn all(&mut self, message: &RoundMessage) -> (Kind, Vec<NodeId>) {
        self.peers_without(message);
        (kind_of(message), self.known.keys().copied().collect())
    }
}

const fn kind_of(message: &RoundMessage) -> Kind {
    match message.kind {
        RoundMessageKind::Vote => Kind::Vote,
        RoundMessageKind::Timeout => Kind::Timeout,
        RoundMessageKind::SyncInfo => Kind::SyncInfo,
    }
}

#[cfg(test)]
mod tests {
    use tenon_api::Bytes;

    use super::*;

    #[test]
    fn a_message_goes_once_to_each_peer_that_did_not_send_it() {
        let mut gossip = RoundGossip::default();
        let peers = [1, 2, 3].map(|number| NodeId([number; 64]));
        peers.iter().for_each(|peer| gossip.joined(*peer));
        let message = RoundMessage { kind: RoundMessageKind::Timeout, payload: Bytes::from_static(&[0xc0]) };
        gossip.received(&peers[1], &message);
        let (kind, mut to) = gossip.peers_without(&message);
        to.sort_unstable();
        assert_eq!((kind, to), (Kind::Timeout, vec![peers[0], peers[2]]));
        assert!(gossip.peers_without(&message).1.is_empty());
        assert_eq!(gossip.all(&message).1.len(), 3, "a repeated one goes to all");
        gossip.left(&peers[0]);
        gossip.joined(peers[0]);
        assert_eq!(gossip.peers_without(&message).1, [peers[0]]);
    }
}

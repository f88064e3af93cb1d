//! Decides which connections are admitted: slots, trusted and static peers, second connections (`docs/spec/p2p.md` 10,
//! check A, and 11).

use std::collections::{BTreeSet, HashMap};

use tenon_network_identity::NodeId;

/// Limits of the number of peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotSettings {
    /// Maximum number of distinct peers.
    pub max_peers: usize,
    /// The share of peers that this node dials: one in this many.
    pub dial_ratio: usize,
    /// Whether discovered nodes are dialed at all.
    pub is_dialing: bool,
}

impl SlotSettings {
    /// Maximum number of connections that this node dials, excluding static ones.
    pub fn max_dialed(&self) -> usize {
        if self.is_dialing && self.dial_ratio > 0 { self.max_peers / self.dial_ratio } else { 0 }
    }
}

/// Why a peer is refused. The discriminants are the reasons of Disconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u64)]
pub enum Refusal {
    /// No free slot.
    #[error("too many peers")]
    TooManyPeers = 0x04,
    /// The peer already has two connections.
    #[error("already connected")]
    AlreadyConnected = 0x05,
    /// The peer is this node itself.
    #[error("connected to self")]
    Itself = 0x0a,
}

/// A connection to be admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The peer.
    pub id: NodeId,
    /// Whether the peer dialed.
    pub is_inbound: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    inbound: usize,
    dialed: usize,
}

/// Admitted connections.
#[derive(Debug)]
pub struct Slots {
    settings: SlotSettings,
    own: NodeId,
    peers: HashMap<NodeId, Peer>,
    /// Nodes that the operator has configured to be dialed.
    statics: BTreeSet<NodeId>,
    /// Exempt from all limits.
    trusted: BTreeSet<NodeId>,
}

impl Slots {
    /// Creates an instance whose slots are all free.
    pub fn new(settings: SlotSettings, own: NodeId) -> Self {
        Self { settings, own, peers: HashMap::new(), statics: BTreeSet::new(), trusted: BTreeSet::new() }
    }

    /// Adds or removes a static node. It is exempt from limits only for connections that this node dials.
    pub fn set_static(&mut self, id: NodeId, is_static: bool) {
        if is_static {
            self.statics.insert(id)
        } else {
            self.statics.remove(&id)
        };
    }

    /// Adds or removes a trusted node. An existing connection remains.
    pub fn set_trusted(&mut self, id: NodeId, is_trusted: bool) {
        if is_trusted {
            self.trusted.insert(id)
        } else {
            self.trusted.remove(&id)
        };
    }

    /// Returns whether a peer is never banned. It is still disconnected for faults.
    pub fn is_protected(&self, id: &NodeId) -> bool {
        self.statics.contains(id) || self.trusted.contains(id)
    }

    /// Checks whether a connection can be admitted. To be called after the handshake and again after Hello.
    ///
    /// # Errors
    /// [`Refusal`], the first rule that forbids it.
    pub fn check(&self, connection: Connection) -> Result<(), Refusal> {
        let id = &connection.id;
        if !self.trusted.contains(id) {
            let is_exempt = !connection.is_inbound && self.statics.contains(id);
            if !is_exempt && !self.peers.contains_key(id) && self.peers.len() >= self.settings.max_peers {
                return Err(Refusal::TooManyPeers);
            }
            // A second connection of a connected peer takes an inbound slot like any other.
            let max_inbound = self.settings.max_peers.saturating_sub(self.settings.max_dialed());
            if connection.is_inbound && self.inbound() >= max_inbound {
                return Err(Refusal::TooManyPeers);
            }
        }
        if self.peers.get(id).is_some_and(|peer| peer.inbound + peer.dialed >= 2) {
            return Err(Refusal::AlreadyConnected);
        }
        if *id == self.own {
            return Err(Refusal::Itself);
        }
        Ok(())
    }

    /// Admits a connection that passes [`Slots::check`].
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn enter(&mut self, connection: Connection) -> Result<(), Refusal> {
        self.check(connection)?;
        let peer = self.peers.entry(connection.id).or_default();
        if connection.is_inbound {
            peer.inbound += 1;
        } else {
            peer.dialed += 1;
        }
        Ok(())
    }

    /// Removes an admitted connection that has ended.
    pub fn leave(&mut self, connection: Connection) {
        let Some(peer) = self.peers.get_mut(&connection.id) else { return };
        let count = if connection.is_inbound { &mut peer.inbound } else { &mut peer.dialed };
        *count = count.saturating_sub(1);
        if peer.inbound + peer.dialed == 0 {
            self.peers.remove(&connection.id);
        }
    }

    /// Number of connections of a peer.
    pub fn connections(&self, id: &NodeId) -> usize {
        self.peers.get(id).map_or(0, |peer| peer.inbound + peer.dialed)
    }

    /// Number of distinct peers.
    pub fn peers(&self) -> usize {
        self.peers.len()
    }

    /// Number of inbound connections.
    pub fn inbound(&self) -> usize {
        self.peers.values().map(|peer| peer.inbound).sum()
    }

    /// Number of further nodes that may be dialed in addition to static ones.
    pub fn free_dialed(&self) -> usize {
        let dialed = self.peers.iter().filter(|(id, peer)| peer.dialed > 0 && !self.statics.contains(*id)).count();
        let free = self.settings.max_peers.saturating_sub(self.peers.len());
        self.settings.max_dialed().saturating_sub(dialed).min(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> NodeId {
        NodeId([number; 64])
    }

    const fn inbound(id: NodeId) -> Connection {
        Connection { id, is_inbound: true }
    }

    const fn dialed(id: NodeId) -> Connection {
        Connection { id, is_inbound: false }
    }

    fn slots(max_peers: usize) -> Slots {
        Slots::new(SlotSettings { max_peers, dial_ratio: 3, is_dialing: true }, id(0))
    }

    #[test]
    fn a_second_connection_is_admitted_and_a_third_is_not() {
        let mut slots = slots(9);
        assert_eq!(slots.enter(inbound(id(1))), Ok(()));
        assert_eq!(slots.enter(dialed(id(1))), Ok(()));
        assert_eq!(slots.enter(inbound(id(1))), Err(Refusal::AlreadyConnected));
        assert_eq!((slots.peers(), slots.connections(&id(1))), (1, 2));
        slots.leave(inbound(id(1)));
        assert_eq!(slots.enter(inbound(id(1))), Ok(()));
        assert_eq!(slots.enter(inbound(id(0))), Err(Refusal::Itself));
    }

    /// With three slots, two connections of one peer and one of another fill the node (`docs/spec/p2p.md` 10).
    #[test]
    fn inbound_slots_are_counted_by_connection_and_trusted_peers_are_exempt() {
        let mut slots = Slots::new(SlotSettings { max_peers: 3, dial_ratio: 3, is_dialing: false }, id(0));
        slots.enter(inbound(id(1))).unwrap();
        slots.enter(inbound(id(1))).unwrap();
        slots.enter(inbound(id(2))).unwrap();
        assert_eq!(slots.enter(inbound(id(2))), Err(Refusal::TooManyPeers));
        assert_eq!(slots.enter(inbound(id(3))), Err(Refusal::TooManyPeers));
        slots.set_trusted(id(3), true);
        assert_eq!(slots.enter(inbound(id(3))), Ok(()));
    }

    #[test]
    fn static_nodes_are_exempt_only_when_this_node_dials() {
        let mut slots = slots(1);
        slots.enter(dialed(id(1))).unwrap();
        slots.set_static(id(2), true);
        assert_eq!(slots.enter(inbound(id(2))), Err(Refusal::TooManyPeers));
        assert_eq!(slots.enter(dialed(id(2))), Ok(()));
        assert_eq!(slots.enter(dialed(id(3))), Err(Refusal::TooManyPeers));
        assert!(slots.is_protected(&id(2)) && !slots.is_protected(&id(1)));
    }

    #[test]
    fn a_third_of_the_slots_is_reserved_for_dialed_peers() {
        let mut slots = slots(9);
        assert_eq!(slots.free_dialed(), 3);
        slots.enter(dialed(id(1))).unwrap();
        slots.set_static(id(2), true);
        slots.enter(dialed(id(2))).unwrap();
        assert_eq!(slots.free_dialed(), 2);
        (10..16).for_each(|number| slots.enter(inbound(id(number))).unwrap());
        assert_eq!(slots.enter(inbound(id(20))), Err(Refusal::TooManyPeers));
    }
}

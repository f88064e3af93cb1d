//! All connections of the node and the decisions about them, without I/O: admission, dialing, disconnection, bans, and the
//! known state of each peer (`docs/spec/p2p.md` 10, 11, 21).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use alloy_primitives::{B256, U256};
use tenon_api::messages::{PeerChain, PeerChange, PeerChanged, PeerInfo};
use tenon_api::{BlockNumber, UnusableNode};
use tenon_network_discovery::Clock;
use tenon_network_identity::{Endpoint, Enode, NodeId};
use tenon_network_peers::{Connection, Dial, Dialer, Fault, FaultOutcome, Refusal, Reputation, Slots, StoredBan};
use tenon_network_rlpx::{DisconnectReason, Hello};
use tenon_network_wire::Status;

use crate::connection_limiter::counted_address;

/// Number of inbound connections that an address keeps even if others want its slots: two nodes with two connections
/// each.
const KEPT_OF_ADDRESS: usize = 4;

/// A connection's number. No two connections of a process have the same.
pub(crate) type ConnectionId = u64;

/// An action of the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// End a connection.
    Close {
        /// The connection.
        connection: ConnectionId,
        /// The reason in Disconnect.
        reason: DisconnectReason,
    },
    /// Publish an event.
    Publish(PeerChanged),
    /// The bans have changed: write their file.
    SaveBans,
}

/// One connection.
#[derive(Debug)]
struct ManagedConnection {
    remote: SocketAddr,
    local: Option<SocketAddr>,
    /// The node that was dialed.
    dialed: Option<NodeId>,
    /// The node, after it has authenticated.
    node: Option<NodeId>,
    /// Its Hello, after its admission.
    greeting: Option<Hello>,
    chain: Option<PeerChain>,
    /// Whether another connection has its slot: it is being closed.
    is_displaced: bool,
}

impl ManagedConnection {
    const fn slot(&self, id: NodeId) -> Connection {
        Connection { id, is_inbound: self.dialed.is_none() }
    }

    /// The node, after its admission.
    fn entered(&self) -> Option<(NodeId, &Hello)> {
        Some((self.node?, self.greeting.as_ref()?))
    }
}

/// All connections.
pub(crate) struct ConnectionManager {
    slots: Slots,
    dialer: Dialer,
    reputation: Reputation,
    connections: BTreeMap<ConnectionId, ManagedConnection>,
    statics: BTreeSet<NodeId>,
    trusted: BTreeSet<NodeId>,
    actions: VecDeque<Action>,
    /// Whether the list of [`ConnectionManager::peers`] may have changed since it was last read.
    is_changed: bool,
}

impl ConnectionManager {
    pub(crate) fn new(slots: Slots, dialer: Dialer, reputation: Reputation) -> Self {
        Self {
            slots,
            dialer,
            reputation,
            connections: BTreeMap::new(),
            statics: BTreeSet::new(),
            trusted: BTreeSet::new(),
            actions: VecDeque::new(),
            is_changed: false,
        }
    }

    /// The next action.
    pub(crate) fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// A connection begins, inbound or outbound.
    pub(crate) fn start(&mut self, connection: ConnectionId, remote: SocketAddr, dialed: Option<NodeId>) {
        let managed = ManagedConnection {
            remote,
            local: None,
            dialed,
            node: None,
            greeting: None,
            chain: None,
            is_displaced: false,
        };
        self.connections.insert(connection, managed);
    }

    /// A peer has authenticated.
    ///
    /// # Errors
    /// The reason to refuse it.
    pub(crate) fn authenticated(
        &mut self,
        connection: ConnectionId,
        node: NodeId,
        local: Option<SocketAddr>,
        clock: Clock,
    ) -> Result<(), DisconnectReason> {
        let managed = self.connections.get_mut(&connection).ok_or(DisconnectReason::REQUESTED)?;
        (managed.node, managed.local) = (Some(node), local);
        if managed.dialed.is_some_and(|dialed| dialed != node) {
            return Err(DisconnectReason::UNEXPECTED_IDENTITY);
        }
        let (slot, ip) = (managed.slot(node), managed.remote.ip());
        if !self.slots.is_protected(&node) && self.reputation.is_banned(Some(&node), ip, clock.unix) {
            return Err(DisconnectReason::USELESS_PEER);
        }
        match self.slots.check(slot) {
            Err(Refusal::TooManyPeers) if self.displaceable(slot, ip).is_some() => Ok(()),
            other => other.map_err(|refusal| DisconnectReason(refusal as u64)),
        }
    }

    /// A peer has sent Hello: it occupies a slot.
    ///
    /// # Errors
    /// The reason to refuse it.
    pub(crate) fn receive_hello(&mut self, connection: ConnectionId, hello: Hello) -> Result<(), DisconnectReason> {
        let managed = self.connections.get_mut(&connection).ok_or(DisconnectReason::REQUESTED)?;
        let node = managed.node.ok_or(DisconnectReason::REQUESTED)?;
        let (slot, ip) = (managed.slot(node), managed.remote.ip());
        if self.slots.check(slot) == Err(Refusal::TooManyPeers)
            && let Some(other) = self.displaceable(slot, ip)
        {
            self.displace(other);
        }
        self.slots.enter(slot).map_err(|refusal| DisconnectReason(refusal as u64))?;
        let managed = self.connections.get_mut(&connection).ok_or(DisconnectReason::REQUESTED)?;
        managed.greeting = Some(hello);
        if let Some(dialed) = managed.dialed {
            self.dialer.ended(&dialed);
        }
        self.publish(node, true, None);
        Ok(())
    }

    /// The connection whose slot a new inbound connection gets when all are in use: the newest one of the address with
    /// the most connections. `None` unless that address has more than [`KEPT_OF_ADDRESS`], and more than twice as many
    /// as the address of the new connection would have.
    fn displaceable(&self, slot: Connection, ip: IpAddr) -> Option<ConnectionId> {
        if !slot.is_inbound {
            return None;
        }
        let mut of_address: BTreeMap<IpAddr, (usize, ConnectionId)> = BTreeMap::new();
        for (connection, managed) in &self.connections {
            let Some((node, _)) = managed.entered() else { continue };
            if managed.dialed.is_none() && !managed.is_displaced && !self.slots.is_protected(&node) {
                let (count, newest) = of_address.entry(counted_address(managed.remote.ip())).or_default();
                (*count, *newest) = (*count + 1, *connection);
            }
        }
        let own = of_address.get(&counted_address(ip)).map_or(0, |(count, _)| *count);
        let (max, newest) = of_address.into_values().max_by_key(|(count, _)| *count)?;
        (max > KEPT_OF_ADDRESS && max > 2 * (own + 1)).then_some(newest)
    }

    /// Closes an admitted connection, and frees its slot at once.
    fn displace(&mut self, connection: ConnectionId) {
        let reason = DisconnectReason::TOO_MANY_PEERS;
        let Some(managed) = self.connections.get_mut(&connection) else { return };
        let Some(node) = managed.node else { return };
        managed.is_displaced = true;
        self.slots.leave(managed.slot(node));
        self.actions.push_back(Action::Close { connection, reason });
    }

    /// A peer has sent the Status of the same chain.
    pub(crate) fn established(&mut self, connection: ConnectionId, status: &Status) {
        self.is_changed = true;
        let node = self.connections.get(&connection).and_then(|managed| managed.node);
        // Each node is asked once for its head, even if it has several connections.
        let mut chains = self
            .connections
            .values()
            .filter(|managed| managed.node == node)
            .filter_map(|managed| managed.chain.as_ref());
        let number = chains.find(|chain| chain.head == status.head).and_then(|chain| chain.number);
        let Some(managed) = self.connections.get_mut(&connection) else { return };
        managed.chain = Some(PeerChain {
            version: status.version,
            total_difficulty: status.total_difficulty,
            head: status.head,
            number,
        });
    }

    /// The node of a connection whose peer belongs to the same chain.
    pub(crate) fn established_node(&self, connection: ConnectionId) -> Option<NodeId> {
        let managed = self.connections.get(&connection)?;
        managed.chain.as_ref()?;
        managed.node
    }

    /// Number of connections with an `eth` session.
    pub(crate) fn established_count(&self) -> usize {
        self.connections.values().filter(|managed| managed.chain.is_some()).count()
    }

    /// The connections of a node with an `eth` session, the oldest first: one or two.
    pub(crate) fn established_connections(&self, node: &NodeId) -> impl Iterator<Item = ConnectionId> {
        let of_node = self
            .connections
            .iter()
            .filter(move |(_, managed)| managed.node.as_ref() == Some(node) && managed.chain.is_some());
        of_node.map(|(connection, _)| *connection)
    }

    /// As [`ConnectionManager::fault`], by node.
    pub(crate) fn fault_of(&mut self, node: &NodeId, fault: Fault, clock: Clock) {
        let connection =
            self.connections.iter().find(|(_, managed)| managed.node.as_ref() == Some(node)).map(|(id, _)| *id);
        if let Some(connection) = connection {
            self.fault(connection, fault, clock);
        }
    }

    /// The head of a peer has changed.
    pub(crate) fn new_head(&mut self, connection: ConnectionId, head: B256, total_difficulty: U256, number: u64) {
        self.is_changed = true;
        let Some(chain) = self.connections.get_mut(&connection).and_then(|managed| managed.chain.as_mut()) else {
            return;
        };
        (chain.head, chain.total_difficulty, chain.number) = (head, total_difficulty, Some(BlockNumber(number)));
    }

    /// A peer has sent the header of its head.
    pub(crate) fn height(&mut self, node: &NodeId, head: B256, number: u64) {
        self.is_changed = true;
        for managed in self.connections.values_mut().filter(|managed| managed.node.as_ref() == Some(node)) {
            if let Some(chain) = &mut managed.chain
                && chain.head == head
            {
                chain.number = Some(BlockNumber(number));
            }
        }
    }

    /// A fault of a peer.
    pub(crate) fn fault(&mut self, connection: ConnectionId, fault: Fault, clock: Clock) {
        let Some(managed) = self.connections.get(&connection) else { return };
        let Some(node) = managed.node else { return };
        let ip = managed.remote.ip();
        let is_protected = self.slots.is_protected(&node);
        match self.reputation.report(node, ip, fault, is_protected, clock.unix) {
            FaultOutcome::Kept => {}
            FaultOutcome::Cut => self.close_all(&node, DisconnectReason::REQUESTED),
            FaultOutcome::Banned(length) => {
                tracing::info!(peer = node.short(), %ip, seconds = length.as_secs(), ?fault, "peer banned");
                self.close_all(&node, DisconnectReason::REQUESTED);
                self.actions.push_back(Action::SaveBans);
            }
        }
    }

    /// A connection has ended, or a dial has failed.
    pub(crate) fn ended(&mut self, connection: ConnectionId, reason: &str) {
        let Some(managed) = self.connections.remove(&connection) else { return };
        if let Some(dialed) = managed.dialed {
            self.dialer.ended(&dialed);
        }
        if let Some((node, _)) = managed.entered() {
            if !managed.is_displaced {
                self.slots.leave(managed.slot(node));
            }
            self.publish(node, false, Some(reason.to_owned()));
        }
    }

    /// A request of the operator about a node.
    ///
    /// # Errors
    /// [`UnusableNode`] for an address that cannot be dialed. A node without an address is looked up by discovery.
    pub(crate) fn change(&mut self, enode: &Enode, change: PeerChange, clock: Clock) -> Result<(), UnusableNode> {
        let id = enode.id;
        self.is_changed = true;
        match change {
            PeerChange::Add => {
                let endpoint = match enode.usable() {
                    Ok(endpoint) => Some(endpoint),
                    Err(UnusableNode::Incomplete) => None,
                    // A node without a port for discovery is dialed, too.
                    Err(UnusableNode::NoUdpPort) if enode.endpoint.is_some_and(|endpoint| endpoint.tcp > 0) => {
                        enode.endpoint
                    }
                    Err(problem) => return Err(problem),
                };
                self.statics.insert(id);
                self.slots.set_static(id, true);
                self.dialer.add_static(id, endpoint, clock.now);
            }
            PeerChange::Remove => {
                self.statics.remove(&id);
                self.slots.set_static(id, false);
                self.dialer.remove_static(&id);
                self.close_all(&id, DisconnectReason::REQUESTED);
            }
            PeerChange::Trust | PeerChange::Distrust => {
                let is_trusted = change == PeerChange::Trust;
                if is_trusted {
                    self.trusted.insert(id)
                } else {
                    self.trusted.remove(&id)
                };
                self.slots.set_trusted(id, is_trusted);
            }
        }
        Ok(())
    }

    /// Adds nodes that discovery found, without banned ones.
    pub(crate) fn found(&mut self, nodes: impl IntoIterator<Item = (NodeId, Endpoint)>, clock: Clock) {
        let reputation = &self.reputation;
        let welcome = |(id, endpoint): &(NodeId, Endpoint)| !reputation.is_banned(Some(id), endpoint.ip, clock.unix);
        self.dialer.found(nodes.into_iter().filter(welcome));
    }

    /// Sets the address of a static node that discovery has found.
    pub(crate) fn resolved(&mut self, id: &NodeId, endpoint: Option<Endpoint>, clock: Clock) {
        self.dialer.resolved(id, endpoint, clock.now);
    }

    /// The nodes to dial now.
    pub(crate) fn schedule(&mut self, clock: Clock) -> Vec<Dial> {
        self.dialer.schedule(&self.slots, clock.now)
    }

    /// When to call [`ConnectionManager::schedule`] again.
    pub(crate) fn wakes_at(&self, clock: Clock) -> std::time::Duration {
        self.dialer.wakes_at(clock.now)
    }

    /// Ends every connection.
    pub(crate) fn close_everything(&mut self, reason: DisconnectReason) {
        self.actions
            .extend(self.connections.keys().map(|connection| Action::Close { connection: *connection, reason }));
    }

    /// The bans in force.
    pub(crate) fn bans(&self, clock: Clock) -> Vec<StoredBan> {
        self.reputation.bans(clock.unix)
    }

    /// Like [`ConnectionManager::peers`], if the list has changed.
    pub(crate) fn changed_peers(&mut self) -> Option<Vec<PeerInfo>> {
        std::mem::take(&mut self.is_changed).then(|| self.peers())
    }

    /// The peers by identifier, each with its oldest connection.
    pub(crate) fn peers(&self) -> Vec<PeerInfo> {
        let mut peers: BTreeMap<NodeId, PeerInfo> = BTreeMap::new();
        for managed in self.connections.values() {
            let Some((node, hello)) = managed.entered() else { continue };
            match peers.get_mut(&node) {
                None => {
                    peers.insert(node, self.describe(node, hello, managed));
                }
                Some(peer) => {
                    peer.connections += 1;
                    peer.chain = peer.chain.take().or_else(|| managed.chain.clone());
                }
            }
        }
        peers.into_values().collect()
    }

    fn describe(&self, node: NodeId, hello: &Hello, managed: &ManagedConnection) -> PeerInfo {
        let mut capabilities = hello.capabilities.clone();
        capabilities.sort_unstable();
        PeerInfo {
            id: node.to_string(),
            name: hello.name.clone(),
            capabilities: capabilities.iter().map(|offer| format!("{}/{}", offer.name, offer.version)).collect(),
            local_address: managed.local.map(|address| address.to_string()).unwrap_or_default(),
            remote_address: managed.remote.to_string(),
            is_inbound: managed.dialed.is_none(),
            is_trusted: self.trusted.contains(&node),
            is_static: self.statics.contains(&node),
            connections: 1,
            chain: managed.chain.clone(),
        }
    }

    fn close_all(&mut self, node: &NodeId, reason: DisconnectReason) {
        let of_node =
            self.connections.iter().filter(|(_, managed)| managed.node == Some(*node) || managed.dialed == Some(*node));
        self.actions.extend(of_node.map(|(connection, _)| Action::Close { connection: *connection, reason }));
    }

    fn publish(&mut self, node: NodeId, is_connected: bool, error: Option<String>) {
        self.is_changed = true;
        self.actions.push_back(Action::Publish(PeerChanged { peer: node.to_string(), is_connected, error }));
    }
}

#[cfg(test)]
mod tests;

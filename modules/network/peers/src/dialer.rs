//! Decides which nodes this node dials, and when (`docs/spec/p2p.md` 10). One connection to a node is enough, so no
//! node is dialed while it is connected; a second connection that the peer dials itself is admitted.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use tenon_network_discovery::Networks;
use tenon_network_identity::{Endpoint, NodeId};

use crate::Slots;

/// Time limits and bounds of dialing.
#[derive(Clone, Debug)]
pub struct DialerSettings {
    /// Maximum number of concurrent dials.
    pub max_dials: usize,
    /// Minimum time before a node is dialed again.
    pub redial_after: Duration,
    /// After this time without any peer, the bootnodes are dialed in turn.
    pub bootnodes_after: Duration,
    /// Interval between two searches for nodes.
    pub search_interval: Duration,
    /// First and maximum interval between two searches for a static node whose address is unknown.
    pub resolve_intervals: (Duration, Duration),
    /// If set, only these networks are dialed.
    pub restrict: Option<Networks>,
    /// Maximum number of discovered nodes that wait for a slot.
    pub max_candidates: usize,
}

impl Default for DialerSettings {
    fn default() -> Self {
        Self {
            max_dials: 16,
            redial_after: Duration::from_secs(30),
            bootnodes_after: Duration::from_secs(20),
            search_interval: Duration::from_secs(4),
            resolve_intervals: (Duration::from_secs(60), Duration::from_secs(3600)),
            restrict: None,
            max_candidates: 512,
        }
    }
}

/// Actions for the owner of the [`Dialer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dial {
    /// Connect to this node. Call [`Dialer::ended`] once the dial has failed or has become a connection.
    Connect {
        /// The node.
        id: NodeId,
        /// Its address.
        endpoint: Endpoint,
    },
    /// Search for the address of this static node, and pass the result to [`Dialer::resolved`].
    Resolve {
        /// The node.
        id: NodeId,
    },
    /// Search for more nodes, and pass them to [`Dialer::found`].
    Search,
}

#[derive(Debug)]
struct StaticNode {
    endpoint: Option<Endpoint>,
    resolve_at: Duration,
    resolve_interval: Duration,
}

/// Schedules dials.
#[derive(Debug)]
pub struct Dialer {
    settings: DialerSettings,
    own: NodeId,
    statics: BTreeMap<NodeId, StaticNode>,
    bootnodes: VecDeque<(NodeId, Endpoint)>,
    candidates: VecDeque<(NodeId, Endpoint)>,
    /// Dials in progress.
    dialing: BTreeMap<NodeId, Endpoint>,
    /// When each node was last dialed.
    history: HashMap<NodeId, Duration>,
    alone_since: Duration,
    search_at: Duration,
}

impl Dialer {
    /// Creates a dialer without any dial in progress.
    pub fn new(settings: DialerSettings, own: NodeId, bootnodes: Vec<(NodeId, Endpoint)>, now: Duration) -> Self {
        Self {
            settings,
            own,
            statics: BTreeMap::new(),
            bootnodes: bootnodes.into(),
            candidates: VecDeque::new(),
            dialing: BTreeMap::new(),
            history: HashMap::new(),
            alone_since: now,
            search_at: now,
        }
    }

    /// Adds a static node, with its address if known.
    pub fn add_static(&mut self, id: NodeId, endpoint: Option<Endpoint>, now: Duration) {
        let resolve_interval = self.settings.resolve_intervals.0;
        self.statics.insert(id, StaticNode { endpoint, resolve_at: now, resolve_interval });
    }

    /// Removes a static node. The owner has to end its connection.
    pub fn remove_static(&mut self, id: &NodeId) {
        self.statics.remove(id);
    }

    /// Adds nodes that discovery has found.
    pub fn found(&mut self, nodes: impl IntoIterator<Item = (NodeId, Endpoint)>) {
        for (id, endpoint) in nodes {
            if self.candidates.len() >= self.settings.max_candidates {
                return;
            }
            if !self.candidates.iter().any(|(known, _)| *known == id) {
                self.candidates.push_back((id, endpoint));
            }
        }
    }

    /// Sets the result of a search for a static node.
    pub fn resolved(&mut self, id: &NodeId, endpoint: Option<Endpoint>, now: Duration) {
        let max_interval = self.settings.resolve_intervals.1;
        let Some(node) = self.statics.get_mut(id) else { return };
        match endpoint {
            Some(endpoint) => {
                node.endpoint = Some(endpoint);
                node.resolve_interval = self.settings.resolve_intervals.0;
            }
            None => {
                node.resolve_at = now + node.resolve_interval;
                node.resolve_interval = (node.resolve_interval * 2).min(max_interval);
            }
        }
    }

    /// Ends a dial that has failed or has become a connection.
    pub fn ended(&mut self, id: &NodeId) {
        self.dialing.remove(id);
    }

    /// Returns the actions that are due. Call it after every event and at [`Dialer::wakes_at`].
    pub fn schedule(&mut self, slots: &Slots, now: Duration) -> Vec<Dial> {
        self.history.retain(|_, last| now.saturating_sub(*last) < self.settings.redial_after);
        if slots.peers() > 0 {
            self.alone_since = now;
        }
        let mut dials = Vec::new();
        self.dial_statics(slots, now, &mut dials);
        let mut free = slots.free_dialed().saturating_sub(self.dynamic_dials());
        let is_alone = now.saturating_sub(self.alone_since) >= self.settings.bootnodes_after;
        if is_alone && free > 0 && self.dial_bootnode(slots, now, &mut dials) {
            free -= 1;
        }
        while free > 0 && self.dialing.len() < self.settings.max_dials {
            let Some((id, endpoint)) = self.candidates.pop_front() else { break };
            if self.start(id, endpoint, slots, now, &mut dials) {
                free -= 1;
            }
        }
        if free > 0 && self.candidates.is_empty() && now >= self.search_at {
            self.search_at = now + self.settings.search_interval;
            dials.push(Dial::Search);
        }
        dials
    }

    /// When to call [`Dialer::schedule`] again, unless an event comes earlier.
    pub fn wakes_at(&self, now: Duration) -> Duration {
        let history = self.history.values().map(|last| *last + self.settings.redial_after);
        let later = history.chain([self.search_at, self.alone_since + self.settings.bootnodes_after]);
        let statics = self.statics.values().filter(|node| node.endpoint.is_none()).map(|node| node.resolve_at);
        later.chain(statics).filter(|time| *time > now).min().unwrap_or(now + self.settings.search_interval)
    }

    fn dynamic_dials(&self) -> usize {
        self.dialing.keys().filter(|id| !self.statics.contains_key(*id)).count()
    }

    fn dial_statics(&mut self, slots: &Slots, now: Duration, dials: &mut Vec<Dial>) {
        let mut ready = Vec::new();
        for (id, node) in &mut self.statics {
            match node.endpoint {
                Some(endpoint) => ready.push((*id, endpoint)),
                None if now >= node.resolve_at && slots.connections(id) == 0 => {
                    // A default until the result arrives, which sets the next time.
                    node.resolve_at = now + node.resolve_interval;
                    dials.push(Dial::Resolve { id: *id });
                }
                None => {}
            }
        }
        for (id, endpoint) in ready {
            if self.dialing.len() < self.settings.max_dials {
                self.start(id, endpoint, slots, now, dials);
            }
        }
    }

    fn dial_bootnode(&mut self, slots: &Slots, now: Duration, dials: &mut Vec<Dial>) -> bool {
        for _ in 0..self.bootnodes.len() {
            self.bootnodes.rotate_left(1);
            let Some((id, endpoint)) = self.bootnodes.back().copied() else { return false };
            if self.start(id, endpoint, slots, now, dials) {
                return true;
            }
        }
        false
    }

    fn start(&mut self, id: NodeId, endpoint: Endpoint, slots: &Slots, now: Duration, dials: &mut Vec<Dial>) -> bool {
        let is_allowed = self.settings.restrict.as_ref().is_none_or(|allowed| allowed.contains(endpoint.ip));
        if id == self.own
            || endpoint.tcp == 0
            || !is_allowed
            || self.dialing.contains_key(&id)
            || self.history.contains_key(&id)
            || slots.connections(&id) > 0
        {
            return false;
        }
        self.dialing.insert(id, endpoint);
        self.history.insert(id, now);
        dials.push(Dial::Connect { id, endpoint });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Connection, SlotSettings};

    fn id(number: u8) -> NodeId {
        NodeId([number; 64])
    }

    fn at(last: u8) -> Endpoint {
        Endpoint { ip: [1, 2, 3, last].into(), udp: 30303, tcp: 30303 }
    }

    fn node(number: u8) -> (NodeId, Endpoint) {
        (id(number), at(number))
    }

    fn second(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn slots() -> Slots {
        Slots::new(SlotSettings { max_peers: 9, dial_ratio: 3, is_dialing: true }, id(0))
    }

    fn connect(number: u8) -> Dial {
        Dial::Connect { id: id(number), endpoint: at(number) }
    }

    fn dialer() -> Dialer {
        Dialer::new(DialerSettings::default(), id(0), vec![node(100), node(101)], second(0))
    }

    #[test]
    fn static_nodes_are_dialed_every_30_seconds_until_they_are_connected() {
        let (mut dialer, mut slots) = (dialer(), slots());
        dialer.search_at = second(10_000);
        dialer.bootnodes.clear();
        dialer.add_static(id(1), Some(at(1)), second(0));
        let mut dialed = Vec::new();
        for now in 0..100 {
            if dialer.schedule(&slots, second(now)) == [connect(1)] {
                dialed.push(now);
                dialer.ended(&id(1));
            }
        }
        assert_eq!(dialed, [0, 30, 60, 90]);
        slots.enter(Connection { id: id(1), is_inbound: true }).unwrap();
        assert_eq!(dialer.schedule(&slots, second(500)), []);
    }

    #[test]
    fn found_nodes_fill_the_free_slots_and_a_search_for_more_runs_every_4_seconds() {
        let (mut dialer, slots) = (dialer(), slots());
        dialer.found([node(1), node(2), node(1), node(0)]);
        assert_eq!(dialer.schedule(&slots, second(1)), [connect(1), connect(2), Dial::Search]);
        assert_eq!(dialer.schedule(&slots, second(4)), []);
        assert_eq!(dialer.schedule(&slots, second(5)), [Dial::Search]);
        dialer.found((3..20).map(node));
        assert_eq!(dialer.schedule(&slots, second(6)), [connect(3)], "three slots in all");
    }

    #[test]
    fn bootnodes_are_dialed_in_turn_while_there_are_no_peers() {
        let (mut dialer, slots) = (dialer(), slots());
        dialer.search_at = second(10_000);
        assert_eq!(dialer.schedule(&slots, second(19)), []);
        assert_eq!(dialer.schedule(&slots, second(20)), [connect(100)]);
        dialer.ended(&id(100));
        assert_eq!(dialer.schedule(&slots, second(21)), [connect(101)]);
        dialer.ended(&id(101));
        assert_eq!(dialer.schedule(&slots, second(22)), []);
        assert_eq!(dialer.schedule(&slots, second(50)), [connect(100)]);
    }

    #[test]
    fn a_static_node_without_address_is_searched_for_at_growing_intervals() {
        let (mut dialer, slots) = (dialer(), slots());
        dialer.search_at = second(1_000_000);
        dialer.bootnodes.clear();
        dialer.add_static(id(1), None, second(0));
        let mut searched = Vec::new();
        for now in 0..1000 {
            if dialer.schedule(&slots, second(now)) == [Dial::Resolve { id: id(1) }] {
                searched.push(now);
                dialer.resolved(&id(1), None, second(now));
            }
        }
        assert_eq!(searched, [0, 60, 180, 420, 900]);
        dialer.resolved(&id(1), Some(at(1)), second(1000));
        assert_eq!(dialer.schedule(&slots, second(1000)), [connect(1)]);
    }

    #[test]
    fn only_allowed_networks_are_dialed() {
        let settings = DialerSettings { restrict: Some("1.2.3.0/30".parse().unwrap()), ..DialerSettings::default() };
        let mut dialer = Dialer::new(settings, id(0), Vec::new(), second(0));
        dialer.search_at = second(10_000);
        dialer.found([node(9), node(2)]);
        assert_eq!(dialer.schedule(&slots(), second(1)), [connect(2)]);
    }
}

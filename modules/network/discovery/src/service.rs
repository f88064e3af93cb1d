//! Discovery as a state machine: answers, proofs, lookups, upkeep of the table (`docs/spec/p2p.md` 4.3 to 4.6).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::B256;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tenon_network_identity::{Endpoint, Enode, NodeId, NodeKey, NodeRecord};

use crate::addresses::check_relay;
use crate::interface::{Action, Clock, DiscoverySettings};
use crate::lookup::Lookup;
use crate::node_file::KnownNode;
use crate::packet::{Content, MAX_PACKET_NODES, Packet, PacketEndpoint, PacketError};
use crate::proofs::{Peer, Proofs};
use crate::rates::DatagramRates;
use crate::table::Table;

/// Time limit for an answer.
const REPLY_TIMEOUT: Duration = Duration::from_millis(500);
/// Time after which a search is advanced again.
const LOOKUP_PAUSE: Duration = Duration::from_millis(50);
/// Seconds until a packet of this node expires.
const EXPIRATION: u64 = 20;
/// Ports up to this one are not contacted if another node names them.
const MAX_LOW_PORT: u16 = 1024;
/// Number of unanswered requests in a row after which a node is removed.
const MAX_FAILURES: u32 = 5;
/// The same for checks of the table's nodes. More than one, because a single packet may be lost.
const MAX_FAILED_CHECKS: u32 = 3;
/// Interval between two complete searches.
const REFRESH_INTERVAL: Duration = Duration::from_secs(30 * 60);
/// The same while the table is empty.
const EMPTY_REFRESH_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum time between two checks of the table's nodes.
const MAX_REVALIDATION_MILLIS: u64 = 10_000;
/// Minimum time that a node must have been in the table to be written to the file.
const MIN_TIME_IN_TABLE: Duration = Duration::from_secs(5 * 60);
/// Maximum number of nodes of the file that are contacted at the start.
const MAX_SEEDS: usize = 30;
/// Minimum interval between two Pings to an address that sends Pings without having proven itself. Otherwise each
/// forged packet would cause two packets to the forged address.
const UNPROVEN_PING_INTERVAL: Duration = Duration::from_secs(5);

/// Bounds of pending Pings, of lookups, and of the queues behind them.
const MAX_PINGS: usize = 512;
const MAX_WAITING_PINGS: usize = 4096;
const MAX_LOOKUPS: usize = 16;
const MAX_PROOFS: usize = 16_384;
const MAX_PINGED_ADDRESSES: usize = 4096;

#[derive(Debug)]
struct PendingPing {
    hash: B256,
    deadline: Duration,
    tcp: u16,
    is_revalidation: bool,
}

#[derive(Debug)]
struct PendingFind {
    deadline: Duration,
    /// Number of nodes received, valid and invalid.
    counted: usize,
    has_answered: bool,
    lookup: u64,
}

/// The discovery state machine of one node.
pub struct Discovery {
    settings: DiscoverySettings,
    key: Arc<NodeKey>,
    record: Option<NodeRecord>,
    table: Table,
    random: StdRng,
    /// Nodes that have answered at their address.
    proofs: Proofs,
    /// Nodes that have received a Pong from this node, and therefore answer its requests.
    answered: Proofs,
    pings: HashMap<Peer, PendingPing>,
    waiting_pings: VecDeque<(Peer, u16)>,
    finds: HashMap<Peer, PendingFind>,
    /// Datagrams of each address.
    rates: DatagramRates,
    /// When an address that has proven nothing was last pinged.
    unproven: HashMap<IpAddr, Duration>,
    lookups: BTreeMap<u64, Lookup>,
    next_lookup: u64,
    /// Remaining targets of the current refresh.
    refresh_targets: VecDeque<NodeId>,
    refresh_lookup: Option<u64>,
    /// When the last complete search began, and whether the table was empty then; `None` before the first one.
    refreshed: Option<(Duration, bool)>,
    revalidate_at: Duration,
    seeds: Vec<KnownNode>,
    actions: VecDeque<Action>,
}

impl Discovery {
    /// Creates the state machine with this node's key and record, and with nodes from an earlier run.
    pub fn new(
        settings: DiscoverySettings,
        key: Arc<NodeKey>,
        record: Option<NodeRecord>,
        seeds: Vec<KnownNode>,
        now: Duration,
    ) -> Self {
        Self {
            table: Table::new(key.id(), settings.table.clone()),
            random: StdRng::seed_from_u64(settings.seed),
            settings,
            key,
            record,
            proofs: Proofs::new(MAX_PROOFS),
            answered: Proofs::new(MAX_PROOFS),
            pings: HashMap::new(),
            waiting_pings: VecDeque::new(),
            finds: HashMap::new(),
            rates: DatagramRates::default(),
            unproven: HashMap::new(),
            lookups: BTreeMap::new(),
            next_lookup: 0,
            refresh_targets: VecDeque::new(),
            refresh_lookup: None,
            refreshed: None,
            revalidate_at: now,
            seeds,
            actions: VecDeque::new(),
        }
    }

    /// The table.
    pub const fn table(&self) -> &Table {
        &self.table
    }

    /// Sets the address to announce from now on, as reported by a router.
    pub const fn set_own_ip(&mut self, ip: IpAddr) {
        self.settings.own.ip = Some(ip);
    }

    /// The next thing to do.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When to call [`Discovery::tick`] next.
    pub fn wakes_at(&self) -> Duration {
        let pings = self.pings.values().map(|ping| ping.deadline);
        let finds = self.finds.values().map(|find| find.deadline);
        let lookups = self.lookups.values().map(Lookup::wakes_at);
        pings.chain(finds).chain(lookups).fold(self.refresh_at().min(self.revalidate_at), Duration::min)
    }

    /// Nodes to write to the file for the next start.
    pub fn nodes_to_save(&self, clock: Clock) -> Vec<KnownNode> {
        let keep = |entry: &crate::NodeEntry| {
            let since = self.proofs.since(&(entry.id, entry.endpoint.udp_address()), clock.now)?;
            let is_old = clock.now.saturating_sub(entry.added) >= MIN_TIME_IN_TABLE;
            let last_pong = clock.unix.saturating_sub(clock.now.saturating_sub(since).as_secs());
            is_old.then_some(KnownNode { id: entry.id, endpoint: entry.endpoint, last_pong })
        };
        self.table.entries().filter_map(keep).collect()
    }

    /// Begins a search; `None` if too many are in progress. The result is an [`Action::LookupDone`].
    pub fn lookup(&mut self, target: NodeId, clock: Clock) -> Option<u64> {
        if self.lookups.len() >= MAX_LOOKUPS {
            return None;
        }
        let number = self.start_lookup(target, clock);
        self.advance_lookups(clock);
        Some(number)
    }

    fn start_lookup(&mut self, target: NodeId, clock: Clock) -> u64 {
        let size = self.settings.table.bucket_size;
        let mut lookup = Lookup::new(target, self.key.id(), size, clock.now + REPLY_TIMEOUT);
        for entry in self.table.closest(&target.hash(), size) {
            lookup.add(entry.id, &entry.hash, entry.endpoint);
        }
        let number = self.next_lookup;
        self.next_lookup += 1;
        self.lookups.insert(number, lookup);
        number
    }

    /// Processes a datagram. One beyond the rate of its address or of all addresses is ignored.
    ///
    /// # Errors
    /// [`PacketError`], for the log only: an invalid packet is not answered.
    pub fn receive(&mut self, from: SocketAddr, datagram: &[u8], clock: Clock) -> Result<(), PacketError> {
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        if self.settings.restrict.as_ref().is_some_and(|allowed| !allowed.contains(from.ip())) {
            return Ok(());
        }
        let packet = Packet::parse(&self.settings.types, datagram)?;
        let is_expected = self.is_expected(from, &packet.content);
        if !self.rates.admit(from.ip(), is_expected, clock.now) {
            return Ok(());
        }
        let packet = packet.verify()?;
        // A packet is expired from the second of its expiration on.
        let is_expired = packet.content.expiration().is_some_and(|expiration| expiration <= clock.unix);
        if is_expired || packet.sender == self.key.id() {
            return Ok(());
        }
        let (peer, before) = ((packet.sender, from), self.actions.len());
        match packet.content {
            Content::Ping { from: announced, .. } => self.take_ping(peer, packet.hash, announced.tcp, clock),
            Content::Pong { ping, .. } => self.take_pong(peer, ping, clock),
            Content::FindNode { target, .. } => self.take_find_node(&peer, &target, clock),
            Content::Neighbors { nodes, .. } => self.take_neighbors(peer, nodes, clock),
            Content::RecordRequest { .. } => self.take_record_request(&peer, packet.hash, clock),
            // This node requests no records.
            Content::RecordResponse { .. } => {}
        }
        // Pings to other nodes have a limit of their own.
        let is_answer = |action: &&Action| matches!(action, Action::Send { to, .. } if *to == from);
        let answers = self.actions.range(before..).filter(is_answer).count();
        self.rates.count(from.ip(), u32::try_from(answers).unwrap_or(u32::MAX), clock.now);
        self.advance_lookups(clock);
        Ok(())
    }

    /// Whether a packet answers a request of this node. Only the asked node is likely to know the hash in a Pong.
    fn is_expected(&self, from: SocketAddr, content: &Content) -> bool {
        match content {
            Content::Pong { ping, .. } => self.pings.values().any(|pending| pending.hash == *ping),
            Content::Neighbors { .. } => self.finds.keys().any(|(_, asked)| *asked == from),
            _ => false,
        }
    }

    /// Executes everything that is due.
    pub fn tick(&mut self, clock: Clock) {
        self.end_pings(clock);
        self.end_finds(clock);
        if clock.now >= self.refresh_at() {
            self.refresh(clock);
        }
        if clock.now >= self.revalidate_at {
            self.revalidate(clock);
        }
        self.advance_lookups(clock);
    }

    /// Sends a packet and returns its hash.
    fn send(&mut self, to: SocketAddr, content: &Content) -> Option<B256> {
        // Signing never fails with a valid key.
        let (datagram, hash) = Packet::encode(&self.settings.types, &self.key, content).ok()?;
        self.actions.push_back(Action::Send { to, datagram });
        Some(hash)
    }

    fn record_number(&self) -> Option<u64> {
        self.record.as_ref().map(NodeRecord::sequence)
    }

    fn ping(&mut self, peer: Peer, tcp: u16, is_revalidation: bool, clock: Clock) {
        if peer.0 == self.key.id() || self.pings.contains_key(&peer) {
            return;
        }
        if self.pings.len() >= MAX_PINGS {
            if self.waiting_pings.len() < MAX_WAITING_PINGS {
                self.waiting_pings.push_back((peer, tcp));
            }
            return;
        }
        let to = PacketEndpoint { ip: Some(peer.1.ip()), udp: peer.1.port(), tcp: 0 };
        let content = Content::Ping {
            from: self.settings.own,
            to,
            expiration: clock.unix + EXPIRATION,
            record: self.record_number(),
        };
        if let Some(hash) = self.send(peer.1, &content) {
            let deadline = clock.now + REPLY_TIMEOUT;
            self.pings.insert(peer, PendingPing { hash, deadline, tcp, is_revalidation });
        }
    }

    fn take_ping(&mut self, peer: Peer, hash: B256, tcp: u16, clock: Clock) {
        let to = PacketEndpoint { ip: Some(peer.1.ip()), udp: peer.1.port(), tcp };
        let pong = Content::Pong { to, ping: hash, expiration: clock.unix + EXPIRATION, record: self.record_number() };
        self.send(peer.1, &pong);
        if self.proofs.holds(&peer, clock.now) {
            self.answered.add(peer, clock.now);
            self.add_to_table(peer, tcp, clock);
        } else if self.may_ping_unproven(peer.1.ip(), clock) {
            self.ping(peer, tcp, false, clock);
        }
        // If a Ping to the peer is pending, this Ping may complete the mutual proof.
        if self.pings.contains_key(&peer) {
            self.answered.add(peer, clock.now);
        }
    }

    fn may_ping_unproven(&mut self, ip: IpAddr, clock: Clock) -> bool {
        if self.unproven.get(&ip).is_some_and(|last| clock.now.saturating_sub(*last) < UNPROVEN_PING_INTERVAL) {
            // Several nodes of one private network or machine may prove themselves at the same time.
            return crate::addresses::is_lan(ip);
        }
        if self.unproven.len() >= MAX_PINGED_ADDRESSES {
            self.unproven.retain(|_, last| clock.now.saturating_sub(*last) < UNPROVEN_PING_INTERVAL);
        }
        if self.unproven.len() >= MAX_PINGED_ADDRESSES {
            return false;
        }
        self.unproven.insert(ip, clock.now);
        true
    }

    fn take_pong(&mut self, peer: Peer, ping: B256, clock: Clock) {
        if self.pings.get(&peer).is_none_or(|pending| pending.hash != ping) {
            return;
        }
        let Some(pending) = self.pings.remove(&peer) else { return };
        let is_new = !self.proofs.holds(&peer, clock.now);
        self.proofs.add(peer, clock.now);
        self.add_to_table(peer, pending.tcp, clock);
        let endpoint = Endpoint { ip: peer.1.ip(), udp: peer.1.port(), tcp: pending.tcp };
        if is_new {
            self.actions.push_back(Action::Found { id: peer.0, endpoint });
        }
        let hash = peer.0.hash();
        for lookup in self.lookups.values_mut() {
            lookup.add(peer.0, &hash, endpoint);
            // The node is asked after it has had time to request a proof of this node.
            lookup.wait_until(clock.now + REPLY_TIMEOUT);
        }
        self.send_waiting_pings(clock);
    }

    fn add_to_table(&mut self, peer: Peer, tcp: u16, clock: Clock) {
        let endpoint = Endpoint { ip: peer.1.ip(), udp: peer.1.port(), tcp };
        self.table.add(peer.0, endpoint, clock.now);
    }

    fn take_find_node(&mut self, peer: &Peer, target: &NodeId, clock: Clock) {
        if !self.proofs.holds(peer, clock.now) {
            return;
        }
        let requester = peer.1.ip();
        let closest = self.table.closest(&target.hash(), self.settings.table.bucket_size);
        let nodes: Vec<(Option<Endpoint>, NodeId)> = closest
            .into_iter()
            .filter(|entry| check_relay(requester, entry.endpoint.ip).is_ok())
            .map(|entry| (Some(entry.endpoint), entry.id))
            .collect();
        let expiration = clock.unix + EXPIRATION;
        if nodes.is_empty() {
            self.send(peer.1, &Content::Neighbors { nodes, expiration });
            return;
        }
        for part in nodes.chunks(MAX_PACKET_NODES) {
            self.send(peer.1, &Content::Neighbors { nodes: part.to_vec(), expiration });
        }
    }

    fn take_neighbors(&mut self, peer: Peer, nodes: Vec<(Option<Endpoint>, NodeId)>, clock: Clock) {
        let size = self.settings.table.bucket_size;
        let Some(find) = self.finds.get_mut(&peer) else { return };
        find.has_answered = true;
        let room = size.saturating_sub(find.counted);
        find.counted += nodes.len();
        let lookup = find.lookup;
        if find.counted >= size {
            self.finds.remove(&peer);
            self.end_request(lookup);
        }
        for (endpoint, id) in nodes.into_iter().take(room) {
            if let Some(endpoint) = endpoint.and_then(|endpoint| self.acceptable(peer.1.ip(), id, endpoint)) {
                self.add_named_node(id, endpoint, lookup, clock);
            }
        }
    }

    /// Returns the canonical endpoint if a node named by `sender` may be contacted there.
    fn acceptable(&self, sender: IpAddr, id: NodeId, endpoint: Endpoint) -> Option<Endpoint> {
        let endpoint = Endpoint { ip: endpoint.ip.to_canonical(), ..endpoint };
        let is_allowed = self.settings.restrict.as_ref().is_none_or(|allowed| allowed.contains(endpoint.ip));
        (endpoint.udp > MAX_LOW_PORT
            && is_allowed
            && check_relay(sender, endpoint.ip).is_ok()
            && Enode { id, endpoint: Some(endpoint) }.usable().is_ok())
        .then_some(endpoint)
    }

    /// Adds a named node to a lookup once it has proven itself.
    fn add_named_node(&mut self, id: NodeId, endpoint: Endpoint, lookup: u64, clock: Clock) {
        let peer = (id, endpoint.udp_address());
        let is_proven = self.proofs.holds(&peer, clock.now);
        if let Some(lookup) = self.lookups.get_mut(&lookup) {
            if is_proven {
                lookup.add(id, &id.hash(), endpoint);
            } else {
                lookup.wait_until(clock.now + REPLY_TIMEOUT);
            }
        }
        if !is_proven {
            self.ping(peer, endpoint.tcp, false, clock);
        }
    }

    fn take_record_request(&mut self, peer: &Peer, request: B256, clock: Clock) {
        if let Some(record) = &self.record
            && self.proofs.holds(peer, clock.now)
        {
            let content = Content::RecordResponse { request, record: record.encoded().to_vec() };
            self.send(peer.1, &content);
        }
    }

    fn end_pings(&mut self, clock: Clock) {
        let is_over = |ping: &PendingPing| ping.deadline <= clock.now;
        let mut over: Vec<Peer> = self.pings.iter().filter(|(_, ping)| is_over(ping)).map(|(peer, _)| *peer).collect();
        // Sorted, because the result must not depend on the order of a map.
        over.sort_unstable();
        for peer in over {
            if let Some(ping) = self.pings.remove(&peer) {
                let limit = if ping.is_revalidation { MAX_FAILED_CHECKS } else { MAX_FAILURES };
                if self.table.get(&peer.0).is_some_and(|entry| entry.endpoint.udp_address() == peer.1) {
                    self.table.failed(&peer.0, limit);
                }
            }
        }
        self.send_waiting_pings(clock);
    }

    fn send_waiting_pings(&mut self, clock: Clock) {
        while self.pings.len() < MAX_PINGS
            && let Some((peer, tcp)) = self.waiting_pings.pop_front()
        {
            self.ping(peer, tcp, false, clock);
        }
    }

    fn end_finds(&mut self, clock: Clock) {
        let mut over: Vec<Peer> =
            self.finds.iter().filter(|(_, find)| find.deadline <= clock.now).map(|(peer, _)| *peer).collect();
        over.sort_unstable();
        for peer in over {
            if let Some(find) = self.finds.remove(&peer) {
                // A short answer counts as an answer (25, rule 9).
                if !find.has_answered {
                    self.table.failed(&peer.0, MAX_FAILURES);
                }
                self.end_request(find.lookup);
            }
        }
    }

    fn end_request(&mut self, lookup: u64) {
        if let Some(lookup) = self.lookups.get_mut(&lookup) {
            lookup.ended();
        }
    }

    fn advance_lookups(&mut self, clock: Clock) {
        let numbers: Vec<u64> = self.lookups.keys().copied().collect();
        for number in numbers {
            self.ask_more(number, clock);
            let is_done = self.lookups.get(&number).is_some_and(|lookup| lookup.is_done(clock.now));
            if is_done && let Some(lookup) = self.lookups.remove(&number) {
                self.actions.push_back(Action::LookupDone { lookup: number, nodes: lookup.nodes() });
                self.continue_refresh(number, clock);
            }
            // Advanced again soon, in particular if it waits for a node that another search is asking.
            if let Some(lookup) = self.lookups.get_mut(&number)
                && lookup.wakes_at() <= clock.now
            {
                lookup.wait_until(clock.now + LOOKUP_PAUSE);
            }
        }
    }

    /// Sends the next requests of a lookup. Asks only nodes that will answer: those that have received a Pong from this
    /// node, or have had time to request one.
    fn ask_more(&mut self, number: u64, clock: Clock) {
        loop {
            let (answered, proofs, finds) = (&self.answered, &self.proofs, &self.finds);
            let is_ready = |id: &NodeId, endpoint: &Endpoint| {
                let peer = (*id, endpoint.udp_address());
                let has_had_time =
                    proofs.since(&peer, clock.now).is_none_or(|since| clock.now >= since + REPLY_TIMEOUT);
                !finds.contains_key(&peer) && (answered.holds(&peer, clock.now) || has_had_time)
            };
            let Some(lookup) = self.lookups.get_mut(&number) else { return };
            let target = lookup.target_id;
            let Some((id, endpoint)) = lookup.next(is_ready) else { return };
            let peer = (id, endpoint.udp_address());
            self.send(peer.1, &Content::FindNode { target, expiration: clock.unix + EXPIRATION });
            let deadline = clock.now + REPLY_TIMEOUT;
            self.finds.insert(peer, PendingFind { deadline, counted: 0, has_answered: false, lookup: number });
        }
    }

    /// When the next complete search is due: soon if the last one had no node to ask, or if an outage has emptied the table
    /// since then (`docs/spec/p2p.md` 4.5).
    fn refresh_at(&self) -> Duration {
        let Some((last, was_empty)) = self.refreshed else { return Duration::ZERO };
        last + if was_empty || self.table.is_empty() { EMPTY_REFRESH_INTERVAL } else { REFRESH_INTERVAL }
    }

    /// Pings the nodes of the last run and the bootnodes, and searches for this node first and then for random targets.
    fn refresh(&mut self, clock: Clock) {
        self.refreshed = Some((clock.now, self.table.is_empty()));
        let seeds = std::mem::take(&mut self.seeds);
        let of_file = seeds.iter().take(MAX_SEEDS).map(|seed| (seed.id, seed.endpoint));
        let first: Vec<(NodeId, Endpoint)> = of_file.chain(self.settings.bootnodes.iter().copied()).collect();
        for (id, endpoint) in first {
            self.ping((id, endpoint.udp_address()), endpoint.tcp, false, clock);
        }
        if self.refresh_lookup.is_none() && self.lookups.len() < MAX_LOOKUPS {
            self.refresh_targets = (0..3).map(|_| NodeId(random_bytes(&mut self.random))).collect();
            let own = self.key.id();
            self.refresh_lookup = Some(self.start_lookup(own, clock));
        }
    }

    fn continue_refresh(&mut self, ended: u64, clock: Clock) {
        if self.refresh_lookup != Some(ended) {
            return;
        }
        self.refresh_lookup = None;
        if let Some(target) = self.refresh_targets.pop_front() {
            self.refresh_lookup = Some(self.start_lookup(target, clock));
        }
    }

    fn revalidate(&mut self, clock: Clock) {
        let wait = self.random.random_range(0..MAX_REVALIDATION_MILLIS);
        self.revalidate_at = clock.now + Duration::from_millis(wait.max(1));
        let choice = self.random.random_range(0..usize::from(u16::MAX));
        if let Some(entry) = self.table.oldest(choice) {
            let (peer, tcp) = ((entry.id, entry.endpoint.udp_address()), entry.endpoint.tcp);
            self.ping(peer, tcp, true, clock);
        }
    }
}

fn random_bytes(random: &mut StdRng) -> [u8; 64] {
    let mut bytes = [0; 64];
    random.fill(&mut bytes[..]);
    bytes
}

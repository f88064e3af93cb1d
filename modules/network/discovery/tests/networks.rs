//! Simulated nodes that find each other, and peers that break the rules.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tenon_network_discovery::{
    Action, Clock, Content, Discovery, DiscoverySettings, Packet, PacketEndpoint, PacketTypes, TableSettings,
};
use tenon_network_identity::{Endpoint, NodeId, NodeKey, RecordBuilder, parse_key};

const TYPES: PacketTypes = PacketTypes::NATIVE;

fn clock(millis: u64) -> Clock {
    Clock { now: Duration::from_millis(millis), unix: 1_800_000_000 + millis / 1000 }
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn endpoint(port: u16) -> Endpoint {
    Endpoint { ip: [127, 0, 0, 1].into(), udp: port, tcp: port }
}

fn settings(port: u16, bootnodes: Vec<(NodeId, Endpoint)>) -> DiscoverySettings {
    DiscoverySettings {
        types: TYPES,
        table: TableSettings::default(),
        own: PacketEndpoint { ip: None, udp: port, tcp: port },
        bootnodes,
        restrict: None,
        seed: u64::from(port),
    }
}

fn key() -> Arc<NodeKey> {
    Arc::new(NodeKey::random().unwrap())
}

fn node(key: &Arc<NodeKey>, port: u16, bootnodes: Vec<(NodeId, Endpoint)>) -> Discovery {
    let record = RecordBuilder::new(1).endpoint(&endpoint(port)).sign(key).unwrap();
    Discovery::new(settings(port, bootnodes), key.clone(), Some(record), Vec::new(), Duration::ZERO)
}

/// Returns the datagrams that a node sends, with their receivers.
fn sends(node: &mut Discovery) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut sent = Vec::new();
    while let Some(action) = node.next_action() {
        if let Action::Send { to, datagram } = action {
            sent.push((to, datagram));
        }
    }
    sent
}

/// A network in memory; every datagram takes 10 ms.
struct World {
    nodes: BTreeMap<u16, Discovery>,
    under_way: Vec<(u64, SocketAddr, SocketAddr, Vec<u8>)>,
    found: BTreeMap<u16, Vec<NodeId>>,
    done: usize,
}

impl World {
    fn run(&mut self, time: Range<u64>, mut loses: impl FnMut() -> bool) {
        for millis in time.step_by(10) {
            let clock = clock(millis);
            let (due, later) = std::mem::take(&mut self.under_way).into_iter().partition(|packet| packet.0 <= millis);
            self.under_way = later;
            for (_, from, to, datagram) in due {
                if let Some(node) = self.nodes.get_mut(&to.port()) {
                    node.receive(from, &datagram, clock).unwrap();
                }
            }
            for (port, node) in &mut self.nodes {
                if node.wakes_at() <= clock.now {
                    node.tick(clock);
                }
                while let Some(action) = node.next_action() {
                    match action {
                        Action::Send { to, datagram } if !loses() => {
                            self.under_way.push((millis + 10, address(*port), to, datagram));
                        }
                        Action::Found { id, .. } => self.found.entry(*port).or_default().push(id),
                        Action::LookupDone { .. } => self.done += 1,
                        _ => {}
                    }
                }
            }
        }
    }
}

fn world(size: u16) -> World {
    // The keys are the same in every run, so that every run is the same.
    let keys: Vec<Arc<NodeKey>> =
        (1..=size).map(|number| Arc::new(parse_key(&format!("{number:064x}")).unwrap())).collect();
    let boot = vec![(keys[0].id(), endpoint(2000))];
    let nodes = keys
        .iter()
        .zip(2000..)
        .map(|(key, port)| (port, node(key, port, if port == 2000 { Vec::new() } else { boot.clone() })))
        .collect();
    World { nodes, under_way: Vec::new(), found: BTreeMap::new(), done: 0 }
}

#[test]
fn twenty_nodes_that_know_one_bootnode_find_each_other() {
    let mut world = world(20);

    world.run(0..30_000, || false);

    for (port, node) in &world.nodes {
        assert_eq!(node.table().len(), 19, "node {port}");
        assert_eq!(world.found[port].len(), 19, "each node is reported once");
    }
    assert!(world.done >= 20);
}

#[test]
fn nodes_find_each_other_although_a_fifth_of_the_packets_is_lost() {
    let mut world = world(10);
    let mut counter = 0_u64;
    world.run(0..60_000, || {
        counter = counter.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (counter >> 33).is_multiple_of(5)
    });
    for (port, node) in &world.nodes {
        assert!(node.table().len() >= 5, "node {port} knows {}", node.table().len());
    }
}

#[test]
fn an_outage_that_empties_the_tables_ends_with_a_search_from_the_bootnodes() {
    let mut world = world(5);
    world.run(0..30_000, || false);

    world.run(30_000..600_000, || true);

    assert!(world.nodes.values().all(|node| node.table().is_empty()));
    world.run(600_000..640_000, || false);
    assert!(world.nodes.values().all(|node| !node.table().is_empty()));
    assert_eq!(world.nodes[&2000].table().len(), 4, "all have asked the bootnode");
}

/// A peer whose packets the test writes itself.
struct Peer {
    key: NodeKey,
    at: SocketAddr,
}

impl Peer {
    fn new(port: u16) -> Self {
        Self { key: NodeKey::random().unwrap(), at: address(port) }
    }

    fn send(&self, node: &mut Discovery, content: &Content, clock: Clock) -> Vec<(SocketAddr, Content)> {
        let (datagram, _) = Packet::encode(&TYPES, &self.key, content).unwrap();
        node.receive(self.at, &datagram, clock).unwrap();
        sends(node).into_iter().map(|(to, bytes)| (to, Packet::decode(&TYPES, &bytes).unwrap().content)).collect()
    }

    fn ping(&self, clock: Clock) -> Content {
        let own = PacketEndpoint { ip: None, udp: self.at.port(), tcp: self.at.port() };
        Content::Ping { from: own, to: own, expiration: clock.unix + 20, record: None }
    }

    /// Sends a Ping, and answers the Ping that comes back.
    fn bond(&self, node: &mut Discovery, clock: Clock) {
        let (datagram, _) = Packet::encode(&TYPES, &self.key, &self.ping(clock)).unwrap();
        node.receive(self.at, &datagram, clock).unwrap();
        for (_, datagram) in sends(node) {
            let packet = Packet::decode(&TYPES, &datagram).unwrap();
            if let Content::Ping { from, .. } = packet.content {
                let pong = Content::Pong { to: from, ping: packet.hash, expiration: clock.unix + 20, record: None };
                self.send(node, &pong, clock);
            }
        }
    }
}

fn find(clock: Clock) -> Content {
    Content::FindNode { target: NodeId([3; 64]), expiration: clock.unix + 20 }
}

#[test]
fn lists_and_records_are_given_only_to_a_proven_identifier_at_its_proven_address() {
    let (now, key) = (clock(1000), key());
    let mut node = node(&key, 2000, Vec::new());
    let (first, other) = (Peer::new(3000), Peer::new(3001));
    let moved = Peer { key: NodeKey::random().unwrap(), at: address(3000) };
    let request = Content::RecordRequest { expiration: now.unix + 20 };

    for request in [find(now), request.clone()] {
        assert_eq!(first.send(&mut node, &request, now), []);
    }
    first.bond(&mut node, now);
    other.bond(&mut node, now);
    assert!(matches!(first.send(&mut node, &find(now), now)[..], [(_, Content::Neighbors { .. })]));
    assert!(matches!(first.send(&mut node, &request, now)[..], [(_, Content::RecordResponse { .. })]));
    // Another identifier at the proven address, and the proven identifier at another address.
    for request in [find(now), request] {
        assert_eq!(moved.send(&mut node, &request, now), []);
        let first_elsewhere = SocketAddr::from(([127, 0, 0, 2], 3000));
        let (datagram, _) = Packet::encode(&TYPES, &first.key, &request).unwrap();
        node.receive(first_elsewhere, &datagram, now).unwrap();
        assert!(sends(&mut node).is_empty());
    }
    let tomorrow = clock(1000 + 24 * 3600 * 1000);
    assert_eq!(first.send(&mut node, &find(tomorrow), tomorrow), []);
}

#[test]
fn expired_and_unsolicited_packets_change_nothing() {
    let (now, key) = (clock(1000), key());
    let mut node = node(&key, 2000, Vec::new());
    let peer = Peer::new(3000);
    let own = PacketEndpoint { ip: None, udp: 3000, tcp: 3000 };
    let expired = Content::Ping { from: own, to: own, expiration: now.unix, record: None };

    assert_eq!(peer.send(&mut node, &expired, now), []);
    let pong = Content::Pong { to: own, ping: [7; 32].into(), expiration: now.unix + 20, record: None };
    assert_eq!(peer.send(&mut node, &pong, now), []);
    let nodes = vec![(Some(endpoint(4000)), NodeKey::random().unwrap().id())];
    let neighbors = Content::Neighbors { nodes, expiration: now.unix + 20 };
    assert_eq!(peer.send(&mut node, &neighbors, now), []);
    assert!(node.table().is_empty());
}

#[test]
fn many_forged_pings_from_one_address_cause_one_ping_back() {
    let (now, key) = (clock(1000), key());
    let mut node = node(&key, 2000, Vec::new());
    let (mut pongs, mut pings) = (0, 0);
    for _ in 0..50 {
        let peer = Peer { key: NodeKey::random().unwrap(), at: SocketAddr::from(([23, 1, 2, 3], 3000)) };
        for (_, content) in peer.send(&mut node, &peer.ping(now), now) {
            match content {
                Content::Pong { .. } => pongs += 1,
                Content::Ping { .. } => pings += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!((pongs, pings), (50, 1));
}

#[test]
fn an_address_gets_few_answers_a_second_and_another_one_is_answered_meanwhile() {
    let (now, key) = (clock(1000), key());
    let mut node = node(&key, 2000, Vec::new());
    let [flooding, other] =
        [3, 4].map(|last| Peer { key: NodeKey::random().unwrap(), at: SocketAddr::from(([23, 1, 2, last], 3000)) });
    for peer in [&flooding, &other] {
        peer.bond(&mut node, now);
    }
    let answers = (0..5000).map(|_| flooding.send(&mut node, &find(now), now).len()).sum::<usize>();
    assert!((100..=400).contains(&answers), "{answers}");
    assert!(!other.send(&mut node, &find(now), now).is_empty());
    let later = clock(10_000);
    assert!(!flooding.send(&mut node, &find(later), later).is_empty());
}

#[test]
fn forged_datagrams_of_an_address_do_not_keep_out_its_answers() {
    let (now, key) = (clock(1000), key());
    let mut node = node(&key, 2000, Vec::new());
    let peer = Peer { key: NodeKey::random().unwrap(), at: SocketAddr::from(([23, 1, 2, 3], 3000)) };
    let (ping, _) = Packet::encode(&TYPES, &peer.key, &peer.ping(now)).unwrap();
    node.receive(peer.at, &ping, now).unwrap();
    let own_pings = sends(&mut node).into_iter().map(|(_, datagram)| Packet::decode(&TYPES, &datagram).unwrap());
    let own_ping = own_pings.into_iter().find(|packet| matches!(packet.content, Content::Ping { .. })).unwrap();
    for _ in 0..1000 {
        let forger = Peer { key: NodeKey::random().unwrap(), at: peer.at };
        forger.send(&mut node, &find(now), now);
    }

    let own = PacketEndpoint { ip: None, udp: 3000, tcp: 3000 };
    let pong = Content::Pong { to: own, ping: own_ping.hash, expiration: now.unix + 20, record: None };
    let (pong, _) = Packet::encode(&TYPES, &peer.key, &pong).unwrap();
    node.receive(peer.at, &pong, now).unwrap();

    assert_eq!(node.table().len(), 1);
    for junk in [&[1_u8; 1][..], &[7; 200]] {
        assert!(node.receive(peer.at, junk, now).is_err());
    }
}

#[test]
fn low_ports_forbidden_addresses_and_wrong_keys_are_never_contacted() {
    let (now, key) = (clock(1000), key());
    let mut node = node(&key, 2000, Vec::new());
    let peer = Peer { key: NodeKey::random().unwrap(), at: SocketAddr::from(([23, 1, 2, 3], 3000)) };
    peer.bond(&mut node, now);
    node.lookup(NodeId([9; 64]), now);
    let asked = sends(&mut node);
    assert!(asked.iter().any(|(to, _)| *to == peer.at), "the only known node is asked");
    let good = NodeKey::random().unwrap().id();
    let at = |ip: [u8; 4], udp| Some(Endpoint { ip: ip.into(), udp, tcp: 1 });
    let nodes = vec![
        (at([24, 1, 1, 1], 1024), good),
        (at([127, 0, 0, 1], 4000), good),
        (at([10, 0, 0, 1], 4000), good),
        (at([0, 0, 0, 0], 4000), good),
        (at([24, 1, 1, 1], 4000), NodeId([1; 64])),
        (None, good),
        (at([24, 1, 1, 1], 4001), good),
    ];
    let answer = Content::Neighbors { nodes, expiration: now.unix + 20 };
    let contacted: Vec<SocketAddr> = peer.send(&mut node, &answer, now).into_iter().map(|(to, _)| to).collect();
    assert_eq!(contacted, [SocketAddr::from(([24, 1, 1, 1], 4001))]);
}

#[test]
fn a_node_that_stops_answering_is_removed() {
    let (now, key) = (clock(1000), key());
    let mut node = node(&key, 2000, Vec::new());
    Peer::new(3000).bond(&mut node, now);
    assert_eq!(node.table().len(), 1);
    for millis in (1000..40_000).step_by(100) {
        node.tick(clock(millis));
        sends(&mut node);
    }
    assert!(node.table().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any packets in any order at any time: no panic, no list or record without a proof, bounded answers, and the
    /// next time to wake is never in the past.
    #[test]
    fn any_packets_in_any_order_are_handled(steps in proptest::collection::vec((0..7_u8, 0..4_usize, 0..3_u16, 0..3000_u64), 0..60)) {
        let key = key();
        let mut node = node(&key, 2000, Vec::new());
        let peers: Vec<Peer> = (0..4).map(|_| Peer::new(3000)).collect();
        let mut millis = 0;
        let mut proven = Vec::new();
        let mut last_ping: Option<(usize, SocketAddr, alloy_primitives::B256)> = None;
        for (kind, who, port, wait) in steps {
            millis += wait;
            let now = clock(millis);
            node.tick(now);
            let at = address(3000 + port);
            let own = PacketEndpoint { ip: None, udp: at.port(), tcp: at.port() };
            let expiration = now.unix + 20;
            let content = match kind {
                0 | 1 => Content::Ping { from: own, to: own, expiration, record: None },
                2 => find(now),
                3 => Content::RecordRequest { expiration },
                4 => Content::Neighbors { nodes: vec![(Some(endpoint(5000)), peers[who].key.id())], expiration },
                5 => Content::RecordResponse { request: [1; 32].into(), record: vec![0xc0] },
                _ => {
                    let Some((whose, _, hash)) = last_ping.filter(|(whose, to, _)| *whose == who && *to == at) else { continue };
                    proven.push((whose, at));
                    Content::Pong { to: own, ping: hash, expiration, record: None }
                }
            };
            let (datagram, _) = Packet::encode(&TYPES, &peers[who].key, &content).unwrap();
            node.receive(at, &datagram, now).unwrap();
            for (to, bytes) in sends(&mut node) {
                let packet = Packet::decode(&TYPES, &bytes).unwrap();
                match packet.content {
                    Content::Neighbors { .. } | Content::RecordResponse { .. } => {
                        prop_assert!(proven.contains(&(who, to)));
                    }
                    Content::Ping { .. } if to == at && kind <= 1 => last_ping = Some((who, to, packet.hash)),
                    _ => {}
                }
            }
            node.tick(now);
            sends(&mut node);
            prop_assert!(node.wakes_at() > now.now);
        }
    }
}

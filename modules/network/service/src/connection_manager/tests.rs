//! Peers that come, go, and are sent away.

use std::time::Duration;

use proptest::prelude::*;
use tenon_network_identity::NodeKey;
use tenon_network_peers::{DialerSettings, ReputationSettings, SlotSettings};
use tenon_network_rlpx::Capability;

use super::*;

const CLOCK: Clock = Clock { now: Duration::from_secs(100), unix: 1_700_000_000 };

fn id(number: u8) -> NodeId {
    NodeId([number; 64])
}

fn at(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 30303))
}

fn manager() -> ConnectionManager {
    manager_of(3)
}

fn manager_of(max_peers: usize) -> ConnectionManager {
    let own = id(0);
    ConnectionManager::new(
        Slots::new(SlotSettings { max_peers, dial_ratio: 3, is_dialing: true }, own),
        Dialer::new(DialerSettings::default(), own, Vec::new(), CLOCK.now),
        Reputation::new(ReputationSettings::default(), &[]),
    )
}

fn hello(node: NodeId) -> Hello {
    let capability = |version| Capability { name: "eth".to_owned(), version };
    let capabilities = vec![capability(100), capability(63), capability(62)];
    Hello { version: 5, name: "peer".to_owned(), capabilities, listen_port: 0, id: node }
}

fn connect(manager: &mut ConnectionManager, connection: ConnectionId, number: u8) -> Result<(), DisconnectReason> {
    manager.start(connection, at(number), None);
    let met = manager.authenticated(connection, id(number), Some(at(200)), CLOCK);
    met.and_then(|()| manager.receive_hello(connection, hello(id(number))))
}

fn actions(manager: &mut ConnectionManager) -> Vec<Action> {
    std::iter::from_fn(|| manager.next_action()).collect()
}

const fn close(connection: ConnectionId) -> Action {
    Action::Close { connection, reason: DisconnectReason::REQUESTED }
}

#[test]
fn a_peer_is_shown_once_with_both_connections_until_the_last_ends() {
    let mut manager = manager();
    connect(&mut manager, 1, 1).unwrap();
    connect(&mut manager, 2, 1).unwrap();
    let status = Status {
        version: 100,
        network: 50,
        total_difficulty: U256::from(9),
        head: B256::repeat_byte(1),
        genesis: B256::ZERO,
        fork_id: None,
    };
    manager.established(2, &status);
    manager.height(&id(1), B256::repeat_byte(1), 8);

    let peers = manager.peers();

    assert_eq!(peers.len(), 1);
    assert_eq!(
        (peers[0].connections, &peers[0].capabilities[..]),
        (2, &["eth/62", "eth/63", "eth/100"].map(str::to_owned)[..])
    );
    assert_eq!(peers[0].chain.as_ref().unwrap().number, Some(BlockNumber(8)));
    manager.ended(1, "gone");
    assert_eq!(manager.peers()[0].connections, 1);
    manager.ended(2, "gone");
    assert_eq!(manager.peers(), []);
    let told = actions(&mut manager);
    assert_eq!(told.len(), 4, "{told:?}");
    let error = Some("gone".to_owned());
    assert_eq!(told[3], Action::Publish(PeerChanged { peer: id(1).to_string(), is_connected: false, error }));
}

#[test]
fn a_dialed_node_with_another_key_and_this_node_itself_are_refused() {
    let mut manager = manager();
    manager.start(1, at(1), Some(id(1)));
    assert_eq!(manager.authenticated(1, id(2), None, CLOCK), Err(DisconnectReason::UNEXPECTED_IDENTITY));
    assert_eq!(connect(&mut manager, 2, 0), Err(DisconnectReason::CONNECTED_TO_SELF));
    manager.ended(1, "");
    manager.ended(2, "");
    assert_eq!(actions(&mut manager), []);
}

#[test]
fn a_refused_connection_frees_no_slot_of_others() {
    let mut manager = manager();
    connect(&mut manager, 1, 1).unwrap();
    connect(&mut manager, 2, 1).unwrap();
    assert_eq!(connect(&mut manager, 3, 3), Err(DisconnectReason::TOO_MANY_PEERS));
    manager.ended(3, "refused");
    assert_eq!(connect(&mut manager, 4, 4), Err(DisconnectReason::TOO_MANY_PEERS));
}

#[test]
fn one_address_does_not_keep_all_inbound_slots() {
    let mut manager = manager_of(12);
    let mut next = 0;
    let mut connect_from = |manager: &mut ConnectionManager, address: u8| {
        next += 1;
        manager.start(next.into(), at(address), None);
        let met = manager.authenticated(next.into(), id(next), None, CLOCK);
        met.and_then(|()| manager.receive_hello(next.into(), hello(id(next))))
    };
    (0..8).for_each(|_| connect_from(&mut manager, 1).unwrap());
    actions(&mut manager);

    assert_eq!(connect_from(&mut manager, 1), Err(DisconnectReason::TOO_MANY_PEERS), "the same address");
    assert_eq!(connect_from(&mut manager, 2), Ok(()), "in place of the newest of the other address");
    let closed = Action::Close { connection: 8, reason: DisconnectReason::TOO_MANY_PEERS };
    assert_eq!(actions(&mut manager)[0], closed);
    assert_eq!(connect_from(&mut manager, 3), Ok(()));
    manager.ended(8, "gone");
    assert_eq!(connect_from(&mut manager, 2), Ok(()), "six of the first address, and one");
    assert_eq!(
        connect_from(&mut manager, 2),
        Err(DisconnectReason::TOO_MANY_PEERS),
        "five are not more than twice three"
    );
    assert_eq!(manager.peers().len(), 10, "eight, and two that are being closed");
}

#[test]
fn faults_cut_and_ban_and_the_ban_is_kept() {
    let mut manager = manager();
    connect(&mut manager, 1, 1).unwrap();
    actions(&mut manager);
    manager.fault(1, Fault::Malformed, CLOCK);
    assert_eq!(actions(&mut manager), [close(1)]);
    manager.fault(1, Fault::InvalidBlock, CLOCK);
    assert_eq!(actions(&mut manager), [close(1), Action::SaveBans]);
    manager.ended(1, "");
    assert_eq!(connect(&mut manager, 2, 1), Err(DisconnectReason::USELESS_PEER));
    assert_eq!(manager.bans(CLOCK).len(), 2);

    // The operator's own nodes are never banned.
    let enode = Enode { id: id(1), endpoint: None };
    manager.change(&enode, PeerChange::Trust, CLOCK).unwrap();
    assert_eq!(connect(&mut manager, 3, 1), Ok(()));
}

#[test]
fn a_static_node_is_dialed_and_a_removed_one_is_disconnected() {
    let mut manager = manager();
    let node = NodeKey::random().unwrap().id();
    let endpoint = Endpoint { ip: at(1).ip(), udp: 30303, tcp: 30303 };
    manager.change(&Enode { id: node, endpoint: Some(endpoint) }, PeerChange::Add, CLOCK).unwrap();
    assert!(manager.schedule(CLOCK).contains(&Dial::Connect { id: node, endpoint }));
    manager.start(7, at(1), Some(node));
    manager.authenticated(7, node, None, CLOCK).unwrap();
    manager.receive_hello(7, hello(node)).unwrap();
    assert!(manager.peers()[0].is_static && !manager.peers()[0].is_inbound);
    actions(&mut manager);

    manager.change(&Enode { id: node, endpoint: None }, PeerChange::Remove, CLOCK).unwrap();

    assert_eq!(actions(&mut manager), [close(7)]);
    manager.ended(7, "");
    assert!(
        !manager
            .schedule(Clock { now: CLOCK.now * 2, ..CLOCK })
            .iter()
            .any(|dial| matches!(dial, Dial::Connect { .. }))
    );
    let unusable = Enode { id: node, endpoint: Some(Endpoint { tcp: 0, ..endpoint }) };
    assert_eq!(manager.change(&unusable, PeerChange::Add, CLOCK), Err(UnusableNode::NoTcpPort));
}

/// Inputs of the connection manager, with few nodes and connections, so that they often coincide.
#[derive(Clone, Debug)]
enum ConnectionManagerInput {
    Start { connection: u64, address: u8, dialed: Option<u8> },
    Authenticated { connection: u64, node: u8 },
    Greeted { connection: u64, node: u8 },
    Fault { connection: u64, fault: Fault },
    Ended { connection: u64 },
    Change { node: u8, change: PeerChange },
    Schedule { wait: u64 },
}

fn happening() -> impl Strategy<Value = ConnectionManagerInput> {
    let (connection, node) = (0_u64..12, 0_u8..5);
    let fault = prop_oneof![Just(Fault::NoAnswer), Just(Fault::Malformed), Just(Fault::InvalidBlock)];
    let change = prop_oneof![
        Just(PeerChange::Add),
        Just(PeerChange::Remove),
        Just(PeerChange::Trust),
        Just(PeerChange::Distrust)
    ];
    prop_oneof![
        (connection.clone(), node.clone(), proptest::option::of(node.clone()))
            .prop_map(|(connection, address, dialed)| ConnectionManagerInput::Start { connection, address, dialed }),
        (connection.clone(), node.clone())
            .prop_map(|(connection, node)| ConnectionManagerInput::Authenticated { connection, node }),
        (connection.clone(), node.clone())
            .prop_map(|(connection, node)| ConnectionManagerInput::Greeted { connection, node }),
        (connection.clone(), fault).prop_map(|(connection, fault)| ConnectionManagerInput::Fault { connection, fault }),
        connection.prop_map(|connection| ConnectionManagerInput::Ended { connection }),
        (node, change).prop_map(|(node, change)| ConnectionManagerInput::Change { node, change }),
        (0_u64..40).prop_map(|wait| ConnectionManagerInput::Schedule { wait }),
    ]
}

proptest! {
    #[test]
    fn slots_and_peers_agree_and_all_are_free_in_the_end(happenings in proptest::collection::vec(happening(), 0..120)) {
        let mut manager = manager();
        let (mut clock, mut begun, mut told) = (CLOCK, BTreeSet::new(), 0_i64);
        for happening in happenings {
            match happening {
                // Numbers are given once.
                ConnectionManagerInput::Start { connection, address, dialed } => if begun.insert(connection) {
                    manager.start(connection, at(address), dialed.map(id));
                },
                ConnectionManagerInput::Authenticated { connection, node } => {
                    let is_new = manager.connections.get(&connection).is_some_and(|managed| managed.node.is_none());
                    if is_new {
                        let _ = manager.authenticated(connection, id(node), None, clock);
                    }
                }
                ConnectionManagerInput::Greeted { connection, node } => {
                    let is_new = manager.connections.get(&connection).is_some_and(|managed| managed.greeting.is_none());
                    if is_new {
                        let _ = manager.receive_hello(connection, hello(id(node)));
                    }
                }
                ConnectionManagerInput::Fault { connection, fault } => manager.fault(connection, fault, clock),
                ConnectionManagerInput::Ended { connection } => manager.ended(connection, ""),
                ConnectionManagerInput::Change { node, change } => {
                    prop_assert_eq!(manager.change(&Enode { id: id(node), endpoint: None }, change, clock), Ok(()));
                }
                ConnectionManagerInput::Schedule { wait } => {
                    clock.now += Duration::from_secs(wait);
                    clock.unix += wait;
                    manager.schedule(clock);
                }
            }
            for action in actions(&mut manager) {
                match action {
                    Action::Publish(event) => told += if event.is_connected { 1 } else { -1 },
                    Action::Close { connection, .. } => prop_assert!(manager.connections.contains_key(&connection)),
                    Action::SaveBans => {}
                }
            }
            let peers = manager.peers();
            let connections: u64 = peers.iter().map(|peer| peer.connections).sum();
            prop_assert_eq!(peers.len(), manager.slots.peers());
            prop_assert_eq!(told, connections as i64);
            prop_assert!(peers.iter().all(|peer| peer.connections <= 2 && peer.id != id(0).to_string()));
        }
        for connection in begun {
            manager.ended(connection, "");
        }
        prop_assert_eq!((manager.peers(), manager.slots.inbound()), (Vec::new(), 0));
    }
}

//! Whole networks over loopback, each with its own actor, sockets and chain in memory.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tenon_api::messages::{ChangePeer, GetNetworkNode, GetNetworkStatus, ListPeers, PeerChange, PeerChanged, PeerInfo};
use tenon_api::{BlockNumber, ChainReader, EncodedChainReader, EnodeProblem, U256};
use tenon_bus::{Bus, CallContext, Delivery};
use tenon_memory_chain::MemoryChain;
use tenon_memory_chain::network_ports::{EmptyPool, NextBlocks, chain_of};
use tenon_network_identity::Enode;
use tenon_network_service::{BandwidthLimits, Mechanism, Network, NetworkPorts, NetworkSettings};
use tenon_supervisor::Supervisor;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Far longer than any step takes: a test that waits this long has failed.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A node with nothing but a network.
struct Node {
    network: Arc<Network>,
    supervisor: Supervisor,
    bus: Bus,
    settings: NetworkSettings,
    chain: Arc<MemoryChain>,
    _folder: TempDir,
}

impl Node {
    /// A node with a chain of `blocks` blocks, not started yet.
    fn new(blocks: u64, change: impl FnOnce(&mut NetworkSettings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let chain = Arc::new(chain_of(blocks));
        let genesis = chain.canonical_hash(BlockNumber(0)).unwrap().unwrap();
        let mut settings = NetworkSettings {
            folder: folder.path().join("network"),
            key_file: None,
            listen: SocketAddr::new(LOOPBACK, 0),
            nat: Mechanism::Off,
            name: "Tenon/test".to_owned(),
            max_peers: 9,
            max_pending: 50,
            is_discovering: true,
            bootnodes: Vec::new(),
            statics: Vec::new(),
            trusted: Vec::new(),
            restrict: None,
            bandwidth: BandwidthLimits::default(),
            network_id: 50,
            genesis,
        };
        change(&mut settings);
        let bus = Bus::new();
        let network = Network::new(&bus).unwrap();
        Self { network, supervisor: Supervisor::new().unwrap(), bus, settings, chain, _folder: folder }
    }

    async fn start(blocks: u64, change: impl FnOnce(&mut NetworkSettings)) -> Self {
        let node = Self::new(blocks, change);
        node.begin().await;
        node
    }

    async fn begin(&self) {
        let ports = NetworkPorts {
            chain: Arc::clone(&self.chain) as Arc<dyn EncodedChainReader>,
            blocks: Arc::new(NextBlocks(Arc::clone(&self.chain))),
            pool: Arc::new(EmptyPool),
            consensus: None,
            bus: self.bus.clone(),
        };
        self.network.start(&self.supervisor, &self.settings, &ports).await.unwrap();
    }

    fn enode(&self) -> Enode {
        let node = self.bus.try_read(GetNetworkNode, &CallContext::new()).unwrap().unwrap();
        node.unwrap().enode.parse().unwrap()
    }

    fn peers(&self) -> Vec<PeerInfo> {
        self.bus.try_read(ListPeers, &CallContext::new()).unwrap().unwrap()
    }

    async fn change(&self, url: &str, change: PeerChange) -> Result<bool, String> {
        let request = ChangePeer { url: url.to_owned(), change };
        self.bus.call(request, &CallContext::new()).await.map_err(|error| error.to_string())
    }

    /// Waits until the peers are as wanted.
    async fn wait_for(&self, is_wanted: impl Fn(&[PeerInfo]) -> bool) -> Vec<PeerInfo> {
        let waiting = async {
            loop {
                let peers = self.peers();
                if is_wanted(&peers) {
                    return peers;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        match timeout(TEST_TIMEOUT, waiting).await {
            Ok(peers) => peers,
            Err(_) => panic!("peers are {:?}", self.peers()),
        }
    }
}

fn knows_heads(peers: &[PeerInfo]) -> bool {
    !peers.is_empty() && peers.iter().all(|peer| peer.chain.as_ref().is_some_and(|chain| chain.number.is_some()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_is_added_shows_its_head_to_both_and_is_gone_when_it_is_removed() {
    let (one, other) = (Node::start(8, |_| {}).await, Node::start(5, |_| {}).await);
    let mut events = other.bus.subscribe::<PeerChanged>();
    let url = other.enode().to_string();

    assert_eq!(one.change(&url, PeerChange::Add).await, Ok(true));

    let [seen] = &one.wait_for(knows_heads).await[..] else { panic!("one peer") };
    let [met] = &other.wait_for(knows_heads).await[..] else { panic!("one peer") };
    assert!(seen.is_static && !seen.is_inbound && met.is_inbound && !met.is_static);
    assert_eq!((&seen.name[..], &seen.capabilities[..]), ("Tenon/test", &["eth/63", "eth/100"].map(str::to_owned)[..]));
    let height =
        |peer: &PeerInfo| peer.chain.as_ref().map(|chain| (chain.version, chain.number, chain.total_difficulty));
    assert_eq!(height(seen), Some((100, Some(BlockNumber(4)), U256::from(5))));
    assert_eq!(height(met), Some((100, Some(BlockNumber(7)), U256::from(8))));
    let status = one.bus.try_read(GetNetworkStatus, &CallContext::new()).unwrap().unwrap();
    assert!(status.is_listening && status.peers == 1);
    let address: SocketAddr = one.network.listen_address().unwrap().parse().unwrap();
    let endpoint = one.enode().endpoint.unwrap();
    assert_eq!((address.ip(), address.port()), (LOOPBACK, endpoint.tcp));
    assert_eq!(one.network.connected_peers(), 1);

    assert_eq!(one.change(&url, PeerChange::Remove).await, Ok(true));

    one.wait_for(<[PeerInfo]>::is_empty).await;
    other.wait_for(<[PeerInfo]>::is_empty).await;
    for is_connected in [true, false] {
        let Some(Delivery::Event(event)) = events.next().await else { panic!("an event") };
        assert_eq!((event.is_connected, event.peer), (is_connected, one.enode().id.to_string()));
    }
    assert_eq!(one.change("enode://7", PeerChange::Add).await, Err(EnodeProblem::IdOdd.to_string()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_behind_takes_the_blocks_of_its_peer() {
    let (one, other) = (Node::start(5_000, |_| {}).await, Node::start(5, |_| {}).await);

    other.change(&one.enode().to_string(), PeerChange::Add).await.unwrap();

    let following = async {
        while other.chain.head().header.hash() != one.chain.head().header.hash() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(TEST_TIMEOUT, following).await.unwrap();
    assert_eq!(one.peers().len(), 1, "no peer was disconnected");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_find_each_other_by_a_third_that_only_relays() {
    let relay = Node::start(3, |settings| settings.network_id = 7).await;
    let bootnode = relay.enode();
    let join = |settings: &mut NetworkSettings| settings.bootnodes = vec![bootnode];
    let (one, other) = (Node::start(3, join).await, Node::start(3, join).await);

    // The relay is of another network, so that no node keeps a connection to it.
    let other_id = other.enode().id.to_string();
    let peers = one.wait_for(|peers| knows_heads(peers) && peers.iter().any(|peer| peer.id == other_id)).await;

    assert!(peers.iter().all(|peer| !peer.is_static));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_stops_starts_again_with_its_key_and_refuses_meanwhile() {
    let (one, other) = (Node::start(3, |_| {}).await, Node::start(3, |_| {}).await);
    other.change(&one.enode().to_string(), PeerChange::Add).await.unwrap();
    one.wait_for(knows_heads).await;
    let id = one.enode().id;

    assert!(one.network.stop(&one.supervisor).await);

    other.wait_for(<[PeerInfo]>::is_empty).await;
    assert_eq!(one.bus.try_read(GetNetworkNode, &CallContext::new()).unwrap().unwrap(), None);
    let refused = one.change(&format!("enode://{id}"), PeerChange::Add).await.unwrap_err();
    assert!(refused.starts_with("the peer-to-peer network is off"), "{refused}");
    one.begin().await;
    assert_eq!(one.enode().id, id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_of_another_chain_is_not_kept() {
    let (one, other) = (Node::start(3, |_| {}).await, Node::start(3, |settings| settings.network_id = 51).await);
    let mut events = one.bus.subscribe::<PeerChanged>();

    one.change(&other.enode().to_string(), PeerChange::Add).await.unwrap();

    let gone = async {
        loop {
            if let Some(Delivery::Event(PeerChanged { is_connected: false, error, .. })) = events.next().await {
                return error;
            }
        }
    };
    let error = timeout(TEST_TIMEOUT, gone).await.unwrap().unwrap();
    // The node that sees the mismatch first tells the other one.
    assert!(error.contains("NetworkId mismatch") || error.contains("subprotocol error"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_are_closed_and_do_not_keep_peers_out() {
    let node = Node::start(3, |_| {}).await;
    let address = SocketAddr::new(LOOPBACK, node.enode().endpoint.unwrap().tcp);
    let mut silent = Vec::new();
    for _ in 0..30 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }

    let peer = Node::start(3, |_| {}).await;
    peer.change(&node.enode().to_string(), PeerChange::Add).await.unwrap();

    // Some are closed immediately, because one address has too many; the others after the handshake's time limit.
    for stream in &mut silent {
        let mut byte = [0];
        let read = timeout(TEST_TIMEOUT, stream.read(&mut byte)).await.unwrap();
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
    // It is dialed again after its first attempt found no free slot.
    node.wait_for(knows_heads).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_outside_the_permitted_networks_get_nothing() {
    let node = Node::start(3, |settings| settings.restrict = Some("10.0.0.0/8".parse().unwrap())).await;
    let address = SocketAddr::new(LOOPBACK, node.enode().endpoint.unwrap().tcp);

    let mut stream = TcpStream::connect(address).await.unwrap();

    let read = timeout(TEST_TIMEOUT, stream.read(&mut [0])).await.unwrap();
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
}

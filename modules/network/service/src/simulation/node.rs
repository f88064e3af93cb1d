//! A node on a simulated host: the real network, over a chain in memory that executes nothing.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use alloy_primitives::hex;
use tempfile::TempDir;
use tenon_api::messages::{ListPeers, PeerChanged, PeerInfo};
use tenon_api::{
    B256, BatchObserver, Block, BlockNumber, BlockPort, BlockVerdict, Bytes, ChainReader, EncodedChainReader,
    FailedBlock, Header, RoundMessage, RoundMessageKind, RoundMessages, RoundNetwork as _, SealedHeader,
};
use tenon_bus::{Bus, CallContext, Delivery};
use tenon_chain::round_messages::Timeout;
use tenon_memory_chain::MemoryChain;
use tenon_memory_chain::network_ports::{EmptyPool, NextBlocks, chain_of, header_after};
use tenon_network_connection::BandwidthLimits;
use tenon_network_identity::{Endpoint, Enode, NodeKey};
use tenon_network_nat::Mechanism;
use tenon_supervisor::Supervisor;

use super::system;
use crate::network::{Network, NetworkPorts};
use crate::settings::NetworkSettings;

/// The port of every node.
pub(super) const PORT: u16 = 30303;
/// Network id of every node.
pub(super) const NETWORK_ID: u64 = 50;
/// Height of every chain at the start.
const BLOCKS: u64 = 5;

/// A node as the test sees it, running or not.
pub(super) struct Node {
    pub(super) name: String,
    pub(super) enode: Enode,
    pub(super) settings: NetworkSettings,
    pub(super) chain: Arc<MemoryChain>,
    voting: Arc<Voting>,
    /// Resources of the last start.
    running: RefCell<Option<Running>>,
    /// Every [`PeerChanged`], in their order.
    pub(super) changes: RefCell<Vec<PeerChanged>>,
    _folder: TempDir,
}

struct Running {
    /// Weak, so that a crash closes the sockets.
    network: Weak<Network>,
    supervisor: Rc<Supervisor>,
    bus: Bus,
}

impl Node {
    /// A node at an address, with a key of its own.
    pub(super) fn new(name: &str, ip: IpAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (key_file, secret) = (folder.path().join("key"), system::random::<[u8; 32]>());
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&key_file).unwrap();
        std::io::Write::write_all(&mut file, hex::encode(secret).as_bytes()).unwrap();
        let id = NodeKey::from_secret(secret.into()).unwrap().id();
        let chain = Arc::new(chain_of(BLOCKS));
        let settings = NetworkSettings {
            folder: folder.path().join("network"),
            key_file: Some(key_file),
            listen: SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), PORT),
            nat: Mechanism::Off,
            name: "Tenon/simulation".to_owned(),
            max_peers: 30,
            max_pending: 50,
            is_discovering: false,
            bootnodes: Vec::new(),
            statics: Vec::new(),
            trusted: Vec::new(),
            restrict: None,
            bandwidth: BandwidthLimits::default(),
            network_id: NETWORK_ID,
            genesis: chain.canonical_hash(BlockNumber(0)).unwrap().unwrap(),
        };
        Self {
            name: name.to_owned(),
            enode: Enode { id, endpoint: Some(Endpoint { ip, udp: PORT, tcp: PORT }) },
            settings,
            chain,
            voting: Arc::default(),
            running: RefCell::default(),
            changes: RefCell::default(),
            _folder: folder,
        }
    }

    /// The node's program: starts the network, and records its events until the host crashes.
    pub(super) async fn run(&self) -> turmoil::Result {
        let (bus, supervisor) = (Bus::new(), Rc::new(Supervisor::without_threads()));
        let mut changes = bus.subscribe::<PeerChanged>();
        let network = Network::new(&bus)?;
        let ports = NetworkPorts {
            chain: Arc::clone(&self.chain) as Arc<dyn EncodedChainReader>,
            blocks: Arc::new(OneBlockAtATime(NextBlocks(Arc::clone(&self.chain)))),
            pool: Arc::new(EmptyPool),
            consensus: Some(Arc::clone(&self.voting) as Arc<dyn RoundMessages>),
            bus: bus.clone(),
        };
        network.start(&supervisor, &self.settings, &ports).await?;
        *self.running.borrow_mut() = Some(Running { network: Arc::downgrade(&network), supervisor, bus });
        while let Some(Delivery::Event(change)) = changes.next().await {
            self.changes.borrow_mut().push(change);
        }
        Err("events were missed".into())
    }

    /// Whether its network runs.
    pub(super) fn is_started(&self) -> bool {
        self.running.borrow().as_ref().is_some_and(|running| running.network.strong_count() > 0)
    }

    /// Hash of its head.
    pub(super) fn head(&self) -> B256 {
        self.chain.head().header.hash()
    }

    /// Its peers; none if it does not run.
    pub(super) fn peers(&self) -> Vec<PeerInfo> {
        let Some(Running { bus, .. }) = &*self.running.borrow() else { return Vec::new() };
        bus.try_read(ListPeers, &CallContext::new()).unwrap().unwrap()
    }

    /// Whether it has a session of `eth` with another node, and knows the height of its head.
    pub(super) fn knows_head_of(&self, other: &Self) -> bool {
        let id = other.enode.id.to_string();
        self.peers().iter().any(|peer| peer.id == id && peer.chain.as_ref().is_some_and(|chain| chain.number.is_some()))
    }

    /// Whether another node is among its peers.
    pub(super) fn lists(&self, other: &Self) -> bool {
        let id = other.enode.id.to_string();
        self.peers().iter().any(|peer| peer.id == id)
    }

    /// Why its connections to a peer ended, in their order.
    pub(super) fn ends_of(&self, peer: &str) -> Vec<String> {
        let changes = self.changes.borrow();
        let ends = changes.iter().filter(|change| !change.is_connected && change.peer == peer);
        ends.map(|change| change.error.clone().unwrap_or_default()).collect()
    }

    /// The panics of its actor.
    pub(super) fn panics(&self) -> Vec<String> {
        let running = self.running.borrow();
        let health = running.as_ref().map(|running| running.supervisor.health()).unwrap_or_default();
        health.into_iter().filter_map(|health| health.last_panic).collect()
    }

    /// Closes its sockets.
    pub(super) fn abort(&self) {
        let running = self.running.borrow();
        let network = running.as_ref().and_then(|running| running.network.upgrade());
        if let Some(network) = network {
            network.abort();
        }
    }

    /// Ends the run from the test's point of view, after the host crashed.
    pub(super) fn crashed(&self) {
        let running = self.running.borrow_mut().take();
        let is_gone = running.is_none_or(|running| running.network.upgrade().is_none());
        assert!(is_gone, "{} keeps its network after a crash", self.name);
        self.changes.borrow_mut().clear();
    }

    /// Sends the timeout message of a round to the peers.
    pub(super) fn broadcast(&self, round: u64) {
        let network = self.network();
        network.broadcast(timeout_message(round));
    }

    /// Makes the next block and announces it. Returns its hash.
    pub(super) fn announce_block(&self) -> B256 {
        self.announce_block_at(0)
    }

    /// Makes the next block with a timestamp and announces it. Returns its hash.
    pub(super) fn announce_block_at(&self, timestamp: u64) -> B256 {
        let head = self.chain.head();
        let header = header_after(head.header.hash(), head.header.number + 1).header().clone();
        let header = tenon_chain::seal(Header { timestamp, ..header });
        let (hash, total_difficulty) = (header.hash(), head.total_difficulty + header.difficulty);
        self.chain.push_header(header.clone());
        let block = Block { header, transactions: Vec::new(), ommers: Vec::new(), withdrawals: None, size: 0 };
        self.network().announce(Arc::new(block), total_difficulty);
        hash
    }

    /// Whether it has received the timeout message of a round.
    pub(super) fn has_received(&self, round: u64) -> bool {
        self.voting.received.lock().unwrap().contains(&timeout_message(round).payload)
    }

    /// How often it stopped voting because it counted as far behind.
    pub(super) fn pauses(&self) -> usize {
        self.voting.pauses.load(Ordering::Relaxed)
    }

    /// The headers of its chain, from genesis on.
    pub(super) fn headers(&self) -> Vec<SealedHeader> {
        let hashes = (0..).map_while(|number| self.chain.canonical_hash(BlockNumber(number)).unwrap());
        hashes.map(|hash| SealedHeader::clone(&self.chain.header(hash).unwrap().unwrap())).collect()
    }

    fn network(&self) -> Arc<Network> {
        let running = self.running.borrow();
        running.as_ref().and_then(|running| running.network.upgrade()).unwrap()
    }
}

fn timeout_message(round: u64) -> RoundMessage {
    let timeout = Timeout { round, signature: vec![7; 65].into(), gap_number: 450 };
    RoundMessage { kind: RoundMessageKind::Timeout, payload: alloy_rlp::encode(timeout).into() }
}

/// Takes the next block of the chain.
struct OneBlockAtATime(NextBlocks);

impl BlockPort for OneBlockAtATime {
    fn verify_header(&self, header: &SealedHeader) -> BlockVerdict {
        self.0.verify_header(header)
    }

    fn insert(&self, block: Block) -> BlockVerdict {
        self.0.insert(block)
    }

    /// Nodes never differ by more than the block that was announced last.
    fn import(
        &self,
        _blocks: Box<dyn Iterator<Item = Block> + Send>,
        _observer: &mut dyn BatchObserver,
    ) -> Result<(), FailedBlock> {
        panic!("an import cannot run in a simulation: it blocks its thread")
    }
}

/// Records the messages that it receives.
#[derive(Default)]
struct Voting {
    received: Mutex<BTreeSet<Bytes>>,
    /// How often the node began to count as far behind.
    pauses: AtomicUsize,
}

impl RoundMessages for Voting {
    fn receive(&self, message: RoundMessage, _guard: Box<dyn Send>) {
        self.received.lock().unwrap().insert(message.payload);
    }

    fn executed(&self, _header: Arc<SealedHeader>, _is_announced: bool) {}

    fn set_syncing(&self, is_syncing: bool) {
        if is_syncing {
            self.pauses.fetch_add(1, Ordering::Relaxed);
        }
    }
}

//! The network's interface to the node: start, stop, and handlers on the bus.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tenon_api::messages::{
    ChangePeer, GetNetworkNode, GetNetworkStatus, ListPeers, NetworkNode, NetworkStatus, PeerChange,
};
use tenon_api::{
    ActorError, Block, BlockNumber, BlockPort, BusError, EncodedChainReader, EnodeProblem, PeerTransactions,
    RequestError, RoundMessage, RoundMessages, RoundNetwork, U256,
};
use tenon_bus::{Bus, CallContext, RegisterError};
use tenon_network_connection::{Bandwidth, FairTurns, ReceiveBudget};
use tenon_network_discovery::{Clock, Discovery, DiscoverySettings, PacketEndpoint, PacketTypes, TableSettings};
use tenon_network_identity::{Endpoint, Enode, NodeId, NodeKey, load_or_create};
use tenon_network_nat::{MappedPort, NatSettings, PortMapper, Transport};
use tenon_network_peers::{Dialer, DialerSettings, Reputation, ReputationSettings, SlotSettings, Slots};
use tenon_network_rlpx::{OfferedProtocol, SessionSettings};
use tenon_network_wire::{VERSIONS, limits};
use tenon_supervisor::{ActorHealth, ActorOptions, Mailbox, Supervisor};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::actor::{NetworkActor, Parts};
use crate::connection_limiter::{ConnectionLimiter, ConnectionLimiterSettings};
use crate::connection_manager::ConnectionManager;
use crate::connections::{Context, PROTOCOL};
use crate::files::NetworkFolder;
use crate::handshake_slot::SharedLimiter;
use crate::input::Input;
use crate::message_work::{AwaitedAnswers, MessageTurns};
use crate::pool;
use crate::published_state::PublishedState;
use crate::settings::{NetworkSettings, NetworkStartError};
use crate::sockets::{self, Timer};
use crate::system::{self, TcpListener, UdpSocket};
use crate::traffic::Traffic;

/// The actor's name in the supervisor.
pub const ACTOR: &str = "network";
/// Capacity of the mailbox. Each connection and each datagram has a few messages at most, and their numbers are bounded.
const MAILBOX_CAPACITY: usize = 4096;
/// Maximum number of answers that are read from the database at a time.
const MAX_READERS: usize = 4;
/// One slot of three is reserved for outbound peers (`docs/spec/p2p.md` 10).
const DIAL_RATIO: usize = 3;
/// Versions of `eth` that are offered, the preferred one first. 62 is deprecated; 164 and 165 are not offered until their fork
/// ids are confirmed (`docs/spec/upgrades.md` 12).
const OFFERED_VERSIONS: [u32; 2] = [100, 63];
/// Number of ports of the system's choice that are tried.
const MAX_CHOSEN_PORTS: usize = 16;
/// Time limit for the actor to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for sending Disconnect to all peers when the network stops.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum time that [`Network::stop`] waits for the actor and the connections.
pub const MAX_NETWORK_STOP_TIME: Duration = STOP_TIMEOUT.saturating_add(DISCONNECT_TIMEOUT);

/// The parts of the node that the network uses.
#[derive(Clone)]
pub struct NetworkPorts {
    /// The chain that is served.
    pub chain: Arc<dyn EncodedChainReader>,
    /// Receives the blocks of peers.
    pub blocks: Arc<dyn BlockPort>,
    /// Receives the transactions of peers, and supplies those for them.
    pub pool: Arc<dyn PeerTransactions>,
    /// Receives the votes, timeouts and certificates of peers; `None` if they are not processed.
    pub consensus: Option<Arc<dyn RoundMessages>>,
    /// The bus on which events are published.
    pub bus: Bus,
}

/// The network of a node, running or not.
pub struct Network {
    published: PublishedState,
    traffic: Arc<Traffic>,
    running: Mutex<Option<Running>>,
}

struct Running {
    mailbox: Mailbox<Input>,
    parts: Arc<Parts>,
    tasks: Vec<JoinHandle<()>>,
    /// The task that asks a router for ports, if the settings say so.
    ports: Option<PortMapper>,
}

/// The public address of this node, if known: from the settings or from a router. Clones share it.
#[derive(Clone, Debug)]
struct External(Arc<Mutex<Option<IpAddr>>>);

impl External {
    fn new(address: Option<IpAddr>) -> Self {
        Self(Arc::new(Mutex::new(address)))
    }

    fn get(&self) -> Option<IpAddr> {
        *self.0.lock()
    }

    fn set(&self, address: IpAddr) {
        *self.0.lock() = Some(address);
    }
}

/// Why a request of the operator about a peer was not carried out.
#[derive(Debug, thiserror::Error)]
enum ChangePeerError {
    /// The network is stopped.
    #[error(
        "the peer-to-peer network is off; on a native chain, --p2p (p2p.enabled) or `tenon module enable network` turns \
         it on"
    )]
    Off,
    /// The text is no enode URL, or its node cannot be dialed.
    #[error(transparent)]
    Enode(#[from] EnodeProblem),
    /// The actor did not accept the request.
    #[error(transparent)]
    Actor(#[from] ActorError),
    /// The actor failed before it answered.
    #[error("the network has failed; try again")]
    Failed,
}

impl From<ChangePeerError> for BusError {
    fn from(error: ChangePeerError) -> Self {
        match error {
            ChangePeerError::Actor(error) => error.into(),
            ChangePeerError::Enode(problem) => RequestError::from(problem).into(),
            error => Self::failed(error),
        }
    }
}

impl Network {
    /// A stopped network: its handlers answer that it is off.
    ///
    /// # Errors
    /// [`RegisterError`] if one of its messages already has a handler.
    pub fn new(bus: &Bus) -> Result<Arc<Self>, RegisterError> {
        let network =
            Arc::new(Self { published: PublishedState::default(), traffic: Arc::default(), running: Mutex::default() });
        let published = network.published.clone();
        bus.handle_read(move |_: GetNetworkStatus, _: &CallContext| {
            Ok(NetworkStatus { is_listening: published.node().is_some(), peers: published.peers().len() as u64 })
        })?;
        let published = network.published.clone();
        bus.handle_read(move |_: GetNetworkNode, _: &CallContext| Ok(published.node()))?;
        let published = network.published.clone();
        bus.handle_read(move |_: ListPeers, _: &CallContext| Ok(published.peers().to_vec()))?;
        // Weak, because the bus lives as long as the node and would keep the network alive.
        let weak = Arc::downgrade(&network);
        bus.handle(move |request: ChangePeer, _: CallContext| {
            let network = weak.upgrade();
            async move { Ok(network.ok_or(ChangePeerError::Off)?.change(&request.url, request.change).await?) }
        })?;
        Ok(network)
    }

    /// Its counters, for metrics.
    pub fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }

    /// Start and target height of the running synchronisation, if any. Importing single blocks near the head does not
    /// count.
    pub fn progress(&self) -> Option<(BlockNumber, BlockNumber)> {
        let progress = self.published.progress()?;
        Some((BlockNumber(progress.starting), BlockNumber(progress.highest)))
    }

    /// Address at which it listens for connections, over TCP; `None` while it is off.
    pub fn listen_address(&self) -> Option<String> {
        self.published.node().map(|node| node.listen_address)
    }

    /// Number of connected peers.
    pub fn connected_peers(&self) -> u64 {
        self.published.peers().len() as u64
    }

    async fn change(&self, url: &str, change: PeerChange) -> Result<bool, ChangePeerError> {
        let enode: Enode = url.parse()?;
        let mailbox = self.running.lock().as_ref().map(|running| running.mailbox.clone());
        let mailbox = mailbox.ok_or(ChangePeerError::Off)?;
        let (answer, answered) = oneshot::channel();
        mailbox.try_send(Input::Change { enode, change, answer })?;
        answered.await.map_err(|_| ChangePeerError::Failed)?.map_err(EnodeProblem::from)?;
        Ok(true)
    }

    /// Opens the sockets and starts the actor. Does nothing if it is running.
    ///
    /// # Errors
    /// [`NetworkStartError`]; all sockets are closed then.
    pub async fn start(
        &self,
        supervisor: &Supervisor,
        settings: &NetworkSettings,
        ports: &NetworkPorts,
    ) -> Result<(), NetworkStartError> {
        if self.running.lock().is_some() {
            return Ok(());
        }
        let (folder, key) = open_folder(settings)?;
        let bootnodes = bootnodes(settings)?;
        let (tcp, udp, address) = listen(settings).await?;

        let external = External::new(settings.nat.address());
        let (timer, mailbox) = (Timer::start(), Arc::new(OnceLock::new()));
        let (wakes_at, watched) = watch::channel(Duration::ZERO);
        let make_manager = connection_manager_factory(settings.clone(), key.id(), bootnodes.clone(), folder.clone());
        let parts = Arc::new(Parts {
            make_connection_manager: make_manager,
            make_discovery: udp
                .is_some()
                .then(|| discovery_maker(settings, &external, &key, bootnodes, folder.clone(), address)),
            folder,
            udp: udp.clone(),
            published: self.published.clone(),
            bus: ports.bus.clone(),
            blocks: Arc::clone(&ports.blocks),
            pool: Arc::clone(&ports.pool),
            consensus: ports.consensus.clone(),
            runtime: Handle::current(),
            context: context(settings, &key, ports, Arc::clone(&self.traffic)),
            timer,
            mailbox: Arc::clone(&mailbox),
            next_connection: Arc::new(AtomicU64::new(0)),
            wakes_at: Arc::new(wakes_at),
            tasks: Mutex::new(JoinSet::new()),
        });
        let made_of = Arc::clone(&parts);
        let make = move || Ok(NetworkActor::new(Arc::clone(&made_of)));
        let options = ActorOptions { mailbox_capacity: MAILBOX_CAPACITY, ..ActorOptions::default() };
        let sender = supervisor.spawn(ACTOR, options, make).map_err(NetworkStartError::Actor)?;
        let sender = mailbox.get_or_init(|| sender).clone();
        let limits = ConnectionLimiterSettings::new(settings.max_pending, settings.restrict.clone());
        let limiter = SharedLimiter::new(ConnectionLimiter::new(limits));
        let mut tasks = vec![
            tokio::spawn(sockets::accept(tcp, limiter, timer, sender.clone())),
            tokio::spawn(sockets::tick(timer, watched, sender.clone())),
            tokio::spawn(pool::follow(ports.bus.clone(), Arc::clone(&ports.pool), sender.clone())),
        ];
        tasks.extend(udp.map(|socket| tokio::spawn(sockets::receive(socket, sender.clone()))));
        let own = OwnNode { id: key.id(), address, is_discovering: settings.is_discovering };
        self.published.set_node(Some(own.shown(external.get())));
        tracing::info!(enode = %own.enode(external.get()), "network listens");
        let ports = self.map_ports(settings, own, external, sender.clone());
        *self.running.lock() = Some(Running { mailbox: sender, parts, tasks, ports });
        Ok(())
    }

    /// Asks a router for the ports of this node, in a task of its own. The address that the router names is shown and announced.
    fn map_ports(
        &self,
        settings: &NetworkSettings,
        own: OwnNode,
        external: External,
        mailbox: Mailbox<Input>,
    ) -> Option<PortMapper> {
        // A loopback address is not reachable from outside, and routers map ports of IPv4 only.
        if !settings.nat.maps_ports() || own.address.ip().is_loopback() || !own.address.is_ipv4() {
            return None;
        }
        let port = NonZeroU16::new(own.address.port())?;
        let tcp = MappedPort { transport: Transport::Tcp, port, label: "ethereum p2p" };
        let udp = MappedPort { transport: Transport::Udp, port, label: "ethereum discovery" };
        let ports = if own.is_discovering { vec![tcp, udp] } else { vec![tcp] };
        let published = self.published.clone();
        Some(PortMapper::start(NatSettings::new(settings.nat, ports), move |address| {
            external.set(address);
            published.set_node(Some(own.shown(Some(address))));
            // If the mailbox is full, the address is announced only after the next start; it is shown immediately.
            drop(mailbox.try_send(Input::External(address)));
        }))
    }

    /// Ends every connection, writes the files, and closes the sockets. Returns whether the actor stopped in time.
    pub async fn stop(&self, supervisor: &Supervisor) -> bool {
        let Some(mut running) = self.running.lock().take() else { return true };
        if let Some(ports) = running.ports.take() {
            ports.stop().await;
        }
        for task in &running.tasks {
            task.abort();
        }
        for task in running.tasks {
            // An error means that the task was aborted, as intended.
            let _ = task.await;
        }
        let has_stopped = supervisor.stop_one(ACTOR, STOP_TIMEOUT).await;
        let mut connections = std::mem::take(&mut *running.parts.tasks.lock());
        let farewell = async { while connections.join_next().await.is_some() {} };
        // Connections that have not ended in this time are dropped.
        let _ = tokio::time::timeout(DISCONNECT_TIMEOUT, farewell).await;
        self.published.set_node(None);
        has_stopped
    }

    /// Ends all tasks that own sockets, as the end of the process does, but in the same order in each run of a simulation.
    #[cfg(test)]
    pub(crate) fn abort(&self) {
        if let Some(running) = &*self.running.lock() {
            running.tasks.iter().for_each(JoinHandle::abort);
            running.parts.tasks.lock().abort_all();
        }
    }

    /// The actor's health; `None` before its first start.
    pub fn health(supervisor: &Supervisor) -> Option<ActorHealth> {
        supervisor.health().into_iter().rev().find(|health| health.name == ACTOR)
    }
}

impl Network {
    /// Sends to the actor, if it is running. If its mailbox is full, the message is lost.
    fn send(&self, input: Input) {
        let mailbox = self.running.lock().as_ref().map(|running| running.mailbox.clone());
        if let Some(mailbox) = mailbox
            && let Err(reason) = mailbox.try_send(input)
        {
            tracing::debug!(%reason, "a message to the peers was not sent");
        }
    }
}

impl RoundNetwork for Network {
    fn broadcast(&self, message: RoundMessage) {
        self.send(Input::Broadcast { message, is_repeated: false });
    }

    fn repeat(&self, message: RoundMessage) {
        self.send(Input::Broadcast { message, is_repeated: true });
    }

    fn announce(&self, block: Arc<Block>, total_difficulty: U256) {
        self.send(Input::Announce(block, total_difficulty));
    }
}

type Nodes = Vec<(NodeId, Endpoint)>;

/// Opens the folder of the network, and reads this node's key or creates it.
fn open_folder(settings: &NetworkSettings) -> Result<(NetworkFolder, Arc<NodeKey>), NetworkStartError> {
    let folder = NetworkFolder::open(settings.folder.clone())
        .map_err(|cause| NetworkStartError::Folder { path: settings.folder.clone(), cause })?;
    let key_file = settings.key_file.clone().unwrap_or_else(|| folder.node_key());
    let key = Arc::new(load_or_create(&key_file)?);
    Ok((folder, key))
}

/// A bootnode that cannot be used stops the start (`docs/spec/p2p.md` 3).
fn bootnodes(settings: &NetworkSettings) -> Result<Nodes, NetworkStartError> {
    let usable = |enode: &Enode| match enode.usable() {
        Ok(endpoint) => Ok((enode.id, endpoint)),
        Err(problem) => Err(NetworkStartError::Bootnode { enode: Box::new(*enode), problem }),
    };
    settings.bootnodes.iter().map(usable).collect()
}

/// The sockets of a node: TCP, UDP if it discovers, and their common address.
type Sockets = (TcpListener, Option<Arc<UdpSocket>>, SocketAddr);

/// Opens both sockets on one port. A port that the system chooses is free for TCP, and may be in use for UDP: then another
/// one is tried.
async fn listen(settings: &NetworkSettings) -> Result<Sockets, NetworkStartError> {
    let attempts = if settings.listen.port() == 0 { MAX_CHOSEN_PORTS } else { 1 };
    first_free(attempts, || listen_once(settings)).await
}

/// Calls `open` until it does not fail because the UDP port is in use, at most `attempts` times. Returns the last
/// result.
async fn first_free<T, F>(attempts: usize, open: impl Fn() -> F) -> Result<T, NetworkStartError>
where
    F: Future<Output = Result<T, NetworkStartError>>,
{
    for _ in 1..attempts {
        match open().await {
            Err(NetworkStartError::Listen { protocol: "UDP", cause, .. }) if cause.kind() == ErrorKind::AddrInUse => {}
            outcome => return outcome,
        }
    }
    open().await
}

async fn listen_once(settings: &NetworkSettings) -> Result<Sockets, NetworkStartError> {
    let failed = |address, protocol| move |cause| NetworkStartError::Listen { address, protocol, cause };
    let tcp = TcpListener::bind(settings.listen).await.map_err(failed(settings.listen, "TCP"))?;
    let address = tcp.local_addr().map_err(failed(settings.listen, "TCP"))?;
    let udp = match settings.is_discovering {
        true => Some(Arc::new(UdpSocket::bind(address).await.map_err(failed(address, "UDP"))?)),
        false => None,
    };
    Ok((tcp, udp, address))
}

fn connection_manager_factory(
    settings: NetworkSettings,
    own: NodeId,
    bootnodes: Nodes,
    folder: NetworkFolder,
) -> Box<dyn Fn(Clock) -> ConnectionManager + Send + Sync> {
    Box::new(move |clock| {
        let is_dialing = settings.is_discovering;
        let slots = SlotSettings { max_peers: settings.max_peers, dial_ratio: DIAL_RATIO, is_dialing };
        let dialing = DialerSettings { restrict: settings.restrict.clone(), ..DialerSettings::default() };
        // Without discovery only static nodes are dialed.
        let first = if is_dialing { bootnodes.clone() } else { Vec::new() };
        let reputation = Reputation::new(ReputationSettings::default(), &folder.bans(clock.unix));
        let dialer = Dialer::new(dialing, own, first, clock.now);
        let mut connection_manager = ConnectionManager::new(Slots::new(slots, own), dialer, reputation);
        let named = settings.statics.iter().map(|enode| (enode, PeerChange::Add));
        let trusted = settings.trusted.iter().map(|enode| (enode, PeerChange::Trust));
        for (enode, change) in named.chain(trusted) {
            if let Err(problem) = connection_manager.change(enode, change, clock) {
                tracing::warn!(%enode, %problem, "a node in the settings was ignored");
            }
        }
        connection_manager
    })
}

fn discovery_maker(
    settings: &NetworkSettings,
    external: &External,
    key: &Arc<NodeKey>,
    bootnodes: Nodes,
    folder: NetworkFolder,
    address: SocketAddr,
) -> Box<dyn Fn(Clock) -> Discovery + Send + Sync> {
    let (settings, external, key) = (settings.clone(), external.clone(), Arc::clone(key));
    Box::new(move |clock| {
        let own = DiscoverySettings {
            types: PacketTypes::NATIVE,
            table: TableSettings::default(),
            own: PacketEndpoint { ip: external.get(), udp: address.port(), tcp: address.port() },
            bootnodes: bootnodes.clone(),
            restrict: settings.restrict.clone(),
            seed: system::random(),
        };
        Discovery::new(own, Arc::clone(&key), None, folder.nodes(clock.unix), clock.now)
    })
}

fn context(settings: &NetworkSettings, key: &Arc<NodeKey>, ports: &NetworkPorts, traffic: Arc<Traffic>) -> Context {
    let offered = VERSIONS.iter().filter(|version| OFFERED_VERSIONS.contains(&version.number));
    let offers = offered.map(|version| OfferedProtocol::new(PROTOCOL, version.number.into(), version.length)).collect();
    let mut session = SessionSettings::new(&settings.name, offers);
    session.max_message_bytes = limits::MAX_MESSAGE_BYTES;
    Context {
        chain: Arc::clone(&ports.chain),
        key: Arc::clone(key),
        session,
        network_id: settings.network_id,
        genesis: settings.genesis,
        budget: ReceiveBudget::default(),
        bandwidth: Bandwidth::new(settings.bandwidth),
        readers: FairTurns::new(MAX_READERS),
        acceptance: Arc::default(),
        turns: MessageTurns::default(),
        awaited: AwaitedAnswers::default(),
        traffic,
    }
}

/// The description of this node for others.
#[derive(Clone, Copy, Debug)]
struct OwnNode {
    id: NodeId,
    /// The address that it listens on.
    address: SocketAddr,
    is_discovering: bool,
}

impl OwnNode {
    /// Its enode for others, with the listening address if the public one is not known.
    fn enode(self, external: Option<IpAddr>) -> Enode {
        let ip = external.unwrap_or_else(|| self.address.ip());
        let udp = if self.is_discovering { self.address.port() } else { 0 };
        Enode { id: self.id, endpoint: Some(Endpoint { ip, udp, tcp: self.address.port() }) }
    }

    fn shown(self, external: Option<IpAddr>) -> NetworkNode {
        let enode = self.enode(external);
        NetworkNode {
            id: self.id.to_string(),
            enode: enode.to_string(),
            ip: enode.endpoint.map(|endpoint| endpoint.ip.to_string()).unwrap_or_default(),
            listen_address: self.address.to_string(),
            discovery_port: enode.endpoint.map_or(0, |endpoint| endpoint.udp),
            listener_port: self.address.port(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn in_use(protocol: &'static str) -> NetworkStartError {
        let address = SocketAddr::from(([127, 0, 0, 1], 30303));
        NetworkStartError::Listen { address, protocol, cause: ErrorKind::AddrInUse.into() }
    }

    /// The number of attempts until `first_free` gave up or succeeded, and whether it succeeded.
    async fn attempts(max: usize, protocol: &'static str, free_after: usize) -> (usize, bool) {
        let made = Cell::new(0);
        let outcome = first_free(max, || {
            made.set(made.get() + 1);
            std::future::ready(if made.get() > free_after { Ok(()) } else { Err(in_use(protocol)) })
        });
        let is_open = outcome.await.is_ok();
        (made.get(), is_open)
    }

    #[tokio::test]
    async fn another_port_is_tried_if_the_chosen_one_is_in_use_for_datagrams() {
        assert_eq!(attempts(16, "UDP", 2).await, (3, true));
        assert_eq!(attempts(16, "UDP", 99).await, (16, false));
        assert_eq!(attempts(1, "UDP", 2).await, (1, false));
        assert_eq!(attempts(16, "TCP", 2).await, (1, false));
    }
}

//! The network actor: decides about connections and carries the decisions out.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use alloy_primitives::U256;
use parking_lot::Mutex;
use tenon_api::{
    Block, BlockPort, BlockVerdict, PeerTransactions, RoundMessage, RoundMessages, SealedHeader, Transaction,
};
use tenon_bus::Bus;
use tenon_network_discovery::{self as discovery, Clock, Discovery};
use tenon_network_identity::{Endpoint, NodeId};
use tenon_network_peers::Dial;
use tenon_network_rlpx::DisconnectReason;
use tenon_network_sync::{self as sync, ChainSync, LocalChain as _, Progress, SyncRequest};
use tenon_network_wire::{Kind, Message, NewBlock, Status};
use tenon_supervisor::{Actor, Mailbox};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::connection_manager::{Action, ConnectionId, ConnectionManager};
use crate::connections::{self, Context};
use crate::conversation::Delivery;
use crate::files::NetworkFolder;
use crate::importing::{self, Importing};
use crate::input::{Input, PeerMessage};
use crate::link::{Link, Outgoing};
use crate::local_chain::StoredChain;
use crate::message_work::InProgress;
use crate::opening::Start;
use crate::pool;
use crate::progress::ProgressLog;
use crate::published_state::PublishedState;
use crate::rounds::RoundGossip;
use crate::sockets::Timer;
use crate::system::{self, UdpSocket, unix_now};
use crate::transactions::{GossipItem, TransactionGossip};

/// Maximum number of pending requests to disconnect of one connection.
const MAX_DISCONNECTS: usize = 4;
/// Time between two checks whether the files must be written.
const SAVE_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// Everything that the actor is built from, at the start and after a panic.
pub(crate) struct Parts {
    pub(crate) make_connection_manager: Box<dyn Fn(Clock) -> ConnectionManager + Send + Sync>,
    pub(crate) make_discovery: Option<Box<dyn Fn(Clock) -> Discovery + Send + Sync>>,
    pub(crate) folder: NetworkFolder,
    pub(crate) udp: Option<Arc<UdpSocket>>,
    pub(crate) published: PublishedState,
    pub(crate) bus: Bus,
    pub(crate) blocks: Arc<dyn BlockPort>,
    pub(crate) pool: Arc<dyn PeerTransactions>,
    pub(crate) consensus: Option<Arc<dyn RoundMessages>>,
    pub(crate) runtime: Handle,
    pub(crate) context: Context,
    pub(crate) timer: Timer,
    pub(crate) mailbox: Arc<OnceLock<Mailbox<Input>>>,
    pub(crate) next_connection: Arc<AtomicU64>,
    /// When to send [`Input::Tick`].
    pub(crate) wakes_at: Arc<watch::Sender<Duration>>,
    /// The connections. Locked to add one and to remove ended ones; never held across an await.
    pub(crate) tasks: Mutex<JoinSet<()>>,
}

pub(crate) struct NetworkActor {
    parts: Arc<Parts>,
    connection_manager: ConnectionManager,
    discovery: Option<Discovery>,
    sync: ChainSync,
    chain: StoredChain,
    importing: Option<Importing>,
    gossip: TransactionGossip,
    rounds: RoundGossip,
    progress: Option<Progress>,
    log: ProgressLog,
    /// The channels to each connection.
    links: HashMap<ConnectionId, Link>,
    /// Lookups of static nodes without a known address.
    resolving: HashMap<u64, NodeId>,
    save_at: Duration,
}

impl NetworkActor {
    pub(crate) fn new(parts: Arc<Parts>) -> Self {
        let clock = parts.timer.clock();
        Self {
            connection_manager: (parts.make_connection_manager)(clock),
            discovery: parts.make_discovery.as_ref().map(|make| make(clock)),
            sync: ChainSync::new(),
            chain: StoredChain { chain: parts.context.chain.clone(), genesis: parts.context.genesis },
            importing: None,
            gossip: TransactionGossip::default(),
            rounds: RoundGossip::default(),
            progress: None,
            log: ProgressLog::default(),
            links: HashMap::new(),
            resolving: HashMap::new(),
            save_at: clock.now + SAVE_INTERVAL,
            parts,
        }
    }

    fn start_connection(&mut self, remote: SocketAddr, dialed: Option<NodeId>, start: Start) {
        let Some(mailbox) = self.parts.mailbox.get().cloned() else { return };
        let connection = self.parts.next_connection.fetch_add(1, Ordering::Relaxed);
        let (link, receivers) = Link::new(MAX_DISCONNECTS);
        self.links.insert(connection, link);
        self.connection_manager.start(connection, remote, dialed);
        let context = self.parts.context.clone();
        let running = connections::run(connection, start, context, mailbox, receivers);
        self.parts.tasks.lock().spawn_on(running, &self.parts.runtime);
    }

    fn dial(&mut self, dial: Dial, clock: Clock) {
        match dial {
            Dial::Connect { id, endpoint } => {
                let address = endpoint.tcp_address();
                self.start_connection(address, Some(id), Start::Dial { node: id, address });
            }
            Dial::Resolve { id } => {
                let lookup = self.discovery.as_mut().and_then(|discovery| discovery.lookup(id, clock));
                match lookup {
                    Some(lookup) => drop(self.resolving.insert(lookup, id)),
                    None => self.connection_manager.resolved(&id, None, clock),
                }
            }
            Dial::Search => {
                if let Some(discovery) = &mut self.discovery {
                    // Refused only while many lookups run; their results are used instead.
                    let _ = discovery.lookup(NodeId(system::random()), clock);
                }
            }
        }
    }

    fn perform_discovery(&mut self, action: discovery::Action, clock: Clock) {
        match action {
            discovery::Action::Send { to, datagram } => {
                if let Some(socket) = &self.parts.udp {
                    // A datagram that the socket does not take is lost, like one in the network.
                    let _ = socket.try_send_to(&datagram, to);
                }
            }
            discovery::Action::Found { id, endpoint } => self.connection_manager.found([(id, endpoint)], clock),
            discovery::Action::LookupDone { lookup, nodes } => self.looked_up(lookup, nodes, clock),
        }
    }

    fn looked_up(&mut self, lookup: u64, nodes: Vec<(NodeId, Endpoint)>, clock: Clock) {
        if let Some(id) = self.resolving.remove(&lookup) {
            let endpoint = nodes.iter().find(|(node, _)| *node == id).map(|(_, endpoint)| *endpoint);
            self.connection_manager.resolved(&id, endpoint, clock);
        }
        self.connection_manager.found(nodes, clock);
    }

    /// Carries out all pending decisions, and sets the timer.
    fn perform_pending(&mut self, clock: Clock) {
        loop {
            while let Some(action) = self.discovery.as_mut().and_then(Discovery::next_action) {
                self.perform_discovery(action, clock);
            }
            self.sync.advance(&self.chain, clock.now, clock.unix);
            while let Some(action) = self.sync.next_action() {
                self.perform_sync(action, clock);
            }
            let dials = self.connection_manager.schedule(clock);
            let is_done = dials.is_empty();
            for dial in dials {
                self.dial(dial, clock);
            }
            while let Some(action) = self.connection_manager.next_action() {
                self.perform_connection(action, clock);
            }
            if is_done {
                break;
            }
        }
        if let Some(peers) = self.connection_manager.changed_peers() {
            self.parts.published.set_peers(peers);
        }
        let mut wakes_at = self.connection_manager.wakes_at(clock).min(self.save_at);
        if let Some(discovery) = &self.discovery {
            wakes_at = wakes_at.min(discovery.wakes_at());
        }
        if let Some(time) = self.sync.wakes_at(clock.now) {
            wakes_at = wakes_at.min(time);
        }
        // Before the progress is published: a node that is reported as synced must already accept transactions.
        self.update_acceptance();
        self.publish_progress(clock);
        if let Some(time) = self.log.wakes_at() {
            wakes_at = wakes_at.min(time);
        }
        self.parts.wakes_at.send_if_modified(|before| std::mem::replace(before, wakes_at) != wakes_at);
    }

    /// Sets which messages of peers are accepted, and tells the voting whether the node is far behind.
    fn update_acceptance(&mut self) {
        let acceptance = &self.parts.context.acceptance;
        acceptance.accepts_transactions.store(self.sync.is_synced(), Ordering::Relaxed);
        let Some(consensus) = &self.parts.consensus else { return };
        let is_syncing = self.sync.is_behind();
        if acceptance.accepts_round_messages.swap(!is_syncing, Ordering::Relaxed) == is_syncing {
            consensus.set_syncing(is_syncing);
        }
    }

    fn publish_progress(&mut self, clock: Clock) {
        let progress = self.sync.progress();
        self.log.update(progress, self.chain.head().number, self.connection_manager.established_count(), clock.now);
        if progress != self.progress {
            self.progress = progress;
            self.parts.published.set_progress(progress);
        }
    }

    fn perform_connection(&mut self, action: Action, clock: Clock) {
        match action {
            Action::Close { connection, reason } => {
                if let Some(link) = self.links.get(&connection) {
                    link.close(reason);
                }
            }
            Action::Publish(event) => self.parts.bus.publish(event),
            // One event for each ban.
            Action::SaveBans => {
                self.parts.context.traffic.count_ban();
                self.parts.folder.save_bans(&self.connection_manager.bans(clock));
            }
        }
    }

    fn establish(&mut self, connection: ConnectionId, status: &Status) {
        self.connection_manager.established(connection, status);
        let Some(node) = self.connection_manager.established_node(connection) else { return };
        if self.connection_manager.established_connections(&node).nth(1).is_some() {
            return;
        }
        self.sync.joined(node, status.head, status.total_difficulty);
        self.gossip.joined(node);
        self.rounds.joined(node);
        let Some(mailbox) = self.parts.mailbox.get().cloned() else { return };
        let pool = Arc::clone(&self.parts.pool);
        system::spawn_blocking(&self.parts.runtime, move || {
            let items = pool.pending().iter().map(|pending| GossipItem::new(&pending.transaction)).collect();
            // If the mailbox is full, the peer receives later transactions only.
            drop(mailbox.try_send(Input::PendingForPeer(node, items)));
        });
    }

    fn receive(&mut self, node: NodeId, delivered: PeerMessage, in_progress: Option<InProgress>, clock: Clock) {
        match delivered {
            PeerMessage::Bodies(bodies) => self.sync.bodies(node, bodies, &self.chain, clock.now),
            PeerMessage::Plain(Delivery::Headers(headers)) => self.sync.headers(node, headers, &self.chain, clock.now),
            PeerMessage::Plain(Delivery::Block(block, total_difficulty)) => {
                self.sync.new_block(node, Arc::from(block), total_difficulty, &self.chain, clock.now);
            }
            PeerMessage::Plain(Delivery::Announced(blocks)) => {
                self.sync.announced(node, &blocks, &self.chain, clock.now);
            }
            PeerMessage::Plain(Delivery::Transactions(transactions)) => {
                self.take_transactions(node, transactions, in_progress);
            }
            PeerMessage::Plain(Delivery::Round(message, block)) => {
                self.take_round_message(node, message, in_progress);
                if let Some(block) = block {
                    self.sync.block_mentioned(node, block, &self.chain, clock.now);
                }
            }
            // Bodies arrive as another variant, with their roots computed.
            PeerMessage::Plain(Delivery::Bodies { .. }) => {}
        }
    }

    /// Passes transactions to the pool. Reading from the peer continues when the pool has processed them.
    fn take_transactions(
        &mut self,
        node: NodeId,
        transactions: Vec<Arc<Transaction>>,
        in_progress: Option<InProgress>,
    ) {
        self.gossip.received(&node, &transactions);
        let pool = Arc::clone(&self.parts.pool);
        system::spawn_blocking(&self.parts.runtime, move || {
            pool::offer(&*pool, &transactions);
            drop(in_progress);
        });
    }

    /// Passes a message to the voting. Reading from the peer continues when the voting has processed it.
    fn take_round_message(&mut self, node: NodeId, message: RoundMessage, in_progress: Option<InProgress>) {
        self.rounds.received(&node, &message);
        if let Some(consensus) = &self.parts.consensus {
            consensus.receive(message, Box::new(in_progress));
        }
    }

    fn broadcast(&mut self, message: &RoundMessage, is_repeated: bool) {
        let (kind, to) = if is_repeated { self.rounds.all(message) } else { self.rounds.peers_without(message) };
        let outgoing = Outgoing { kind, payload: Arc::new(message.payload.to_vec()) };
        to.iter().for_each(|node| self.send_last(node, outgoing.clone()));
    }

    /// Carries out the actions of the synchronisation.
    fn perform_sync(&mut self, action: sync::Action, clock: Clock) {
        match action {
            sync::Action::Ask { peer, request } => self.ask(&peer, request),
            sync::Action::Height { peer, head, number } => {
                tracing::debug!(peer = peer.short(), height = number, %head, "a peer announced its head");
                self.connection_manager.height(&peer, head, number);
            }
            sync::Action::Fault { peer, fault, reason } => {
                tracing::debug!(peer = peer.short(), ?fault, reason, "a peer violated the protocol");
                self.connection_manager.fault_of(&peer, fault, clock);
            }
            sync::Action::BeginImport => {
                let Some(mailbox) = self.parts.mailbox.get().cloned() else {
                    self.sync.import_ended(importing::not_started(), &self.chain, clock.now);
                    return;
                };
                let blocks = Arc::clone(&self.parts.blocks);
                self.importing = Some(Importing::start(blocks, mailbox, &self.parts.runtime));
            }
            sync::Action::Import(block) => {
                if let Some(importing) = &self.importing {
                    importing.push(*block);
                }
            }
            sync::Action::EndImport => {
                if let Some(importing) = &mut self.importing {
                    importing.end();
                }
            }
            sync::Action::VerifyAndInsert(block) => {
                if let Some(mailbox) = self.parts.mailbox.get().cloned() {
                    importing::verify_and_insert(Arc::clone(&self.parts.blocks), block, mailbox, &self.parts.runtime);
                }
            }
            sync::Action::Relay { block, total_difficulty, to } => self.relay(&block, total_difficulty, &to),
        }
    }

    /// Requests are sent over the second connection, if there is one, as other nodes do (`docs/spec/p2p.md` 11).
    fn ask(&self, node: &NodeId, request: SyncRequest) {
        let message = match request {
            SyncRequest::Headers(request) => Message::GetBlockHeaders(request),
            SyncRequest::Bodies(hashes) => Message::GetBlockBodies(hashes),
        };
        let Some((kind, payload)) = message.encode() else { return };
        // If the queue is full, the request is lost and its answer becomes overdue.
        self.send_last(node, Outgoing { kind, payload: Arc::new(payload) });
    }

    fn send_last(&self, node: &NodeId, message: Outgoing) {
        let link = self.connection_manager.established_connections(node).last().and_then(|id| self.links.get(&id));
        if let Some(link) = link
            && !link.send(message)
        {
            tracing::trace!(peer = node.short(), "a peer reads too slowly: a message was dropped");
        }
    }

    /// Sends over the first connection, over which a peer expects blocks and transactions.
    fn send_first(&self, node: &NodeId, message: Outgoing) {
        let link = self.connection_manager.established_connections(node).next().and_then(|id| self.links.get(&id));
        if let Some(link) = link
            && !link.send(message)
        {
            tracing::trace!(peer = node.short(), "a peer reads too slowly: a message was dropped");
        }
    }

    fn relay(&self, block: &Block, total_difficulty: U256, to: &[NodeId]) {
        let new = NewBlock { block: block.clone(), total_difficulty };
        let Some((_, payload)) = Message::NewBlock(Box::new(new)).encode() else { return };
        let message = Outgoing { kind: Kind::NewBlock, payload: Arc::new(payload) };
        to.iter().for_each(|node| self.send_first(node, message.clone()));
    }

    fn save_files(&mut self, clock: Clock) {
        self.save_at = clock.now + SAVE_INTERVAL;
        self.parts.folder.save_bans(&self.connection_manager.bans(clock));
        if let Some(discovery) = &self.discovery {
            self.parts.folder.save_nodes(&discovery.nodes_to_save(clock));
        }
    }

    fn take(&mut self, input: Input, clock: Clock) {
        match input {
            Input::Arrived { stream, remote, place } => {
                self.start_connection(remote, None, Start::Accepted { stream, remote, place });
            }
            Input::Authenticated { connection, node, local, answer } => {
                // Dropping the sender of the answer ends the connection.
                let _ = answer.send(self.connection_manager.authenticated(connection, node, local, clock));
            }
            Input::Greeted { connection, hello, answer } => {
                let _ = answer.send(self.connection_manager.receive_hello(connection, hello));
            }
            Input::Established { connection, status } => self.establish(connection, &status),
            Input::NewHead { connection, hash, total_difficulty, number } => {
                self.connection_manager.new_head(connection, hash, total_difficulty, number);
            }
            Input::PeerMessage { connection, delivered, in_progress } => {
                if let Some(node) = self.connection_manager.established_node(connection) {
                    self.receive(node, delivered, in_progress, clock);
                }
            }
            Input::Imported => {
                if let Some(hash) = self.importing.as_ref().and_then(Importing::last) {
                    self.sync.imported(hash);
                }
            }
            Input::ImportEnded(outcome) => {
                self.importing = None;
                self.sync.import_ended(outcome, &self.chain, clock.now);
            }
            Input::HeaderVerified { hash, verdict } => self.sync.header_verified(hash, &verdict, &self.chain),
            Input::Inserted { header, verdict } => self.inserted(header, &verdict, clock),
            Input::Broadcast { message, is_repeated } => self.broadcast(&message, is_repeated),
            Input::Announce(block, total_difficulty) => self.sync.relay(block, total_difficulty),
            Input::Pending(items) => self.send_pending(&items),
            Input::PendingForPeer(node, items) => {
                let messages = self.gossip.messages_for(&node, &items);
                messages.into_iter().for_each(|message| self.send_first(&node, message));
            }
            Input::Fault { connection, fault } => self.connection_manager.fault(connection, fault, clock),
            Input::Ended { connection, reason } => self.connection_ended(connection, &reason),
            Input::Datagram { from, bytes, .. } => self.receive_datagram(from, &bytes, clock),
            Input::External(address) => {
                if let Some(discovery) = &mut self.discovery {
                    discovery.set_own_ip(address);
                }
            }
            Input::Change { enode, change, answer } => {
                // An error means that the caller has gone.
                let _ = answer.send(self.connection_manager.change(&enode, change, clock));
            }
            Input::Tick => self.tick(clock),
        }
    }

    /// Passes the verdict on a block to the synchronisation, and an executed block to the voting.
    fn inserted(&mut self, header: Arc<SealedHeader>, verdict: &BlockVerdict, clock: Clock) {
        let is_executed = matches!(verdict, BlockVerdict::Head | BlockVerdict::ExecutedOnSideBranch);
        self.sync.inserted(header.hash(), verdict, clock.unix);
        if let Some(consensus) = self.parts.consensus.as_ref().filter(|_| is_executed) {
            consensus.executed(header, true);
        }
    }

    /// Sends pending transactions to the peers that do not know them.
    fn send_pending(&mut self, items: &[GossipItem]) {
        for (node, messages) in self.gossip.messages_for_all(items) {
            messages.into_iter().for_each(|message| self.send_first(&node, message));
        }
    }

    fn connection_ended(&mut self, connection: ConnectionId, reason: &str) {
        self.links.remove(&connection);
        while self.parts.tasks.lock().try_join_next().is_some() {}
        let node = self.connection_manager.established_node(connection);
        self.connection_manager.ended(connection, reason);
        if let Some(node) = node
            && self.connection_manager.established_connections(&node).next().is_none()
        {
            self.sync.left(node);
            self.gossip.left(&node);
            self.rounds.left(&node);
        }
    }

    fn receive_datagram(&mut self, from: SocketAddr, bytes: &[u8], clock: Clock) {
        if let Some(discovery) = &mut self.discovery
            && let Err(error) = discovery.receive(from, bytes, clock)
        {
            tracing::trace!(%from, %error, "datagram refused");
        }
    }

    fn tick(&mut self, clock: Clock) {
        if let Some(discovery) = &mut self.discovery {
            discovery.tick(clock);
        }
        if clock.now >= self.save_at {
            self.save_files(clock);
        }
    }
}

impl Actor for NetworkActor {
    type Message = Input;

    /// Continues after a panic. At the first start the mailbox does not exist yet; the first tick is sent once it does.
    fn started(&mut self) {
        if self.parts.mailbox.get().is_some() {
            self.perform_pending(self.parts.timer.clock());
        }
    }

    fn handle(&mut self, input: Input) {
        let clock = self.parts.timer.clock();
        self.take(input, clock);
        self.perform_pending(clock);
    }

    fn stopping(&mut self) {
        let clock = Clock { now: self.parts.timer.clock().now, unix: unix_now() };
        self.save_files(clock);
        self.connection_manager.close_everything(DisconnectReason::CLIENT_QUITTING);
        while let Some(action) = self.connection_manager.next_action() {
            self.perform_connection(action, clock);
        }
        if let Some(importing) = &self.importing {
            importing.cancel();
        }
        self.parts.published.set_node(None);
    }
}

//! The simulated world: time, connections, faults, and dishonest nodes. Everything is determined by the seed.

mod run;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use alloy_primitives::{Address, Bytes, hex, keccak256};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tenon_api::{Block, BlockPort, BlockVerdict, FailedBlock, RoundMessage, RoundMessageKind};
use tenon_native_consensus::v2::MasternodeKey;
use tenon_native_spec::read_genesis;
use tenon_network_peers::Fault;
use tenon_network_sync::{Action, LocalChain, SyncRequest};

use super::byzantine;
use super::event_schedule::{EventSchedule, Planned};
use super::links::{Links, Message, SentMessage, SentMessages, Split};
use super::node::{self, Network, Node, since_start};
use super::observer::Observer;
use super::ports::ActorOutput;
use super::trace::{Line, Trace};
use crate::actor::Input;

/// Unix time at which a world begins, milliseconds.
const BEGIN: u64 = 1_700_000_000_000;
/// Range of the duration of the faults, milliseconds.
const FAULTY_TIME: std::ops::Range<u64> = 18_000..36_000;
/// Maximum number of signatures of a certificate: the rules limit the extra data of a header to 20,000 bytes.
const MAX_QUORUM: f64 = 290.0;

/// An event of a node.
pub(super) enum Event {
    /// A vote, timeout or certificates arrive over a link, if the link still has the connection with this number.
    /// Nearly all events are of this kind.
    ReceivesRoundMessage {
        link: u32,
        connection: u32,
        sent: Arc<SentMessage>,
    },
    /// Another message arrives.
    Arrives {
        link: usize,
        connection: u32,
        message: Box<Message>,
    },
    ToItself(Box<Input>),
    Wakes,
    VerifiesBlock(Arc<Block>),
    ImportEnds(Box<Result<(), FailedBlock>>),
    Starts,
    Dies,
    /// The node dies in the middle of its next action.
    DiesSoon,
    ClockJumps(i64),
    Connects(usize),
    Cut(usize),
    /// For dishonest nodes only.
    ActsByzantine,
}

/// The simulated world.
pub(super) struct World {
    pub(super) random: StdRng,
    network: Network,
    pub(super) nodes: Vec<Node>,
    /// This many nodes, from the first on, are dishonest.
    pub(super) byzantine_nodes: usize,
    pub(super) now: u64,
    faulty_until: u64,
    made: u64,
    event_schedule: EventSchedule,
    pub(super) links: Links,
    pub(super) sent_messages: SentMessages,
    pub(super) splits: Vec<Split>,
    /// Until the faults end: the probability that a message is lost, and the maximum delay.
    pub(super) loss: f64,
    pub(super) slowest: u64,
    dying: Option<usize>,
    pub(super) observer: Observer,
    trace: Trace,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Hash of all events and of the states of the nodes after them.
    pub(super) trace: u64,
    /// A line for each event; empty unless the world was [`World::with_transcript`].
    pub(super) transcript: Vec<Line>,
    pub(super) height: u64,
    pub(super) signatures: usize,
    pub(super) events: u64,
    pub(super) rounds: u64,
    /// Virtual milliseconds.
    pub(super) time: u64,
}

/// A network of this many masternodes, and their keys.
pub(super) fn network_of(count: u64, seed: u64, random: &mut StdRng) -> (Network, Vec<MasternodeKey>) {
    let key = |number: u64| MasternodeKey::from_bytes(keccak256([seed.to_be_bytes(), number.to_be_bytes()].concat()).0);
    let mut keys: Vec<MasternodeKey> = (0..count).map(|number| key(number).unwrap()).collect();
    let mut all: Vec<Address> = keys.iter().map(MasternodeKey::address).collect();
    all.sort_unstable();
    // Dishonest nodes are the first ones of `nodes`; the sort makes their places in the list of masternodes arbitrary.
    keys.sort_by_key(|key| keccak256(key.address()));
    let listed: Vec<u8> = all.iter().flat_map(|address| address.0.0).collect();
    let extra = [&[0; 32][..], &listed, &[0; 65]].concat();
    let growth =
        serde_json::json!({"base": random.random_range(1..=2) as f64, "maxExponent": random.random_range(0..=2)});
    // Two thirds, as far as their signatures fit into a header.
    let threshold = 0.667_f64.min(MAX_QUORUM / count as f64);
    let config = serde_json::json!({
        "config": {"chainId": 5151, "XDPoS": {"period": 1, "epoch": 20, "gap": 10, "v2": {"switchBlock": 0,
            "allConfigs": {"0": {"maxMasternodes": count.max(108), "minePeriod": 1, "certificateThreshold": threshold,
                "timeoutPeriod": 3, "timeoutSyncThreshold": random.random_range(1..=3), "expTimeoutConfig": growth}}}}},
        "extraData": hex::encode_prefixed(extra), "difficulty": "0x1", "gasLimit": "0x2faf080", "alloc": {},
        "timestamp": "0x1",
    });
    let genesis = read_genesis(config.to_string().as_bytes()).unwrap();
    let sealed = genesis.sealed_header().unwrap();
    let (spec, masternodes) = (Arc::clone(&genesis.spec), all.into());
    let (signers, recovered) = (Arc::default(), Arc::default());
    let has_faults = Arc::new(AtomicBool::new(true));
    (Network { spec, masternodes, genesis: sealed, signers, recovered, has_faults }, keys)
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let count = [4, 4, 4, 5, 7][random.random_range(0..5)];
        let byzantine_nodes = random.random_range(0..=(count - 1) / 3);
        let (network, keys) = network_of(count as u64, seed, &mut random);
        let mut nodes: Vec<Node> =
            keys.into_iter().enumerate().map(|(index, key)| Node::new(index, key, &network)).collect();
        nodes.iter_mut().for_each(|node| node.signs_late = random.random_bool(0.3));
        let (loss, slowest) = (random.random_range(0.0..0.03), random.random_range(20..900));
        let faulty_until = random.random_range(FAULTY_TIME);
        let mut world = Self {
            loss,
            slowest,
            faulty_until,
            ..Self::of(network, nodes, byzantine_nodes, Links::all(count), random)
        };
        world.plan();
        world
    }

    /// Keeps a transcript of the run, for its outcome.
    pub(super) fn with_transcript(mut self) -> Self {
        self.trace.record_transcript();
        self
    }

    /// A world without faults.
    fn of(network: Network, nodes: Vec<Node>, byzantine_nodes: usize, links: Links, random: StdRng) -> Self {
        let honest = nodes[byzantine_nodes..].iter().map(|node| node.key.address()).collect();
        let observer = Observer::new(honest, Arc::clone(&network.signers));
        Self {
            faulty_until: 0,
            loss: 0.0,
            slowest: 0,
            random,
            network,
            nodes,
            byzantine_nodes,
            now: 0,
            made: 0,
            event_schedule: EventSchedule::default(),
            links,
            sent_messages: SentMessages::default(),
            splits: Vec::new(),
            dying: None,
            observer,
            trace: Trace::default(),
        }
    }

    /// A network of many masternodes, each connected to only some of the others. One in a hundred never runs, among
    /// them the leader of the seventh round; as many are killed and restart.
    pub(super) fn large(seed: u64, count: usize, peers: usize) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let (network, keys) = network_of(count as u64, seed, &mut random);
        let absent = network.masternodes[7 % count];
        let nodes = keys.into_iter().enumerate().map(|(index, key)| Node::new(index, key, &network)).collect();
        let links = Links::random(count, peers, &mut random);
        let mut world = Self::of(network, nodes, 0, links, random);
        for who in 0..count {
            if who % 100 == 50 || world.nodes[who].key.address() == absent {
                continue;
            }
            let time = world.random.random_range(0..1_000);
            world.at(time, who, Event::Starts);
            let error = world.random.random_range(-300..300);
            world.at(0, who, Event::ClockJumps(error));
            if who % 100 == 60 {
                let time = world.random.random_range(8_000..20_000);
                world.at(time, who, Event::Dies);
            }
        }
        world
    }

    /// Schedules the faults.
    fn plan(&mut self) {
        let (count, end) = (self.nodes.len(), self.faulty_until);
        for who in 0..count {
            let time = self.random.random_range(0..3_000);
            self.at(time, who, Event::Starts);
            let error = self.random.random_range(-500..500);
            self.at(0, who, Event::ClockJumps(error));
            if who < self.byzantine_nodes {
                self.at(1_000, who, Event::ActsByzantine);
            }
        }
        for _ in 0..self.random.random_range(0..4) {
            let (time, who) = (self.random.random_range(1_000..end), self.random.random_range(0..count));
            let event = if self.random.random_bool(0.5) { Event::Dies } else { Event::DiesSoon };
            self.at(time, who, event);
        }
        for _ in 0..self.random.random_range(0..6) {
            let (time, who) = (self.random.random_range(1_000..end), self.random.random_range(0..count));
            let peer = self.random.random_range(0..count);
            self.at(time, who, Event::Cut(peer));
        }
        for _ in 0..self.random.random_range(0..3) {
            let (time, who) = (self.random.random_range(1_000..end), self.random.random_range(0..count));
            let error = self.random.random_range(-2_000..2_000);
            self.at(time, who, Event::ClockJumps(error));
        }
        for _ in 0..self.random.random_range(0..3) {
            let from = self.random.random_range(1_000..end);
            let time = from..self.random.random_range(from..end.min(from + 12_000) + 1);
            let is_on_one_side = (0..count).map(|_| self.random.random_bool(0.5)).collect();
            let is_silent = self.random.random_bool(0.5);
            self.splits.push(Split { time, is_on_one_side, is_silent });
        }
    }

    pub(super) fn at(&mut self, time: u64, who: usize, event: Event) {
        self.made += 1;
        let life = self.nodes[who].life;
        self.event_schedule.add(time.max(self.now), Planned { who: u32::try_from(who).unwrap(), life, event });
    }

    pub(super) fn is_calm(&self) -> bool {
        self.now >= self.faulty_until
    }

    pub(super) fn is_byzantine(&self, who: usize) -> bool {
        who < self.byzantine_nodes
    }

    fn die(&mut self, who: usize) {
        if self.nodes[who].running.take().is_none() {
            return;
        }
        self.nodes[who].life += 1;
        self.check_commits(who);
        for peer in self.peers_of(who) {
            self.cut(who, peer);
        }
        let down = if self.is_calm() { 100..500 } else { 100..9_000 };
        let back = (self.now + self.random.random_range(down)).min(self.faulty_until.max(self.now) + 500);
        self.at(back, who, Event::Starts);
    }

    fn start(&mut self, who: usize) {
        if self.nodes[who].running.is_some() {
            return;
        }
        self.nodes[who].start(&self.network);
        self.settle(who, true);
        let peers: Vec<usize> = self.links.of[who].iter().map(|(peer, _)| *peer).collect();
        for peer in peers {
            let later = self.now + self.random.random_range(10..300);
            self.at(later, who, Event::Connects(peer));
        }
    }

    /// Executes the next event. Returns false if there is none before `end`.
    pub(super) fn step(&mut self, end: u64) -> bool {
        let Some((time, Planned { who, life, event })) = self.event_schedule.next(end) else {
            self.now = end;
            return false;
        };
        let who = who as usize;
        self.now = time;
        self.trace.begin(time, who, &event);
        let unix = (BEGIN + time).saturating_add_signed(self.nodes[who].clock_error);
        self.nodes[who].clock.set(unix);
        self.end_connections_across(who);
        match event {
            Event::Starts => self.start(who),
            Event::ClockJumps(error) => self.nodes[who].clock_error = error,
            Event::Connects(peer) => self.connect(who, peer),
            Event::Cut(peer) => self.cut(who, peer),
            Event::Dies => self.die(who),
            Event::DiesSoon => self.dying = Some(who),
            Event::ActsByzantine => self.act_byzantine(who),
            event if life == self.nodes[who].life => self.happens(who, event),
            _ => {}
        }
        self.trace.end(&self.nodes[who]);
        true
    }

    fn happens(&mut self, who: usize, event: Event) {
        let Some(running) = &mut self.nodes[who].running else { return };
        let touches_sync = match event {
            Event::ReceivesRoundMessage { link, connection, sent } => {
                let link = link as usize;
                self.is_current(link, connection) && self.receive_round_message(who, link, &sent)
            }
            Event::Arrives { link, connection, message } => {
                self.is_current(link, connection) && self.arrives(who, self.links.links[link].other(who), *message)
            }
            Event::ToItself(input) => {
                running.handle(*input);
                true
            }
            Event::Wakes => {
                running.wakes_at = None;
                true
            }
            Event::VerifiesBlock(block) => {
                self.verify_and_insert(who, &block);
                true
            }
            Event::ImportEnds(outcome) => {
                running.importing = None;
                running.sync.import_ended(*outcome, &*running.blocks, since_start(self.now));
                true
            }
            _ => false,
        };
        self.settle(who, touches_sync);
    }

    fn is_current(&self, link: usize, connection: u32) -> bool {
        let link = &self.links.links[link];
        link.is_up && link.number == connection
    }

    /// Processes a message of the voting. Returns whether the synchronisation has something to do.
    fn receive_round_message(&mut self, who: usize, link: usize, sent: &SentMessage) -> bool {
        self.peer_has(who, link, sent);
        let from = self.links.links[link].other(who);
        let peer = self.nodes[from].id;
        let own = self.is_byzantine(who).then(|| self.nodes[who].key.address());
        let Some(running) = &mut self.nodes[who].running else { return false };
        // As on real connections, messages are ignored during a synchronisation. A dishonest node ignores its own
        // forgeries.
        if running.is_syncing {
            return false;
        }
        let unknown = sent.block.filter(|block| !running.blocks.is_stored(&block.hash));
        if let Some(block) = unknown {
            running.sync.block_mentioned(peer, block, &*running.blocks, since_start(self.now));
        }
        // Handed over once everything that arrives in this millisecond has been collected.
        if own.is_none_or(|own| !byzantine::is_signed_by(&sent.message, own))
            && let Some(messages) = running.collector.add(sent.message.clone(), Box::new(()))
        {
            self.at(self.now, who, Event::ToItself(Box::new(Input::Messages(messages))));
        }
        unknown.is_some()
    }

    /// Processes another message. Returns whether the synchronisation has something to do.
    fn arrives(&mut self, who: usize, from: usize, message: Message) -> bool {
        let (now, peer) = (since_start(self.now), self.nodes[from].id);
        let Some(running) = &mut self.nodes[who].running else { return false };
        let blocks = Arc::clone(&running.blocks);
        match message {
            Message::Status(head, total_difficulty) => running.sync.joined(peer, head, total_difficulty),
            Message::Block(block, total_difficulty) => {
                running.sync.new_block(peer, block, total_difficulty, &*blocks, now);
            }
            Message::Headers(headers) => running.sync.headers(peer, headers, &*blocks, now),
            Message::Bodies(bodies) => running.sync.bodies(peer, bodies, &*blocks, now),
            Message::Transaction(raw) => {
                if running.pool.add(&raw) {
                    self.pass_on(who, &raw);
                }
                return false;
            }
            Message::Ask(request) => {
                let chain = &self.nodes[who].chain;
                let answer = match request {
                    SyncRequest::Headers(request) => Message::Headers(node::headers(chain, &request)),
                    SyncRequest::Bodies(hashes) => Message::Bodies(node::bodies(chain, &hashes)),
                };
                self.send(who, from, answer);
                return false;
            }
        }
        true
    }

    fn pass_on(&mut self, who: usize, raw: &Bytes) {
        for peer in self.peers_of(who) {
            self.send(who, peer, Message::Transaction(raw.clone()));
        }
    }

    /// Verifies, relays and inserts a block.
    fn verify_and_insert(&mut self, who: usize, block: &Arc<Block>) {
        let unix = self.nodes[who].clock.seconds();
        let Some(running) = &mut self.nodes[who].running else { return };
        let (hash, blocks) = (block.hash(), Arc::clone(&running.blocks));
        let mut verdict = blocks.verify_header(&block.header);
        running.sync.header_verified(hash, &verdict, &*blocks);
        if verdict == BlockVerdict::Head {
            verdict = blocks.insert((**block).clone());
        }
        running.sync.inserted(hash, &verdict, unix);
        if matches!(verdict, BlockVerdict::Head | BlockVerdict::ExecutedOnSideBranch) {
            let (header, at) = (Arc::new(block.header.clone()), std::time::Instant::now());
            running.collector.close();
            running.handle(Input::Executed { header, is_announced: true, at });
            self.vote_again(who, block);
        }
    }

    /// Executes all actions that a node has decided on. `touches_sync` is false if only its voting has news.
    pub(super) fn settle(&mut self, who: usize, touches_sync: bool) {
        let mut advances = touches_sync;
        loop {
            let unix = self.nodes[who].clock.seconds();
            let Some(running) = &mut self.nodes[who].running else { return };
            if !advances && running.outbox.is_empty() {
                return;
            }
            let mut said = running.outbox.take();
            advances |= said.iter().any(|said| matches!(said, ActorOutput::Block(..)));
            let mut actions = Vec::new();
            if advances {
                let blocks = Arc::clone(&running.blocks);
                running.sync.advance(&*blocks, since_start(self.now), unix);
                while let Some(action) = running.sync.next_action() {
                    actions.push(action);
                }
            }
            let is_quiet = actions.is_empty() && said.is_empty();
            let is_dying = self.dying == Some(who) && !said.is_empty();
            if is_dying {
                said.truncate(self.random.random_range(0..said.len()));
            }
            actions.into_iter().for_each(|action| self.follow(who, action));
            said.into_iter().for_each(|said| self.carry(who, said));
            self.check_commits(who);
            if is_dying {
                self.dying = None;
                self.die(who);
                return;
            }
            if is_quiet && !self.report_changes(who) {
                break;
            }
        }
        let Some(running) = &mut self.nodes[who].running else { return };
        let wakes_at = running.sync.wakes_at(since_start(self.now));
        let wakes_at = wakes_at.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(self.now + 1));
        if let Some(time) = wakes_at.filter(|time| running.wakes_at.is_none_or(|planned| planned > *time)) {
            running.wakes_at = Some(time);
            self.at(time, who, Event::Wakes);
        }
    }

    /// Sends a new head and the synchronisation status to the actor. Returns whether the status has changed.
    fn report_changes(&mut self, who: usize) -> bool {
        let head = self.nodes[who].head_header();
        let Some(running) = &mut self.nodes[who].running else { return false };
        let is_syncing = running.sync.is_behind();
        let has_changed = std::mem::replace(&mut running.is_syncing, is_syncing) != is_syncing;
        if has_changed {
            running.syncing.store(is_syncing, Ordering::SeqCst);
            running.handle(Input::SyncingChanged);
        }
        if std::mem::replace(&mut running.reported_head, head.hash()) != head.hash() {
            self.at(self.now + 1, who, Event::ToItself(Box::new(Input::NewHead(head))));
        }
        has_changed
    }

    fn follow(&mut self, who: usize, action: Action) {
        match action {
            Action::Ask { peer, request } => self.send(who, node::index_of(peer), Message::Ask(request)),
            Action::Height { .. } => {}
            Action::Fault { peer, fault, reason } => {
                let peer = node::index_of(peer);
                let proves_a_lie = matches!(fault, Fault::InvalidBlock | Fault::WrongAnswer | Fault::Malformed);
                assert!(
                    !proves_a_lie || self.is_byzantine(peer) || self.is_byzantine(who),
                    "{peer} is blamed by {who}: {reason}"
                );
            }
            Action::BeginImport => {
                if let Some(running) = &mut self.nodes[who].running {
                    running.importing = Some(Ok(()));
                }
            }
            Action::Import(block) => {
                if let Some(running) = &mut self.nodes[who].running {
                    running.import(*block);
                }
            }
            Action::EndImport => {
                let outcome = self.nodes[who].running.as_mut().and_then(|running| running.importing.clone());
                let later = self.now + self.random.random_range(1..100);
                self.at(later, who, Event::ImportEnds(Box::new(outcome.unwrap_or(Ok(())))));
            }
            Action::VerifyAndInsert(block) => {
                let later = self.now + self.random.random_range(1..60);
                self.at(later, who, Event::VerifiesBlock(block));
            }
            Action::Relay { block, total_difficulty, to } => {
                for peer in to {
                    let message = Message::Block(Arc::clone(&block), total_difficulty);
                    self.send(who, node::index_of(peer), message);
                }
            }
        }
    }

    fn carry(&mut self, who: usize, said: ActorOutput) {
        match said {
            ActorOutput::Later(wait, input) => {
                let wait = u64::try_from(wait.as_millis()).unwrap();
                self.at(self.now + wait, who, Event::ToItself(Box::new(input)));
            }
            ActorOutput::Round(message) => self.speak(who, &message, false),
            ActorOutput::Again(message) => self.speak(who, &message, true),
            ActorOutput::Transaction(raw) => self.pass_on(who, &raw),
            ActorOutput::Block(block, total_difficulty) if self.is_byzantine(who) => {
                self.propose_twice(who, &block, total_difficulty)
            }
            ActorOutput::Block(block, total_difficulty) => {
                self.observer.made(&block);
                if let Some(running) = &mut self.nodes[who].running {
                    running.sync.relay(block, total_difficulty);
                }
            }
        }
    }

    fn speak(&mut self, who: usize, message: &RoundMessage, is_for_all: bool) {
        let (sent, is_new) = self.sent_messages.of(message);
        if is_new && message.kind != RoundMessageKind::SyncInfo {
            self.nodes[who].last_sent = Some(message.clone());
        }
        self.observer.sent(&sent);
        self.broadcast(who, &sent, is_for_all);
    }

    fn check_commits(&mut self, who: usize) {
        let committed = self.nodes[who].state().and_then(|state| state.committed).map(|block| block.hash);
        if !self.is_byzantine(who) && committed.is_some() && committed != self.nodes[who].committed {
            self.nodes[who].committed = committed;
            let chain = Arc::clone(&self.nodes[who].chain);
            committed.into_iter().for_each(|block| self.observer.commits(&chain, block));
        }
    }
}

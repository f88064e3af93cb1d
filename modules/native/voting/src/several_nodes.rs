//! Networks of voting nodes with a simulated clock. Messages are late, duplicated or lost; the network splits; nodes
//! are killed and restart with their stored state; a masternode votes and proposes twice. No two nodes ever commit
//! different blocks; the chain continues once the disturbances end; double votes are proven.
//!
//! `TENON_SEED=<number>` repeats one network; `TENON_NETWORKS`, the number of networks of each kind, and `TENON_FIRST_SEED`
//! try other ones (`network::seeds`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, hex};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use tenon_api::{BlockSigner, ChainReader, RecoveredBlock, SealAttributes, SealedHeader};
use tenon_memory_chain::MemoryChain;
use tenon_native_consensus::v2::testing::network::{EPOCH, GAP, Network, recovered, seeds};
use tenon_native_consensus::v2::{MasternodeKey, V2Engine, extra_of, seal};
use tenon_native_consensus::{BlockInfo, SyncInfo, Timeout, Vote, VotingState, recover, vote_digest};

use crate::forensics::ForensicProof;
use crate::replica::{Action, Replica};

/// Default number of networks of each kind.
const NETWORKS: u64 = 2;
/// Duration of the disturbances, and total duration, milliseconds.
const FAULTY_TIME: u64 = 90_000;
const END: u64 = 210_000;
/// Time of the partition.
const SPLIT: std::ops::Range<u64> = 30_000..45_000;
/// Interval between two requests for blocks of other nodes.
const CATCH_UP: u64 = 2_000;

#[derive(Clone)]
enum Message {
    Block(Arc<RecoveredBlock>),
    Vote(Vote),
    Timeout(Timeout),
    SyncInfo(SyncInfo),
}

enum Event {
    Arrives(Message),
    /// The countdown with this number ends. Events of an earlier countdown that was restarted are ignored.
    CountdownEnds(u64),
    MayPropose(u64),
    CatchesUp,
    IsKilled,
    ComesBack,
}

/// One node with a chain of its own.
struct Node {
    key: MasternodeKey,
    engine: Arc<V2Engine>,
    chain: MemoryChain,
    /// `None` while it is down.
    replica: Option<Replica>,
    /// State that survives a kill.
    kept: VotingState,
    countdown: u64,
    seen: HashSet<B256>,
    proposed_round: u64,
    /// Whether it repeats messages that it may have sent before.
    repeats: bool,
    reports: Vec<ForensicProof>,
}

/// Events by time and node; simultaneous events in order of creation.
type EventQueue = BinaryHeap<Reverse<(u64, u64, usize)>>;

struct World {
    random: StdRng,
    nodes: Vec<Node>,
    /// Number of nodes, from the first, that vote and propose twice.
    byzantine_nodes: usize,
    now: u64,
    agenda: EventQueue,
    events: HashMap<u64, Event>,
    made: u64,
    /// Every committed block, by height.
    committed: BTreeMap<u64, B256>,
    /// The block that each honest masternode voted for in a round.
    votes: HashMap<(Address, u64), B256>,
    lost: u64,
    kills: u64,
}

impl World {
    fn new(seed: u64, count: u64, byzantine_nodes: usize) -> Self {
        let mut network = Network::steady(count, seed);
        let mut random = StdRng::seed_from_u64(seed);
        let mut all: Vec<Address> = network.keys.keys().copied().collect();
        all.sort_unstable();
        for epoch in 0..200 {
            all.shuffle(&mut random);
            network.candidates.insert(epoch * EPOCH + EPOCH - GAP, all.clone());
        }
        let genesis = Arc::clone(&network.chain[&0]);
        let make = |address: &Address| {
            let (engine, chain) = (Arc::new(network.engine()), MemoryChain::default());
            chain.push(Arc::clone(&genesis));
            let (key, kept) = (network.keys[address].clone(), VotingState::default());
            let (seen, reports) = (HashSet::new(), Vec::new());
            Node {
                key,
                engine,
                chain,
                replica: None,
                kept,
                countdown: 0,
                seen,
                proposed_round: 0,
                repeats: false,
                reports,
            }
        };
        let nodes: Vec<Node> = all.iter().map(make).collect();
        let mut world = Self {
            random,
            nodes,
            byzantine_nodes,
            now: 0,
            agenda: EventQueue::new(),
            events: HashMap::new(),
            made: 0,
            committed: BTreeMap::new(),
            votes: HashMap::new(),
            lost: 0,
            kills: 0,
        };
        for who in 0..world.nodes.len() {
            world.start(who);
            let first = world.random.random_range(0..CATCH_UP);
            world.at(first, who, Event::CatchesUp);
        }
        for _ in 0..4 {
            let (time, who) =
                (world.random.random_range(0..FAULTY_TIME - 20_000), world.random.random_range(0..world.nodes.len()));
            world.at(time, who, Event::IsKilled);
        }
        world
    }

    fn at(&mut self, time: u64, who: usize, event: Event) {
        self.made += 1;
        self.agenda.push(Reverse((time, self.made, who)));
        self.events.insert(self.made, event);
    }

    fn is_byzantine(&self, who: usize) -> bool {
        who < self.byzantine_nodes
    }

    /// Starts a node at its head, with its kept state.
    fn start(&mut self, who: usize) {
        let node = &mut self.nodes[who];
        let head = node.chain.head().header.as_ref().clone();
        let kept = node.kept.clone();
        let key: Option<Arc<dyn BlockSigner>> = Some(Arc::new(node.key.clone()));
        let (replica, actions) = Replica::start(Arc::clone(&node.engine), key, kept, &head, &node.chain).unwrap();
        node.replica = Some(replica);
        self.act(who, actions);
    }

    /// Sends to all other nodes; during the disturbances some messages are lost, some duplicated, and all delayed.
    fn send(&mut self, from: usize, message: &Message, to: impl Fn(usize) -> bool) {
        for peer in (0..self.nodes.len()).filter(|peer| *peer != from && to(*peer)).collect::<Vec<_>>() {
            let is_split = SPLIT.contains(&self.now) && peer % 2 != from % 2;
            if is_split || self.now < FAULTY_TIME && self.random.random_bool(0.15) {
                self.lost += 1;
                continue;
            }
            let copies = if self.random.random_bool(0.05) { 2 } else { 1 };
            for _ in 0..copies {
                let slowest = if self.now < FAULTY_TIME { 1_500 } else { 150 };
                let time = self.now + self.random.random_range(10..slowest);
                self.at(time, peer, Event::Arrives(message.clone()));
            }
        }
    }

    /// Carries out a replica's actions. State to be kept is stored before anything leaves the node.
    fn act(&mut self, who: usize, actions: Vec<Action>) {
        if let Some(replica) = &self.nodes[who].replica {
            self.nodes[who].kept = replica.state().clone();
        }
        for action in actions {
            match action {
                Action::SendVote(vote) => {
                    self.note_vote(&vote);
                    self.gossip(who, vote.hash(), Message::Vote(vote));
                }
                Action::SendTimeout(timeout) => self.gossip(who, timeout.hash(), Message::Timeout(timeout)),
                Action::SendSyncInfo(sync) => self.gossip(who, sync.hash(), Message::SyncInfo(sync)),
                Action::StartCountdown(time) => {
                    self.nodes[who].countdown += 1;
                    let countdown = self.nodes[who].countdown;
                    self.at(self.now + milliseconds(time), who, Event::CountdownEnds(countdown));
                }
                Action::RoundBegan(round) => self.at(self.now, who, Event::MayPropose(round)),
                Action::Committed(block) if !self.is_byzantine(who) => self.note_commit(who, block),
                Action::Committed(_) => {}
                Action::Report(proof) => self.nodes[who].reports.push(proof),
            }
        }
    }

    fn gossip(&mut self, who: usize, hash: B256, message: Message) {
        if self.nodes[who].seen.insert(hash) || self.nodes[who].repeats {
            self.send(who, &message, |_| true);
        }
    }

    /// Checks that an honest masternode votes once per round, even after a kill.
    fn note_vote(&mut self, vote: &Vote) {
        let digest = vote_digest(&vote.block, vote.gap_number);
        let signer = recover(digest, &vote.signature).unwrap();
        if self.nodes[..self.byzantine_nodes].iter().any(|node| node.key.address() == signer) {
            return;
        }
        let first = *self.votes.entry((signer, vote.block.round)).or_insert(vote.block.hash);
        assert_eq!(first, vote.block.hash, "{signer} voted twice in round {}", vote.block.round);
    }

    /// Checks that all nodes commit the same block at a height.
    fn note_commit(&mut self, who: usize, block: BlockInfo) {
        let mut hash = block.hash;
        for number in (1..=block.number).rev() {
            match self.committed.insert(number, hash) {
                Some(known) if known == hash => return,
                Some(known) => panic!("two blocks committed at {number}: {known} and {hash}"),
                None => hash = self.nodes[who].chain.header(hash).unwrap().unwrap().parent_hash,
            }
        }
    }

    fn run(&mut self, end: u64) {
        while let Some(Reverse((time, number, who))) = self.agenda.pop() {
            let event = self.events.remove(&number).unwrap();
            if time >= end {
                self.at(time, who, event);
                self.now = end;
                return;
            }
            self.now = time;
            self.happens(who, event);
        }
    }

    fn happens(&mut self, who: usize, event: Event) {
        if self.nodes[who].replica.is_none() && !matches!(event, Event::ComesBack | Event::CatchesUp) {
            return;
        }
        match event {
            Event::Arrives(Message::Block(block)) => self.insert(who, &block, true),
            Event::Arrives(message) => self.receive(who, message),
            Event::CountdownEnds(countdown) if countdown == self.nodes[who].countdown => {
                // Repeated, because a node that has reconnected since then has not received it.
                self.nodes[who].repeats = true;
                self.with_replica(who, |replica, chain, actions| drop(replica.on_countdown(chain, actions)));
                self.nodes[who].repeats = false;
            }
            Event::CountdownEnds(_) => {}
            Event::MayPropose(round) => self.propose(who, round),
            Event::CatchesUp => self.catch_up(who),
            Event::IsKilled => {
                self.kills += 1;
                self.nodes[who].replica = None;
                self.nodes[who].seen.clear();
                let back = self.now + self.random.random_range(100..15_000);
                self.at(back, who, Event::ComesBack);
            }
            Event::ComesBack => self.start(who),
        }
    }

    fn with_replica(&mut self, who: usize, does: impl FnOnce(&mut Replica, &MemoryChain, &mut Vec<Action>)) {
        let mut actions = Vec::new();
        let node = &mut self.nodes[who];
        if let Some(replica) = &mut node.replica {
            does(replica, &node.chain, &mut actions);
        }
        self.act(who, actions);
    }

    fn receive(&mut self, who: usize, message: Message) {
        let hash = match &message {
            Message::Vote(vote) => vote.hash(),
            Message::Timeout(timeout) => timeout.hash(),
            Message::SyncInfo(sync) => sync.hash(),
            Message::Block(_) => return,
        };
        if self.nodes[who].seen.contains(&hash) {
            return;
        }
        // Messages that are late, or that precede their block, are refused with an error; that is not a failure.
        self.with_replica(who, |replica, chain, actions| match message {
            Message::Vote(vote) => drop(replica.on_vote(vote, chain, actions)),
            Message::Timeout(timeout) => drop(replica.on_timeout(timeout, chain, actions)),
            Message::SyncInfo(sync) => drop(replica.on_sync_info(sync, chain, actions)),
            Message::Block(_) => {}
        });
    }

    /// Inserts a block whose parent is known; forwards it to the other nodes, and to the voting.
    fn insert(&mut self, who: usize, block: &Arc<RecoveredBlock>, is_announced: bool) {
        let node = &self.nodes[who];
        let (header, hash) = (&block.header, block.hash());
        let Some(parent) = node.chain.header(header.parent_hash).unwrap() else { return };
        if node.chain.header(hash).unwrap().is_some() {
            return;
        }
        node.engine.verify_header(header, &parent, &node.chain, None).unwrap();
        let head = node.chain.head().header.clone();
        node.chain.push(Arc::clone(block));
        // The longest chain, and the first seen among equals; never one without the committed block (8.3).
        let undoes = node.kept.committed.is_some_and(|committed| !is_ancestor(&node.chain, committed, header));
        if header.number <= head.number || undoes {
            node.chain.set_head(head.hash());
        }
        if is_announced {
            self.gossip(who, hash, Message::Block(Arc::clone(block)));
            self.pass_to_replica(who, header);
        }
    }

    fn pass_to_replica(&mut self, who: usize, header: &SealedHeader) {
        if self.is_byzantine(who) {
            self.vote_for_everything(who, header);
        }
        self.with_replica(who, |replica, chain, actions| drop(replica.on_block(header, chain, actions)));
    }

    /// A dishonest node votes for every block of its round.
    fn vote_for_everything(&mut self, who: usize, header: &SealedHeader) {
        let node = &self.nodes[who];
        let round = extra_of(header).unwrap().round;
        let epoch = node.engine.epoch_info(header, &node.chain).unwrap();
        if node.replica.as_ref().is_none_or(|replica| replica.state().round != round) {
            return;
        }
        let block = BlockInfo { hash: header.hash(), round, number: header.number };
        let gap_number = epoch.gap_number(node.engine.consensus());
        let signature = node.key.sign(vote_digest(&block, gap_number)).to_vec().into();
        let vote = Vote { block, signature, gap_number };
        self.gossip(who, vote.hash(), Message::Vote(vote));
    }

    /// Requests missing blocks from another node's chain.
    fn catch_up(&mut self, who: usize) {
        self.at(self.now + CATCH_UP, who, Event::CatchesUp);
        let peer = self.random.random_range(0..self.nodes.len());
        let is_reachable = !SPLIT.contains(&self.now) || peer % 2 == who % 2;
        if self.nodes[who].replica.is_none() || self.nodes[peer].replica.is_none() || !is_reachable {
            return;
        }
        let (own, theirs) = (&self.nodes[who].chain, &self.nodes[peer].chain);
        let mut missing = Vec::new();
        let mut hash = theirs.head().header.hash();
        while own.header(hash).unwrap().is_none() {
            let block = theirs.block(hash).unwrap().unwrap();
            hash = block.header.parent_hash;
            missing.push(block);
        }
        missing.iter().rev().for_each(|block| self.insert(who, block, false));
        if let Some(newest) = missing.first() {
            self.pass_to_replica(who, &newest.header);
        }
    }

    /// Makes a block if it leads its current round and has a certified parent (7.1).
    fn propose(&mut self, who: usize, round: u64) {
        let node = &self.nodes[who];
        let Some(state) = node.replica.as_ref().map(Replica::state) else { return };
        if state.round != round || node.proposed_round >= round {
            return;
        }
        let quorum = state.highest_quorum.clone();
        let Some(parent) = node.chain.header(quorum.block.hash).unwrap() else { return };
        let period = node.engine.consensus().at_round(round).mine_period;
        let earliest = (parent.timestamp + period) * 1_000;
        if self.now < earliest {
            self.at(earliest, who, Event::MayPropose(round));
            return;
        }
        let attributes = SealAttributes {
            timestamp: self.now / 1_000,
            beneficiary: node.key.address(),
            gas_limit: 50_000_000,
            extra_data: Bytes::new(),
            mix_hash: B256::ZERO,
        };
        let Ok(header) = node.engine.prepare(&parent, round, quorum, &attributes, &node.chain) else { return };
        let signings =
            if parent.number.is_multiple_of(15) && parent.number > 0 { self.signings(&parent) } else { Vec::new() };
        self.nodes[who].proposed_round = round;
        let node = &self.nodes[who];
        let one = recovered(seal(header.clone(), &node.key).unwrap(), signings.clone());
        if !self.is_byzantine(who) {
            self.insert(who, &one, true);
            return;
        }
        // Two blocks of one round, each sent to half of the others.
        let later = tenon_api::Header { timestamp: header.timestamp + 1, ..header };
        let other = recovered(seal(later, &node.key).unwrap(), signings);
        for (block, half) in [(one, 0), (other, 1)] {
            self.insert(who, &block, false);
            self.send(who, &Message::Block(Arc::clone(&block)), |peer| peer % 2 == half);
            self.pass_to_replica(who, &block.header);
        }
    }

    /// All masternodes sign the block, so that penalised ones return (4.5).
    fn signings(&self, block: &SealedHeader) -> Vec<(Address, B256)> {
        self.nodes.iter().map(|node| (node.key.address(), block.hash())).collect()
    }

    /// Round, certified and timed-out rounds, head and its round, of every node.
    fn progress_of_nodes(&self) -> Vec<[u64; 5]> {
        let progress = |node: &Node| {
            let (state, head) = (&node.kept, node.chain.head().header.clone());
            let round = if head.number == 0 { 0 } else { extra_of(&head).unwrap().round };
            [state.round, state.highest_quorum.block.round, state.highest_timeout.round, head.number, round]
        };
        self.nodes.iter().map(progress).collect()
    }

    fn lowest_commit(&self) -> u64 {
        let honest = self.nodes[self.byzantine_nodes..].iter();
        honest.map(|node| node.kept.committed.map_or(0, |block| block.number)).min().unwrap_or_default()
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap()
}

fn is_ancestor(chain: &MemoryChain, ancestor: BlockInfo, header: &SealedHeader) -> bool {
    let mut current = Arc::new(header.clone());
    while current.number > ancestor.number {
        current = chain.header(current.parent_hash).unwrap().unwrap();
    }
    current.hash() == ancestor.hash
}

/// Simulates networks of one kind.
fn play(count: u64, byzantine_nodes: usize) {
    let seeds = seeds(NETWORKS);
    // Fewer networks may have no double vote.
    let has_all = seeds.len() as u64 >= NETWORKS;
    let mut proven = 0;
    for seed in seeds {
        println!("TENON_SEED={seed}");
        let mut world = World::new(seed, count, byzantine_nodes);
        world.run(FAULTY_TIME);
        let (rough, rounds) = (world.lowest_commit(), world.nodes[byzantine_nodes].kept.round);
        world.run(END);

        let quiet = world.lowest_commit();
        assert!(quiet >= rough + 20, "seed {seed}: committed {rough}, then {quiet}; {:?}", world.progress_of_nodes());
        let byzantine_names: Vec<String> =
            world.nodes[..byzantine_nodes].iter().map(|node| hex::encode(node.key.address())).collect();
        let reports: Vec<&ForensicProof> =
            world.nodes[byzantine_nodes..].iter().flat_map(|node| &node.reports).collect();
        for report in &reports {
            let id = report.id();
            assert!(byzantine_names.iter().any(|name| id.starts_with(name)), "{id} of an honest one");
        }
        proven += reports.len();
        println!(
            "{count} nodes, {byzantine_nodes} of them byzantine: {rough} blocks committed in {rounds} rounds of the rough time, {quiet} at \
             the end, none of them twice; {} messages lost, {} kills, {} votes, {} proofs",
            world.lost,
            world.kills,
            world.votes.len(),
            reports.len(),
        );
    }
    assert!(proven == 0 || byzantine_nodes > 0, "{proven} proofs without a byzantine node");
    assert!(proven > 0 || byzantine_nodes == 0 || !has_all, "no proofs of {byzantine_nodes} byzantine nodes");
}

#[test]
fn four_nodes_commit_one_chain_and_continue_once_the_network_is_quiet() {
    play(4, 0);
}

#[test]
fn one_dishonest_node_of_four_causes_no_conflict_and_is_proven() {
    play(4, 1);
}

#[test]
fn two_dishonest_nodes_of_seven_cause_no_conflict_and_are_proven() {
    play(7, 2);
}

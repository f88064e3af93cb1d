//! Random faults of a world, and what must hold during and after them.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::Rng;

use super::transcript::Line;
use super::world::World;

/// Number of nodes.
const NODES: usize = 4;
/// Duration of the faults.
const FAULTY_TIME: Duration = Duration::from_secs(150);
/// Time between two faults, milliseconds.
const PAUSES: std::ops::Range<u64> = 500..6_000;
/// Duration of a fault, milliseconds: shorter and longer than the time limits of a session.
const LENGTHS: std::ops::Range<u64> = 300..60_000;
/// Time after which a node must have noticed that it hears nothing from a peer: 30 s without a frame
/// (`docs/spec/p2p.md` 1), plus the time for a Disconnect that no peer receives.
const MAX_SILENCE: Duration = Duration::from_secs(34);
/// Further time within which all nodes must be connected: 15 s for a dial that began during a fault, and 30 s until the next one.
const MAX_REPAIR: Duration = Duration::from_secs(60);
/// The same if nodes find each other by discovery. Two halves of a network can have forgotten each other's nodes; then they meet
/// at the next complete search, after 30 minutes (`docs/spec/p2p.md` 4.5).
const MAX_SEARCH: Duration = Duration::from_secs(31 * 60);
/// Probability that a message on a lossy link is lost, together with all messages in transit.
const LOSS: f64 = 0.05;

/// A kind of fault, with the nodes that it affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// All messages between two nodes are lost.
    Partition(usize, usize),
    /// All messages of the first node to the second one are lost.
    OneWay(usize, usize),
    /// All messages between two nodes are held back and delivered at the end, like TCP segments that are sent again.
    Held(usize, usize),
    /// Some messages between two nodes are lost.
    Loss(usize, usize),
    /// The process of a node has ended.
    Crash(usize),
    /// A node has ended, and its peers have not been told.
    PowerCut(usize),
}

impl Fault {
    fn random(random: &mut impl Rng) -> Self {
        let one = random.random_range(0..NODES);
        let other = (one + random.random_range(1..NODES)) % NODES;
        match random.random_range(0..6) {
            0 => Self::Partition(one, other),
            1 => Self::OneWay(one, other),
            2 => Self::Held(one, other),
            3 => Self::Loss(one, other),
            4 => Self::Crash(one),
            _ => Self::PowerCut(one),
        }
    }

    /// The links that it affects. At most one fault affects a link at a time.
    fn links(self) -> Vec<(usize, usize)> {
        match self {
            Self::Partition(one, other)
            | Self::OneWay(one, other)
            | Self::Held(one, other)
            | Self::Loss(one, other) => {
                vec![(one.min(other), one.max(other))]
            }
            Self::Crash(node) | Self::PowerCut(node) => {
                (0..NODES).filter(|other| *other != node).map(|other| (node.min(other), node.max(other))).collect()
            }
        }
    }

    /// Pairs of a silent node and a node that receives nothing from it while the fault lasts.
    fn silent(self) -> Vec<(usize, usize)> {
        match self {
            Self::Partition(one, other) | Self::Held(one, other) => vec![(one, other), (other, one)],
            Self::OneWay(one, other) => vec![(one, other)],
            Self::Loss(..) => Vec::new(),
            Self::Crash(node) | Self::PowerCut(node) => {
                (0..NODES).filter(|other| *other != node).map(|other| (node, other)).collect()
            }
        }
    }
}

/// The result of a run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) faults: usize,
    /// Dials that failed and connections that ended, counted at each end.
    pub(super) ends: usize,
    /// Time from the last fault until all nodes were connected.
    pub(super) repair: Duration,
    pub(super) transcript: Vec<Line>,
}

/// Nodes that fail in random ways.
pub(super) struct FaultyNetwork {
    world: World,
    active: Vec<(Fault, Duration)>,
    /// The time since which a node receives nothing from another, by the pair of [`Fault::silent`].
    silent_since: BTreeMap<(usize, usize), Duration>,
    faults: usize,
    round: u64,
}

impl FaultyNetwork {
    /// The seed decides whether nodes find each other by discovery, or know each other's addresses.
    pub(super) fn new(seed: u64) -> Self {
        let world = World::new(seed, NODES, |nodes, random| {
            let enodes: Vec<_> = nodes.iter().map(|node| node.enode).collect();
            let (is_discovering, is_mutual) = (random.random(), random.random::<bool>());
            for (number, node) in nodes.iter_mut().enumerate() {
                node.settings.is_discovering = is_discovering;
                let others = enodes.iter().enumerate();
                if is_discovering {
                    node.settings.bootnodes = vec![enodes[0], enodes[1]];
                } else {
                    let dialed = others.filter(|(other, _)| is_mutual && *other != number || *other > number);
                    node.settings.statics = dialed.map(|(_, enode)| *enode).collect();
                }
            }
        });
        Self { world, active: Vec::new(), silent_since: BTreeMap::new(), faults: 0, round: 0 }
    }

    /// Runs to the end.
    pub(super) fn run(mut self) -> Outcome {
        let mut next = self.pause();
        while self.world.now() < FAULTY_TIME {
            self.world.step();
            let now = self.world.now();
            if now >= next {
                next = now + self.pause();
                self.begin_fault();
                self.exchange_messages();
            }
            self.end_faults(now);
            self.assert_silence_is_noticed();
        }
        self.end_faults(Duration::MAX);
        // Connections that have lost segments are silent, and still listed.
        self.world.run(MAX_SILENCE);
        let limit = if self.world.nodes[0].settings.is_discovering { MAX_SEARCH } else { MAX_REPAIR };
        let repair = self.world.run_until(limit, World::is_connected);
        let repair = repair.unwrap_or_else(|| panic!("not connected after {limit:?}: {}", self.missing()));
        self.assert_all_hear_all();
        self.world.assert_no_panics();
        Outcome {
            faults: self.faults,
            ends: self.world.transcript.count("connection over"),
            repair,
            transcript: self.world.transcript.lines(),
        }
    }

    fn pause(&mut self) -> Duration {
        Duration::from_millis(self.world.random.random_range(PAUSES))
    }

    /// Begins a random fault, unless an active one affects the same links.
    fn begin_fault(&mut self) {
        let fault = Fault::random(&mut self.world.random);
        let length = Duration::from_millis(self.world.random.random_range(LENGTHS));
        let links = fault.links();
        if self.active.iter().any(|(other, _)| other.links().iter().any(|link| links.contains(link))) {
            return;
        }
        let now = self.world.now();
        self.world.transcript.note(format!("{fault:?} for {length:?}"));
        let names: Vec<String> = self.world.nodes.iter().map(|node| node.name.clone()).collect();
        let simulation = &mut self.world.simulation;
        match fault {
            Fault::Partition(one, other) => simulation.partition(&*names[one], &*names[other]),
            Fault::OneWay(from, to) => simulation.partition_oneway(&*names[from], &*names[to]),
            Fault::Held(one, other) => simulation.hold(&*names[one], &*names[other]),
            Fault::Loss(one, other) => simulation.set_link_fail_rate(&*names[one], &*names[other], LOSS),
            Fault::Crash(node) => self.world.crash(node),
            Fault::PowerCut(node) => {
                fault.links().iter().for_each(|(one, other)| simulation.partition(&*names[*one], &*names[*other]));
                self.world.crash(node);
            }
        }
        self.silent_since.extend(fault.silent().into_iter().map(|pair| (pair, now)));
        self.active.push((fault, now + length));
        self.faults += 1;
    }

    /// Ends the faults whose time is over.
    fn end_faults(&mut self, now: Duration) {
        let over: Vec<Fault> = self.active.extract_if(.., |(_, until)| *until <= now).map(|(fault, _)| fault).collect();
        for fault in over {
            self.world.transcript.note(format!("{fault:?} ends"));
            let silent = fault.silent();
            self.silent_since.retain(|pair, _| !silent.contains(pair));
            let names: Vec<String> = self.world.nodes.iter().map(|node| node.name.clone()).collect();
            let simulation = &mut self.world.simulation;
            match fault {
                Fault::Partition(one, other) => simulation.repair(&*names[one], &*names[other]),
                Fault::OneWay(from, to) => simulation.repair_oneway(&*names[from], &*names[to]),
                Fault::Held(one, other) => simulation.release(&*names[one], &*names[other]),
                Fault::Loss(one, other) => simulation.set_link_fail_rate(&*names[one], &*names[other], 0.0),
                Fault::Crash(node) => self.world.restart(node),
                Fault::PowerCut(node) => {
                    fault.links().iter().for_each(|(one, other)| simulation.repair(&*names[*one], &*names[*other]));
                    self.world.restart(node);
                }
            }
        }
    }

    /// A random node broadcasts a message, so that faults meet connections in use.
    fn exchange_messages(&mut self) {
        let node = self.world.random.random_range(0..NODES);
        if self.world.is_running(node) && self.world.nodes[node].is_started() {
            self.round += 1;
            self.world.nodes[node].broadcast(self.round);
        }
    }

    /// Checks that no node lists a peer from which it has heard nothing for too long.
    fn assert_silence_is_noticed(&self) {
        let now = self.world.now();
        for ((silent, node), since) in &self.silent_since {
            if now - *since > MAX_SILENCE {
                let [silent, node] = [silent, node].map(|number| &self.world.nodes[*number]);
                assert!(!node.lists(silent), "{} lists {}, silent since {since:?}, at {now:?}", node.name, silent.name);
            }
        }
    }

    /// Checks that a message and a block of each node reach all others.
    fn assert_all_hear_all(&mut self) {
        let limit = Duration::from_secs(10);
        for from in 0..NODES {
            self.round += 1;
            let round = self.round;
            self.world.nodes[from].broadcast(round);
            let others = |world: &World| {
                world
                    .nodes
                    .iter()
                    .enumerate()
                    .filter(move |(to, _)| *to != from)
                    .all(|(_, node)| node.has_received(round))
            };
            assert!(self.world.run_until(limit, others).is_some(), "the message of node-{from} was lost");
            let block = self.world.nodes[from].announce_block();
            let have_it = |world: &World| world.nodes.iter().all(|node| node.head() == block);
            assert!(self.world.run_until(limit, have_it).is_some(), "the block of node-{from} was lost");
        }
    }

    /// The pairs of nodes that are not connected.
    fn missing(&self) -> String {
        let nodes = &self.world.nodes;
        let pairs = nodes.iter().flat_map(|one| nodes.iter().map(move |other| (one, other)));
        let missing = pairs.filter(|(one, other)| one.name != other.name && !one.knows_head_of(other));
        let names: Vec<String> = missing.map(|(one, other)| format!("{} lacks {}", one.name, other.name)).collect();
        names.join(", ")
    }
}

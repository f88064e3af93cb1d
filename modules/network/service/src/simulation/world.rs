//! A simulated network of hosts. The seed determines everything: latencies, the order of the hosts in each step, the
//! random numbers of the nodes, and their faults.

use std::rc::Rc;
use std::time::{Duration, SystemTime};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use turmoil::{Builder, Sim};

use super::node::Node;
use super::system;
use super::transcript::Transcript;

/// Step of the simulated clock.
pub(super) const STEP: Duration = Duration::from_millis(20);
/// Unix time at which a world begins.
const BEGIN: Duration = Duration::from_secs(1_700_000_000);
/// Maximum number of segments that a connection holds on their way: few, so that slow readers are noticed soon.
const MAX_SEGMENTS: usize = 64;
/// Maximum simulated time of a world whose strangers never end.
const MAX_LENGTH: Duration = Duration::from_secs(3_600);
/// Range of the greatest latency of a world, milliseconds.
const LATENCIES: std::ops::Range<u64> = 20..300;

/// Hosts, some of them with nodes.
pub(super) struct World {
    pub(super) simulation: Sim<'static>,
    pub(super) nodes: Vec<Rc<Node>>,
    pub(super) random: StdRng,
    pub(super) transcript: Transcript,
    /// The greatest latency of a message.
    pub(super) latency: Duration,
    /// Dropped after the simulation, so that its last lines are recorded as well.
    _recording: tracing::subscriber::DefaultGuard,
}

impl World {
    /// A world with this number of nodes, which start with its first step. `change` can connect them.
    pub(super) fn new(seed: u64, nodes: usize, change: impl FnOnce(&mut [Node], &mut StdRng)) -> Self {
        system::seed(seed);
        let mut random = StdRng::seed_from_u64(seed);
        let transcript = Transcript::default();
        let recording = tracing::subscriber::set_default(transcript.clone());
        let latency = Duration::from_millis(random.random_range(LATENCIES));
        let mut simulation = Builder::new()
            .rng_seed(seed)
            .epoch(SystemTime::UNIX_EPOCH + BEGIN)
            .tick_duration(STEP)
            .min_message_latency(Duration::from_millis(1))
            .max_message_latency(latency)
            .tcp_capacity(MAX_SEGMENTS)
            .simulation_duration(MAX_LENGTH)
            .enable_random_order()
            .build();
        let named = (0..nodes).map(|number| format!("node-{number}"));
        let mut nodes: Vec<Node> = named.map(|name| Node::new(&name, simulation.lookup(&*name))).collect();
        change(&mut nodes, &mut random);
        let nodes: Vec<Rc<Node>> = nodes.into_iter().map(Rc::new).collect();
        for node in &nodes {
            let own = Rc::clone(node);
            simulation.host(&*node.name, move || {
                let node = Rc::clone(&own);
                async move { node.run().await }
            });
        }
        Self { simulation, nodes, random, transcript, latency, _recording: recording }
    }

    /// Simulated time since the start.
    pub(super) fn now(&self) -> Duration {
        self.simulation.elapsed()
    }

    /// Unix seconds.
    pub(super) fn unix_now(&self) -> u64 {
        (BEGIN + self.now()).as_secs()
    }

    /// Takes one step.
    pub(super) fn step(&mut self) {
        self.transcript.set_time(self.now());
        self.simulation.step().unwrap();
    }

    /// Lets simulated time pass.
    pub(super) fn run(&mut self, length: Duration) {
        let until = self.now() + length;
        while self.now() < until {
            self.step();
        }
    }

    /// Runs until a condition holds. Returns how long that took; `None` if it did not within the limit.
    pub(super) fn run_until(&mut self, limit: Duration, is_met: impl Fn(&Self) -> bool) -> Option<Duration> {
        let begun = self.now();
        while !is_met(self) {
            if self.now() - begun > limit {
                return None;
            }
            self.step();
        }
        Some(self.now() - begun)
    }

    /// Ends a node's process: its system closes the connections, and nothing runs on the host any more.
    ///
    /// The connections end one step earlier than the rest. turmoil would drop all tasks at once, in an order that depends
    /// on numbers that tokio gives to the tasks of all tests.
    pub(super) fn crash(&mut self, node: usize) {
        self.nodes[node].abort();
        self.step();
        self.simulation.crash(&*self.nodes[node].name);
        self.nodes[node].crashed();
    }

    /// Starts a crashed node again.
    pub(super) fn restart(&mut self, node: usize) {
        self.simulation.bounce(&*self.nodes[node].name);
    }

    /// Whether a node runs.
    pub(super) fn is_running(&mut self, node: usize) -> bool {
        self.simulation.is_host_running(&*self.nodes[node].name)
    }

    /// Whether every two nodes have a session, and know the height of each other's head.
    pub(super) fn is_connected(&self) -> bool {
        let pairs = self.nodes.iter().flat_map(|one| self.nodes.iter().map(move |other| (one, other)));
        pairs.filter(|(one, other)| !Rc::ptr_eq(one, other)).all(|(one, other)| one.knows_head_of(other))
    }

    /// Fails if the actor of a node panicked.
    pub(super) fn assert_no_panics(&self) {
        for node in &self.nodes {
            assert_eq!(node.panics(), Vec::<String>::new(), "{}", node.name);
        }
    }
}

impl Drop for World {
    /// A single run that fails prints what happened.
    fn drop(&mut self) {
        if std::thread::panicking() && std::env::var("TENON_SEED").is_ok() {
            for line in self.transcript.lines() {
                eprintln!("{:?} {}", line.time, line.text);
            }
        }
    }
}

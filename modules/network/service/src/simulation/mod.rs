//! Whole networks on simulated hosts (`docs/spec/p2p.md` 7, 10, 11): this crate's real socket code (listener,
//! datagrams, dials, handshakes, sessions, answers), its actor and its state machines run over turmoil's network with a
//! virtual clock. Messages are delayed, lost or held back; the network splits, also in one direction only; nodes crash,
//! with or without their system closing the connections, and start again.
//!
//! The tests check that
//!
//! - a node notices a silent peer within the session's time limit;
//! - handshakes and writes end within their time limits;
//! - after the faults all nodes are connected again, and a message and a block of each one reach all others.
//!
//! Everything runs on the test's thread. Work that has a thread of its own in a node is a task here: the actor
//! (`Supervisor::without_threads`) and blocking work (`system`). An import of many blocks is not simulated, because it
//! blocks a thread while it waits; `modules/native/voting` simulates it without sockets. turmoil's TCP does not
//! retransmit. After a lost segment a connection stays silent for good, like a broken line. Held segments arrive late,
//! as after a retransmission.
//!
//! The seeds are consecutive numbers from 1 on. `TENON_SIMULATIONS` is their number (4), `TENON_FIRST_SEED` the first one.
//! `TENON_SEED=<number>` repeats one run.

mod faults;
mod hostile_peers;
mod node;
pub(crate) mod system;
mod transcript;
mod world;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use faults::{FaultyNetwork, Outcome};
use hostile_peers::{FalseClaim, SlowReader};
use node::Node;
use world::{STEP, World};

/// Default number of runs, and the first seed.
const RUNS: u64 = 4;
const FIRST_SEED: u64 = 1;
/// One in this many runs is repeated, and compared with the first.
const REPEATED_EVERY: usize = 3;
/// Time limit of a handshake (`docs/spec/p2p.md` 1).
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Time limit for writing one frame.
const WRITE: Duration = Duration::from_secs(20);
/// Time between two dials of a node, and time for the dial.
const REDIAL: Duration = Duration::from_secs(32);

fn seeds() -> Vec<u64> {
    if let Ok(seed) = std::env::var("TENON_SEED") {
        return vec![seed.parse().unwrap()];
    }
    let number = |name, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let first: u64 = number("TENON_FIRST_SEED", FIRST_SEED);
    (first..first + number("TENON_SIMULATIONS", RUNS)).collect()
}

/// Prints the seed of a run that fails.
struct Named {
    seed: u64,
}

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("TENON_SEED={} repeats this run", self.seed);
        }
    }
}

/// Runs each seed, on as many threads as there are processors.
fn for_each_seed(run: impl Fn(u64) + Sync) {
    let (seeds, next) = (seeds(), AtomicU64::new(0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(usize::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap()) {
                    let _named = Named { seed: *seed };
                    run(*seed);
                }
            });
        }
    });
}

#[test]
fn nodes_notice_every_fault_and_are_connected_once_the_faults_have_ended() {
    let sums = Mutex::new((0, 0, Duration::ZERO));
    for_each_seed(|seed| {
        let outcome = FaultyNetwork::new(seed).run();
        let mut sums = sums.lock().unwrap();
        *sums = (sums.0 + outcome.faults, sums.1 + outcome.ends, sums.2.max(outcome.repair));
    });
    let (faults, ends, repair) = sums.into_inner().unwrap();
    println!("{faults} faults, {ends} ends of connections and dials, connected again after {repair:?} at the latest");
}

/// Compares every segment, datagram and log line of two runs of a seed.
fn assert_repeats(seed: u64) -> Outcome {
    let [first, second] = [(); 2].map(|()| FaultyNetwork::new(seed).run());
    let lines = || first.transcript.iter().zip(&second.transcript);
    if let Some(place) = lines().position(|(one, other)| one != other) {
        let (one, other) = (&first.transcript[place], &second.transcript[place]);
        panic!("TENON_SEED={seed} does not repeat its run: line {place} is {one:?} or {other:?}");
    }
    assert!(first == second, "TENON_SEED={seed} does not repeat the end of its run");
    first
}

#[test]
fn a_seed_repeats_its_run_exactly_and_no_two_seeds_have_the_same() {
    let mut before: Option<Outcome> = None;
    for seed in seeds().into_iter().step_by(REPEATED_EVERY) {
        let outcome = assert_repeats(seed);
        assert!(outcome.transcript.len() > 1_000 && before.as_ref() != Some(&outcome));
        before = Some(outcome);
    }
}

/// A world of two nodes, of which the first dials the other.
fn two_nodes(seed: u64) -> World {
    let mut world = World::new(seed, 2, |nodes, _| nodes[0].settings.statics = vec![nodes[1].enode]);
    assert!(world.run_until(Duration::from_secs(10), World::is_connected).is_some());
    world
}

/// The end of each connection of two nodes that are each other's only peers.
fn ends(world: &World) -> [Vec<String>; 2] {
    let [one, other] = [&world.nodes[0], &world.nodes[1]];
    [one.ends_of(&other.enode.id.to_string()), other.ends_of(&one.enode.id.to_string())]
}

#[test]
fn both_nodes_notice_a_broken_line_and_are_connected_after_its_repair() {
    for_each_seed(|seed| {
        let mut world = two_nodes(seed);
        world.run(Duration::from_secs(100));
        assert_eq!(ends(&world), [vec![], Vec::<String>::new()], "an idle connection stays");

        world.simulation.partition("node-0", "node-1");

        world.run(Duration::from_secs(14));
        assert_eq!(ends(&world), [vec![], Vec::<String>::new()], "pings are 15 s apart");
        world.run(Duration::from_secs(20));
        let timeout = ["read timeout".to_owned()];
        assert_eq!(ends(&world), [timeout.clone(), timeout]);
        world.run(Duration::from_secs(60));
        world.simulation.repair("node-0", "node-1");
        assert!(world.run_until(REDIAL + Duration::from_secs(15), World::is_connected).is_some());
        world.assert_no_panics();
    });
}

#[test]
fn a_line_that_holds_everything_back_for_less_than_the_limit_ends_no_connection() {
    for_each_seed(|seed| {
        let mut world = two_nodes(seed);

        world.simulation.hold("node-0", "node-1");
        world.nodes[0].broadcast(1);
        world.run(Duration::from_secs(14));
        assert!(!world.nodes[1].has_received(1));
        world.simulation.release("node-0", "node-1");

        assert!(world.run_until(Duration::from_secs(1), |world| world.nodes[1].has_received(1)).is_some());
        world.run(Duration::from_secs(40));
        assert_eq!(ends(&world), [vec![], Vec::<String>::new()]);
    });
}

#[test]
fn the_peer_of_a_crashed_node_notices_at_once_and_of_one_without_power_at_the_limit() {
    for_each_seed(|seed| {
        let mut world = two_nodes(seed);

        world.crash(1);

        let is_gone = |world: &World| world.nodes[0].peers().is_empty();
        let noticed = world.run_until(Duration::from_secs(60), is_gone).unwrap();
        assert!(noticed <= Duration::from_secs(1), "{noticed:?}");
        world.restart(1);
        assert!(world.run_until(REDIAL, World::is_connected).is_some());

        world.simulation.partition("node-0", "node-1");
        world.crash(1);
        world.simulation.repair("node-0", "node-1");

        let noticed = world.run_until(Duration::from_secs(60), is_gone).unwrap();
        assert!((14..=34).contains(&noticed.as_secs()), "{noticed:?}");
        world.run(Duration::from_secs(60));
        assert!(world.transcript.count("dial timeout") > 0);
        world.restart(1);
        assert!(world.run_until(REDIAL + Duration::from_secs(15), World::is_connected).is_some());
    });
}

#[test]
fn a_partitioned_node_finds_its_peers_again_by_discovery() {
    for_each_seed(|seed| {
        let mut world = World::new(seed, 3, |nodes, _| {
            let bootnode = nodes[0].enode;
            for node in nodes {
                node.settings.is_discovering = true;
                node.settings.bootnodes = vec![bootnode];
            }
        });
        assert!(world.run_until(Duration::from_secs(90), World::is_connected).is_some());
        let others = ["node-0", "node-1"];

        others.iter().for_each(|other| world.simulation.partition("node-2", *other));
        // Long enough for its table to become empty.
        world.run(Duration::from_secs(240));
        others.iter().for_each(|other| world.simulation.repair("node-2", *other));

        assert!(world.run_until(Duration::from_secs(75), World::is_connected).is_some());
    });
}

#[test]
fn silent_and_slow_handshakes_are_closed_at_their_limit() {
    for_each_seed(|seed| {
        let mut world = World::new(seed, 1, |_, _| {});
        let node = world.nodes[0].enode;
        let lasted = Rc::new(Cell::new([Duration::ZERO; 2]));
        let told = Rc::clone(&lasted);

        world.simulation.client("stranger", async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let (silent, slow) =
                tokio::join!(hostile_peers::connect_without_sending(node), hostile_peers::send_handshake_slowly(node));
            told.set([silent, slow]);
            Ok(())
        });

        world.run(Duration::from_secs(20));
        // The connection begins and ends for the stranger up to a latency apart from when it does for the node.
        let tolerance = world.latency + STEP * 3;
        for lasted in lasted.get() {
            assert!((HANDSHAKE - tolerance..HANDSHAKE + tolerance).contains(&lasted), "{lasted:?}");
        }
    });
}

/// Five addresses fill all ten slots with silent connections, and fill each one again as soon as it is free.
#[test]
fn silent_handshakes_are_displaced_by_a_node_that_connects() {
    for_each_seed(|seed| {
        let mut world = World::new(seed, 2, |nodes, _| {
            nodes[0].settings.max_pending = 10;
            nodes[1].settings.statics = vec![nodes[0].enode];
        });
        let node = world.nodes[0].enode;
        let shortest = Rc::new(Cell::new(Duration::MAX));
        world.step();
        world.crash(1);
        for stranger in 0..5 {
            let shortest = Rc::clone(&shortest);
            world.simulation.client(format!("stranger-{stranger}"), async move {
                let hold = || async {
                    loop {
                        let lasted = hostile_peers::connect_without_sending(node).await;
                        if lasted > Duration::from_secs(1) {
                            shortest.set(shortest.get().min(lasted));
                        }
                        tokio::time::sleep(Duration::from_millis(600)).await;
                    }
                };
                tokio::join!(hold(), hold());
                Ok(())
            });
        }
        world.run(Duration::from_secs(4));

        world.restart(1);

        let connected = world.run_until(Duration::from_secs(10), World::is_connected);
        assert!(connected.is_some_and(|time| time < Duration::from_secs(3)), "{connected:?}");
        assert!(world.transcript.count("another connection took this one's slot") > 0);
        world.run(Duration::from_secs(10));
        assert!(shortest.get() < HANDSHAKE, "{shortest:?}");
    });
}

#[test]
fn a_slow_reader_is_closed_at_the_limit_for_writing_and_delays_no_other_peer() {
    for_each_seed(|seed| {
        let mut world = two_nodes(seed);
        let (enode, status) = (world.nodes[0].enode, hostile_peers::empty_status(world.nodes[0].settings.genesis));
        let (reader, is_over) = (SlowReader::new(), Rc::new(Cell::new(false)));
        let (id, told) = (reader.id.to_string(), Rc::clone(&is_over));

        world.simulation.client("stranger", async move {
            reader.run(enode, status, 300).await;
            told.set(true);
            Ok(())
        });

        let is_there = |node: &Node| node.peers().iter().any(|peer| peer.id == id);
        assert!(world.run_until(Duration::from_secs(5), |world| is_there(&world.nodes[0])).is_some());
        let begun = world.now();
        let mut round = 0;
        while is_there(&world.nodes[0]) {
            assert!(world.now() - begun < WRITE * 2, "it is still connected");
            round += 1;
            world.nodes[0].broadcast(round);
            let heard = world.run_until(Duration::from_secs(1), |world| world.nodes[1].has_received(round));
            assert!(heard.is_some(), "the other peer waits for the slow peer");
        }
        let lasted = world.now() - begun;
        assert_eq!(world.nodes[0].ends_of(&id), ["write timeout"]);
        assert!((WRITE..WRITE + Duration::from_secs(4)).contains(&lasted), "{lasted:?}");
        world.run(Duration::from_secs(20));
        assert!(is_over.get(), "the slow peer gets a Disconnect");
    });
}

/// Seven peers claim an immense total difficulty: six answer nothing, one answers slowly with forged headers. Claims do not
/// decide whether a node votes.
#[test]
fn false_claims_neither_stop_the_voting_of_a_node_nor_hold_back_messages_and_blocks() {
    for_each_seed(|seed| {
        let mut world = two_nodes(seed);
        world.nodes[1].announce_block_at(world.unix_now());
        let have_same_head = |world: &World| world.nodes[0].head() == world.nodes[1].head();
        assert!(world.run_until(Duration::from_secs(2), have_same_head).is_some());
        let (enode, genesis) = (world.nodes[0].enode, world.nodes[0].settings.genesis);
        let mut liars = vec![FalseClaim::with_forgeries_above(world.nodes[0].headers())];
        liars.extend((0..6).map(|_| FalseClaim::silent()));
        for (number, liar) in liars.into_iter().enumerate() {
            let lying = async move {
                liar.run(enode, genesis).await;
                Ok(())
            };
            world.simulation.client(format!("liar-{number}"), lying);
        }

        for round in 1..=60 {
            world.nodes[1].broadcast(round);
            world.nodes[1].announce_block_at(world.unix_now());
            let is_followed = |world: &World| have_same_head(world) && world.nodes[0].has_received(round);
            assert!(world.run_until(Duration::from_secs(2), is_followed).is_some(), "round {round}");
            world.run(Duration::from_secs(1));
        }

        assert_eq!(world.nodes[0].pauses(), 0);
        assert!(world.transcript.count("fault=NoAnswer") > 6);
        world.assert_no_panics();
    });
}

//! Whole nodes in a simulated world with a virtual clock (`docs/spec/consensus.md` 5, 7): the real actor, engine,
//! replica, records and synchronisation, over a chain in memory that executes nothing. Messages are late, lost or
//! reordered; connections break; the network splits; nodes are killed in the middle of an action and restart; clocks
//! are wrong; and up to a third of the masternodes are dishonest.
//!
//! No two different blocks are ever committed at a height, no honest masternode signs two different messages of a kind
//! in a round or is blamed for a fault, and once the faults have ended, a block is committed within ten rounds.
//!
//! `TENON_SEED=<number>` repeats one run, `TENON_SIMULATIONS` is the number of runs (200; 10,000 in the long form).

mod lies;
mod links;
mod node;
mod observer;
mod ports;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use world::{Outcome, World};

/// Default number of runs.
const RUNS: u64 = 200;

fn seeds() -> Vec<u64> {
    if let Ok(seed) = std::env::var("TENON_SEED") {
        return vec![seed.parse().unwrap()];
    }
    let runs = std::env::var("TENON_SIMULATIONS").map_or(RUNS, |text| text.parse().unwrap());
    (0..runs).map(|_| rand::random()).collect()
}

#[test]
fn networks_are_always_safe_and_continue_once_the_faults_have_ended() {
    let (seeds, next) = (seeds(), AtomicU64::new(0));
    let outcomes: Mutex<Vec<Outcome>> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(usize::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap()) {
                    let mut named = Named { seed: *seed, is_over: false };
                    outcomes.lock().push(World::new(*seed).run());
                    named.is_over = true;
                }
            });
        }
    });
    let outcomes = outcomes.into_inner();
    let sum = |figure: fn(&Outcome) -> u64| outcomes.iter().map(figure).sum::<u64>();
    let (blocks, signatures) = (sum(|run| run.height), sum(|run| run.signatures as u64));
    println!(
        "{} runs: {blocks} blocks committed, {signatures} signatures, {} events",
        outcomes.len(),
        sum(|run| run.events)
    );
    assert_eq!(outcomes.len(), seeds.len());
    assert!(blocks > outcomes.len() as u64 * 3, "{blocks} blocks in {} runs", outcomes.len());
}

/// Prints the seed of a run that fails.
struct Named {
    seed: u64,
    is_over: bool,
}

impl Drop for Named {
    fn drop(&mut self) {
        if !self.is_over {
            eprintln!("TENON_SEED={} repeats this run", self.seed);
        }
    }
}

#[test]
fn a_seed_repeats_its_run_exactly() {
    for seed in [3, 8, 11] {
        let (first, second) = (World::new(seed).run(), World::new(seed).run());
        assert_eq!(first, second, "seed {seed}");
        assert!(first.height > 0 && first.events > 500, "{first:?}");
    }
    assert_ne!(World::new(3).run().trace, World::new(4).run().trace);
}

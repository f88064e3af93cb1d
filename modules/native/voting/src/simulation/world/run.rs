//! Runs of a world, and what must hold at their end.

use std::sync::atomic::Ordering;

use rand::Rng as _;

use super::super::node::Node;
use super::super::observer::round_of;
use super::{Event, Outcome, World};

/// Time after the last fault until all nodes run and are connected, milliseconds.
const MENDING: u64 = 1_500;
/// Maximum time until progress after that, milliseconds.
const MAX_PROGRESS_TIME: u64 = 120_000;
/// Maximum number of rounds until progress after that.
const MAX_PROGRESS_ROUNDS: u64 = 10;

/// Number of rounds between two lines of a large world.
const ROUNDS_PER_PROGRESS_LINE: u64 = 2;

impl World {
    fn highest_round(&self) -> u64 {
        let honest = self.nodes[self.byzantine_nodes..].iter();
        honest.filter_map(Node::state).map(|state| state.round).max().unwrap_or_default()
    }

    /// The state of each node, for the message of a failure.
    fn states_of_nodes(&self) -> Vec<String> {
        let state_of = |node: &Node| match node.state() {
            None => "down".to_owned(),
            Some(state) => format!(
                "round {}, certified {:?}, timed out {}, voted {}, committed {:?}, head {}, syncs {}",
                state.round,
                (state.highest_quorum.block.number, state.highest_quorum.block.round),
                state.highest_timeout.round,
                state.highest_voted_round,
                state.committed.map(|block| block.number),
                node.head_header().number,
                node.running.as_ref().is_some_and(|running| running.is_syncing),
            ),
        };
        self.nodes.iter().map(state_of).collect()
    }

    /// Runs the world: first with faults, then without, when the honest nodes must commit a block made after the
    /// faults.
    pub(in crate::simulation) fn run(mut self) -> Outcome {
        while self.step(self.faulty_until) {}
        self.dying = None;
        self.network.has_faults.store(false, Ordering::Relaxed);
        for who in 0..self.nodes.len() {
            let error = self.random.random_range(-300..300);
            self.at(self.now, who, Event::ClockJumps(error));
            let peers: Vec<usize> = self.links.of[who].iter().map(|(peer, _)| *peer).collect();
            for peer in peers {
                self.at(self.now + 800, who, Event::Connects(peer));
            }
        }
        while self.step(self.faulty_until + MENDING) {}
        let begun = self.highest_round();
        let end = self.now + MAX_PROGRESS_TIME;
        while !self.has_committed_after(begun) {
            assert!(self.step(end), "no progress since round {begun}: {:#?}", self.states_of_nodes());
        }
        let rounds = self.highest_round() - begun;
        assert!(rounds <= MAX_PROGRESS_ROUNDS, "progress took {rounds} rounds: {:#?}", self.states_of_nodes());
        let goal = self.observer.height();
        while !self.nodes[self.byzantine_nodes..].iter().all(|node| node.committed_height() >= goal) {
            assert!(self.step(end), "a node stays behind {goal}: {:#?}", self.states_of_nodes());
        }
        self.outcome()
    }

    /// Runs a large world until every node that runs has committed a block of this height.
    pub(in crate::simulation) fn run_to(mut self, height: u64) -> Outcome {
        let end = MAX_PROGRESS_TIME + height * 3_000;
        // Checked rarely, because the check queries every node.
        let (mut look_at, mut told) = (0, 0);
        loop {
            assert!(self.step(end), "no progress: {:#?}", self.states_of_nodes());
            if self.now >= look_at {
                look_at = self.now + 100;
                if self.highest_round() >= told + ROUNDS_PER_PROGRESS_LINE {
                    told = self.highest_round();
                    eprintln!("round {told} at {} ms, {} events", self.now, self.made);
                }
                let mut running = self.nodes.iter().filter(|node| node.running.is_some());
                if self.observer.height() >= height && running.all(|node| node.committed_height() >= height) {
                    break;
                }
            }
        }
        self.outcome()
    }

    fn outcome(self) -> Outcome {
        let (height, signatures, rounds) = (self.observer.height(), self.observer.signatures(), self.highest_round());
        let (trace, transcript) = self.trace.finish();
        Outcome { trace, transcript, height, signatures, events: self.made, rounds, time: self.now }
    }

    /// Returns whether an honest node has committed a block of a later round than this.
    fn has_committed_after(&self, round: u64) -> bool {
        let Some(hash) = self.observer.last_committed() else { return false };
        let known = self.nodes.iter().find_map(|node| node.block(hash));
        known.is_some_and(|block| round_of(&block) > round)
    }
}

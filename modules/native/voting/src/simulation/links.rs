//! The connections of the simulated nodes, with delays and losses.

use std::collections::HashSet;
use std::sync::Arc;

use alloy_primitives::{B256, Bytes, U256};
use rand::Rng;
use tenon_api::{Block, RoundMessage, SealedHeader};
use tenon_network_sync::{CheckedBody, Question};

use super::node::known_as;
use super::world::{Event, World};

/// A message between two nodes.
#[derive(Clone)]
pub(super) enum Message {
    Status(B256, U256),
    Block(Arc<Block>, U256),
    Round(RoundMessage),
    Ask(Question),
    Headers(Vec<SealedHeader>),
    Bodies(Vec<CheckedBody>),
    Transaction(Bytes),
}

/// The connection between two nodes.
#[derive(Default)]
pub(super) struct Link {
    pub(super) is_up: bool,
    /// Number of the current connection. Messages of an earlier connection are lost.
    pub(super) number: u64,
    /// Arrival time of the last message in each direction: a connection preserves the order of messages.
    pub(super) arrives: [u64; 2],
}

/// A period in which some nodes cannot reach the others.
pub(super) struct Split {
    pub(super) time: std::ops::Range<u64>,
    pub(super) one_side: u32,
    /// Whether connections stay open, and messages arrive after the split.
    pub(super) is_silent: bool,
}

impl World {
    pub(super) fn link(&mut self, one: usize, other: usize) -> &mut Link {
        self.links.entry((one.min(other), one.max(other))).or_default()
    }

    fn split_between(&self, one: usize, other: usize) -> Option<&Split> {
        let parts = |split: &&Split| {
            split.time.contains(&self.now) && (split.one_side >> one & 1) != (split.one_side >> other & 1)
        };
        self.splits.iter().find(parts)
    }

    /// Sends a message if there is a connection, and if the message is not lost.
    pub(super) fn send(&mut self, from: usize, to: usize, message: Message) {
        let is_calm = self.is_calm();
        let held_until = self.split_between(from, to).map_or(0, |split| split.time.end);
        let slowest = if is_calm { 80 } else { self.slowest.max(11) };
        let delay = self.random.random_range(10..slowest);
        // Most messages share one ordered connection; the rest are delivered independently of that order.
        let (is_lost, is_aside) = (!is_calm && self.random.random_bool(self.loss), self.random.random_bool(0.1));
        let now = self.now;
        let link = self.link(from, to);
        if !link.is_up || (is_lost && !matches!(message, Message::Status(..))) {
            return;
        }
        let time = (now + delay).max(held_until + delay);
        let direction = usize::from(from > to);
        let time = if is_aside { time } else { time.max(link.arrives[direction]) };
        if !is_aside {
            link.arrives[direction] = time;
        }
        let number = link.number;
        self.at(time, to, Event::Arrives(from, number, message));
    }

    pub(super) fn peers_of(&self, who: usize) -> Vec<usize> {
        self.nodes[who].running.as_ref().map(|running| running.known.keys().copied().collect()).unwrap_or_default()
    }

    /// Sends a message to the peers that do not have it.
    pub(super) fn broadcast(&mut self, who: usize, message: &RoundMessage) {
        let hash = known_as(&message.payload);
        let Some(running) = &mut self.nodes[who].running else { return };
        let lacking: Vec<usize> =
            running.known.iter_mut().filter_map(|(peer, known)| known.insert(hash).then_some(*peer)).collect();
        for peer in lacking {
            self.send(who, peer, Message::Round(message.clone()));
        }
    }

    pub(super) fn connect(&mut self, one: usize, other: usize) {
        let both_run = self.nodes[one].running.is_some() && self.nodes[other].running.is_some();
        if one == other || !both_run || self.link(one, other).is_up {
            return;
        }
        if self.split_between(one, other).is_some() {
            let later = self.now + self.random.random_range(500..2_000);
            self.at(later, one, Event::Connects(other));
            return;
        }
        let link = self.link(one, other);
        (link.is_up, link.arrives) = (true, [0; 2]);
        link.number += 1;
        for (from, to) in [(one, other), (other, one)] {
            if let Some(running) = &mut self.nodes[from].running {
                running.known.insert(to, HashSet::new());
            }
            let (head, total_difficulty) = self.nodes[from].head();
            self.send(from, to, Message::Status(head, total_difficulty));
        }
    }

    pub(super) fn cut(&mut self, one: usize, other: usize) {
        if one == other || !std::mem::take(&mut self.link(one, other).is_up) {
            return;
        }
        for (who, peer) in [(one, other), (other, one)] {
            let id = self.nodes[peer].id;
            if let Some(running) = &mut self.nodes[who].running {
                running.known.remove(&peer);
                running.sync.left(id);
                self.settle(who);
            }
        }
        let later = self.now + self.random.random_range(100..if self.is_calm() { 500 } else { 3_000 });
        self.at(later, one, Event::Connects(other));
    }

    /// Ends the connections of a node that cross a split, unless the split is silent.
    pub(super) fn end_connections_across(&mut self, who: usize) {
        for peer in self.peers_of(who) {
            if self.split_between(who, peer).is_some_and(|split| !split.is_silent) {
                self.cut(who, peer);
            }
        }
    }
}

//! The connections of the simulated nodes, with delays and losses.

use std::collections::HashMap;
use std::sync::Arc;

use alloy_primitives::{B256, Bytes, U256, keccak256};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use tenon_api::{Block, RoundMessage, SealedHeader};
use tenon_network_sync::{CheckedBody, SyncRequest};
use tenon_network_wire::Announced;

use super::byzantine::block_of;
use super::world::{Event, World};

/// A message between two nodes, except those of the voting.
#[derive(Clone)]
pub(super) enum Message {
    Status(B256, U256),
    Block(Arc<Block>, U256),
    Ask(SyncRequest),
    Headers(Vec<SealedHeader>),
    Bodies(Vec<CheckedBody>),
    Transaction(Bytes),
}

/// A vote, a timeout or certificates that were sent at least once. All nodes share the value.
pub(super) struct SentMessage {
    /// Messages are numbered in the order in which they were sent first.
    pub(super) number: usize,
    /// Hash of the message.
    pub(super) hash: B256,
    pub(super) message: RoundMessage,
    /// The block that it refers to, as real connections report it.
    pub(super) block: Option<Announced>,
}

/// All messages of the voting.
#[derive(Default)]
pub(super) struct SentMessages {
    by_hash: HashMap<B256, Arc<SentMessage>>,
}

impl SentMessages {
    /// The shared form of a message, and whether it is new.
    pub(super) fn of(&mut self, message: &RoundMessage) -> (Arc<SentMessage>, bool) {
        let (number, hash) = (self.by_hash.len(), keccak256(&message.payload));
        let mut is_new = false;
        let sent = self.by_hash.entry(hash).or_insert_with(|| {
            is_new = true;
            Arc::new(SentMessage { number, hash, block: block_of(message), message: message.clone() })
        });
        (Arc::clone(sent), is_new)
    }
}

/// A set of messages: one bit for each.
#[derive(Default)]
pub(super) struct MessageSet(Vec<u64>);

impl MessageSet {
    /// Adds a message. Returns whether it is new.
    pub(super) fn insert(&mut self, number: usize) -> bool {
        let (place, bit) = (number / 64, 1 << (number % 64));
        if place >= self.0.len() {
            self.0.resize(place + 1, 0);
        }
        let is_new = self.0[place] & bit == 0;
        self.0[place] |= bit;
        is_new
    }
}

/// The connection between two nodes, the one with the lower index first.
#[derive(Default)]
pub(super) struct Link {
    ends: [usize; 2],
    pub(super) is_up: bool,
    /// Number of the current connection. Messages of an earlier connection are lost.
    pub(super) number: u32,
    /// Arrival time of the last message in each direction: a connection preserves the order of messages.
    arrives: [u64; 2],
    /// The messages that each end knows the other one to have.
    known: [MessageSet; 2],
}

impl Link {
    /// The index of a node's end in this link.
    fn place(&self, who: usize) -> usize {
        usize::from(self.ends[1] == who)
    }

    /// The node at the other end.
    pub(super) fn other(&self, who: usize) -> usize {
        self.ends[1 - self.place(who)]
    }
}

/// Which nodes are connected, unless a fault prevents it.
pub(super) struct Links {
    pub(super) links: Vec<Link>,
    /// By node: its peers in ascending order, each with its link.
    pub(super) of: Vec<Vec<(usize, usize)>>,
}

impl Links {
    /// Every node with every other.
    pub(super) fn all(count: usize) -> Self {
        Self::new(count, (0..count).flat_map(|one| (0..one).map(move |other| (other, one))).collect())
    }

    /// Every node with about this many random others. The network is connected, because some of the links form a ring.
    pub(super) fn random(count: usize, peers: usize, random: &mut StdRng) -> Self {
        let mut pairs = Vec::new();
        let mut order: Vec<usize> = (0..count).collect();
        for _ in 0..peers / 2 {
            order.shuffle(random);
            pairs.extend(order.iter().copied().zip(order.iter().copied().cycle().skip(1)));
        }
        if peers % 2 == 1 {
            order.shuffle(random);
            pairs.extend(order.chunks_exact(2).map(|pair| (pair[0], pair[1])));
        }
        Self::new(count, pairs)
    }

    fn new(count: usize, pairs: Vec<(usize, usize)>) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().map(|(one, other)| (one.min(other), one.max(other))).collect();
        pairs.sort_unstable();
        pairs.dedup();
        let mut of = vec![Vec::new(); count];
        for (link, (one, other)) in pairs.iter().enumerate() {
            of[*one].push((*other, link));
            of[*other].push((*one, link));
        }
        of.iter_mut().for_each(|peers| peers.sort_unstable());
        let links = pairs.into_iter().map(|(one, other)| Link { ends: [one, other], ..Link::default() }).collect();
        Self { links, of }
    }

    /// The link between two nodes.
    pub(super) fn between(&self, one: usize, other: usize) -> Option<usize> {
        let peers = &self.of[one];
        peers.binary_search_by_key(&other, |(peer, _)| *peer).ok().map(|place| peers[place].1)
    }
}

/// A period in which some nodes cannot reach the others.
pub(super) struct Split {
    pub(super) time: std::ops::Range<u64>,
    pub(super) is_on_one_side: Vec<bool>,
    /// Whether connections stay open, and messages arrive after the split.
    pub(super) is_silent: bool,
}

impl World {
    fn split_between(&self, one: usize, other: usize) -> Option<&Split> {
        let parts =
            |split: &&Split| split.time.contains(&self.now) && split.is_on_one_side[one] != split.is_on_one_side[other];
        self.splits.iter().find(parts)
    }

    /// When a message that is sent now arrives, and over which connection; `None` if it is lost.
    fn arrival(&mut self, from: usize, link: usize, can_be_lost: bool) -> Option<(u64, u32)> {
        let to = self.links.links[link].other(from);
        let is_calm = self.is_calm();
        let held_until = self.split_between(from, to).map_or(0, |split| split.time.end);
        let slowest = if is_calm { 80 } else { self.slowest.max(11) };
        let delay = self.random.random_range(10..slowest);
        // Most messages share one ordered connection; the rest are delivered independently of that order.
        let (is_lost, is_aside) = (!is_calm && self.random.random_bool(self.loss), self.random.random_bool(0.1));
        let link = &mut self.links.links[link];
        if !link.is_up || (is_lost && can_be_lost) {
            return None;
        }
        let time = (self.now + delay).max(held_until + delay);
        let direction = link.place(from);
        if is_aside {
            return Some((time, link.number));
        }
        link.arrives[direction] = time.max(link.arrives[direction]);
        Some((link.arrives[direction], link.number))
    }

    /// Sends a message if there is a connection, and if the message is not lost.
    pub(super) fn send(&mut self, from: usize, to: usize, message: Message) {
        let Some(link) = self.links.between(from, to) else { return };
        let can_be_lost = !matches!(message, Message::Status(..));
        if let Some((time, connection)) = self.arrival(from, link, can_be_lost) {
            self.at(time, to, Event::Arrives { link, connection, message: Box::new(message) });
        }
    }

    fn say(&mut self, from: usize, link: usize, sent: &Arc<SentMessage>) {
        if let Some((time, connection)) = self.arrival(from, link, true) {
            let to = self.links.links[link].other(from);
            let link = u32::try_from(link).unwrap();
            self.at(time, to, Event::ReceivesRoundMessage { link, connection, sent: Arc::clone(sent) });
        }
    }

    pub(super) fn peers_of(&self, who: usize) -> Vec<usize> {
        let peers = self.links.of[who].iter().filter(|(_, link)| self.links.links[*link].is_up);
        peers.map(|(peer, _)| *peer).collect()
    }

    /// Sends a message to the peers that do not have it, or to all.
    pub(super) fn broadcast(&mut self, who: usize, sent: &Arc<SentMessage>, is_for_all: bool) {
        for place in 0..self.links.of[who].len() {
            let (_, number) = self.links.of[who][place];
            let link = &mut self.links.links[number];
            let end = link.place(who);
            if link.is_up && (link.known[end].insert(sent.number) || is_for_all) {
                self.say(who, number, sent);
            }
        }
    }

    /// Notes that the peer at the other end of a link has a message.
    pub(super) fn peer_has(&mut self, who: usize, link: usize, sent: &SentMessage) {
        let link = &mut self.links.links[link];
        let end = link.place(who);
        link.known[end].insert(sent.number);
    }

    pub(super) fn connect(&mut self, one: usize, other: usize) {
        let both_run = self.nodes[one].running.is_some() && self.nodes[other].running.is_some();
        let Some(number) = self.links.between(one, other).filter(|_| both_run) else { return };
        if self.links.links[number].is_up {
            return;
        }
        if self.split_between(one, other).is_some() {
            let later = self.now + self.random.random_range(500..2_000);
            self.at(later, one, Event::Connects(other));
            return;
        }
        let link = &mut self.links.links[number];
        let Link { ends, number, .. } = *link;
        *link = Link { ends, is_up: true, number: number + 1, ..Link::default() };
        for (from, to) in [(one, other), (other, one)] {
            let (head, total_difficulty) = self.nodes[from].head();
            self.send(from, to, Message::Status(head, total_difficulty));
        }
    }

    pub(super) fn cut(&mut self, one: usize, other: usize) {
        let Some(link) = self.links.between(one, other) else { return };
        if !std::mem::take(&mut self.links.links[link].is_up) {
            return;
        }
        for (who, peer) in [(one, other), (other, one)] {
            let id = self.nodes[peer].id;
            if let Some(running) = &mut self.nodes[who].running {
                running.sync.left(id);
                self.settle(who, true);
            }
        }
        let later = self.now + self.random.random_range(100..if self.is_calm() { 500 } else { 3_000 });
        self.at(later, one, Event::Connects(other));
    }

    /// Ends the connections of a node that cross a split, unless the split is silent.
    pub(super) fn end_connections_across(&mut self, who: usize) {
        if self.splits.iter().all(|split| split.is_silent || !split.time.contains(&self.now)) {
            return;
        }
        for peer in self.peers_of(who) {
            if self.split_between(who, peer).is_some_and(|split| !split.is_silent) {
                self.cut(who, peer);
            }
        }
    }
}

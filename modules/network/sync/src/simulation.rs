//! Whole runs against scripted peers: honest, slow, silent, lying, on another branch, gone in the middle.

mod claims;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{B256, Bytes, U256};
use proptest::prelude::*;
use tenon_api::{Block, BlockVerdict, FailedBlock, Header, SealedHeader};
use tenon_network_identity::NodeId;
use tenon_network_peers::Fault;
use tenon_network_wire::{Announced, BlockBody, HeaderOrigin, HeaderRequest};

use crate::{Action, ChainSync, CheckedBody, LocalChain, LocalHead, SyncRequest};

/// Time between two blocks.
const BLOCK_SECONDS: u64 = 2;

/// How a peer behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PeerBehaviour {
    Honest,
    /// Shows the header of its head, and answers nothing after that.
    Silent,
    /// Answers after this many milliseconds.
    Slow(u64),
    /// Sends bodies after this many milliseconds.
    SlowBodies(u64),
    /// Answers with headers that do not follow one another, and foreign bodies.
    Liar,
    /// Has no bodies.
    Bodiless,
    /// Answers nothing.
    Mute,
    /// Answers requests for headers after 4.5 s, with the headers that this node has, and above them with forged ones. Sends no
    /// bodies.
    Forger,
    /// Shows a forged head, and answers with the headers that this node has.
    Echo,
    /// Is gone at this millisecond.
    Leaves(u64),
}

/// A chain: block `n` at index `n`.
#[derive(Clone)]
struct Chain(Arc<Vec<Block>>);

impl Chain {
    /// `length` blocks above genesis; from `fork` on another branch than those with another `salt`.
    fn new(length: u64, fork: u64, salt: u8) -> Self {
        let mut blocks: Vec<Block> = Vec::new();
        for number in 0..=length {
            let parent_hash = blocks.last().map_or(B256::ZERO, Block::hash);
            let salt = if number >= fork { salt } else { 0 };
            // Every third block has no body.
            let ommers = match number % 3 {
                0 => Vec::new(),
                _ => vec![Header { number, extra_data: Bytes::from(vec![salt]), ..Header::default() }],
            };
            let header = tenon_chain::seal(Header {
                number,
                parent_hash,
                ommers_hash: tenon_chain::ommers_hash(&ommers),
                transactions_root: tenon_api::EMPTY_ROOT_HASH,
                difficulty: U256::from(1),
                timestamp: number * BLOCK_SECONDS,
                extra_data: Bytes::from(vec![salt]),
                ..Header::default()
            });
            blocks.push(tenon_chain::assemble_block(header, Vec::new(), ommers, None));
        }
        Self(Arc::new(blocks))
    }

    fn at(&self, number: u64) -> Option<&Block> {
        self.0.get(usize::try_from(number).ok()?)
    }

    fn head(&self) -> &Block {
        self.0.last().expect("a genesis block")
    }

    fn headers(&self, request: &HeaderRequest) -> Vec<SealedHeader> {
        let first = match request.origin {
            HeaderOrigin::Number(number) => Some(number),
            HeaderOrigin::Hash(hash) => {
                self.0.iter().find(|block| block.hash() == hash).map(|block| block.header.number)
            }
        };
        let Some(first) = first else { return Vec::new() };
        let numbers = (0..request.amount.min(192)).map(|index| first + index * (request.skip + 1));
        numbers.map_while(|number| self.at(number)).map(|block| block.header.clone()).collect()
    }

    fn body(&self, hash: &B256) -> Option<CheckedBody> {
        let block = self.0.iter().find(|block| block.hash() == *hash)?;
        Some(checked(&block.ommers))
    }
}

fn checked(ommers: &[Header]) -> CheckedBody {
    CheckedBody {
        transactions_root: tenon_api::EMPTY_ROOT_HASH,
        ommers_hash: tenon_chain::ommers_hash(ommers),
        body: BlockBody { transactions: Vec::new(), ommers: ommers.to_vec() },
        bytes: 500,
    }
}

/// The local chain: canonical blocks only.
struct Local {
    canonical: Vec<SealedHeader>,
    stored: BTreeSet<B256>,
    /// Number of calls of [`LocalChain::is_stored`].
    look_ups: Cell<usize>,
}

impl LocalChain for Local {
    fn head(&self) -> LocalHead {
        let head = self.canonical.last().expect("genesis");
        let total_difficulty = U256::from(head.number + 1);
        LocalHead { number: head.number, hash: head.hash(), total_difficulty, timestamp: head.timestamp }
    }

    fn committed(&self) -> (u64, B256) {
        (0, self.canonical.first().expect("genesis").hash())
    }

    fn canonical_hash(&self, number: u64) -> Option<B256> {
        self.canonical.get(usize::try_from(number).ok()?).map(SealedHeader::hash)
    }

    fn is_stored(&self, hash: &B256) -> bool {
        self.look_ups.set(self.look_ups.get() + 1);
        self.stored.contains(hash)
    }

    fn total_difficulty(&self, hash: &B256) -> Option<U256> {
        self.stored.contains(hash).then_some(U256::from(1))
    }
}

/// What arrives, and when.
enum Arrival {
    Headers(NodeId, Vec<SealedHeader>),
    Bodies(NodeId, Vec<CheckedBody>),
    Block(NodeId, Arc<Block>),
    Imported,
    Ended(Result<(), FailedBlock>),
}

struct World {
    sync: ChainSync,
    local: Local,
    peers: BTreeMap<NodeId, (PeerBehaviour, Chain)>,
    arrivals: BTreeMap<(Duration, u64), Arrival>,
    serial: u64,
    now: Duration,
    /// Unix time of the start.
    unix: u64,
    /// The headers that a [`PeerBehaviour::Forger`] has made, by height.
    forged: BTreeMap<u64, SealedHeader>,
    /// The requests for the head of a peer, with their times.
    head_requests: Vec<(NodeId, Duration)>,
    faults: Vec<(NodeId, Fault)>,
    importing: Vec<Block>,
    /// A block that the import refuses.
    wrong: Option<B256>,
    /// Number of times that it was handed over.
    wrong_imports: usize,
    relayed: Vec<(B256, Vec<NodeId>)>,
    /// Maximum number of blocks that were handed over and not yet imported.
    max_importing: usize,
}

fn node(index: u8) -> NodeId {
    NodeId([index; 64])
}

impl World {
    fn new(own: &Chain, peers: &[(PeerBehaviour, Chain)]) -> Self {
        let canonical: Vec<_> = own.0.iter().map(|block| block.header.clone()).collect();
        let stored = canonical.iter().map(SealedHeader::hash).collect();
        let mut world = Self {
            sync: ChainSync::new(),
            local: Local { canonical, stored, look_ups: Cell::default() },
            peers: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            serial: 0,
            now: Duration::ZERO,
            unix: 0,
            forged: BTreeMap::new(),
            head_requests: Vec::new(),
            faults: Vec::new(),
            importing: Vec::new(),
            wrong: None,
            wrong_imports: 0,
            relayed: Vec::new(),
            max_importing: 0,
        };
        for (index, (behaviour, chain)) in peers.iter().enumerate() {
            let id = node(u8::try_from(index + 1).expect("few peers"));
            let head = chain.head();
            world.sync.joined(id, head.hash(), U256::from(head.header.number + 1));
            world.peers.insert(id, (*behaviour, chain.clone()));
        }
        world
    }

    fn unix_now(&self) -> u64 {
        self.unix + self.now.as_secs()
    }

    fn later(&mut self, wait: u64, arrival: Arrival) {
        self.serial += 1;
        self.arrivals.insert((self.now + Duration::from_millis(wait), self.serial), arrival);
    }

    fn answer(&mut self, peer: NodeId, request: &SyncRequest) {
        let Some((behaviour, chain)) = self.peers.get(&peer).cloned() else { return };
        let is_for_head = matches!(request, SyncRequest::Headers(HeaderRequest { origin: HeaderOrigin::Hash(_), .. }));
        if is_for_head {
            self.head_requests.push((peer, self.now));
        }
        let wait = match behaviour {
            PeerBehaviour::Mute => return,
            PeerBehaviour::Silent if !is_for_head => return,
            PeerBehaviour::Forger | PeerBehaviour::Echo => return self.answer_with_forgeries(peer, behaviour, request),
            PeerBehaviour::Slow(wait) => wait,
            PeerBehaviour::SlowBodies(wait) if matches!(request, SyncRequest::Bodies(_)) => wait,
            _ => 50,
        };
        match request {
            SyncRequest::Headers(request) => {
                let mut headers = chain.headers(request);
                if behaviour == PeerBehaviour::Liar && headers.len() > 2 {
                    headers.swap(0, 1);
                }
                self.later(wait, Arrival::Headers(peer, headers));
            }
            SyncRequest::Bodies(hashes) => {
                let bodies = match behaviour {
                    PeerBehaviour::Bodiless => Vec::new(),
                    PeerBehaviour::Liar => vec![checked(&[Header::default(), Header::default()])],
                    // An honest answer has a limit in bytes as well.
                    _ => hashes.iter().filter_map(|hash| chain.body(hash)).take(100).collect(),
                };
                self.later(wait, Arrival::Bodies(peer, bodies));
            }
        }
    }

    fn import(&mut self, block: Block) {
        self.importing.push(block);
        self.max_importing = self.max_importing.max(self.importing.len());
        if self.importing.len() == 1 {
            self.later(1, Arrival::Imported);
        }
    }

    /// Takes what was handed over, as the importer does.
    fn take_blocks(&mut self) {
        for block in std::mem::take(&mut self.importing) {
            let (number, hash) = (block.number(), block.hash());
            if self.wrong == Some(hash) {
                self.wrong_imports += 1;
                let verdict = BlockVerdict::Wrong { reason: "for the test".to_owned() };
                let failed = FailedBlock { number: Some(number), hash: Some(hash), verdict };
                self.sync.import_ended(Err(failed), &self.local, self.now);
                self.arrivals.retain(|_, arrival| !matches!(arrival, Arrival::Ended(_)));
                return;
            }
            let length = usize::try_from(number.0).expect("small");
            // The block has arrived in another way meanwhile.
            if self.local.canonical_hash(number.0) == Some(hash) {
                self.sync.imported(hash);
                continue;
            }
            assert_eq!(self.local.canonical_hash(number.0 - 1), Some(block.header.parent_hash), "in order");
            self.local.canonical.truncate(length);
            self.local.canonical.push(block.header.clone());
            self.local.stored.insert(hash);
            self.sync.imported(hash);
        }
    }

    /// False if there was nothing to do.
    fn act(&mut self) -> bool {
        let mut was_busy = false;
        while let Some(action) = self.sync.next_action() {
            was_busy = true;
            match action {
                Action::Ask { peer, request } => self.answer(peer, &request),
                Action::Fault { peer, fault, .. } => self.faults.push((peer, fault)),
                Action::BeginImport | Action::Height { .. } => {}
                Action::Import(block) => self.import(*block),
                Action::EndImport => self.later(2, Arrival::Ended(Ok(()))),
                Action::VerifyAndInsert(block) => {
                    let hash = block.hash();
                    self.sync.header_verified(hash, &BlockVerdict::Head, &self.local);
                    self.local.stored.insert(hash);
                    if block.header.number == self.local.head().number + 1 {
                        self.local.canonical.push(block.header.clone());
                    }
                    self.sync.inserted(hash, &BlockVerdict::Head, self.unix_now());
                }
                Action::Relay { block, to, .. } => self.relayed.push((block.hash(), to)),
            }
        }
        was_busy
    }

    fn step(&mut self) -> bool {
        self.step_until(Duration::MAX)
    }

    /// Goes to the next event, at most to `limit`. False if there was none.
    fn step_until(&mut self, limit: Duration) -> bool {
        self.sync.advance(&self.local, self.now, self.unix_now());
        while self.act() {
            self.sync.advance(&self.local, self.now, self.unix_now());
        }
        let next = self.arrivals.keys().next().map(|(at, _)| *at);
        let wakes = self.sync.wakes_at(self.now);
        let Some(at) = next.into_iter().chain(wakes).min() else { return false };
        self.now = at.max(self.now + Duration::from_micros(1)).min(limit);
        let leaving: Vec<_> = self
            .peers
            .iter()
            .filter(|(_, (behaviour, _))| matches!(behaviour, PeerBehaviour::Leaves(at) if Duration::from_millis(*at) <= self.now))
            .map(|(id, _)| *id)
            .collect();
        for peer in leaving {
            self.peers.remove(&peer);
            self.sync.left(peer);
        }
        while let Some(entry) = self.arrivals.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            match entry.remove() {
                Arrival::Headers(peer, headers) => self.sync.headers(peer, headers, &self.local, self.now),
                Arrival::Bodies(peer, bodies) => self.sync.bodies(peer, bodies, &self.local, self.now),
                Arrival::Block(peer, block) => {
                    let total_difficulty = U256::from(block.header.number + 1);
                    self.sync.new_block(peer, block, total_difficulty, &self.local, self.now);
                }
                Arrival::Imported => self.take_blocks(),
                Arrival::Ended(outcome) => {
                    self.take_blocks();
                    self.sync.import_ended(outcome, &self.local, self.now);
                }
            }
            self.act();
        }
        true
    }

    /// Runs until the head is `goal`, or for `seconds`.
    fn run(&mut self, goal: B256, seconds: u64) -> bool {
        let until = self.now + Duration::from_secs(seconds);
        while self.now < until {
            if self.local.head().hash == goal && !self.sync.is_running() {
                return true;
            }
            if !self.step() {
                break;
            }
        }
        self.local.head().hash == goal
    }
}

#[test]
fn a_long_chain_comes_from_one_peer_in_bounded_pieces() {
    let (own, theirs) = (Chain::new(0, 1, 0), Chain::new(9_000, 1, 0));
    let mut world = World::new(&own, &[(PeerBehaviour::Honest, theirs.clone())]);
    assert!(world.run(theirs.head().hash(), 300), "at {:?}", world.local.head());
    assert!(world.sync.is_synced() && world.faults.is_empty(), "{:?}", world.faults);
    assert!(world.max_importing <= 2_048, "{}", world.max_importing);
}

#[test]
fn silent_and_lying_peers_cost_their_own_questions_only() {
    let (own, theirs) = (Chain::new(0, 1, 0), Chain::new(6_000, 1, 0));
    let good = (PeerBehaviour::Honest, theirs.clone());
    let mut alone = World::new(&own, std::slice::from_ref(&good));
    assert!(alone.run(theirs.head().hash(), 300));
    // Among equal peers the one with the highest identifier becomes the source, so the liar is used.
    let bad = [PeerBehaviour::Silent, PeerBehaviour::Silent, PeerBehaviour::Liar]
        .map(|behaviour| (behaviour, theirs.clone()));
    let mut world = World::new(&own, &[vec![good; 5], bad.to_vec()].concat());
    assert!(world.run(theirs.head().hash(), 300), "at {:?}", world.local.head());
    assert!(world.now < alone.now * 2 + Duration::from_secs(12), "{:?}, alone {:?}", world.now, alone.now);
    // The requests to the silent ones become overdue.
    world.run(B256::ZERO, 6);
    let blamed: BTreeSet<_> = world.faults.iter().map(|(peer, _)| *peer).collect();
    assert_eq!(blamed, BTreeSet::from([node(6), node(7), node(8)]));
}

#[test]
fn a_branch_is_left_for_a_better_one_at_its_newest_common_block() {
    for fork in [1, 50, 299, 300] {
        let own = Chain::new(300, fork, 1);
        let theirs = Chain::new(700, fork, 2);
        let mut world = World::new(&own, &[(PeerBehaviour::Honest, theirs.clone())]);
        assert!(world.run(theirs.head().hash(), 60), "fork at {fork}: {:?}", world.local.head());
        assert!(world.faults.is_empty(), "{:?}", world.faults);
    }
}

#[test]
fn a_source_that_leaves_is_replaced() {
    let (own, theirs) = (Chain::new(0, 1, 0), Chain::new(5_000, 1, 0));
    let mut world =
        World::new(&own, &[(PeerBehaviour::Honest, theirs.clone()), (PeerBehaviour::Leaves(900), theirs.clone())]);
    assert!(world.run(theirs.head().hash(), 300), "at {:?}", world.local.head());
    assert!(world.faults.is_empty(), "{:?}", world.faults);
}

#[test]
fn headers_whose_bodies_are_nowhere_cost_their_source() {
    let (own, theirs) = (Chain::new(0, 1, 0), Chain::new(1_000, 1, 0));
    let invented = Chain::new(2_000, 1, 9);
    let peers = [(PeerBehaviour::Honest, theirs.clone()), (PeerBehaviour::Bodiless, invented)];
    let mut world = World::new(&own, &peers);
    assert!(world.run(theirs.head().hash(), 120), "at {:?} {:?}", world.local.head(), world.faults);
    assert!(world.faults.contains(&(node(2), Fault::EmptyAnswer)), "{:?}", world.faults);
    assert!(world.faults.iter().all(|(peer, _)| *peer == node(2)), "{:?}", world.faults);
}

#[test]
fn a_wrong_block_costs_its_source_and_is_remembered() {
    let (own, theirs) = (Chain::new(0, 1, 0), Chain::new(400, 1, 0));
    let bad = Chain::new(800, 200, 3);
    let peers = [
        (PeerBehaviour::Honest, theirs.clone()),
        (PeerBehaviour::Honest, bad.clone()),
        (PeerBehaviour::Honest, bad.clone()),
    ];
    let mut world = World::new(&own, &peers);
    world.wrong = bad.at(210).map(Block::hash);
    // The blocks below the wrong one are taken. After this failure the honest peer is the source, then the other one again.
    world.run(theirs.head().hash(), 60);
    world.run(B256::ZERO, 10);
    assert_eq!(world.local.canonical_hash(400), theirs.at(400).map(Block::hash));
    let blamed: BTreeSet<_> = world.faults.iter().copied().map(|(peer, _)| peer).collect();
    assert_eq!(blamed, BTreeSet::from([node(2), node(3)]), "{:?}", world.faults);
    assert!(world.faults.iter().all(|(_, fault)| *fault == Fault::InvalidBlock), "{:?}", world.faults);
    assert_eq!(world.wrong_imports, 1, "the other peer with this block was recognised by its headers");
}

/// The block is not among the headers that the source sends first, but in a part of its chain that is filled in later.
#[test]
fn a_known_wrong_block_is_not_imported_again_from_another_peer() {
    let (own, theirs, bad) = (Chain::new(0, 1, 0), Chain::new(450, 1, 0), Chain::new(800, 200, 3));
    let peers = [&theirs, &bad, &bad].map(|chain| (PeerBehaviour::Honest, chain.clone()));
    let mut world = World::new(&own, &peers);
    world.wrong = bad.at(205).map(Block::hash);
    world.sync.left(node(3));
    world.run(theirs.head().hash(), 60);
    assert_eq!((world.local.head().hash, world.wrong_imports), (theirs.head().hash(), 1));

    world.sync.joined(node(3), bad.head().hash(), U256::from(801));
    world.run(B256::ZERO, 20);

    assert_eq!(world.wrong_imports, 1);
    assert!(world.faults.contains(&(node(3), Fault::InvalidBlock)), "{:?}", world.faults);
}

#[test]
fn claims_without_blocks_and_chains_below_the_commit_lead_to_a_fault() {
    let own = Chain::new(100, 1, 0);
    let mut world = World::new(&own, &[(PeerBehaviour::Honest, own.clone())]);
    world.sync.left(node(1));
    world.sync.joined(node(1), own.head().hash(), U256::MAX);
    world.run(B256::ZERO, 20);
    assert_eq!(world.faults, [(node(1), Fault::WrongAnswer)]);
}

#[test]
fn a_head_without_a_header_is_a_fault() {
    let own = Chain::new(100, 1, 0);
    let mut world = World::new(&own, &[(PeerBehaviour::Honest, own.clone())]);
    world.sync.left(node(1));
    world.sync.joined(node(1), B256::repeat_byte(9), U256::from(1));
    world.run(B256::ZERO, 20);
    assert_eq!(world.faults, [(node(1), Fault::EmptyAnswer)]);
}

#[test]
fn a_block_that_a_peer_sends_is_relayed_to_the_others_and_taken() {
    let (own, theirs) = (Chain::new(10, 1, 0), Chain::new(12, 1, 0));
    let mut world =
        World::new(&own, &[(PeerBehaviour::Honest, theirs.clone()), (PeerBehaviour::Honest, theirs.clone())]);
    for peer in [node(1), node(2)] {
        world.sync.left(peer);
        world.sync.joined(peer, own.head().hash(), U256::from(11));
    }
    let block = |number| Arc::new(theirs.at(number).cloned().expect("in the chain"));
    let (local, now) = (&world.local, world.now);
    // The second block comes first: it waits for its parent.
    world.sync.new_block(node(1), block(12), U256::from(13), local, now);
    world.sync.new_block(node(1), block(11), U256::from(12), local, now);
    world.sync.new_block(node(2), block(11), U256::from(12), local, now);
    assert!(world.run(theirs.head().hash(), 5));
    assert_eq!(world.relayed, [(theirs.head().hash(), vec![node(2)])]);
    assert!(world.faults.is_empty());
}

/// A node passes a block on after it has verified the header: only a wrong header is the fault of a sender.
#[test]
fn a_wrong_block_with_a_right_header_is_no_fault_of_those_that_pass_it_on() {
    for is_header_right in [true, false] {
        let (own, theirs) = (Chain::new(10, 1, 0), Chain::new(11, 1, 0));
        let mut world = World::new(&own, &[(PeerBehaviour::Honest, own.clone()), (PeerBehaviour::Honest, own.clone())]);
        let block = Arc::new(theirs.head().clone());
        let (hash, local, now) = (block.hash(), &world.local, world.now);
        world.sync.new_block(node(1), Arc::clone(&block), U256::from(12), local, now);
        world.sync.advance(local, now, 0);
        let wrong = BlockVerdict::Wrong { reason: "state root".to_owned() };
        let of_header = if is_header_right { BlockVerdict::Head } else { wrong.clone() };
        world.sync.header_verified(hash, &of_header, local);
        world.sync.inserted(hash, &wrong, 0);
        world.sync.new_block(node(2), block, U256::from(12), local, now);
        world.sync.advance(local, now, 0);
        let actions: Vec<Action> = std::iter::from_fn(|| world.sync.next_action()).collect();
        let is_fault = |action: &&Action| matches!(action, Action::Fault { peer, .. } if *peer == node(1));
        let faults = actions.iter().filter(|action| matches!(action, Action::Fault { .. })).count();
        assert_eq!(faults, usize::from(!is_header_right), "{actions:?}");
        assert_eq!(actions.iter().filter(is_fault).count(), faults);
        assert_eq!(actions.iter().filter(|action| matches!(action, Action::VerifyAndInsert(_))).count(), 1);
    }
}

#[test]
fn an_announced_block_is_asked_for_after_a_while() {
    let (own, theirs) = (Chain::new(10, 1, 0), Chain::new(11, 1, 0));
    let mut world = World::new(&own, &[(PeerBehaviour::Honest, theirs.clone())]);
    world.sync.left(node(1));
    world.sync.joined(node(1), own.head().hash(), U256::from(11));
    let (hash, number) = (theirs.head().hash(), 11);
    let (local, now) = (&world.local, world.now);
    world.sync.announced(node(1), &[Announced { hash, number }], local, now);
    assert!(world.run(hash, 5));
    assert!(world.now >= Duration::from_millis(400), "{:?}", world.now);

    let mut world = World::new(&own, &[(PeerBehaviour::Honest, theirs.clone())]);
    world.sync.left(node(1));
    world.sync.joined(node(1), own.head().hash(), U256::from(11));
    let (local, now) = (&world.local, world.now);
    world.sync.announced(node(1), &[Announced { hash, number: 12 }], local, now);
    world.run(hash, 3);
    assert_eq!(world.faults, [(node(1), Fault::WrongAnswer)]);
}

/// A connection that stalls delivers the answer to an old request while a new one is open.
#[test]
fn a_late_answer_is_not_taken_for_a_wrong_one() {
    let (own, theirs) = (Chain::new(10, 1, 0), Chain::new(11, 1, 0));
    let mut world = World::new(&own, &[(PeerBehaviour::Slow(16_000), theirs.clone())]);
    world.sync.left(node(1));
    world.sync.joined(node(1), own.head().hash(), U256::from(11));
    world.run(B256::ZERO, 15);

    let (hash, local, now) = (theirs.head().hash(), &world.local, world.now);
    world.sync.announced(node(1), &[Announced { hash, number: 11 }], local, now);
    world.run(B256::ZERO, 30);

    assert_eq!(world.faults, [(node(1), Fault::NoAnswer)], "the header of its head did not come in time");
}

/// A wrong answer is a fault even if the peer still owes another answer.
#[test]
fn a_wrong_answer_is_not_taken_for_a_late_one() {
    let (own, theirs) = (Chain::new(10, 1, 0), Chain::new(1_000, 1, 0));
    let mut world = World::new(&own, &[(PeerBehaviour::Slow(3_600_000), theirs.clone())]);
    world.run(B256::ZERO, 12);
    assert_eq!(world.faults, [(node(1), Fault::NoAnswer)]);

    world.peers.insert(node(1), (PeerBehaviour::Liar, theirs));
    world.run(B256::ZERO, 30);

    assert_eq!(world.faults.get(1), Some(&(node(1), Fault::WrongAnswer)), "{:?}", world.faults);
}

/// A late answer to the first request counts as the answer to its repetition. The answer to the repetition arrives
/// afterwards.
#[test]
fn two_answers_to_a_question_that_was_repeated_are_both_right() {
    let (own, theirs) = (Chain::new(10, 1, 0), Chain::new(2_000, 1, 0));
    let mut world = World::new(&own, &[(PeerBehaviour::Slow(17_000), theirs.clone())]);
    world.run(B256::ZERO, 200);

    assert!(world.faults.iter().all(|(_, fault)| *fault == Fault::NoAnswer), "{:?}", world.faults);
}

#[test]
fn late_bodies_are_not_taken_for_wrong_ones() {
    let (own, theirs) = (Chain::new(0, 1, 0), Chain::new(200, 1, 0));
    let peers =
        [PeerBehaviour::Slow(3_000), PeerBehaviour::SlowBodies(16_000)].map(|behaviour| (behaviour, theirs.clone()));
    let mut world = World::new(&own, &peers);

    assert!(world.run(theirs.head().hash(), 600), "at {:?} {:?}", world.local.head(), world.faults);

    assert!(world.faults.contains(&(node(2), Fault::NoAnswer)), "{:?}", world.faults);
    assert!(world.faults.iter().all(|(_, fault)| *fault == Fault::NoAnswer), "{:?}", world.faults);
}

#[test]
fn the_database_is_not_read_for_announcements_beyond_the_limit_of_a_peer() {
    let own = Chain::new(10, 1, 0);
    let mut world = World::new(&own, &[(PeerBehaviour::Silent, own.clone())]);
    let hash = |number: u16| B256::left_padding_from(&number.to_be_bytes());
    let blocks: Vec<Announced> = (1..=10_000).map(|number| Announced { hash: hash(number), number: 11 }).collect();

    world.sync.announced(node(1), &blocks, &world.local, world.now);

    assert_eq!(world.local.look_ups.get(), 256);
}

/// A block that was dropped on its way is not sent a second time, and the network may wait for this node's vote.
#[test]
fn a_block_that_a_vote_is_for_is_asked_for_with_its_parents() {
    let (own, theirs) = (Chain::new(10, 1, 0), Chain::new(13, 1, 0));
    let mut world =
        World::new(&own, &[(PeerBehaviour::Honest, theirs.clone()), (PeerBehaviour::Honest, theirs.clone())]);
    for peer in [node(1), node(2)] {
        world.sync.left(peer);
        world.sync.joined(peer, own.head().hash(), U256::from(11));
    }
    let (hash, local, now) = (theirs.head().hash(), &world.local, world.now);
    // A wrong height counts against the peer that stated it, even if another peer has the block, too.
    world.sync.block_mentioned(node(2), Announced { hash, number: 12 }, local, now);
    world.sync.block_mentioned(node(1), Announced { hash, number: 13 }, local, now);
    let far = Announced { hash: B256::repeat_byte(3), number: 1_000 };
    world.sync.block_mentioned(node(1), far, local, now);
    assert!(world.run(hash, 10), "at {:?}", world.local.head());
    assert!(
        world.faults.iter().all(|(peer, fault)| (*peer, *fault) == (node(2), Fault::WrongAnswer)),
        "{:?}",
        world.faults
    );
}

fn behaviour() -> impl Strategy<Value = PeerBehaviour> {
    prop_oneof![
        Just(PeerBehaviour::Honest),
        Just(PeerBehaviour::Silent),
        (0_u64..9_000).prop_map(PeerBehaviour::Slow),
        Just(PeerBehaviour::Liar),
        Just(PeerBehaviour::Bodiless),
        (0_u64..5_000).prop_map(PeerBehaviour::Leaves),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn one_honest_peer_among_any_others_is_enough(
        others in proptest::collection::vec((behaviour(), 0_u64..1_500, 1_u64..1_500, 0_u8..3), 0..5),
        own in 0_u64..800,
        fork in 1_u64..800,
    ) {
        let theirs = Chain::new(1_500, 2_000, 0);
        let mut peers = vec![(PeerBehaviour::Honest, theirs.clone())];
        // The others are behind, or claim another branch of the same length.
        peers.extend(others.into_iter().map(|(behaviour, length, fork, salt)| (behaviour, Chain::new(length, fork, salt))));
        let mut world = World::new(&Chain::new(own, fork, 7), &peers);
        prop_assert!(world.run(theirs.head().hash(), 900), "at {:?} after {:?} {:?}", world.local.head(), world.now, world.faults);
        prop_assert!(world.faults.iter().all(|(peer, _)| *peer != node(1)), "{:?}", world.faults);
    }
}

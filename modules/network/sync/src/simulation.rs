//! Whole runs against scripted peers: honest, slow, silent, lying, on another branch, gone in the middle.

mod claims;
mod runs;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{B256, Bytes, U256};
use tenon_api::{Block, BlockVerdict, FailedBlock, Header, SealedHeader};
use tenon_network_identity::NodeId;
use tenon_network_peers::Fault;
use tenon_network_wire::{BlockBody, HeaderOrigin, HeaderRequest};

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

//! [`ChainSync`]: its events, and its actions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{B256, U256};
use tenon_api::{Block, BlockVerdict, FailedBlock, SealedHeader};
use tenon_network_identity::NodeId;
use tenon_network_peers::Fault;
use tenon_network_wire::{Announced, HeaderOrigin, HeaderRequest};

use crate::cycle::{Cycle, Stage};
use crate::exclusions::Exclusions;
use crate::fetcher::{Fetcher, Wanted};
use crate::headers::{Mismatch, SEGMENT};
use crate::lag::{Evidence, Lag};
use crate::peers::{HeaderPurpose, Open, OverdueRequest, Peers, SourceChoice, request};
use crate::port::{Action, LocalChain, SyncRequest};

mod answers;

/// Pause before the next cycle after a failure of this node.
const OWN_FAILURE_PAUSE: Duration = Duration::from_secs(10);
/// A request that takes longer than this number of round trips is sent to another peer, too.
const REASSIGN_ROUND_TRIPS: u32 = 4;
/// Minimum time before a request is sent to another peer, too.
const MIN_REASSIGN_TIME: Duration = Duration::from_millis(400);

/// Progress of a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Start height.
    pub starting: u64,
    /// Target height.
    pub highest: u64,
}

/// Follows the chain of the peers.
pub struct ChainSync {
    pub(crate) peers: Peers,
    /// Number of peers that have connected so far.
    joins: u64,
    cycle: Option<Cycle>,
    exclusions: Exclusions,
    /// How to choose the source of the next cycle.
    choice: SourceChoice,
    lag: Lag,
    fetcher: Fetcher,
    actions: VecDeque<Action>,
    /// Earliest time of the next cycle.
    not_before: Duration,
    is_synced: bool,
    /// The clock at the last event.
    now: Duration,
}

impl Default for ChainSync {
    fn default() -> Self {
        Self::new()
    }
}

impl ChainSync {
    /// A synchronisation without peers.
    pub fn new() -> Self {
        Self {
            peers: Peers::default(),
            joins: 0,
            cycle: None,
            exclusions: Exclusions::default(),
            choice: SourceChoice::HighestClaim,
            lag: Lag::default(),
            fetcher: Fetcher::default(),
            actions: VecDeque::new(),
            not_before: Duration::ZERO,
            is_synced: false,
            now: Duration::ZERO,
        }
    }

    /// The next action.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Whether a cycle runs. Peers may have caused it with a false claim.
    pub const fn is_running(&self) -> bool {
        self.cycle.is_some()
    }

    /// Whether a cycle runs and the node is far behind: its head is old, and the cycle has imported new blocks or the node has
    /// just connected to its first peer. Votes and timeouts are ignored only then (`docs/spec/p2p.md` 16.4).
    pub const fn is_behind(&self) -> bool {
        self.cycle.is_some() && self.lag.is_behind()
    }

    /// Whether a cycle has succeeded, or a single block was accepted: transactions are accepted from then on
    /// (`docs/spec/p2p.md` 16.2).
    pub const fn is_synced(&self) -> bool {
        self.is_synced
    }

    /// Progress of the cycle, once its target height is known. `None` in a cycle of a synced node that is not far behind.
    pub fn progress(&self) -> Option<Progress> {
        let cycle = self.cycle.as_ref().filter(|_| self.is_behind() || !self.is_synced)?;
        Some(Progress { starting: cycle.starting, highest: cycle.goal()? })
    }

    /// A peer has sent its Status, which names its head.
    pub fn joined(&mut self, peer: NodeId, head: B256, total_difficulty: U256) {
        if self.peers.0.is_empty() {
            self.lag.trust_claims();
        }
        self.joins += 1;
        self.peers.joined(self.joins, peer, head, total_difficulty);
    }

    /// The last connection to a peer has ended.
    pub fn left(&mut self, peer: NodeId) {
        self.peers.0.remove(&peer);
        self.fetcher.left(peer);
        let Some(cycle) = &mut self.cycle else { return };
        cycle.blocks.release(peer);
        if cycle.source != peer {
            return;
        }
        let is_useless = !cycle.has_inserted;
        match &mut cycle.stage {
            // Answers to open requests are still accepted; the next cycle has another source.
            Stage::Download(headers) => headers.stop_at_the_last_segment(),
            Stage::Height | Stage::Ancestor(_) => drop(self.drop_cycle()),
            Stage::End => {}
        }
        if is_useless {
            self.exclude_source(peer);
        }
    }

    /// A peer has sent a block, whose body is that of its header.
    pub fn new_block(
        &mut self,
        peer: NodeId,
        block: Arc<Block>,
        total_difficulty: U256,
        chain: &dyn LocalChain,
        now: Duration,
    ) {
        let (header, hash) = (&block.header, block.hash());
        let Some(known) = self.peers.0.get_mut(&peer) else { return };
        known.known_blocks.insert(hash);
        // The peer has the parent, even if the block is invalid (`docs/spec/p2p.md` 16.1).
        if let Some(below) = total_difficulty.checked_sub(header.difficulty)
            && below > known.total_difficulty
        {
            (known.head, known.total_difficulty) = (header.parent_hash, below);
            known.number = header.number.checked_sub(1);
        }
        // No fault: the peer may have verified its header only, as every node does before it passes a block on.
        if self.fetcher.is_wrong(&hash) {
            return;
        }
        self.take_block(block, peer, chain, now);
    }

    /// A peer has announced blocks.
    pub fn announced(&mut self, peer: NodeId, blocks: &[Announced], chain: &dyn LocalChain, now: Duration) {
        let Some(known) = self.peers.0.get_mut(&peer) else { return };
        let head = chain.head().number;
        for block in blocks {
            known.known_blocks.insert(block.hash);
            // The database is read last: a peer may announce many blocks.
            if self.fetcher.accepts(block, &peer, head) && !chain.is_stored(&block.hash) {
                self.fetcher.announce(block, peer, now);
            }
        }
    }

    /// A peer has sent a vote or a certificate for a block. The block is requested from that peer unless it arrives
    /// soon: peers send a block only once, so one that was lost does not come again.
    pub fn block_mentioned(&mut self, peer: NodeId, block: Announced, chain: &dyn LocalChain, now: Duration) {
        let is_new = self.peers.0.contains_key(&peer) && !self.fetcher.knows(&block.hash, peer);
        if is_new && self.fetcher.accepts(&block, &peer, chain.head().number) && !chain.is_stored(&block.hash) {
            self.fetcher.announce(&block, peer, now);
        }
    }

    /// Adds a block near the head, and requests its parent if that is not stored.
    fn take_block(&mut self, block: Arc<Block>, peer: NodeId, chain: &dyn LocalChain, now: Duration) {
        let (parent, number) = (block.header.parent_hash, block.header.number.saturating_sub(1));
        if self.fetcher.take_block(block, peer, chain.head().number) {
            self.block_mentioned(peer, Announced { hash: parent, number }, chain, now);
        }
    }

    /// The import has inserted a block, and those before it.
    pub fn imported(&mut self, hash: B256) {
        if let Some(cycle) = &mut self.cycle {
            cycle.imported(hash, self.now);
        }
    }

    /// The import has ended.
    pub fn import_ended(&mut self, outcome: Result<(), FailedBlock>, chain: &dyn LocalChain, now: Duration) {
        self.now = now;
        let Some(cycle) = self.drop_cycle() else { return };
        match outcome {
            Ok(()) => {
                if cycle.blocks.is_handed_over() {
                    self.is_synced = true;
                    self.check_source_difficulty(&cycle, chain);
                }
            }
            Err(FailedBlock { hash, verdict: BlockVerdict::Wrong { reason }, number }) => {
                let number = number.map_or(0, |number| number.0);
                tracing::warn!(number, %reason, peer = cycle.source.short(), "a peer's chain has an invalid block");
                if let Some(hash) = hash {
                    self.fetcher.note_wrong(hash);
                }
                self.blame(cycle.source, Fault::InvalidBlock, "a chain with an invalid block");
                self.exclude_source(cycle.source);
            }
            Err(FailedBlock { verdict: BlockVerdict::OwnFailure { reason }, .. }) => {
                tracing::warn!(%reason, "this node cannot import the blocks of its peers; trying again");
                self.not_before = now + OWN_FAILURE_PAUSE;
            }
            Err(_) => self.not_before = now + Duration::from_secs(1),
        }
    }

    /// The verdict on a header that was to be verified.
    pub fn header_verified(&mut self, hash: B256, verdict: &BlockVerdict, chain: &dyn LocalChain) {
        if *verdict != BlockVerdict::Head {
            return;
        }
        let Some(block) = self.fetcher.mark_header_valid(&hash) else { return };
        let Some(below) = chain.total_difficulty(&block.header.parent_hash) else { return };
        let total_difficulty = below.saturating_add(block.header.difficulty);
        self.relay(block, total_difficulty);
    }

    /// Sends a block to every peer that does not have it. For blocks that this node made, too.
    pub fn relay(&mut self, block: Arc<Block>, total_difficulty: U256) {
        let hash = block.hash();
        self.fetcher.note_taken(hash);
        let lacking = self.peers.0.iter_mut().filter_map(|(id, peer)| peer.known_blocks.insert(hash).then_some(*id));
        let to: Vec<NodeId> = lacking.collect();
        if !to.is_empty() {
            self.actions.push_back(Action::Relay { block, total_difficulty, to });
        }
    }

    /// The verdict on a block that was to be inserted.
    pub fn inserted(&mut self, hash: B256, verdict: &BlockVerdict, unix: u64) {
        if let Some(peer) = self.fetcher.record_verdict(&hash, verdict, unix) {
            self.blame(peer, Fault::InvalidBlock, "a block with an invalid header");
        }
        if matches!(verdict, BlockVerdict::Head) {
            self.is_synced = true;
        }
    }

    /// Decides about everything that is due.
    pub fn advance(&mut self, chain: &dyn LocalChain, now: Duration, unix: u64) {
        self.now = now;
        for (peer, overdue) in self.peers.take_overdue(now) {
            self.expire(peer, overdue);
        }
        self.end_stalled_cycle(now);
        self.ask_heads(now);
        self.begin_cycle(chain, now);
        self.ask_source(now);
        self.move_headers();
        self.ask_all(now);
        self.feed_import(chain);
        self.fetch(chain, now, unix);
        self.update_lag(chain, now, unix);
    }

    /// When to call [`ChainSync::advance`] without an event.
    pub fn wakes_at(&self, now: Duration) -> Option<Duration> {
        let pause = (self.not_before > now).then_some(self.not_before);
        // While a cycle runs, requests that take long are repeated to other peers.
        let reassign_at = self.cycle.as_ref().map(|_| now + MIN_REASSIGN_TIME / 2);
        [self.peers.wakes_at(&self.exclusions, now), self.fetcher.wakes_at(now), pause, reassign_at]
            .into_iter()
            .flatten()
            .min()
    }

    fn expire(&mut self, peer: NodeId, overdue: OverdueRequest) {
        match overdue {
            OverdueRequest::Headers(Some(HeaderPurpose::Announced { hash, .. })) => {
                self.fetcher.request_failed(peer, &hash)
            }
            OverdueRequest::Headers(Some(HeaderPurpose::Fill { first })) => {
                if let Some(Stage::Download(headers)) = self.cycle.as_mut().map(|cycle| &mut cycle.stage) {
                    headers.release(peer, first);
                }
                self.blame(peer, Fault::NoAnswer, "no headers in time");
            }
            OverdueRequest::Headers(_) => {
                if self.cycle.as_ref().is_some_and(|cycle| cycle.source == peer) {
                    self.replace_source();
                }
                self.blame(peer, Fault::NoAnswer, "no headers in time");
            }
            OverdueRequest::Bodies(hashes) => {
                if let [(_, hash)] = hashes[..]
                    && self.fetcher.header_of(&hash).is_some()
                {
                    self.fetcher.request_failed(peer, &hash);
                    return;
                }
                if let Some(cycle) = &mut self.cycle {
                    cycle.blocks.release(peer);
                }
                self.blame(peer, Fault::NoAnswer, "no bodies in time");
            }
        }
    }

    /// Requests the header of its head from every peer, once.
    fn ask_heads(&mut self, now: Duration) {
        for (id, peer) in &mut self.peers.0 {
            if !peer.is_head_asked && peer.is_free_for_headers(now) {
                peer.is_head_asked = true;
                let purpose = HeaderPurpose::Head { hash: peer.head };
                peer.headers = Some(Open::new(purpose, now));
                let request = SyncRequest::Headers(request_of(purpose, peer.head));
                self.actions.push_back(Action::Ask { peer: *id, request });
            }
        }
    }

    fn begin_cycle(&mut self, chain: &dyn LocalChain, now: Duration) {
        if self.cycle.is_some() || now < self.not_before {
            return;
        }
        let local = chain.head();
        if let Some(source) = self.peers.source(self.choice, local.total_difficulty, &self.exclusions, now) {
            self.cycle = Some(Cycle::new(source, local.number, now));
        }
    }

    fn ask_source(&mut self, now: Duration) {
        let Some(cycle) = &mut self.cycle else { return };
        let Some(peer) = self.peers.0.get_mut(&cycle.source) else { return };
        if !peer.is_free_for_headers(now) {
            return;
        }
        let head = peer.head;
        if let Some(purpose) = cycle.next_request(head) {
            if matches!(purpose, HeaderPurpose::Height { .. }) {
                cycle.claimed = peer.total_difficulty;
            }
            peer.headers = Some(Open::new(purpose, now));
            let request = SyncRequest::Headers(request_of(purpose, head));
            self.actions.push_back(Action::Ask { peer: cycle.source, request });
        }
    }

    /// Passes complete headers on to the queue of bodies.
    fn move_headers(&mut self) {
        let Some(cycle) = &mut self.cycle else { return };
        let Stage::Download(headers) = &mut cycle.stage else { return };
        loop {
            match headers.take_next() {
                Ok(Some(next)) if next.iter().any(|header| self.fetcher.is_wrong(&header.hash())) => {
                    self.fail_cycle(Some((Fault::InvalidBlock, "a chain with a block that is known to be wrong")));
                    return;
                }
                Ok(Some(next)) => cycle.blocks.push(next),
                Ok(None) => return,
                Err(Mismatch(reason)) => {
                    self.fail_cycle(Some((Fault::WrongAnswer, reason)));
                    return;
                }
            }
        }
    }

    fn ask_all(&mut self, now: Duration) {
        let Some(cycle) = &mut self.cycle else { return };
        let Stage::Download(headers) = &mut cycle.stage else { return };
        let mut missing_everywhere = cycle.blocks.first_missing();
        for (id, peer) in &mut self.peers.0 {
            let reassign_after = (peer.round_trip * REASSIGN_ROUND_TRIPS).max(MIN_REASSIGN_TIME);
            if peer.is_free_for_headers(now)
                && let Some(first) = headers.assign(*id, peer.number.unwrap_or_default(), now, reassign_after)
            {
                let purpose = HeaderPurpose::Fill { first };
                peer.headers = Some(Open::new(purpose, now));
                let request = SyncRequest::Headers(request_of(purpose, peer.head));
                self.actions.push_back(Action::Ask { peer: *id, request });
            }
            missing_everywhere = missing_everywhere
                .filter(|(number, hash)| peer.number < Some(*number) || peer.missing_blocks.contains(hash));
            if peer.is_free_for_bodies(now) {
                let lacking = &peer.missing_blocks;
                let number = peer.number.unwrap_or_default();
                let is_usable = |header: &SealedHeader| header.number <= number && !lacking.contains(&header.hash());
                let hashes = cycle.blocks.assign(*id, peer.body_count, now, reassign_after, is_usable);
                if !hashes.is_empty() {
                    peer.bodies = Some(Open::new(hashes.clone(), now));
                    let request = SyncRequest::Bodies(hashes.into_iter().map(|(_, hash)| hash).collect());
                    self.actions.push_back(Action::Ask { peer: *id, request });
                }
            }
        }
        if missing_everywhere.is_some() {
            self.fail_cycle(Some((Fault::EmptyAnswer, "headers of blocks that it does not have")));
        }
    }

    fn feed_import(&mut self, chain: &dyn LocalChain) {
        let Some(cycle) = &mut self.cycle else { return };
        let Stage::Download(headers) = &cycle.stage else { return };
        let is_over = headers.is_done();
        let head = chain.head().number;
        // Blocks above the head are not looked up: in a long sync that would be a read for each block.
        let is_new = |header: &SealedHeader| header.number > head || !chain.is_stored(&header.hash());
        while let Some(block) = cycle.blocks.next_block(is_new) {
            if !cycle.is_importing {
                cycle.is_importing = true;
                self.actions.push_back(Action::BeginImport);
            }
            self.actions.push_back(Action::Import(Box::new(block)));
        }
        if is_over && cycle.blocks.is_handed_over() {
            if cycle.is_importing {
                cycle.stage = Stage::End;
                self.actions.push_back(Action::EndImport);
            } else {
                self.drop_cycle();
            }
        }
    }

    fn fetch(&mut self, chain: &dyn LocalChain, now: Duration, unix: u64) {
        let peers = &self.peers;
        let is_free = |peer: &NodeId, needs_body: bool| {
            peers.0.get(peer).is_some_and(|peer| match needs_body {
                true => peer.is_free_for_bodies(now),
                false => peer.is_free_for_headers(now),
            })
        };
        if let Some((id, wanted)) = self.fetcher.next_wanted(now, is_free)
            && let Some(peer) = self.peers.0.get_mut(&id)
        {
            let request = match wanted {
                Wanted::Header { hash, number } => {
                    let purpose = HeaderPurpose::Announced { hash, number };
                    peer.headers = Some(Open::new(purpose, now));
                    SyncRequest::Headers(request_of(purpose, hash))
                }
                Wanted::Body { hash } => {
                    peer.bodies = Some(Open::new(vec![(0, hash)], now));
                    SyncRequest::Bodies(vec![hash])
                }
            };
            self.actions.push_back(Action::Ask { peer: id, request });
        }
        let head = chain.head().number;
        while let Some(block) = self.fetcher.next_block(head, unix, |hash| chain.is_stored(hash)) {
            self.actions.push_back(Action::VerifyAndInsert(block));
        }
    }

    /// Ends the cycle. The import inserts the blocks that it has.
    fn fail_cycle(&mut self, blame: Option<(Fault, &'static str)>) {
        let Some(cycle) = &mut self.cycle else { return };
        let source = cycle.source;
        if cycle.is_importing {
            if !matches!(cycle.stage, Stage::End) {
                cycle.stage = Stage::End;
                self.actions.push_back(Action::EndImport);
            }
        } else {
            self.drop_cycle();
        }
        if let Some((fault, reason)) = blame {
            self.exclude_source(source);
            self.blame(source, fault, reason);
        }
    }

    /// After all blocks of a source were imported: its chain must have the total difficulty that it claimed.
    fn check_source_difficulty(&mut self, cycle: &Cycle, chain: &dyn LocalChain) {
        // After a failure the import ends, too, with the blocks that it has.
        if self.exclusions.is_excluded(&cycle.source, self.now) {
            return;
        }
        if cycle.claimed > chain.head().total_difficulty {
            self.exclude_source(cycle.source);
        } else {
            self.exclusions.clear_failures(&cycle.source);
            self.choice = SourceChoice::HighestClaim;
        }
    }

    fn exclude_source(&mut self, peer: NodeId) {
        self.exclusions.exclude(peer, self.now);
        self.choice = SourceChoice::LongestConnected;
    }

    /// Ends the cycle and excludes its source, without a fault: it was late, or useless.
    fn replace_source(&mut self) {
        if let Some(cycle) = &self.cycle {
            self.exclude_source(cycle.source);
            self.fail_cycle(None);
        }
    }

    fn end_stalled_cycle(&mut self, now: Duration) {
        if let Some(cycle) = &mut self.cycle
            && cycle.is_stalled(now)
        {
            tracing::debug!(peer = cycle.source.short(), "the chain of a peer brings no new blocks");
            self.replace_source();
        }
    }

    fn update_lag(&mut self, chain: &dyn LocalChain, now: Duration, unix: u64) {
        let evidence = match &self.cycle {
            None => Evidence::NoCycle,
            Some(cycle) if cycle.has_inserted => Evidence::NewBlocks,
            Some(_) => Evidence::Claim,
        };
        self.lag.update(chain.head().timestamp, evidence, now, unix);
    }

    fn drop_cycle(&mut self) -> Option<Cycle> {
        let fetcher = &self.fetcher;
        self.peers.forget_cycle(|hash| fetcher.header_of(hash).is_some());
        self.cycle.take()
    }

    fn blame(&mut self, peer: NodeId, fault: Fault, reason: &'static str) {
        self.actions.push_back(Action::Fault { peer, fault, reason });
    }
}

/// The request for headers of this purpose.
fn request_of(purpose: HeaderPurpose, head: B256) -> HeaderRequest {
    match purpose {
        HeaderPurpose::Head { .. } | HeaderPurpose::Height { .. } => request(HeaderOrigin::Hash(head), 1, 0),
        HeaderPurpose::Recent { first, amount } => request(HeaderOrigin::Number(first), amount, 0),
        HeaderPurpose::Bisection { number } => request(HeaderOrigin::Number(number), 1, 0),
        HeaderPurpose::Skeleton { first, amount } => request(HeaderOrigin::Number(first), amount, SEGMENT - 1),
        HeaderPurpose::Fill { first } | HeaderPurpose::Tail { first } => {
            request(HeaderOrigin::Number(first), SEGMENT, 0)
        }
        HeaderPurpose::Announced { hash, .. } => request(HeaderOrigin::Hash(hash), 1, 0),
    }
}

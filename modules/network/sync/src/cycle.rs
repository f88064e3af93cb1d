//! One cycle: from the newest common block to the head of one peer (`docs/spec/p2p.md` 19.2).

use std::time::Duration;

use alloy_primitives::{B256, U256};
use tenon_api::SealedHeader;
use tenon_network_identity::NodeId;
use tenon_network_peers::Fault;
use tenon_network_wire::limits::MAX_HEADERS;

use crate::bodies::BlockQueue;
use crate::headers::{HeaderChain, Mismatch, check_links};
use crate::peers::HeaderPurpose;
use crate::port::{LocalChain, LocalHead};

/// A cycle ends if it has imported nothing new for this time. A source that needs 4 s for each answer sends the first
/// bodies within this time.
const STALL_TIMEOUT: Duration = Duration::from_secs(40);

/// The stage of a cycle.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Requests the height of the peer's head.
    Height,
    /// Searches for the newest common block.
    Ancestor(Search),
    /// Downloads headers and bodies.
    Download(HeaderChain),
    /// Waits for the end of the import: it has all blocks, or has refused one.
    End,
}

/// The search for the newest common block below a peer's head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    /// Height of the peer's head.
    goal: u64,
    /// The highest block that is known to be common, or assumed to be.
    low: (u64, B256),
    /// Whether `low` was seen to be common.
    is_confirmed: bool,
    /// The lowest height known not to be common; at first, the lowest height that is too high to be common.
    high: u64,
    next: HeaderPurpose,
}

/// The consequence of an answer of the source.
#[derive(Debug)]
pub(crate) enum Step {
    /// The next stage, or the same with another request.
    Continue,
    /// The local chain has all blocks of the peer.
    NothingNew,
    /// The cycle fails, with the fault of the source.
    Fail(Fault, &'static str),
}

/// A running cycle.
#[derive(Debug)]
pub(crate) struct Cycle {
    /// The source: the peer whose head is the goal.
    pub(crate) source: NodeId,
    pub(crate) stage: Stage,
    pub(crate) blocks: BlockQueue,
    /// Height of the first requested block.
    pub(crate) starting: u64,
    goal: Option<u64>,
    /// Total difficulty that the source claimed for its head when that header was requested.
    pub(crate) claimed: U256,
    /// Whether an import runs.
    pub(crate) is_importing: bool,
    /// Whether the import has inserted a new block.
    pub(crate) has_inserted: bool,
    /// When the import last inserted a new block; before that, when the cycle began.
    progressed_at: Duration,
}

impl Cycle {
    pub(crate) fn new(source: NodeId, head: u64, now: Duration) -> Self {
        Self {
            source,
            stage: Stage::Height,
            blocks: BlockQueue::default(),
            starting: head,
            goal: None,
            claimed: U256::ZERO,
            is_importing: false,
            has_inserted: false,
            progressed_at: now,
        }
    }

    /// The import has inserted a block, and those before it.
    pub(crate) fn imported(&mut self, hash: B256, now: Duration) {
        if self.blocks.imported(hash) {
            (self.has_inserted, self.progressed_at) = (true, now);
        }
    }

    /// Whether it has imported nothing new for too long, although the import waits for blocks. Blocks that were stored
    /// already are not new: a source could send those for ever.
    pub(crate) fn is_stalled(&mut self, now: Duration) -> bool {
        if matches!(self.stage, Stage::End) {
            return false;
        }
        if self.blocks.keeps_import_busy() {
            self.progressed_at = now;
        }
        now >= self.progressed_at + STALL_TIMEOUT
    }

    /// The target height, from its discovery until the end of the import.
    pub(crate) const fn goal(&self) -> Option<u64> {
        self.goal
    }

    /// The next request to the source, whose current head is given.
    pub(crate) fn next_request(&self, head: B256) -> Option<HeaderPurpose> {
        match &self.stage {
            Stage::Height => Some(HeaderPurpose::Height { hash: head }),
            Stage::Ancestor(search) => Some(search.next),
            Stage::Download(headers) => headers.next_request(self.blocks.waiting()),
            Stage::End => None,
        }
    }

    /// Processes the source's answer.
    pub(crate) fn take(
        &mut self,
        purpose: HeaderPurpose,
        headers: Vec<SealedHeader>,
        (local, chain): (LocalHead, &dyn LocalChain),
    ) -> Step {
        match (purpose, &mut self.stage) {
            (HeaderPurpose::Height { hash }, Stage::Height) => {
                self.begin_search(&headers, hash, (local, chain.committed()))
            }
            (HeaderPurpose::Recent { first, amount }, Stage::Ancestor(search)) => {
                let step = search.take_recent(first, amount, &headers, chain);
                self.follow(step)
            }
            (HeaderPurpose::Bisection { number }, Stage::Ancestor(search)) => {
                let step = search.take_one(number, &headers, chain);
                self.follow(step)
            }
            (HeaderPurpose::Skeleton { first, amount }, Stage::Download(wanted)) => {
                of(wanted.take_skeleton(first, amount, &headers))
            }
            (HeaderPurpose::Tail { first }, Stage::Download(wanted))
                if headers.is_empty() && first <= wanted.goal() =>
            {
                Step::Fail(Fault::EmptyAnswer, "no header below its head")
            }
            (HeaderPurpose::Tail { first }, Stage::Download(wanted)) => of(wanted.take_tail(first, headers)),
            _ => Step::Continue,
        }
    }

    fn begin_search(
        &mut self,
        headers: &[SealedHeader],
        head: B256,
        (local, committed): (LocalHead, (u64, B256)),
    ) -> Step {
        let header = match headers {
            [header] if header.hash() == head => header,
            // Its head may have changed, and a block that was not final may be gone.
            [] => return Step::Fail(Fault::EmptyAnswer, "no header of its own head"),
            _ => return Step::Fail(Fault::WrongAnswer, "another header than that of its head"),
        };
        self.goal = Some(header.number);
        self.stage = Stage::Ancestor(Search::new(header.number, local.number, committed));
        Step::Continue
    }

    fn follow(&mut self, found: Result<Option<(u64, B256)>, Step>) -> Step {
        let Stage::Ancestor(search) = &self.stage else { return Step::Continue };
        match found {
            Err(step) => step,
            Ok(None) => Step::Continue,
            Ok(Some((ancestor, _))) if ancestor >= search.goal => Step::NothingNew,
            Ok(Some((ancestor, hash))) => {
                self.starting = ancestor;
                self.stage = Stage::Download(HeaderChain::new(ancestor, hash, search.goal));
                Step::Continue
            }
        }
    }
}

fn of(taken: Result<(), Mismatch>) -> Step {
    match taken {
        Ok(()) => Step::Continue,
        Err(Mismatch(reason)) => Step::Fail(Fault::WrongAnswer, reason),
    }
}

impl Search {
    fn new(goal: u64, head: u64, (lowest, hash): (u64, B256)) -> Self {
        let last = head.min(goal).max(lowest);
        let first = last.saturating_sub(MAX_HEADERS as u64 - 1).max(lowest);
        let next = HeaderPurpose::Recent { first, amount: last - first + 1 };
        // All chains of this network share the genesis block.
        let is_confirmed = lowest == 0;
        Self { goal, low: (lowest, hash), is_confirmed, high: last.saturating_add(1), next }
    }

    fn take_recent(
        &mut self,
        first: u64,
        amount: u64,
        headers: &[SealedHeader],
        chain: &dyn LocalChain,
    ) -> Result<Option<(u64, B256)>, Step> {
        if headers.is_empty() {
            return Err(Step::Fail(Fault::EmptyAnswer, "no header below its head"));
        }
        if headers.len() as u64 > amount {
            return Err(Step::Fail(Fault::WrongAnswer, "more headers than asked for"));
        }
        check_links(first, headers).map_err(|Mismatch(reason)| Step::Fail(Fault::WrongAnswer, reason))?;
        let is_common = |header: &&SealedHeader| chain.canonical_hash(header.number) == Some(header.hash());
        if let Some(header) = headers.iter().rev().find(is_common) {
            return Ok(Some((header.number, header.hash())));
        }
        self.high = first;
        self.bisect()
    }

    fn take_one(
        &mut self,
        number: u64,
        headers: &[SealedHeader],
        chain: &dyn LocalChain,
    ) -> Result<Option<(u64, B256)>, Step> {
        let header = match headers {
            [header] if header.number == number => header,
            [] => return Err(Step::Fail(Fault::EmptyAnswer, "no header below its head")),
            _ => return Err(Step::Fail(Fault::WrongAnswer, "a header of another height")),
        };
        if chain.canonical_hash(number) == Some(header.hash()) {
            (self.low, self.is_confirmed) = ((number, header.hash()), true);
        } else {
            self.high = number;
        }
        self.bisect()
    }

    /// The next height to request, or the newest common block.
    fn bisect(&mut self) -> Result<Option<(u64, B256)>, Step> {
        let low = self.low.0;
        if self.high <= low {
            return Err(Step::Fail(Fault::WrongAnswer, "a chain without the last committed block"));
        }
        if self.high - low > 1 {
            self.next = HeaderPurpose::Bisection { number: low + (self.high - low) / 2 };
            return Ok(None);
        }
        if !self.is_confirmed {
            self.next = HeaderPurpose::Bisection { number: low };
            return Ok(None);
        }
        Ok(Some(self.low))
    }
}

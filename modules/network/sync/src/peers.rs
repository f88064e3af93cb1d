//! The known state of each peer's chain, and the requests to it.

use std::collections::BTreeMap;
use std::time::Duration;

use alloy_primitives::{B256, U256};
use tenon_api::SealedHeader;
use tenon_network_identity::NodeId;
use tenon_network_wire::{HeaderRequest, limits};

use crate::bounded_set::BoundedSet;
use crate::exclusions::Exclusions;

/// Time limit for an answer (`docs/spec/p2p.md` 19.4).
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Time after a request in which its overdue answer may still arrive. A connection without any message ends earlier
/// (`docs/spec/p2p.md` 8).
const LATE_LIMIT: Duration = Duration::from_secs(60);
/// Pause in the requests to a peer that did not answer.
const PAUSE: Duration = Duration::from_secs(10);
/// Number of bodies in the first request to a peer.
const FIRST_BODIES: usize = 16;
/// After an answer within this time the next request is twice as large.
const QUICK: Duration = Duration::from_millis(500);
/// After an answer that takes longer the next request is half as large.
const SLOW: Duration = Duration::from_secs(2);
/// Maximum number of remembered blocks that a peer lacks.
const MAX_MISSING_BLOCKS: usize = 4096;
/// Maximum number of remembered blocks that a peer knows.
const MAX_KNOWN_BLOCKS: usize = 1024;

/// The purpose of a request for headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderPurpose {
    /// The header of the head in the peer's Status.
    Head { hash: B256 },
    /// The header of the head of the source of a cycle, at the time of the request.
    Height { hash: B256 },
    /// The newest common block, among the headers below the local head.
    Recent { first: u64, amount: u64 },
    /// The newest common block, by halving.
    Bisection { number: u64 },
    /// Every 192nd header from a height on.
    Skeleton { first: u64, amount: u64 },
    /// The headers of a segment, named by its first height.
    Fill { first: u64 },
    /// The headers up to the peer's head.
    Tail { first: u64 },
    /// The header of an announced block.
    Announced { hash: B256, number: u64 },
}

impl HeaderPurpose {
    /// Whether these headers can be the answer: they begin at the requested block, or are empty.
    fn fits(self, headers: &[SealedHeader]) -> bool {
        let Some(header) = headers.first() else { return true };
        match self {
            Self::Head { hash } | Self::Height { hash } | Self::Announced { hash, .. } => header.hash() == hash,
            Self::Recent { first, .. } | Self::Skeleton { first, .. } | Self::Fill { first } | Self::Tail { first } => {
                header.number == first
            }
            Self::Bisection { number } => header.number == number,
        }
    }
}

/// An open request.
#[derive(Clone, Debug)]
pub(crate) struct Open<T> {
    what: T,
    asked_at: Duration,
    /// False after the end of the cycle that wanted the answer.
    is_wanted: bool,
}

impl<T> Open<T> {
    pub(crate) const fn new(what: T, asked_at: Duration) -> Self {
        Self { what, asked_at, is_wanted: true }
    }

    fn is_due(&self, now: Duration) -> bool {
        now >= self.asked_at + ANSWER_TIMEOUT
    }
}

/// A peer.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Number of peers that connected before it.
    joined: u64,
    pub(crate) head: B256,
    pub(crate) total_difficulty: U256,
    /// Height of its head, after it has sent the header or a block.
    pub(crate) number: Option<u64>,
    /// Whether the header of its head was requested.
    pub(crate) is_head_asked: bool,
    pub(crate) headers: Option<Open<HeaderPurpose>>,
    pub(crate) bodies: Option<Open<Vec<(u64, B256)>>>,
    /// Requests for headers whose answers are overdue, oldest first. A stalled connection delivers them later, when another
    /// request may be open: answers do not name their request, but arrive in order.
    overdue_headers: Vec<Open<HeaderPurpose>>,
    /// Requests for bodies whose answers are overdue, oldest first.
    overdue_bodies: Vec<Open<Vec<(u64, B256)>>>,
    /// Number of bodies in the next request.
    pub(crate) body_count: usize,
    /// Moving average of the time to an answer.
    pub(crate) round_trip: Duration,
    /// Earliest time of the next request.
    paused_until: Duration,
    /// Blocks whose bodies it lacks.
    pub(crate) missing_blocks: BoundedSet<B256>,
    /// Blocks that it has sent, announced or received.
    pub(crate) known_blocks: BoundedSet<B256>,
}

impl Peer {
    fn new(joined: u64, head: B256, total_difficulty: U256) -> Self {
        Self {
            joined,
            head,
            total_difficulty,
            number: None,
            is_head_asked: false,
            headers: None,
            bodies: None,
            overdue_headers: Vec::new(),
            overdue_bodies: Vec::new(),
            body_count: FIRST_BODIES,
            round_trip: Duration::from_millis(200),
            paused_until: Duration::ZERO,
            missing_blocks: BoundedSet::new(MAX_MISSING_BLOCKS),
            known_blocks: BoundedSet::new(MAX_KNOWN_BLOCKS),
        }
    }

    /// Whether headers may be requested from it now.
    pub(crate) fn is_free_for_headers(&self, now: Duration) -> bool {
        self.headers.is_none() && now >= self.paused_until
    }

    /// Whether bodies may be requested from it now.
    pub(crate) fn is_free_for_bodies(&self, now: Duration) -> bool {
        self.bodies.is_none() && now >= self.paused_until
    }

    /// Whether headers answer an overdue request instead of the open one.
    pub(crate) fn take_late_headers(&mut self, headers: &[SealedHeader], now: Duration) -> bool {
        take_late(&mut self.overdue_headers, self.headers.as_ref(), now, |purpose| purpose.fits(headers))
    }

    /// Whether bodies answer an overdue request instead of the open one. `fits`: whether they can be the answer to a
    /// request.
    pub(crate) fn take_late_bodies(&mut self, now: Duration, fits: impl Fn(&[(u64, B256)]) -> bool) -> bool {
        take_late(&mut self.overdue_bodies, self.bodies.as_ref(), now, |asked| fits(asked))
    }

    /// Ends the open request for headers and counts its time. `None` if its answer is no longer wanted.
    pub(crate) fn take_headers(&mut self, now: Duration) -> Option<HeaderPurpose> {
        let open = self.headers.take()?;
        self.count(now.saturating_sub(open.asked_at));
        open.is_wanted.then_some(open.what)
    }

    /// Ends the open request for bodies, counts its time, and sets the size of the next one. `None` if its answer is not
    /// wanted any more.
    pub(crate) fn take_bodies(&mut self, now: Duration, answered: usize) -> Option<Vec<(u64, B256)>> {
        let open = self.bodies.take()?;
        let took = now.saturating_sub(open.asked_at);
        self.count(took);
        if took <= QUICK && answered >= open.what.len() {
            self.body_count = (self.body_count * 2).min(limits::MAX_BODIES);
        } else if took >= SLOW || answered < open.what.len() {
            self.body_count = (self.body_count / 2).max(answered.min(self.body_count)).max(2);
        }
        open.is_wanted.then_some(open.what)
    }

    fn count(&mut self, took: Duration) {
        self.round_trip = (self.round_trip * 7 + took) / 8;
    }

    /// Pauses the requests to it.
    pub(crate) fn pause(&mut self, now: Duration) {
        self.paused_until = now + PAUSE;
        self.body_count = FIRST_BODIES;
    }
}

/// Returns whether an answer belongs to an overdue request instead of the open one. If it fits both, it is taken as the
/// answer to the open request, which is then also added to the overdue ones, because its own answer is still to come.
/// An answer that fits no request is wrong, not late, even if answers of the peer are overdue.
fn take_late<T: Clone>(
    overdue: &mut Vec<Open<T>>,
    open: Option<&Open<T>>,
    now: Duration,
    fits: impl Fn(&T) -> bool,
) -> bool {
    overdue.retain(|request| now < request.asked_at + LATE_LIMIT);
    if overdue.is_empty() {
        return false;
    }
    let answered = overdue.iter().position(|request| fits(&request.what));
    let open = open.filter(|request| fits(&request.what));
    match answered {
        Some(place) => {
            overdue.drain(..=place);
        }
        None if open.is_some() => overdue.clear(),
        None => {}
    }
    if let Some(request) = open {
        overdue.extend(answered.map(|_| request.clone()));
        return false;
    }
    answered.is_some()
}

/// An overdue request.
#[derive(Clone, Debug)]
pub(crate) enum OverdueRequest {
    /// `None` if the answer is no longer wanted.
    Headers(Option<HeaderPurpose>),
    /// Empty if the answer is no longer wanted.
    Bodies(Vec<(u64, B256)>),
}

/// Which peer becomes the source of a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceChoice {
    /// The one with the highest total difficulty.
    HighestClaim,
    /// The peer that has been connected longest. Chosen after a failure: otherwise dishonest peers that connect again
    /// and again with new identities would be chosen instead of honest ones.
    LongestConnected,
}

/// All peers whose chain is known.
#[derive(Debug, Default)]
pub(crate) struct Peers(pub(crate) BTreeMap<NodeId, Peer>);

impl Peers {
    pub(crate) fn joined(&mut self, joined: u64, id: NodeId, head: B256, total_difficulty: U256) {
        self.0.entry(id).or_insert_with(|| Peer::new(joined, head, total_difficulty));
    }

    /// The source of the next cycle: a usable peer that claims more total difficulty than this node has.
    pub(crate) fn source(
        &self,
        choice: SourceChoice,
        own: U256,
        exclusions: &Exclusions,
        now: Duration,
    ) -> Option<NodeId> {
        let is_free = |id: &NodeId, peer: &Peer| peer.is_free_for_headers(now) && !exclusions.is_excluded(id, now);
        let usable = self.0.iter().filter(|(id, peer)| peer.total_difficulty > own && is_free(id, peer));
        let chosen = match choice {
            SourceChoice::HighestClaim => usable.max_by_key(|(_, peer)| peer.total_difficulty),
            SourceChoice::LongestConnected => usable.min_by_key(|(_, peer)| peer.joined),
        };
        chosen.map(|(id, _)| *id)
    }

    /// Ends the requests whose answers are overdue, and returns them.
    pub(crate) fn take_overdue(&mut self, now: Duration) -> Vec<(NodeId, OverdueRequest)> {
        let mut overdue = Vec::new();
        for (id, peer) in &mut self.0 {
            if peer.headers.as_ref().is_some_and(|open| open.is_due(now))
                && let Some(open) = peer.headers.take()
            {
                overdue.push((*id, OverdueRequest::Headers(open.is_wanted.then_some(open.what))));
                peer.overdue_headers.push(open);
                peer.pause(now);
            }
            if peer.bodies.as_ref().is_some_and(|open| open.is_due(now))
                && let Some(open) = peer.bodies.take()
            {
                let wanted = if open.is_wanted { open.what.clone() } else { Vec::new() };
                overdue.push((*id, OverdueRequest::Bodies(wanted)));
                peer.overdue_bodies.push(open);
                peer.pause(now);
            }
        }
        overdue
    }

    /// Marks the requests of an ended cycle: their answers are no longer wanted.
    pub(crate) fn forget_cycle(&mut self, is_of_fetcher: impl Fn(&B256) -> bool) {
        for peer in self.0.values_mut() {
            if let Some(open) = &mut peer.headers
                && !matches!(open.what, HeaderPurpose::Announced { .. } | HeaderPurpose::Head { .. })
            {
                open.is_wanted = false;
            }
            if let Some(open) = &mut peer.bodies
                && !matches!(open.what[..], [(_, hash)] if is_of_fetcher(&hash))
            {
                open.is_wanted = false;
            }
        }
    }

    /// When the next answer is overdue, or a pause or an exclusion ends.
    pub(crate) fn wakes_at(&self, exclusions: &Exclusions, now: Duration) -> Option<Duration> {
        let due = |(id, peer): (&NodeId, &Peer)| {
            let headers = peer.headers.as_ref().map(|open| open.asked_at + ANSWER_TIMEOUT);
            let bodies = peer.bodies.as_ref().map(|open| open.asked_at + ANSWER_TIMEOUT);
            let pause = Some(peer.paused_until).filter(|until| *until > now);
            [headers, bodies, pause, exclusions.end_of(id, now)].into_iter().flatten().min()
        };
        self.0.iter().filter_map(due).min()
    }
}

/// The request for these headers.
pub(crate) fn request(origin: tenon_network_wire::HeaderOrigin, amount: u64, skip: u64) -> HeaderRequest {
    HeaderRequest { origin, amount, skip, is_reverse: false }
}

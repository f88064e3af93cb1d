//! The headers between the common ancestor and the peer's head, in segments (`docs/spec/p2p.md` 19.2, step 3).

use std::collections::VecDeque;
use std::time::Duration;

use alloy_primitives::B256;
use tenon_api::SealedHeader;
use tenon_network_identity::NodeId;
use tenon_network_wire::limits::MAX_HEADERS;

use crate::peers::HeaderPurpose;

/// Headers of a segment.
pub(crate) const SEGMENT: u64 = MAX_HEADERS as u64;
/// Maximum number of segments of a skeleton.
const MAX_SKELETON: u64 = 128;
/// Maximum number of headers, requested or received.
pub(crate) const MAX_HEADERS_AHEAD: u64 = 6 * 1024;

/// Consecutive headers, up to one whose hash is known.
#[derive(Debug)]
struct Segment {
    first: u64,
    last: u64,
    anchor: B256,
    /// The peer of the last request, and its time.
    asked: Option<(NodeId, Duration)>,
    headers: Option<Vec<SealedHeader>>,
}

/// The headers of a cycle, from the common ancestor on.
#[derive(Debug)]
pub(crate) struct HeaderChain {
    /// Height of the last wanted header.
    goal: u64,
    /// The first height beyond all segments.
    next: u64,
    /// Hash of the last header that was passed on.
    parent: B256,
    segments: VecDeque<Segment>,
    /// Whether the skeleton has ended: the remaining headers are requested one batch after another.
    is_skeleton_over: bool,
}

/// Headers do not fit the request, or one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch(pub(crate) &'static str);

/// Headers do not fill a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FillProblem {
    /// They do not answer the request.
    Mismatch(Mismatch),
    /// They end before the segment does, or lead to another block than the skeleton has.
    OtherBranch,
}

impl HeaderChain {
    /// Headers above a common ancestor, up to the height of a peer's head.
    pub(crate) const fn new(ancestor: u64, hash: B256, goal: u64) -> Self {
        Self {
            goal,
            next: ancestor.saturating_add(1),
            parent: hash,
            segments: VecDeque::new(),
            is_skeleton_over: false,
        }
    }

    /// Height of the last wanted header.
    pub(crate) const fn goal(&self) -> u64 {
        self.goal
    }

    /// Whether every wanted header was passed on.
    pub(crate) fn is_done(&self) -> bool {
        self.next > self.goal && self.segments.is_empty()
    }

    /// Ends the chain with the requested headers, after the source has left.
    pub(crate) fn stop_at_the_last_segment(&mut self) {
        self.goal = self.next.saturating_sub(1);
    }

    fn held(&self) -> u64 {
        self.segments.len() as u64 * SEGMENT
    }

    /// The next request to the source of the skeleton; `None` while enough headers are requested. `waiting` headers were
    /// passed on and wait for their bodies.
    pub(crate) fn next_request(&self, waiting: usize) -> Option<HeaderPurpose> {
        let room = MAX_HEADERS_AHEAD.saturating_sub(self.held() + waiting as u64);
        let left = self.goal.checked_sub(self.next)?.saturating_add(1);
        if room < SEGMENT {
            return None;
        }
        if left <= SEGMENT || self.is_skeleton_over {
            return Some(HeaderPurpose::Tail { first: self.next });
        }
        let amount = (left / SEGMENT).min(room / SEGMENT).min(MAX_SKELETON);
        Some(HeaderPurpose::Skeleton { first: self.next + SEGMENT - 1, amount })
    }

    /// Adds a skeleton.
    ///
    /// # Errors
    /// [`Mismatch`] naming what is wrong with it.
    pub(crate) fn take_skeleton(&mut self, first: u64, amount: u64, headers: &[SealedHeader]) -> Result<(), Mismatch> {
        if first != self.next + SEGMENT - 1 {
            return Ok(());
        }
        if headers.is_empty() {
            self.is_skeleton_over = true;
            return Ok(());
        }
        if headers.len() as u64 > amount {
            return Err(Mismatch("more headers of a skeleton than asked for"));
        }
        for (index, header) in headers.iter().enumerate() {
            if header.number != first + index as u64 * SEGMENT {
                return Err(Mismatch("a skeleton with a header of another height"));
            }
        }
        for header in headers {
            let (first, last) = (self.next, header.number);
            self.segments.push_back(Segment { first, last, anchor: header.hash(), asked: None, headers: None });
            self.next = last + 1;
        }
        Ok(())
    }

    /// Adds the headers from `first` on, up to 192.
    ///
    /// # Errors
    /// [`Mismatch`] naming what is wrong with them.
    pub(crate) fn take_tail(&mut self, first: u64, mut headers: Vec<SealedHeader>) -> Result<(), Mismatch> {
        if first != self.next {
            return Ok(());
        }
        if headers.len() as u64 > SEGMENT {
            return Err(Mismatch("more headers than asked for"));
        }
        check_links(first, &headers)?;
        headers.retain(|header| header.number <= self.goal);
        let Some(last) = headers.last() else { return Err(Mismatch("no header where its head is above")) };
        let (last, anchor) = (last.number, last.hash());
        self.next = last + 1;
        self.segments.push_back(Segment { first, last, anchor, asked: None, headers: Some(headers) });
        Ok(())
    }

    /// A segment to request from a peer with blocks up to `reach`: one that was not requested, or whose answer takes longer than
    /// `reassign_after`. It is recorded as requested.
    pub(crate) fn assign(&mut self, peer: NodeId, reach: u64, now: Duration, reassign_after: Duration) -> Option<u64> {
        let is_open = |segment: &&mut Segment| {
            let is_wanted = match segment.asked {
                None => true,
                Some((asked, at)) => asked != peer && now >= at + reassign_after,
            };
            segment.headers.is_none() && segment.last <= reach && is_wanted
        };
        let segment = self.segments.iter_mut().find(is_open)?;
        segment.asked = Some((peer, now));
        Some(segment.first)
    }

    /// Removes the request for a segment to a peer.
    pub(crate) fn release(&mut self, peer: NodeId, first: u64) {
        for segment in &mut self.segments {
            if segment.first == first && segment.asked.is_some_and(|(asked, _)| asked == peer) {
                segment.asked = None;
            }
        }
    }

    /// Adds the headers of a segment. Headers of a complete segment are dropped.
    ///
    /// # Errors
    /// [`FillProblem`].
    pub(crate) fn take_fill(&mut self, first: u64, headers: Vec<SealedHeader>) -> Result<(), FillProblem> {
        let Some(segment) = self.segments.iter_mut().find(|segment| segment.first == first) else { return Ok(()) };
        if segment.headers.is_some() {
            return Ok(());
        }
        if headers.len() as u64 > segment.last - segment.first + 1 {
            return Err(FillProblem::Mismatch(Mismatch("more headers than asked for")));
        }
        check_links(first, &headers).map_err(FillProblem::Mismatch)?;
        if headers.last().map(SealedHeader::hash) != Some(segment.anchor) {
            return Err(FillProblem::OtherBranch);
        }
        segment.headers = Some(headers);
        Ok(())
    }

    /// The next segment in order, if it has arrived.
    ///
    /// # Errors
    /// [`Mismatch`] if it does not follow the headers that were passed on: the skeleton is wrong.
    pub(crate) fn take_next(&mut self) -> Result<Option<Vec<SealedHeader>>, Mismatch> {
        let Some(segment) = self.segments.front_mut() else { return Ok(None) };
        let Some(headers) = segment.headers.take() else { return Ok(None) };
        if headers.first().map(|header| header.parent_hash) != Some(self.parent) {
            return Err(Mismatch("a skeleton whose headers do not follow one another"));
        }
        self.parent = segment.anchor;
        self.segments.pop_front();
        Ok(Some(headers))
    }
}

/// Heights from `first` on, each header the parent of the next.
pub(crate) fn check_links(first: u64, headers: &[SealedHeader]) -> Result<(), Mismatch> {
    let mut expected = first;
    let mut parent: Option<B256> = None;
    for header in headers {
        if header.number != expected {
            return Err(Mismatch("a header of another height"));
        }
        if parent.is_some_and(|parent| parent != header.parent_hash) {
            return Err(Mismatch("headers that do not follow one another"));
        }
        parent = Some(header.hash());
        expected = expected.saturating_add(1);
    }
    Ok(())
}

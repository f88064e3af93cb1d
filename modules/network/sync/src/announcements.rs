//! Announced blocks that have not arrived: which to request, when, and from which peer (`docs/spec/p2p.md` 18).
//!
//! Every call costs a few look-ups in sorted sets, so that announcements of blocks that do not exist cost little. The
//! sorted sets also make equal events lead to equal requests.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use alloy_primitives::B256;
use tenon_api::SealedHeader;
use tenon_network_identity::NodeId;

/// Maximum number of announcements of one peer.
pub(crate) const MAX_ANNOUNCED_OF_PEER: usize = 256;
/// Maximum number of announcements of all peers. A block that several peers announce counts once for each.
pub(crate) const MAX_ANNOUNCED: usize = 4096;
/// Time after which an announced block is requested, unless it has arrived.
pub(crate) const ANNOUNCE_WAIT: Duration = Duration::from_millis(400);
/// Time after which an announced block is forgotten.
const ANNOUNCE_LIMIT: Duration = Duration::from_secs(15);

/// A header or body to request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Header { hash: B256, number: u64 },
    Body { hash: B256 },
}

/// An announced block by the time of its first announcement.
type Due = (Duration, B256);

/// An announced block.
#[derive(Clone, Debug)]
struct Announcement {
    /// In order of arrival.
    by: Vec<Announcer>,
    /// When the first peer announced it.
    since: Duration,
    /// The peer that it was requested from.
    asked: Option<NodeId>,
    /// The header, after its arrival.
    header: Option<SealedHeader>,
}

/// A peer that announced a block.
#[derive(Clone, Copy, Debug)]
struct Announcer {
    peer: NodeId,
    /// The height that it named; 0 if it named none.
    number: u64,
    /// False after the peer did not deliver the block, until it announces it again.
    is_open: bool,
}

impl Announcement {
    fn is_by(&self, peer: &NodeId) -> bool {
        self.by.iter().any(|mention| mention.is_open && mention.peer == *peer)
    }

    fn close(&mut self, peer: &NodeId) {
        self.by.iter_mut().filter(|mention| mention.peer == *peer).for_each(|mention| mention.is_open = false);
    }
}

/// The announcements of one peer.
#[derive(Debug, Default)]
struct PeerAnnouncements {
    all: BTreeSet<Due>,
    /// Blocks whose header (`headers`) or body (`bodies`) can be requested from this peer now.
    headers: BTreeSet<Due>,
    bodies: BTreeSet<Due>,
    /// Number of the last request for one of them.
    last_request: u64,
}

impl PeerAnnouncements {
    fn wanted(&mut self, needs_body: bool) -> &mut BTreeSet<Due> {
        if needs_body { &mut self.bodies } else { &mut self.headers }
    }
}

/// All announced blocks.
#[derive(Debug, Default)]
pub(crate) struct Announcements {
    by_hash: BTreeMap<B256, Announcement>,
    by_time: BTreeSet<Due>,
    /// The blocks that can be requested now, the oldest first.
    wanted: BTreeSet<Due>,
    /// Peers that have announced one of the blocks.
    peers: BTreeMap<NodeId, PeerAnnouncements>,
    /// The number of announcements of each peer.
    counts: BTreeSet<(usize, NodeId)>,
    /// The sum of these numbers.
    total: usize,
    /// Number of requests up to now.
    requests: u64,
}

impl Announcements {
    /// Whether a peer has announced a block, and has not failed to deliver it since.
    pub(crate) fn is_by(&self, hash: &B256, peer: &NodeId) -> bool {
        self.by_hash.get(hash).is_some_and(|announcement| announcement.is_by(peer))
    }

    /// Adds an announcement, unless the peer already has [`MAX_ANNOUNCED_OF_PEER`]. At [`MAX_ANNOUNCED`] in total, it
    /// replaces the newest announcement of the peer with the most, if that peer has more than this one would have.
    pub(crate) fn add(&mut self, hash: B256, number: u64, peer: NodeId, now: Duration) {
        if self.reopen(&hash, number, &peer) {
            return;
        }
        let count = self.count(&peer);
        if count >= MAX_ANNOUNCED_OF_PEER || (self.total >= MAX_ANNOUNCED && !self.make_room(count)) {
            return;
        }
        let new = Announcement { by: Vec::new(), since: now, asked: None, header: None };
        let announcement = self.by_hash.entry(hash).or_insert(new);
        announcement.by.push(Announcer { peer, number, is_open: true });
        let due = (announcement.since, hash);
        self.by_time.insert(due);
        self.peers.entry(peer).or_default().all.insert(due);
        self.set_count(&peer, count, count + 1);
        self.list(&hash);
    }

    /// Returns whether the peer has announced the block before.
    fn reopen(&mut self, hash: &B256, number: u64, peer: &NodeId) -> bool {
        let Some(announcement) = self.by_hash.get_mut(hash) else { return false };
        let Some(mention) = announcement.by.iter_mut().find(|mention| mention.peer == *peer) else { return false };
        if !mention.is_open {
            (mention.is_open, mention.number) = (true, number);
            self.list(hash);
        }
        true
    }

    /// Whether a peer may announce a block: there is a place for it, or the peer has announced it before.
    pub(crate) fn accepts(&self, hash: &B256, peer: &NodeId) -> bool {
        let is_by = |announcement: &Announcement| announcement.by.iter().any(|mention| mention.peer == *peer);
        self.has_place(self.count(peer)) || self.by_hash.get(hash).is_some_and(is_by)
    }

    /// Whether a peer with this number of announcements may add one.
    fn has_place(&self, count: usize) -> bool {
        count < MAX_ANNOUNCED_OF_PEER
            && (self.total < MAX_ANNOUNCED || self.counts.last().is_some_and(|(max, _)| *max > count + 1))
    }

    fn count(&self, peer: &NodeId) -> usize {
        self.peers.get(peer).map_or(0, |of_peer| of_peer.all.len())
    }

    fn set_count(&mut self, peer: &NodeId, old: usize, new: usize) {
        self.counts.remove(&(old, *peer));
        self.total = (self.total + new).saturating_sub(old);
        if new == 0 {
            self.peers.remove(peer);
        } else {
            self.counts.insert((new, *peer));
        }
    }

    /// Removes the newest announcement of the peer that has the most, if it has more than a peer with `count` would have.
    fn make_room(&mut self, count: usize) -> bool {
        let Some((max, peer)) = self.counts.last().copied().filter(|(max, _)| *max > count + 1) else {
            return false;
        };
        let by_hash = &self.by_hash;
        // At most one header and one body are requested from a peer at a time.
        let is_asked = |hash: &B256| by_hash.get(hash).is_some_and(|announcement| announcement.asked == Some(peer));
        let of_peer = self.peers.get(&peer);
        let newest = of_peer.and_then(|of_peer| of_peer.all.iter().rev().find(|(_, hash)| !is_asked(hash)).copied());
        let Some((_, hash)) = newest else { return false };
        self.remove_announcer(&hash, &peer);
        self.count(&peer) < max
    }

    fn remove_announcer(&mut self, hash: &B256, peer: &NodeId) {
        self.unlist(hash);
        let Some(announcement) = self.by_hash.get_mut(hash) else { return };
        announcement.by.retain(|mention| mention.peer != *peer);
        if announcement.asked == Some(*peer) {
            announcement.asked = None;
        }
        let (due, is_left) = ((announcement.since, *hash), !announcement.by.is_empty());
        self.uncount(&due, peer);
        if is_left {
            self.list(hash);
        } else {
            self.by_hash.remove(hash);
            self.by_time.remove(&due);
        }
    }

    fn uncount(&mut self, due: &Due, peer: &NodeId) {
        let count = self.count(peer);
        if let Some(of_peer) = self.peers.get_mut(peer)
            && of_peer.all.remove(due)
        {
            self.set_count(peer, count, count - 1);
        }
    }

    /// Adds a block to the sets of those to request, if it is in none and can be requested.
    fn list(&mut self, hash: &B256) {
        let Some(announcement) = self.by_hash.get(hash).filter(|announcement| announcement.asked.is_none()) else {
            return;
        };
        let (due, needs_body) = ((announcement.since, *hash), announcement.header.is_some());
        for mention in announcement.by.iter().filter(|mention| mention.is_open) {
            if let Some(of_peer) = self.peers.get_mut(&mention.peer) {
                of_peer.wanted(needs_body).insert(due);
            }
            self.wanted.insert(due);
        }
    }

    /// Removes a block from these sets, before it changes.
    fn unlist(&mut self, hash: &B256) {
        let Some(announcement) = self.by_hash.get(hash) else { return };
        let (due, needs_body) = ((announcement.since, *hash), announcement.header.is_some());
        self.wanted.remove(&due);
        for mention in &announcement.by {
            if let Some(of_peer) = self.peers.get_mut(&mention.peer) {
                of_peer.wanted(needs_body).remove(&due);
            }
        }
    }

    /// Changes an announced block, and whether it can be requested.
    fn change<R>(&mut self, hash: &B256, change: impl FnOnce(&mut Announcement) -> R) -> Option<R> {
        self.unlist(hash);
        let result = self.by_hash.get_mut(hash).map(change);
        self.list(hash);
        result
    }

    /// Removes a block.
    pub(crate) fn remove(&mut self, hash: &B256) {
        self.unlist(hash);
        let Some(announcement) = self.by_hash.remove(hash) else { return };
        let due = (announcement.since, *hash);
        self.by_time.remove(&due);
        for mention in &announcement.by {
            self.uncount(&due, &mention.peer);
        }
    }

    fn forget_old(&mut self, now: Duration) {
        while let Some((since, hash)) = self.by_time.first().copied()
            && since + ANNOUNCE_LIMIT <= now
        {
            self.remove(&hash);
        }
    }

    /// The next request to send, to a peer that `is_free` accepts. Peers take turns, so that the blocks of one with many
    /// do not delay those of others.
    pub(crate) fn next_wanted(
        &mut self,
        now: Duration,
        is_free: impl Fn(&NodeId, bool) -> bool,
    ) -> Option<(NodeId, Wanted)> {
        self.forget_old(now);
        let is_due = |(since, _): &&Due| *since + ANNOUNCE_WAIT <= now;
        self.wanted.first().filter(is_due)?;
        let of_peers = self.peers.iter().flat_map(|(peer, of_peer)| {
            [(peer, of_peer, &of_peer.headers, false), (peer, of_peer, &of_peer.bodies, true)]
        });
        let candidates = of_peers.filter_map(|(peer, of_peer, wanted, needs_body)| {
            let due = wanted.first().filter(is_due)?;
            is_free(peer, needs_body).then_some((of_peer.last_request, *due))
        });
        let (_, (_, hash)) = candidates.min()?;
        self.request(&hash, is_free)
    }

    /// Notes a request for a block, to the first free peer that announced it.
    fn request(&mut self, hash: &B256, is_free: impl Fn(&NodeId, bool) -> bool) -> Option<(NodeId, Wanted)> {
        let announcement = self.by_hash.get(hash)?;
        let needs_body = announcement.header.is_some();
        let is_usable = |mention: &&Announcer| mention.is_open && is_free(&mention.peer, needs_body);
        let Announcer { peer, number, .. } = *announcement.by.iter().find(is_usable)?;
        self.change(hash, |announcement| announcement.asked = Some(peer));
        self.requests += 1;
        if let Some(of_peer) = self.peers.get_mut(&peer) {
            of_peer.last_request = self.requests;
        }
        let hash = *hash;
        Some((peer, if needs_body { Wanted::Body { hash } } else { Wanted::Header { hash, number } }))
    }

    /// Accepts the answer to a request for a header. Returns false if it is not the announced header.
    pub(crate) fn take_header(&mut self, peer: NodeId, hash: B256, headers: &[SealedHeader]) -> bool {
        let take = |announcement: &mut Announcement| {
            announcement.asked = None;
            let said = announcement.by.iter().find(|mention| mention.peer == peer).map_or(0, |mention| mention.number);
            if let [header] = headers
                && header.hash() == hash
                && [0, header.number].contains(&said)
            {
                announcement.header = Some(header.clone());
                return true;
            }
            announcement.close(&peer);
            headers.is_empty()
        };
        self.change(&hash, take).unwrap_or(true)
    }

    /// The header of a block whose body was requested.
    pub(crate) fn header_of(&self, hash: &B256) -> Option<SealedHeader> {
        self.by_hash.get(hash)?.header.clone()
    }

    /// A peer did not answer a request, or answered with something else.
    pub(crate) fn request_failed(&mut self, peer: NodeId, hash: &B256) {
        self.change(hash, |announcement| {
            announcement.asked = None;
            announcement.close(&peer);
        });
    }

    /// A peer has left: its requests go to others.
    pub(crate) fn left(&mut self, peer: NodeId) {
        let Some(of_peer) = self.peers.get(&peer) else { return };
        for (_, hash) in of_peer.all.clone() {
            self.remove_announcer(&hash, &peer);
        }
    }

    /// When the oldest wanted block can be requested, but at the earliest in 50 ms: if it is due already, its peers are
    /// busy.
    pub(crate) fn wakes_at(&self, now: Duration) -> Option<Duration> {
        let (since, _) = self.wanted.first()?;
        Some((*since + ANNOUNCE_WAIT).max(now + Duration::from_millis(50)))
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.by_hash.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tenon_api::Header;

    use super::*;

    fn peer(number: u8) -> NodeId {
        NodeId([number; 64])
    }

    fn hash(number: u64) -> B256 {
        B256::left_padding_from(&number.to_be_bytes())
    }

    impl Announcements {
        /// Recomputes every index.
        fn check(&self) {
            let by_time: BTreeSet<Due> = self.by_hash.iter().map(|(hash, known)| (known.since, *hash)).collect();
            assert_eq!(self.by_time, by_time);
            let mut counts: BTreeMap<NodeId, usize> = BTreeMap::new();
            let mut wanted = BTreeSet::new();
            for (hash, known) in &self.by_hash {
                let due = (known.since, *hash);
                assert!(!known.by.is_empty());
                for mention in &known.by {
                    *counts.entry(mention.peer).or_default() += 1;
                    let of_peer = &self.peers[&mention.peer];
                    let is_wanted = mention.is_open && known.asked.is_none();
                    assert!(of_peer.all.contains(&due));
                    assert_eq!(of_peer.headers.contains(&due), is_wanted && known.header.is_none());
                    assert_eq!(of_peer.bodies.contains(&due), is_wanted && known.header.is_some());
                    if is_wanted {
                        wanted.insert(due);
                    }
                }
            }
            assert_eq!(self.wanted, wanted);
            assert_eq!(self.total, counts.values().sum::<usize>());
            assert_eq!(self.counts, counts.iter().map(|(peer, count)| (*count, *peer)).collect());
            assert!(self.peers.iter().all(|(peer, of_peer)| counts.get(peer) == Some(&of_peer.all.len())));
            let listed = |of_peer: &PeerAnnouncements| of_peer.headers.len() + of_peer.bodies.len();
            assert!(self.peers.values().all(|of_peer| listed(of_peer) <= of_peer.all.len()));
            assert!(self.total <= MAX_ANNOUNCED && counts.values().all(|count| *count <= MAX_ANNOUNCED_OF_PEER));
        }
    }

    #[test]
    fn thirty_peers_that_announce_all_they_can_leave_room_to_others() {
        let mut announced = Announcements::default();
        for number in 0..30 * 300 {
            announced.add(hash(number), 0, peer((number % 30) as u8), Duration::ZERO);
        }
        assert_eq!(announced.total, MAX_ANNOUNCED);

        for number in 0..10 {
            announced.add(hash(100_000 + number), 0, peer(99), Duration::from_millis(1));
        }

        announced.check();
        assert!((0..10).all(|number| announced.is_by(&hash(100_000 + number), &peer(99))));
        assert_eq!((announced.total, announced.count(&peer(99))), (MAX_ANNOUNCED, 10));
    }

    #[test]
    fn a_block_is_requested_at_once_although_other_peers_announced_thousands_before() {
        let mut announced = Announcements::default();
        for number in 0..4000 {
            announced.add(hash(number), 0, peer((number % 20) as u8), Duration::ZERO);
        }
        let mut asked = Vec::new();
        for _ in 0..100 {
            asked.push(announced.next_wanted(ANNOUNCE_WAIT, |_, _| true).unwrap().0);
        }
        announced.add(hash(9_999), 0, peer(99), Duration::from_millis(1));

        let wanted = announced.next_wanted(ANNOUNCE_WAIT + Duration::from_millis(1), |_, _| true).unwrap();

        assert_eq!(wanted, (peer(99), Wanted::Header { hash: hash(9_999), number: 0 }));
        assert!((0..20).all(|number| asked.iter().filter(|asked| **asked == peer(number)).count() == 5));
    }

    #[test]
    fn a_peer_without_the_block_is_asked_again_only_after_it_announces_it_again() {
        let mut announced = Announcements::default();
        announced.add(hash(1), 7, peer(1), Duration::ZERO);
        assert!(announced.next_wanted(ANNOUNCE_WAIT, |_, _| true).is_some());
        assert!(announced.take_header(peer(1), hash(1), &[]));
        assert_eq!(
            (announced.next_wanted(ANNOUNCE_WAIT, |_, _| true), announced.wakes_at(ANNOUNCE_WAIT)),
            (None, None)
        );
        assert!(!announced.is_by(&hash(1), &peer(1)));

        announced.add(hash(1), 8, peer(1), ANNOUNCE_WAIT);

        let wanted = announced.next_wanted(ANNOUNCE_WAIT, |_, _| true);
        assert_eq!(wanted, Some((peer(1), Wanted::Header { hash: hash(1), number: 8 })));
        // It counts until it is forgotten.
        announced.request_failed(peer(1), &hash(1));
        assert_eq!(announced.count(&peer(1)), 1);
        assert_eq!(announced.next_wanted(ANNOUNCE_LIMIT, |_, _| true), None);
        assert_eq!((announced.len(), announced.count(&peer(1)), announced.total), (0, 0, 0));
    }

    #[derive(Clone, Copy, Debug)]
    enum Event {
        Add(u64, u8),
        Ask(u16),
        Header(u64, u8, u8),
        Fail(u64, u8),
        Remove(u64),
        Leave(u8),
        Wait(u16),
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            4 => (0_u64..12, 0_u8..4).prop_map(|(block, by)| Event::Add(block, by)),
            4 => any::<u16>().prop_map(Event::Ask),
            2 => (0_u64..12, 0_u8..4, 0_u8..3).prop_map(|(block, by, answer)| Event::Header(block, by, answer)),
            2 => (0_u64..12, 0_u8..4).prop_map(|(block, by)| Event::Fail(block, by)),
            1 => (0_u64..12).prop_map(Event::Remove),
            1 => (0_u8..4).prop_map(Event::Leave),
            2 => (0_u16..3_000).prop_map(Event::Wait),
        ]
    }

    proptest! {
        #[test]
        fn the_indexes_agree_with_the_announcements_after_every_event(
            events in proptest::collection::vec(event(), 1..200),
        ) {
            let headers: Vec<SealedHeader> =
                (0..12).map(|number| tenon_chain::seal(Header { number, ..Header::default() })).collect();
            let block = |number: u64| headers[usize::try_from(number).unwrap()].hash();
            let (mut announced, mut now) = (Announcements::default(), Duration::ZERO);
            for event in events {
                match event {
                    Event::Add(number, by) => announced.add(block(number), number % 3, peer(by), now),
                    Event::Ask(free) => {
                        let is_free = |peer: &NodeId, needs_body: bool| free >> (peer.0[0] * 2 + u8::from(needs_body)) & 1 == 1;
                        announced.next_wanted(now, is_free);
                    }
                    Event::Header(number, by, answer) => {
                        let header = headers[usize::try_from(number).unwrap()].clone();
                        let answer = vec![header; usize::from(answer)];
                        announced.take_header(peer(by), block(number), &answer);
                    }
                    Event::Fail(number, by) => announced.request_failed(peer(by), &block(number)),
                    Event::Remove(number) => announced.remove(&block(number)),
                    Event::Leave(by) => announced.left(peer(by)),
                    Event::Wait(millis) => now += Duration::from_millis(u64::from(millis)),
                }
                announced.check();
            }
        }
    }
}

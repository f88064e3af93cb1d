//! Single blocks near the head: sent whole, or announced and then asked for (`docs/spec/p2p.md` 16.1, 18).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::B256;
use tenon_api::{Block, BlockVerdict, SealedHeader};
use tenon_network_identity::NodeId;

use crate::bounded_set::BoundedSet;

/// Blocks so far below the head are not taken.
const BELOW_HEAD: u64 = 7;
/// Blocks so far above the head are not taken.
const ABOVE_HEAD: u64 = 32;
/// Blocks of one peer that wait.
const MAX_BLOCKS_OF_PEER: usize = 64;
/// Blocks that wait, of all peers.
const MAX_BLOCKS: usize = 256;
/// Bytes of the blocks that wait.
const MAX_BLOCK_BYTES: u64 = 32 << 20;
/// Blocks with the judge at a time.
const MAX_JUDGED: usize = 8;
/// Announcements of one peer that wait.
const MAX_ANNOUNCED_OF_PEER: usize = 256;
/// Announcements that wait, of all peers.
const MAX_ANNOUNCED: usize = 4096;
/// A block that was announced is asked for after so long, unless it came.
const ANNOUNCE_WAIT: Duration = Duration::from_millis(400);
/// An announcement is forgotten after so long.
const ANNOUNCE_LIMIT: Duration = Duration::from_secs(15);
/// A block with a future time is kept if its time is at most this number of seconds ahead.
const MAX_EARLY_SECONDS: u64 = 30;
/// Hashes of blocks that were taken or refused.
const MAX_RECENT: usize = 1024;

/// A block that waits, with who sent it.
#[derive(Clone, Debug)]
struct Waiting {
    block: Arc<Block>,
    from: NodeId,
    /// Unix seconds before which it is not judged.
    not_before: u64,
}

/// An announced block.
#[derive(Clone, Debug)]
struct Announcement {
    /// Who has it, and the height that each says; 0 where none is known.
    by: Vec<(NodeId, u64)>,
    since: Duration,
    /// Who was asked for it.
    asked: Option<NodeId>,
    /// The header, once it came.
    header: Option<SealedHeader>,
}

impl Announcement {
    fn is_by(&self, peer: &NodeId) -> bool {
        self.by.iter().any(|(by, _)| by == peer)
    }
}

/// Blocks near the head.
#[derive(Debug)]
pub(crate) struct Fetcher {
    /// By height and hash.
    waiting: BTreeMap<(u64, B256), Waiting>,
    waiting_bytes: u64,
    judged: BTreeMap<B256, Waiting>,
    /// Sorted, so that equal events lead to equal questions.
    announced: BTreeMap<B256, Announcement>,
    recent: BoundedSet<B256>,
    wrong: BoundedSet<B256>,
}

impl Default for Fetcher {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            judged: BTreeMap::new(),
            announced: BTreeMap::new(),
            recent: BoundedSet::new(MAX_RECENT),
            wrong: BoundedSet::new(MAX_RECENT),
        }
    }
}

/// A header or body to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Header { hash: B256, number: u64 },
    Body { hash: B256 },
}

fn is_near(number: u64, head: u64) -> bool {
    number.saturating_add(BELOW_HEAD) >= head && number <= head.saturating_add(ABOVE_HEAD)
}

impl Fetcher {
    /// Whether a block was refused as wrong.
    pub(crate) fn is_wrong(&self, hash: &B256) -> bool {
        self.wrong.contains(hash)
    }

    /// Remembers a block that is wrong.
    pub(crate) fn note_wrong(&mut self, hash: B256) {
        self.wrong.insert(hash);
    }

    /// Whether a block was taken before, or is known to be with this peer.
    pub(crate) fn knows(&self, hash: &B256, peer: NodeId) -> bool {
        self.recent.contains(hash) || self.announced.get(hash).is_some_and(|known| known.is_by(&peer))
    }

    /// A block is here that came by another way.
    pub(crate) fn note_taken(&mut self, hash: B256) {
        self.recent.insert(hash);
        self.announced.remove(&hash);
    }

    /// Takes a whole block; false if it is not wanted.
    pub(crate) fn take_block(&mut self, block: Arc<Block>, from: NodeId, head: u64) -> bool {
        let (number, hash, size) = (block.header.number, block.hash(), block.size);
        self.announced.remove(&hash);
        if !is_near(number, head) || self.recent.contains(&hash) {
            return false;
        }
        let of_peer = self.waiting_of(from);
        if of_peer >= MAX_BLOCKS_OF_PEER || size > MAX_BLOCK_BYTES {
            return false;
        }
        while self.waiting.len() >= MAX_BLOCKS || self.waiting_bytes.saturating_add(size) > MAX_BLOCK_BYTES {
            if !self.make_room(of_peer) {
                return false;
            }
        }
        self.recent.insert(hash);
        self.waiting_bytes += size;
        self.waiting.insert((number, hash), Waiting { block, from, not_before: 0 });
        true
    }

    fn waiting_of(&self, peer: NodeId) -> usize {
        self.waiting.values().filter(|waiting| waiting.from == peer).count()
    }

    /// Drops the highest block of the peer that has the most, if it has more than this many: a peer that fills the room takes it
    /// from itself.
    fn make_room(&mut self, than: usize) -> bool {
        let mut counts: BTreeMap<NodeId, usize> = BTreeMap::new();
        for waiting in self.waiting.values() {
            *counts.entry(waiting.from).or_default() += 1;
        }
        let Some((peer, count)) = counts.into_iter().max_by_key(|(_, count)| *count) else { return false };
        let highest = self.waiting.iter().rev().find(|(_, waiting)| waiting.from == peer).map(|(key, _)| *key);
        count > than && highest.is_some_and(|key| self.drop_waiting(&key).is_some())
    }

    /// Takes an announcement.
    pub(crate) fn announce(&mut self, hash: B256, number: u64, by: NodeId, head: u64, now: Duration) {
        if (number > 0 && !is_near(number, head)) || self.recent.contains(&hash) {
            return;
        }
        let of_peer = self.announced.values().filter(|announcement| announcement.is_by(&by)).count();
        if of_peer >= MAX_ANNOUNCED_OF_PEER {
            return;
        }
        if let Some(announcement) = self.announced.get_mut(&hash) {
            if !announcement.is_by(&by) {
                announcement.by.push((by, number));
            }
        } else if self.announced.len() < MAX_ANNOUNCED {
            let announcement = Announcement { by: vec![(by, number)], since: now, asked: None, header: None };
            self.announced.insert(hash, announcement);
        }
    }

    /// What to ask of whom now; `is_free` says whom.
    pub(crate) fn next_wanted(
        &mut self,
        now: Duration,
        is_free: impl Fn(&NodeId, bool) -> bool,
    ) -> Option<(NodeId, Wanted)> {
        self.announced.retain(|_, announcement| now < announcement.since + ANNOUNCE_LIMIT);
        for (hash, announcement) in &mut self.announced {
            if announcement.asked.is_some() || now < announcement.since + ANNOUNCE_WAIT {
                continue;
            }
            let needs_body = announcement.header.is_some();
            if let Some((peer, number)) = announcement.by.iter().find(|(peer, _)| is_free(peer, needs_body)) {
                announcement.asked = Some(*peer);
                let (hash, number) = (*hash, *number);
                let wanted = if needs_body { Wanted::Body { hash } } else { Wanted::Header { hash, number } };
                return Some((*peer, wanted));
            }
        }
        None
    }

    /// Takes the answer to a question for a header. False: it is another header than announced.
    pub(crate) fn take_header(&mut self, peer: NodeId, hash: B256, headers: &[SealedHeader]) -> bool {
        let Some(announcement) = self.announced.get_mut(&hash) else { return true };
        announcement.asked = None;
        let said = announcement.by.iter().find(|(by, _)| *by == peer).map_or(0, |(_, number)| *number);
        match headers {
            [header] if header.hash() == hash && [0, header.number].contains(&said) => {
                announcement.header = Some(header.clone());
                true
            }
            [] => {
                announcement.by.retain(|(by, _)| *by != peer);
                true
            }
            _ => {
                announcement.by.retain(|(by, _)| *by != peer);
                false
            }
        }
    }

    /// The header of a block whose body was asked for.
    pub(crate) fn header_of(&self, hash: &B256) -> Option<SealedHeader> {
        self.announced.get(hash)?.header.clone()
    }

    /// A question was not answered, or not with what was asked for.
    pub(crate) fn missed(&mut self, peer: NodeId, hash: &B256) {
        if let Some(announcement) = self.announced.get_mut(hash) {
            announcement.asked = None;
            announcement.by.retain(|(by, _)| *by != peer);
        }
    }

    /// A peer is gone: what it was asked for is asked of others.
    pub(crate) fn left(&mut self, peer: NodeId) {
        for announcement in self.announced.values_mut() {
            announcement.by.retain(|(by, _)| *by != peer);
            if announcement.asked == Some(peer) {
                announcement.asked = None;
            }
        }
        self.announced.retain(|_, announcement| !announcement.by.is_empty());
    }

    /// The next block to verify: its parent is stored and its timestamp reached. Those that are too old now are dropped.
    pub(crate) fn next_block(&mut self, head: u64, unix: u64, is_stored: impl Fn(&B256) -> bool) -> Option<Arc<Block>> {
        if self.judged.len() >= MAX_JUDGED {
            return None;
        }
        let old: Vec<_> = self.waiting.keys().filter(|(number, _)| !is_near(*number, head)).copied().collect();
        for key in old {
            self.drop_waiting(&key);
        }
        let ready = self
            .waiting
            .iter()
            .find(|(_, waiting)| waiting.not_before <= unix && is_stored(&waiting.block.header.parent_hash));
        let key = *ready?.0;
        let waiting = self.drop_waiting(&key)?;
        let block = Arc::clone(&waiting.block);
        self.judged.insert(key.1, waiting);
        Some(block)
    }

    fn drop_waiting(&mut self, key: &(u64, B256)) -> Option<Waiting> {
        let waiting = self.waiting.remove(key)?;
        self.waiting_bytes -= waiting.block.size;
        Some(waiting)
    }

    /// Whether a block waits for its time, and its peers are to be asked again.
    pub(crate) fn has_early(&self) -> bool {
        self.waiting.values().any(|waiting| waiting.not_before > 0)
    }

    /// The block that is being judged.
    pub(crate) fn judged(&self, hash: &B256) -> Option<Arc<Block>> {
        self.judged.get(hash).map(|waiting| Arc::clone(&waiting.block))
    }

    /// Takes what became of a block; returns who sent it if it is wrong.
    pub(crate) fn judge(&mut self, hash: &B256, verdict: &BlockVerdict, unix: u64) -> Option<NodeId> {
        let waiting = self.judged.remove(hash)?;
        match verdict {
            BlockVerdict::Wrong { .. } => {
                self.wrong.insert(*hash);
                Some(waiting.from)
            }
            BlockVerdict::NotYetDue | BlockVerdict::ParentUnknown => {
                let due = waiting.block.header.timestamp.max(unix + 1);
                if due <= unix.saturating_add(MAX_EARLY_SECONDS) && self.waiting.len() < MAX_BLOCKS {
                    self.waiting_bytes += waiting.block.size;
                    let key = (waiting.block.header.number, *hash);
                    self.waiting.insert(key, Waiting { not_before: due, ..waiting });
                }
                None
            }
            _ => None,
        }
    }

    /// When something is to be done without news: announcements to ask for, blocks whose time comes.
    pub(crate) fn wakes_at(&self, now: Duration) -> Option<Duration> {
        let announced = self.announced.values().filter(|announcement| announcement.asked.is_none());
        let asks =
            announced.map(|announcement| (announcement.since + ANNOUNCE_WAIT).max(now + Duration::from_millis(50)));
        let early = self.has_early().then_some(now + Duration::from_millis(250));
        asks.chain(early).min()
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::Bytes;
    use tenon_api::Header;

    use super::*;

    fn block(number: u64, salt: u16) -> Arc<Block> {
        let extra_data = Bytes::copy_from_slice(&salt.to_be_bytes());
        let header = tenon_chain::seal(Header { number, extra_data, ..Header::default() });
        Arc::new(tenon_chain::assemble_block(header, Vec::new(), Vec::new(), None))
    }

    fn peer(number: u8) -> NodeId {
        NodeId([number; 64])
    }

    #[test]
    fn peers_that_fill_the_room_leave_some_to_others() {
        let mut fetcher = Fetcher::default();
        for from in 1..=8 {
            for salt in 0..100 {
                fetcher.take_block(block(101, u16::from(from) * 100 + salt), peer(from), 100);
            }
        }
        assert!(fetcher.waiting.len() <= MAX_BLOCKS, "{}", fetcher.waiting.len());
        assert!(fetcher.take_block(block(101, 5_000), peer(9), 100));
        assert_eq!((fetcher.waiting.len(), fetcher.waiting_of(peer(9))), (MAX_BLOCKS, 1));
        assert!((1..=8).all(|from| fetcher.waiting_of(peer(from)) <= MAX_BLOCKS_OF_PEER));
        // Once the head is far above, all of it goes.
        assert!(fetcher.next_block(200, 0, |_| false).is_none());
        assert_eq!((fetcher.waiting.len(), fetcher.waiting_bytes), (0, 0));
    }

    #[test]
    fn equal_announcements_lead_to_equal_questions() {
        let questions = || {
            let mut fetcher = Fetcher::default();
            for number in 1..=20 {
                fetcher.announce(B256::repeat_byte(number), 101, peer(number), 100, Duration::ZERO);
            }
            std::iter::from_fn(move || fetcher.next_wanted(ANNOUNCE_WAIT, |_, _| true)).collect::<Vec<_>>()
        };

        assert_eq!(questions().len(), 20);
        assert_eq!(questions(), questions());
    }

    #[test]
    fn blocks_and_announcements_far_from_the_head_are_not_kept() {
        let mut fetcher = Fetcher::default();
        for number in [92, 133] {
            assert!(!fetcher.take_block(block(number, 1), peer(1), 100));
        }
        fetcher.announce(B256::repeat_byte(1), 133, peer(1), 100, Duration::ZERO);
        assert!(fetcher.announced.is_empty());
        for hash in 0..1_000_u16 {
            let hash = B256::left_padding_from(&hash.to_be_bytes());
            fetcher.announce(hash, 101, peer(1), 100, Duration::ZERO);
        }
        assert_eq!(fetcher.announced.len(), MAX_ANNOUNCED_OF_PEER);
        fetcher.left(peer(1));
        assert!(fetcher.announced.is_empty());
    }
}

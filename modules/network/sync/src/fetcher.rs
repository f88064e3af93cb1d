//! Single blocks near the head: sent whole, or announced and then requested (`docs/spec/p2p.md` 16.1, 18).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::B256;
use tenon_api::{Block, BlockVerdict, SealedHeader};
use tenon_network_identity::NodeId;
use tenon_network_wire::Announced;

use crate::announcements::Announcements;
pub(crate) use crate::announcements::Wanted;
use crate::bounded_set::BoundedSet;

/// Blocks further below the head are ignored.
const BELOW_HEAD: u64 = 7;
/// Blocks further above the head are ignored.
const ABOVE_HEAD: u64 = 32;
/// Maximum number of waiting blocks of one peer.
const MAX_BLOCKS_OF_PEER: usize = 64;
/// Maximum number of waiting blocks of all peers.
const MAX_BLOCKS: usize = 256;
/// Maximum bytes of all waiting blocks.
const MAX_BLOCK_BYTES: u64 = 32 << 20;
/// Maximum number of blocks that are verified at a time.
const MAX_VERIFYING: usize = 8;
/// A block with a future time is kept if its time is at most this number of seconds ahead.
const MAX_EARLY_SECONDS: u64 = 30;
/// Maximum number of remembered hashes of accepted and of refused blocks.
const MAX_RECENT: usize = 1024;

/// A waiting block, with its sender.
#[derive(Clone, Debug)]
struct Waiting {
    block: Arc<Block>,
    from: NodeId,
    /// Unix seconds before which it is not verified.
    not_before: u64,
    /// Whether its header was verified.
    is_header_right: bool,
}

/// Blocks near the head.
#[derive(Debug)]
pub(crate) struct Fetcher {
    /// By height and hash.
    waiting: BTreeMap<(u64, B256), Waiting>,
    waiting_bytes: u64,
    verifying: BTreeMap<B256, Waiting>,
    announced: Announcements,
    recent: BoundedSet<B256>,
    wrong: BoundedSet<B256>,
}

impl Default for Fetcher {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            verifying: BTreeMap::new(),
            announced: Announcements::default(),
            recent: BoundedSet::new(MAX_RECENT),
            wrong: BoundedSet::new(MAX_RECENT),
        }
    }
}

fn is_near(number: u64, head: u64) -> bool {
    number.saturating_add(BELOW_HEAD) >= head && number <= head.saturating_add(ABOVE_HEAD)
}

impl Fetcher {
    /// Whether a block was refused as invalid.
    pub(crate) fn is_wrong(&self, hash: &B256) -> bool {
        self.wrong.contains(hash)
    }

    /// Remembers an invalid block.
    pub(crate) fn note_wrong(&mut self, hash: B256) {
        self.wrong.insert(hash);
    }

    /// Whether a block was accepted before, or is known to be at this peer.
    pub(crate) fn knows(&self, hash: &B256, peer: NodeId) -> bool {
        self.recent.contains(hash) || self.announced.is_by(hash, &peer)
    }

    /// A block has arrived in another way.
    pub(crate) fn note_taken(&mut self, hash: B256) {
        self.recent.insert(hash);
        self.announced.remove(&hash);
    }

    /// Adds a whole block; false if it is not wanted.
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
        self.waiting.insert((number, hash), Waiting { block, from, not_before: 0, is_header_right: false });
        true
    }

    fn waiting_of(&self, peer: NodeId) -> usize {
        self.waiting.values().filter(|waiting| waiting.from == peer).count()
    }

    /// Drops the highest block of the peer that has the most waiting blocks, if it has more than `than`: a peer that
    /// sends too many loses its own.
    fn make_room(&mut self, than: usize) -> bool {
        let mut counts: BTreeMap<NodeId, usize> = BTreeMap::new();
        for waiting in self.waiting.values() {
            *counts.entry(waiting.from).or_default() += 1;
        }
        let Some((peer, count)) = counts.into_iter().max_by_key(|(_, count)| *count) else { return false };
        let highest = self.waiting.iter().rev().find(|(_, waiting)| waiting.from == peer).map(|(key, _)| *key);
        count > than && highest.is_some_and(|key| self.drop_waiting(&key).is_some())
    }

    /// Whether to accept an announcement of a block. Does not check whether the block is stored; the caller does.
    pub(crate) fn accepts(&self, block: &Announced, by: &NodeId, head: u64) -> bool {
        (block.number == 0 || is_near(block.number, head))
            && !self.recent.contains(&block.hash)
            && self.announced.accepts(&block.hash, by)
    }

    /// Adds an announcement that is accepted, of a block that is not stored.
    pub(crate) fn announce(&mut self, block: &Announced, by: NodeId, now: Duration) {
        self.announced.add(block.hash, block.number, by, now);
    }

    /// The next request to send, to a peer that `is_free` accepts.
    pub(crate) fn next_wanted(
        &mut self,
        now: Duration,
        is_free: impl Fn(&NodeId, bool) -> bool,
    ) -> Option<(NodeId, Wanted)> {
        self.announced.next_wanted(now, is_free)
    }

    /// Accepts the answer to a request for a header. Returns false if it is not the announced header.
    pub(crate) fn take_header(&mut self, peer: NodeId, hash: B256, headers: &[SealedHeader]) -> bool {
        self.announced.take_header(peer, hash, headers)
    }

    /// The header of a block whose body was requested.
    pub(crate) fn header_of(&self, hash: &B256) -> Option<SealedHeader> {
        self.announced.header_of(hash)
    }

    /// A peer did not answer a request, or answered with something else.
    pub(crate) fn request_failed(&mut self, peer: NodeId, hash: &B256) {
        self.announced.request_failed(peer, hash);
    }

    /// A peer has left: its requests go to others.
    pub(crate) fn left(&mut self, peer: NodeId) {
        self.announced.left(peer);
    }

    /// Returns the next block to verify: its parent is stored and its timestamp is reached. Drops blocks that are far
    /// from the head.
    pub(crate) fn next_block(&mut self, head: u64, unix: u64, is_stored: impl Fn(&B256) -> bool) -> Option<Arc<Block>> {
        if self.verifying.len() >= MAX_VERIFYING {
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
        self.verifying.insert(key.1, waiting);
        Some(block)
    }

    fn drop_waiting(&mut self, key: &(u64, B256)) -> Option<Waiting> {
        let waiting = self.waiting.remove(key)?;
        self.waiting_bytes -= waiting.block.size;
        Some(waiting)
    }

    /// Whether a waiting block was not yet due or lacked its parent when it was verified, so that it must be checked
    /// again.
    pub(crate) fn has_early(&self) -> bool {
        self.waiting.values().any(|waiting| waiting.not_before > 0)
    }

    /// The header of a block that is being verified is right; returns the block.
    pub(crate) fn mark_header_valid(&mut self, hash: &B256) -> Option<Arc<Block>> {
        let waiting = self.verifying.get_mut(hash)?;
        waiting.is_header_right = true;
        Some(Arc::clone(&waiting.block))
    }

    /// Records the verdict on a block; returns its sender if its header is wrong. The sender of another invalid block may have
    /// verified its header only, as every node does before it passes a block on.
    pub(crate) fn record_verdict(&mut self, hash: &B256, verdict: &BlockVerdict, unix: u64) -> Option<NodeId> {
        let waiting = self.verifying.remove(hash)?;
        match verdict {
            BlockVerdict::Wrong { .. } => {
                self.wrong.insert(*hash);
                (!waiting.is_header_right).then_some(waiting.from)
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

    /// When an announcement or a waiting block is due.
    pub(crate) fn wakes_at(&self, now: Duration) -> Option<Duration> {
        let early = self.has_early().then_some(now + Duration::from_millis(250));
        self.announced.wakes_at(now).into_iter().chain(early).min()
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::Bytes;
    use tenon_api::Header;

    use super::*;
    use crate::announcements::{ANNOUNCE_WAIT, MAX_ANNOUNCED_OF_PEER};

    fn block(number: u64, salt: u16) -> Arc<Block> {
        let extra_data = Bytes::copy_from_slice(&salt.to_be_bytes());
        let header = tenon_chain::seal(Header { number, extra_data, ..Header::default() });
        Arc::new(tenon_chain::assemble_block(header, Vec::new(), Vec::new(), None))
    }

    fn peer(number: u8) -> NodeId {
        NodeId([number; 64])
    }

    /// A peer announces a block; the head is 100.
    fn announce(fetcher: &mut Fetcher, hash: B256, number: u64, by: u8) {
        let (block, by) = (Announced { hash, number }, peer(by));
        if fetcher.accepts(&block, &by, 100) {
            fetcher.announce(&block, by, Duration::ZERO);
        }
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
        // If the head is far above, all are dropped.
        assert!(fetcher.next_block(200, 0, |_| false).is_none());
        assert_eq!((fetcher.waiting.len(), fetcher.waiting_bytes), (0, 0));
    }

    #[test]
    fn equal_announcements_lead_to_equal_questions() {
        let requests = || {
            let mut fetcher = Fetcher::default();
            for number in 1..=20 {
                announce(&mut fetcher, B256::repeat_byte(number), 101, number);
            }
            std::iter::from_fn(move || fetcher.next_wanted(ANNOUNCE_WAIT, |_, _| true)).collect::<Vec<_>>()
        };

        assert_eq!(requests().len(), 20);
        assert_eq!(requests(), requests());
    }

    #[test]
    fn blocks_and_announcements_far_from_the_head_are_not_kept() {
        let mut fetcher = Fetcher::default();
        for number in [92, 133] {
            assert!(!fetcher.take_block(block(number, 1), peer(1), 100));
        }
        announce(&mut fetcher, B256::repeat_byte(1), 133, 1);
        assert_eq!(fetcher.announced.len(), 0);
        for hash in 0..1_000_u16 {
            let hash = B256::left_padding_from(&hash.to_be_bytes());
            announce(&mut fetcher, hash, 101, 1);
        }
        assert_eq!(fetcher.announced.len(), MAX_ANNOUNCED_OF_PEER);
        fetcher.left(peer(1));
        assert_eq!(fetcher.announced.len(), 0);
    }
}

//! Hashes that became pending last, for pollers.

use std::collections::VecDeque;

use tenon_api::{B256, messages::PendingSince};

/// The hashes that became pending last, numbered from zero. Pollers keep a number; one that polls too rarely gets only
/// the hashes that are left.
#[derive(Debug)]
pub(crate) struct RecentHashes {
    hashes: VecDeque<B256>,
    /// Number of the oldest hash kept.
    first: u64,
    capacity: usize,
}

impl RecentHashes {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { hashes: VecDeque::new(), first: 0, capacity: capacity.max(1) }
    }

    pub(crate) fn push(&mut self, hash: B256) {
        if self.hashes.len() == self.capacity {
            self.hashes.pop_front();
            self.first += 1;
        }
        self.hashes.push_back(hash);
    }

    pub(crate) fn since(&self, cursor: Option<u64>) -> PendingSince {
        let end = self.first + self.hashes.len() as u64;
        let skip = cursor.map_or(end, |cursor| cursor.clamp(self.first, end)) - self.first;
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        PendingSince { cursor: end, hashes: self.hashes.iter().skip(skip).copied().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poller_gets_the_hashes_since_its_cursor_as_far_as_they_are_kept() {
        let mut recent = RecentHashes::new(3);
        let start = recent.since(None);
        assert_eq!(start, PendingSince { cursor: 0, hashes: Vec::new() });
        for byte in 1..=5 {
            recent.push(B256::with_last_byte(byte));
        }

        let late = recent.since(Some(start.cursor));
        assert_eq!(late.cursor, 5);
        assert_eq!(late.hashes, [3, 4, 5].map(B256::with_last_byte));
        assert_eq!(recent.since(Some(4)).hashes, [B256::with_last_byte(5)]);
        assert!(recent.since(Some(late.cursor)).hashes.is_empty());
        assert!(recent.since(Some(99)).hashes.is_empty());
    }
}

//! Counters of the voting for metrics: plain atomics, incremented where the event happens.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenon_api::{DurationCounts, Durations, RoundMessageKind};

/// Counters since the node started.
#[derive(Debug, Default)]
pub struct VotingCounts {
    round: AtomicU64,
    failed_rounds: AtomicU64,
    blocks: AtomicU64,
    received: [AtomicU64; KINDS.len()],
    sent: [AtomicU64; KINDS.len()],
    block_to_vote: Durations,
}

const KINDS: [(RoundMessageKind, &str); 3] = [
    (RoundMessageKind::Vote, "vote"),
    (RoundMessageKind::Timeout, "timeout"),
    (RoundMessageKind::SyncInfo, "sync-info"),
];

impl VotingCounts {
    pub(crate) fn begin_round(&self, round: u64) {
        self.round.store(round, Ordering::Relaxed);
    }

    pub(crate) fn count_failed_round(&self) {
        self.failed_rounds.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_block(&self) {
        self.blocks.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_received(&self, kind: RoundMessageKind) {
        add_one(&self.received, kind);
    }

    pub(crate) fn count_sent(&self, kind: RoundMessageKind) {
        add_one(&self.sent, kind);
    }

    pub(crate) fn count_vote_after(&self, wait: Duration) {
        self.block_to_vote.count(wait);
    }

    /// The current round; 0 before the first.
    pub fn round(&self) -> u64 {
        self.round.load(Ordering::Relaxed)
    }

    /// Number of rounds that timed out before their block was certified.
    pub fn failed_rounds(&self) -> u64 {
        self.failed_rounds.load(Ordering::Relaxed)
    }

    /// Number of blocks that this node made.
    pub fn blocks(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed)
    }

    /// Number of processed messages of peers by kind: `vote`, `timeout`, `sync-info`. Repeated messages are not
    /// counted.
    pub fn received(&self) -> [(&'static str, u64); KINDS.len()] {
        named(&self.received)
    }

    /// Number of messages that this node signed, or verified and relayed, by kind.
    pub fn sent(&self) -> [(&'static str, u64); KINDS.len()] {
        named(&self.sent)
    }

    /// Times from a block's execution until this node's vote for it is recorded on disk.
    pub fn block_to_vote(&self) -> DurationCounts {
        self.block_to_vote.counted()
    }
}

fn add_one(counts: &[AtomicU64; KINDS.len()], kind: RoundMessageKind) {
    counts.get(kind as usize).into_iter().for_each(|count| {
        count.fetch_add(1, Ordering::Relaxed);
    });
}

fn named(counts: &[AtomicU64; KINDS.len()]) -> [(&'static str, u64); KINDS.len()] {
    std::array::from_fn(|place| (KINDS[place].1, counts[place].load(Ordering::Relaxed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_counted_under_its_name() {
        let counts = VotingCounts::default();
        assert!(KINDS.iter().enumerate().all(|(place, (kind, _))| *kind as usize == place));
        counts.count_received(RoundMessageKind::Timeout);
        counts.count_sent(RoundMessageKind::Vote);
        assert_eq!(counts.received(), [("vote", 0), ("timeout", 1), ("sync-info", 0)]);
        assert_eq!(counts.sent(), [("vote", 1), ("timeout", 0), ("sync-info", 0)]);
    }
}

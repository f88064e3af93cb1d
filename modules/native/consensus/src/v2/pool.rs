//! Collects votes and timeouts until there is a quorum (`docs/spec/consensus.md` 5.7).

use std::collections::BTreeMap;

use tenon_api::B256;

use super::V2Error;
use crate::messages::{Timeout, Vote};

/// Messages whose round is older than this many rounds are dropped.
const HYGIENE_ROUNDS: u64 = 10;
/// Maximum number of messages in a pool, about 4 MB: far above what 20 rounds of a network with 500 candidates can
/// produce.
const MAX_MESSAGES: usize = 16_384;

/// A message that is counted together with others of the same key.
pub(super) trait Pooled: Clone {
    /// The parts of the key: round, gap number, and for votes the block.
    type Key: Ord + Clone;
    fn key(&self) -> Self::Key;
    fn round_of(key: &Self::Key) -> u64;
    fn hash(&self) -> B256;
}

impl Pooled for Vote {
    type Key = (u64, u64, u64, B256);

    fn key(&self) -> Self::Key {
        (self.block.round, self.gap_number, self.block.number, self.block.hash)
    }

    fn round_of(key: &Self::Key) -> u64 {
        key.0
    }

    fn hash(&self) -> B256 {
        self.hash()
    }
}

impl Pooled for Timeout {
    type Key = (u64, u64);

    fn key(&self) -> Self::Key {
        (self.round, self.gap_number)
    }

    fn round_of(key: &Self::Key) -> u64 {
        key.0
    }

    fn hash(&self) -> B256 {
        self.hash()
    }
}

/// Messages by key and then by hash, so that a repeated message counts once. Sorted, so that derived certificates are
/// the same on every run.
pub(super) struct Pool<M: Pooled> {
    messages: BTreeMap<M::Key, BTreeMap<B256, M>>,
    count: usize,
}

impl<M: Pooled> Default for Pool<M> {
    fn default() -> Self {
        Self { messages: BTreeMap::new(), count: 0 }
    }
}

impl<M: Pooled> Pool<M> {
    /// Adds a message and returns all with its key.
    pub(super) fn add(&mut self, message: M) -> Result<Vec<M>, V2Error> {
        let entries = self.messages.entry(message.key()).or_default();
        if self.count >= MAX_MESSAGES {
            return Err(V2Error::PoolFull);
        }
        if entries.insert(message.hash(), message).is_none() {
            self.count += 1;
        }
        Ok(entries.values().cloned().collect())
    }

    /// The messages, by key.
    pub(super) fn groups(&self) -> impl Iterator<Item = (&M::Key, impl Iterator<Item = &M>)> {
        self.messages.iter().map(|(key, messages)| (key, messages.values()))
    }

    /// Drops messages too old for this round.
    pub(super) fn clean(&mut self, round: u64) {
        self.messages.retain(|key, _| M::round_of(key).saturating_add(HYGIENE_ROUNDS) >= round);
        self.count = self.messages.values().map(BTreeMap::len).sum();
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        self.messages.clear();
        self.count = 0;
    }

    /// The rounds of the keys, ascending.
    #[cfg(test)]
    pub(super) fn rounds(&self) -> Vec<u64> {
        self.messages.keys().map(M::round_of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_more_than_ten_rounds_ago_are_dropped() {
        let mut pool = Pool::default();
        for round in [5, 16, 25] {
            pool.add(Timeout { round, ..Timeout::default() }).unwrap();
        }

        pool.clean(25);

        assert_eq!(pool.rounds(), [16, 25]);
    }

    #[test]
    fn a_repeated_message_counts_once() {
        let mut pool = Pool::default();
        let vote = Vote { gap_number: 450, ..Vote::default() };
        let other = Vote { signature: vec![1].into(), ..vote.clone() };
        let elsewhere = Vote { gap_number: 451, ..vote.clone() };

        assert_eq!(pool.add(vote.clone()).unwrap().len(), 1);
        assert_eq!(pool.add(vote).unwrap().len(), 1);
        assert_eq!(pool.add(other).unwrap().len(), 2);
        assert_eq!(pool.add(elsewhere).unwrap().len(), 1);
    }
}

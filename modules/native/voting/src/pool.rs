//! Collects votes and timeouts until there is a quorum (`docs/spec/consensus.md` 5.7).

use std::collections::BTreeMap;

use tenon_api::{Address, B256};
use tenon_native_consensus::{Timeout, Vote};

use crate::error::ReplicaError;

/// Messages whose round is older than this many rounds are dropped.
const KEPT_ROUNDS: u64 = 10;
/// Maximum number of messages in a pool, about 4 MB: far above what 20 rounds of a network with 500 candidates can
/// produce.
const MAX_MESSAGES: usize = 16_384;
/// Maximum number of messages of a signer in a round. An honest one signs one; a dishonest one can sign any number, for
/// blocks that do not exist or with other random numbers, and must not fill the pool with them.
const MAX_OF_SIGNER: u8 = 4;

/// A message that is counted together with others of the same key.
pub(crate) trait Pooled: Clone {
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
pub(crate) struct Pool<M: Pooled> {
    messages: BTreeMap<M::Key, BTreeMap<B256, M>>,
    count: usize,
    /// Number of messages by round and signer.
    by_signer: BTreeMap<(u64, Address), u8>,
}

impl<M: Pooled> Default for Pool<M> {
    fn default() -> Self {
        Self { messages: BTreeMap::new(), count: 0, by_signer: BTreeMap::new() }
    }
}

impl<M: Pooled> Pool<M> {
    /// Whether a message is already in the pool, or its signer may add one more in its round.
    pub(crate) fn accepts(&self, message: &M, signer: Address) -> bool {
        let key = message.key();
        let of_signer = self.by_signer.get(&(M::round_of(&key), signer));
        of_signer.is_none_or(|count| *count < MAX_OF_SIGNER)
            || self.messages.get(&key).is_some_and(|entries| entries.contains_key(&message.hash()))
    }

    /// Adds a message of this signer and returns the number of messages with its key. If the pool is full, messages too
    /// old for the current round are dropped first: a large network can fill the pool between two cleanups.
    pub(crate) fn add(&mut self, message: M, signer: Address, current: u64) -> Result<usize, ReplicaError> {
        if self.count >= MAX_MESSAGES {
            self.clean(current);
        }
        if self.count >= MAX_MESSAGES {
            return Err(ReplicaError::PoolFull);
        }
        let key = message.key();
        let round = M::round_of(&key);
        let entries = self.messages.entry(key).or_default();
        if entries.insert(message.hash(), message).is_none() {
            self.count += 1;
            let of_signer = self.by_signer.entry((round, signer)).or_default();
            *of_signer = of_signer.saturating_add(1);
        }
        Ok(entries.len())
    }

    /// The messages of this key, by hash.
    pub(crate) fn of(&self, key: &M::Key) -> impl Iterator<Item = &M> {
        self.messages.get(key).into_iter().flat_map(BTreeMap::values)
    }

    /// The messages, by key.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (&M::Key, impl Iterator<Item = &M>)> {
        self.messages.iter().map(|(key, messages)| (key, messages.values()))
    }

    /// Drops messages too old for this round.
    pub(crate) fn clean(&mut self, round: u64) {
        self.messages.retain(|key, _| M::round_of(key).saturating_add(KEPT_ROUNDS) >= round);
        self.by_signer.retain(|(of, _), _| of.saturating_add(KEPT_ROUNDS) >= round);
        self.count = self.messages.values().map(BTreeMap::len).sum();
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        self.messages.clear();
        self.by_signer.clear();
        self.count = 0;
    }

    /// The rounds of the keys, ascending.
    #[cfg(test)]
    pub(crate) fn rounds(&self) -> Vec<u64> {
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
            pool.add(Timeout { round, ..Timeout::default() }, Address::ZERO, round).unwrap();
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

        let mut add = |vote: Vote| pool.add(vote, Address::ZERO, 0).unwrap();
        assert_eq!(add(vote.clone()), 1);
        assert_eq!(add(vote.clone()), 1);
        assert_eq!(add(other), 2);
        assert_eq!(add(elsewhere), 1);
        assert_eq!(pool.of(&vote.key()).count(), 2);
    }

    #[test]
    fn a_signer_gets_few_places_in_a_round_and_others_keep_theirs() {
        let mut pool = Pool::default();
        let (liar, other) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let timeout = |round, salt: u8| Timeout { round, signature: vec![salt].into(), gap_number: 0 };
        for salt in 0..MAX_OF_SIGNER {
            assert!(pool.accepts(&timeout(7, salt), liar));
            pool.add(timeout(7, salt), liar, 7).unwrap();
        }

        assert!(!pool.accepts(&timeout(7, 100), liar));
        assert!(pool.accepts(&timeout(7, 0), liar), "it is there");
        assert!(pool.accepts(&timeout(7, 100), other));
        assert!(pool.accepts(&timeout(8, 100), liar));
        pool.clean(18);
        assert!(pool.accepts(&timeout(7, 100), liar));
    }

    #[test]
    fn a_full_pool_makes_room_by_dropping_old_rounds_and_never_those_that_count() {
        let mut pool = Pool::default();
        let add = |pool: &mut Pool<Timeout>, round: u64, member: usize| {
            let signer = Address::left_padding_from(&member.to_be_bytes());
            pool.add(Timeout { round, signature: signer.to_vec().into(), gap_number: 0 }, signer, round)
        };
        for round in 0..40 {
            for member in 0..1_000 {
                assert_eq!(add(&mut pool, round, member).unwrap(), member + 1);
            }
        }
        assert!((11_000..=MAX_MESSAGES).contains(&pool.count), "{}", pool.count);
        assert!(pool.by_signer.len() <= MAX_MESSAGES);

        let full = (0..=MAX_MESSAGES).find_map(|member| add(&mut pool, 40, member).err());
        assert!(matches!(full, Some(ReplicaError::PoolFull)), "{full:?}");
        assert!(pool.count <= MAX_MESSAGES);
    }
}

//! Cache of recently read values of accounts and slots.

use std::{
    hash::Hash,
    sync::atomic::{AtomicU64, Ordering},
};

use alloy_primitives::{Address, B256, U256};
use tenon_api::Account;

use crate::{cache::BoundedCache, format::records::Changes};

/// Cached facts about a key.
#[derive(Default)]
struct Known<T> {
    /// The block of its last change, and its value since then.
    latest: Option<(u64, T)>,
    /// A value, and the first and last height at which it is known to hold.
    past: Option<(u64, u64, T)>,
}

/// The cache's answer for a key at a height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer<T> {
    /// Its value.
    Value(T),
    /// Unknown, but changed since that height: the latest record need not be read.
    ChangedSince,
    /// Unknown.
    Unknown,
}

impl<T: Copy + PartialEq> Known<T> {
    fn at(&self, number: u64) -> Answer<T> {
        match (&self.latest, &self.past) {
            (Some((changed, value)), _) if *changed <= number => Answer::Value(*value),
            (_, Some((first, last, value))) if *first <= number && number <= *last => Answer::Value(*value),
            (Some(_), _) => Answer::ChangedSince,
            (None, _) => Answer::Unknown,
        }
    }

    fn learn(&mut self, fact: Fact<T>) {
        match (fact, &mut self.past) {
            (Fact::Latest { changed, value }, _) => self.latest = Some((changed, value)),
            // Same block, different values: genesis' own value, and the absence at a height for which no version is
            // left because the tombstone was pruned.
            (Fact::Past { changed, number, value }, Some((first, last, known)))
                if *first == changed && *known == value =>
            {
                *last = number.max(*last);
            }
            (Fact::Past { changed, number, value }, past) => *past = Some((changed, number, value)),
        }
    }
}

/// A result of a read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fact<T> {
    /// The block of a key's last change, and the value since.
    Latest {
        /// The block; zero for a key that was never written.
        changed: u64,
        /// The value.
        value: T,
    },
    /// The value that a key was given by a block and still has at `number`.
    Past {
        /// The block; zero for a key that did not exist then.
        changed: u64,
        /// The height.
        number: u64,
        /// The value.
        value: T,
    },
}

/// The time at which a read began, by which [`KnownState`] decides whether its result is still valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment(u64);

/// The cache of one kind of keys.
pub(crate) struct KnownValues<K, T>(BoundedCache<K, Known<T>>);

impl<K: Hash + Eq, T: Copy + Default + PartialEq> KnownValues<K, T> {
    /// Looks up a key at a height.
    pub(crate) fn at(&self, key: &K, number: u64) -> Answer<T> {
        self.0.read(key, |known| known.at(number)).unwrap_or(Answer::Unknown)
    }

    /// Caches the result of a read that began at `moment`, unless there was a write since.
    pub(crate) fn learn(&self, key: K, fact: Fact<T>, writes: &Writes, moment: Moment) {
        self.0.change(key, || writes.none_since(moment), |known| known.learn(fact));
    }

    fn forget_latest(&self, key: &K) {
        self.0.change_existing(key, |known| known.latest = None);
    }
}

/// A counter of writes to the state: odd while one is in progress.
///
/// A reader may have taken a record from the database before a write and cache it afterwards. It therefore checks this
/// counter under the same lock under which the writer later removes changed values. So either the reader notices the
/// write, or the writer removes what the reader cached.
#[derive(Default)]
pub(crate) struct Writes(AtomicU64);

impl Writes {
    /// Returns the current moment, at the beginning of a read.
    pub(crate) fn moment(&self) -> Moment {
        Moment(self.0.load(Ordering::SeqCst))
    }

    fn none_since(&self, Moment(begun): Moment) -> bool {
        begun.is_multiple_of(2) && self.0.load(Ordering::SeqCst) == begun
    }
}

/// Cached values of accounts and slots.
///
/// A commit removes the latest values of what it changed before the head moves; an unwind removes everything. Values at
/// past heights stay valid when blocks are added.
pub(crate) struct KnownState {
    pub(crate) accounts: KnownValues<Address, Option<Account>>,
    pub(crate) slots: KnownValues<(Address, B256), U256>,
    pub(crate) writes: Writes,
}

impl KnownState {
    /// An empty cache of about this many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            accounts: KnownValues(BoundedCache::new(bytes / 2)),
            slots: KnownValues(BoundedCache::new(bytes / 2)),
            writes: Writes::default(),
        }
    }

    /// Begins a write to the state, which lasts until the result is dropped: values read meanwhile are not cached. The
    /// writer's lock excludes concurrent writes.
    pub(crate) fn write(&self) -> Writing<'_> {
        self.writes.0.fetch_add(1, Ordering::SeqCst);
        Writing(self)
    }
}

/// A write to the state in progress.
pub(crate) struct Writing<'a>(&'a KnownState);

impl Writing<'_> {
    /// Removes the latest values of what a block has changed. Call it after the block is written and before the head
    /// moves.
    pub(crate) fn forget_changed(&self, changes: &Changes) {
        for address in &changes.accounts {
            self.0.accounts.forget_latest(address);
        }
        for (address, slots) in &changes.slots {
            for slot in slots {
                self.0.slots.forget_latest(&(*address, *slot));
            }
        }
    }

    /// Removes everything. Call it after blocks have been removed and before others are added.
    pub(crate) fn forget_all(&self) {
        self.0.accounts.0.clear();
        self.0.slots.0.clear();
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.writes.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: (Address, B256) = (Address::ZERO, B256::ZERO);

    fn value(number: u64) -> U256 {
        U256::from(number)
    }

    fn learn(state: &KnownState, fact: Fact<U256>) {
        state.slots.learn(KEY, fact, &state.writes, state.writes.moment());
    }

    fn changes() -> Changes {
        Changes { accounts: vec![KEY.0], slots: vec![(KEY.0, vec![KEY.1])], superseded: vec![] }
    }

    #[test]
    fn a_value_is_known_at_the_heights_where_it_holds() {
        let state = KnownState::new(1 << 20);
        assert_eq!(state.slots.at(&KEY, 10), Answer::Unknown);

        learn(&state, Fact::Latest { changed: 8, value: value(8) });
        learn(&state, Fact::Past { changed: 3, number: 5, value: value(3) });
        learn(&state, Fact::Past { changed: 3, number: 4, value: value(3) });
        let answers = [2, 3, 5, 6, 7, 8, 100].map(|number| state.slots.at(&KEY, number));
        let changed = Answer::ChangedSince;
        let (old, new) = (Answer::Value(value(3)), Answer::Value(value(8)));
        assert_eq!(answers, [changed, old, old, changed, changed, new, new]);

        learn(&state, Fact::Past { changed: 6, number: 7, value: value(6) });
        assert_eq!([5, 6].map(|number| state.slots.at(&KEY, number)), [changed, Answer::Value(value(6))]);
    }

    #[test]
    fn a_genesis_value_does_not_extend_past_its_pruned_tombstone() {
        let state = KnownState::new(1 << 20);

        learn(&state, Fact::Past { changed: 0, number: 3, value: value(2) });
        learn(&state, Fact::Past { changed: 0, number: 7, value: value(0) });

        assert_eq!(state.slots.at(&KEY, 7), Answer::Value(value(0)));
    }

    #[test]
    fn a_block_invalidates_the_latest_values_it_changed_and_keeps_past_ones() {
        let state = KnownState::new(1 << 20);
        learn(&state, Fact::Latest { changed: 8, value: value(8) });
        learn(&state, Fact::Past { changed: 3, number: 5, value: value(3) });

        state.write().forget_changed(&changes());

        assert_eq!([5, 8].map(|number| state.slots.at(&KEY, number)), [Answer::Value(value(3)), Answer::Unknown]);
    }

    #[test]
    fn values_read_before_or_during_a_write_are_not_cached_after_it() {
        let state = KnownState::new(1 << 20);
        let fact = Fact::Latest { changed: 8, value: value(8) };
        let keep = |moment| state.slots.learn(KEY, fact, &state.writes, moment);
        let before = state.writes.moment();

        let writing = state.write();
        let during = state.writes.moment();
        keep(before);
        keep(during);
        drop(writing);
        keep(before);
        keep(during);
        assert_eq!(state.slots.at(&KEY, 8), Answer::Unknown);

        keep(state.writes.moment());
        assert_eq!(state.slots.at(&KEY, 8), Answer::Value(value(8)));
        state.write().forget_all();
        assert_eq!(state.slots.at(&KEY, 8), Answer::Unknown);
    }
}

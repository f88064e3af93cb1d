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
struct CachedValues<T> {
    /// The block of its last change, and its value since then.
    latest: Option<(u64, T)>,
    /// A value, and the first and last height at which it is known to hold.
    past: Option<(u64, u64, T)>,
}

/// The cache's answer for a key at a height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup<T> {
    /// Its value.
    Value(T),
    /// Unknown, but changed since that height: the latest record need not be read.
    ChangedSince,
    /// Unknown.
    Unknown,
}

impl<T: Copy + PartialEq> CachedValues<T> {
    fn at(&self, number: u64) -> Lookup<T> {
        match (&self.latest, &self.past) {
            (Some((changed, value)), _) if *changed <= number => Lookup::Value(*value),
            (_, Some((first, last, value))) if *first <= number && number <= *last => Lookup::Value(*value),
            (Some(_), _) => Lookup::ChangedSince,
            (None, _) => Lookup::Unknown,
        }
    }

    fn insert(&mut self, result: ReadResult<T>) {
        match (result, &mut self.past) {
            (ReadResult::Latest { changed, value }, _) => self.latest = Some((changed, value)),
            // The values are compared too, because `changed` is 0 in two cases: a value from the genesis block, and a
            // height without a version, because pruning removed the tombstone.
            (ReadResult::Past { changed, number, value }, Some((first, last, known)))
                if *first == changed && *known == value =>
            {
                *last = number.max(*last);
            }
            (ReadResult::Past { changed, number, value }, past) => *past = Some((changed, number, value)),
        }
    }
}

/// A result of a read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReadResult<T> {
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

/// The counter of writes at the beginning of a read, by which [`StateCache`] decides whether its result is still valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteCount(u64);

/// The cache of one kind of keys.
pub(crate) struct ValueCache<K, T>(BoundedCache<K, CachedValues<T>>);

impl<K: Hash + Eq, T: Copy + Default + PartialEq> ValueCache<K, T> {
    /// Looks up a key at a height.
    pub(crate) fn at(&self, key: &K, number: u64) -> Lookup<T> {
        self.0.read(key, |cached| cached.at(number)).unwrap_or(Lookup::Unknown)
    }

    /// Caches the result of a read that began at `write_count`, unless there was a write since.
    pub(crate) fn insert(&self, key: K, result: ReadResult<T>, writes: &Writes, write_count: WriteCount) {
        self.0.change(key, || writes.are_unchanged_since(write_count), |cached| cached.insert(result));
    }

    fn remove_latest(&self, key: &K) {
        self.0.change_existing(key, |cached| cached.latest = None);
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
    /// Returns the number of writes, at the beginning of a read.
    pub(crate) fn write_count(&self) -> WriteCount {
        WriteCount(self.0.load(Ordering::SeqCst))
    }

    fn are_unchanged_since(&self, WriteCount(begun): WriteCount) -> bool {
        begun.is_multiple_of(2) && self.0.load(Ordering::SeqCst) == begun
    }
}

/// Cached values of accounts and slots.
///
/// A commit removes the latest values of what it changed before the head moves; an unwind removes everything. Values at
/// past heights stay valid when blocks are added.
pub(crate) struct StateCache {
    pub(crate) accounts: ValueCache<Address, Option<Account>>,
    pub(crate) slots: ValueCache<(Address, B256), U256>,
    pub(crate) writes: Writes,
}

impl StateCache {
    /// An empty cache of about this many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            accounts: ValueCache(BoundedCache::new(bytes / 2)),
            slots: ValueCache(BoundedCache::new(bytes / 2)),
            writes: Writes::default(),
        }
    }

    /// Begins a write to the state, which lasts until the result is dropped: values read meanwhile are not cached. The
    /// writer's lock excludes concurrent writes.
    pub(crate) fn begin_write(&self) -> WriteGuard<'_> {
        self.writes.0.fetch_add(1, Ordering::SeqCst);
        WriteGuard(self)
    }
}

/// A write to the state in progress.
pub(crate) struct WriteGuard<'a>(&'a StateCache);

impl WriteGuard<'_> {
    /// Removes the latest values of what a block has changed. Call it after the block is written and before the head
    /// moves.
    pub(crate) fn remove_changed(&self, changes: &Changes) {
        for address in &changes.accounts {
            self.0.accounts.remove_latest(address);
        }
        for (address, slots) in &changes.slots {
            for slot in slots {
                self.0.slots.remove_latest(&(*address, *slot));
            }
        }
    }

    /// Removes everything. Call it after blocks have been removed and before others are added.
    pub(crate) fn clear(&self) {
        self.0.accounts.0.clear();
        self.0.slots.0.clear();
    }
}

impl Drop for WriteGuard<'_> {
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

    fn insert(state: &StateCache, result: ReadResult<U256>) {
        state.slots.insert(KEY, result, &state.writes, state.writes.write_count());
    }

    fn changes() -> Changes {
        Changes { accounts: vec![KEY.0], slots: vec![(KEY.0, vec![KEY.1])], superseded: vec![] }
    }

    #[test]
    fn a_value_is_known_at_the_heights_where_it_holds() {
        let state = StateCache::new(1 << 20);
        assert_eq!(state.slots.at(&KEY, 10), Lookup::Unknown);

        insert(&state, ReadResult::Latest { changed: 8, value: value(8) });
        insert(&state, ReadResult::Past { changed: 3, number: 5, value: value(3) });
        insert(&state, ReadResult::Past { changed: 3, number: 4, value: value(3) });
        let answers = [2, 3, 5, 6, 7, 8, 100].map(|number| state.slots.at(&KEY, number));
        let changed = Lookup::ChangedSince;
        let (old, new) = (Lookup::Value(value(3)), Lookup::Value(value(8)));
        assert_eq!(answers, [changed, old, old, changed, changed, new, new]);

        insert(&state, ReadResult::Past { changed: 6, number: 7, value: value(6) });
        assert_eq!([5, 6].map(|number| state.slots.at(&KEY, number)), [changed, Lookup::Value(value(6))]);
    }

    #[test]
    fn a_genesis_value_does_not_extend_past_its_pruned_tombstone() {
        let state = StateCache::new(1 << 20);

        insert(&state, ReadResult::Past { changed: 0, number: 3, value: value(2) });
        insert(&state, ReadResult::Past { changed: 0, number: 7, value: value(0) });

        assert_eq!(state.slots.at(&KEY, 7), Lookup::Value(value(0)));
    }

    #[test]
    fn a_block_invalidates_the_latest_values_it_changed_and_keeps_past_ones() {
        let state = StateCache::new(1 << 20);
        insert(&state, ReadResult::Latest { changed: 8, value: value(8) });
        insert(&state, ReadResult::Past { changed: 3, number: 5, value: value(3) });

        state.begin_write().remove_changed(&changes());

        assert_eq!([5, 8].map(|number| state.slots.at(&KEY, number)), [Lookup::Value(value(3)), Lookup::Unknown]);
    }

    #[test]
    fn values_read_before_or_during_a_write_are_not_cached_after_it() {
        let state = StateCache::new(1 << 20);
        let result = ReadResult::Latest { changed: 8, value: value(8) };
        let keep = |write_count| state.slots.insert(KEY, result, &state.writes, write_count);
        let before = state.writes.write_count();

        let writing = state.begin_write();
        let during = state.writes.write_count();
        keep(before);
        keep(during);
        drop(writing);
        keep(before);
        keep(during);
        assert_eq!(state.slots.at(&KEY, 8), Lookup::Unknown);

        keep(state.writes.write_count());
        assert_eq!(state.slots.at(&KEY, 8), Lookup::Value(value(8)));
        state.begin_write().clear();
        assert_eq!(state.slots.at(&KEY, 8), Lookup::Unknown);
    }
}

//! Bounded caches.
//!
//! A wrapper around lru. quick_cache does not fit, because it releases a shard's lock before the value of a new key is
//! inserted. `BoundedCache::change` must call `may` and insert under one lock; otherwise old state could stay cached
//! after a commit.

use std::{
    hash::{BuildHasher, Hash},
    mem::size_of,
};

use foldhash::quality::RandomState;
use lru::LruCache;
use parking_lot::Mutex;

/// Independent parts, so that concurrent readers rarely contend for one lock.
const SHARDS: usize = 16;

/// A least-recently-used cache with a limit in bytes.
///
/// A lock is held for the few instructions of one look-up or insertion; nothing awaits or reads the database under
/// it.
pub(crate) struct BoundedCache<K, V> {
    shards: Vec<Mutex<Shard<K, V>>>,
    shard_bytes: usize,
    /// Clients choose keys, so each cache has a random seed. SipHash would take a third of the time of a look-up.
    hasher: RandomState,
}

struct Shard<K, V> {
    entries: LruCache<K, (V, usize), RandomState>,
    bytes: usize,
}

impl<K: Hash + Eq, V> BoundedCache<K, V> {
    /// An empty cache of about this many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let entries = || LruCache::unbounded_with_hasher(RandomState::default());
        let shard = || Mutex::new(Shard { entries: entries(), bytes: 0 });
        let shards = (0..SHARDS).map(|_| shard()).collect();
        Self { shards, shard_bytes: bytes / SHARDS, hasher: RandomState::default() }
    }

    /// Returns `read(value)` and marks the value as the most recently used.
    pub(crate) fn read<T>(&self, key: &K, read: impl FnOnce(&V) -> T) -> Option<T> {
        self.shard(key)?.lock().entries.get(key).map(|(value, _)| read(value))
    }

    /// Returns `read(value)` and leaves the order of use as it is.
    pub(crate) fn peek<T>(&self, key: &K, read: impl FnOnce(&V) -> T) -> Option<T> {
        self.shard(key)?.lock().entries.peek(key).map(|(value, _)| read(value))
    }

    /// Inserts a value that takes `bytes` of memory in addition to its own size. A value larger than a shard is not
    /// kept.
    pub(crate) fn insert(&self, key: K, value: V, bytes: usize) {
        if let Some(shard) = self.shard(&key) {
            shard.lock().insert(key, value, bytes, self.shard_bytes);
        }
    }

    /// Changes the value of a key, or of a new key, if `may` returns true after the key's shard has been locked.
    pub(crate) fn change(&self, key: K, may: impl FnOnce() -> bool, change: impl FnOnce(&mut V))
    where
        V: Default,
    {
        let Some(shard) = self.shard(&key) else { return };
        let mut shard = shard.lock();
        if !may() {
            return;
        }
        if let Some((value, _)) = shard.entries.get_mut(&key) {
            return change(value);
        }
        let mut value = V::default();
        change(&mut value);
        shard.insert(key, value, 0, self.shard_bytes);
    }

    /// Changes the value of a key if it is present.
    pub(crate) fn change_existing(&self, key: &K, change: impl FnOnce(&mut V)) {
        let Some(shard) = self.shard(key) else { return };
        if let Some((value, _)) = shard.lock().entries.peek_mut(key) {
            change(value);
        }
    }

    /// Removes a value.
    pub(crate) fn remove(&self, key: &K) {
        let Some(shard) = self.shard(key) else { return };
        let mut shard = shard.lock();
        if let Some((_, weight)) = shard.entries.pop(key) {
            shard.bytes -= weight;
        }
    }

    /// Removes all values.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.entries.clear();
            shard.bytes = 0;
        }
    }

    fn shard(&self, key: &K) -> Option<&Mutex<Shard<K, V>>> {
        // The upper bits; the shards' own tables are indexed by the lower bits of another hash.
        self.shards.get((self.hasher.hash_one(key) >> 32) as usize % SHARDS)
    }
}

impl<K: Hash + Eq, V: Clone> BoundedCache<K, V> {
    /// Returns the value and marks it as the most recently used.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.read(key, V::clone)
    }
}

impl<K: Hash + Eq, V> Shard<K, V> {
    fn insert(&mut self, key: K, value: V, bytes: usize, max: usize) {
        // Includes the entry's links and its table slot, otherwise many tiny values would exceed the limit.
        let weight = bytes + size_of::<K>() + size_of::<V>() + 72;
        if weight > max {
            return;
        }
        if let Some((_, replaced)) = self.entries.put(key, (value, weight)) {
            self.bytes -= replaced;
        }
        self.bytes += weight;
        while self.bytes > max {
            let Some((_, (_, evicted))) = self.entries.pop_lru() else { break };
            self.bytes -= evicted;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_within_its_limit_and_keeps_the_most_recently_used() {
        let cache = BoundedCache::new(SHARDS * 1_000);

        for key in 0..1_000_u32 {
            cache.insert(key, key, 100);
            cache.get(&0);
        }

        let kept: Vec<u32> = (0..1_000).filter(|key| cache.get(key).is_some()).collect();
        assert!(kept.contains(&0) && kept.contains(&999) && kept.len() <= SHARDS * 5, "{kept:?}");
    }

    #[test]
    fn refuses_values_larger_than_a_shard_and_removes_on_demand() {
        let cache = BoundedCache::new(SHARDS * 1_000);

        cache.insert(0, "large", 2_000);
        assert_eq!(cache.get(&0), None);

        cache.insert(0, "small", 10);
        cache.remove(&0);
        assert_eq!(cache.get(&0), None);

        cache.insert(0, "small", 10);
        cache.clear();
        assert_eq!(cache.get(&0), None);
    }

    #[test]
    fn changes_present_and_new_values_unless_refused() {
        let cache = BoundedCache::<u8, u32>::new(SHARDS * 1_000);

        cache.change_existing(&1, |value| *value = 7);
        cache.change(1, || false, |value| *value = 7);
        assert_eq!(cache.get(&1), None);

        cache.change(1, || true, |value| *value += 2);
        cache.change(1, || true, |value| *value += 3);
        cache.change_existing(&1, |value| *value *= 2);
        assert_eq!(cache.get(&1), Some(10));
    }
}

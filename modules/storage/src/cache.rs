//! Bounded caches of things that are named by a hash and therefore never change.

use alloy_primitives::B256;
use lru::LruCache;
use parking_lot::Mutex;

/// Independent parts, so that readers on several threads seldom meet at one lock.
const SHARDS: usize = 16;

/// A least-recently-used cache with a bound in bytes.
///
/// A lock is held for the few instructions of one look-up or insertion; nothing awaits or reads the database under
/// it.
pub(crate) struct HashCache<V> {
    shards: Vec<Mutex<Shard<V>>>,
    shard_bytes: usize,
}

struct Shard<V> {
    entries: LruCache<B256, (V, usize)>,
    bytes: usize,
}

impl<V: Clone> HashCache<V> {
    /// An empty cache for about this many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let shard = || Mutex::new(Shard { entries: LruCache::unbounded(), bytes: 0 });
        Self { shards: (0..SHARDS).map(|_| shard()).collect(), shard_bytes: bytes / SHARDS }
    }

    /// The value, which becomes the most recently used one.
    pub(crate) fn get(&self, hash: &B256) -> Option<V> {
        self.shard(hash)?.lock().entries.get(hash).map(|(value, _)| value.clone())
    }

    /// Keeps a value that takes `bytes` of memory; a value larger than a shard is not kept.
    pub(crate) fn insert(&self, hash: B256, value: V, bytes: usize) {
        // The entry's own links and key count too, else many tiny values would overshoot the bound.
        let weight = bytes + 128;
        if weight > self.shard_bytes {
            return;
        }
        let Some(shard) = self.shard(&hash) else { return };
        let mut shard = shard.lock();
        if let Some((_, replaced)) = shard.entries.put(hash, (value, weight)) {
            shard.bytes -= replaced;
        }
        shard.bytes += weight;
        while shard.bytes > self.shard_bytes {
            let Some((_, (_, evicted))) = shard.entries.pop_lru() else { break };
            shard.bytes -= evicted;
        }
    }

    /// Forgets a value.
    pub(crate) fn remove(&self, hash: &B256) {
        let Some(shard) = self.shard(hash) else { return };
        let mut shard = shard.lock();
        if let Some((_, weight)) = shard.entries.pop(hash) {
            shard.bytes -= weight;
        }
    }

    fn shard(&self, hash: &B256) -> Option<&Mutex<Shard<V>>> {
        self.shards.get(usize::from(hash[0]) % SHARDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_within_its_bound_and_keeps_what_was_used_last() {
        let cache = HashCache::new(SHARDS * 1_000);
        let hash = |last: u8| B256::with_last_byte(last);

        for last in 0..20 {
            cache.insert(hash(last), last, 100);
            cache.get(&hash(0));
        }

        let kept: Vec<u8> = (0..20).filter(|last| cache.get(&hash(*last)).is_some()).collect();
        assert!(kept.contains(&0) && kept.contains(&19) && kept.len() <= 4, "{kept:?}");
    }

    #[test]
    fn refuses_what_is_larger_than_a_shard_and_forgets_on_demand() {
        let cache = HashCache::new(SHARDS * 1_000);

        cache.insert(B256::ZERO, "large", 2_000);
        assert_eq!(cache.get(&B256::ZERO), None);

        cache.insert(B256::ZERO, "small", 10);
        cache.remove(&B256::ZERO);
        assert_eq!(cache.get(&B256::ZERO), None);
    }
}

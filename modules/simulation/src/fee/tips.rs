//! Tips of blocks, cached by hash: blocks never change, and most queries are about the newest.

use std::sync::Arc;

use alloy_primitives::{B256, U256};
use lru::LruCache;
use parking_lot::Mutex;

/// Blocks whose lowest tips are cached: twice what the oracle samples for one head, and a branch.
const MAX_LOWEST: usize = 128;
/// Transactions whose tips are cached for fee histories, 40 bytes each.
const MAX_TRANSACTIONS: usize = 200_000;

/// A tip, and the gas that a block paid with this and the lower ones.
pub(super) type WeightedTip = (U256, u64);

/// Cached tips of blocks. Nothing reads the database under a lock.
pub(super) struct TipCache {
    lowest: Mutex<LruCache<B256, Arc<[U256]>>>,
    weighted: Mutex<Weighted>,
}

/// All tips of some blocks, ascending.
struct Weighted {
    blocks: LruCache<B256, Arc<[WeightedTip]>>,
    transactions: usize,
}

impl Default for TipCache {
    fn default() -> Self {
        let weighted = Weighted { blocks: LruCache::unbounded(), transactions: 0 };
        Self { lowest: Mutex::new(LruCache::unbounded()), weighted: Mutex::new(weighted) }
    }
}

impl TipCache {
    pub(super) fn lowest(&self, block: B256) -> Option<Arc<[U256]>> {
        self.lowest.lock().get(&block).cloned()
    }

    pub(super) fn cache_lowest(&self, block: B256, tips: Arc<[U256]>) {
        let mut lowest = self.lowest.lock();
        lowest.put(block, tips);
        while lowest.len() > MAX_LOWEST {
            lowest.pop_lru();
        }
    }

    pub(super) fn weighted(&self, block: B256) -> Option<Arc<[WeightedTip]>> {
        self.weighted.lock().blocks.get(&block).cloned()
    }

    pub(super) fn cache_weighted(&self, block: B256, tips: Arc<[WeightedTip]>) {
        // A block without transactions takes an entry too.
        let size = |tips: &[WeightedTip]| tips.len() + 2;
        let mut weighted = self.weighted.lock();
        weighted.transactions += size(&tips);
        if let Some(replaced) = weighted.blocks.put(block, tips) {
            weighted.transactions -= size(&replaced);
        }
        while weighted.transactions > MAX_TRANSACTIONS {
            let Some((_, oldest)) = weighted.blocks.pop_lru() else { break };
            weighted.transactions -= size(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_blocks_are_evicted() {
        let cache = TipCache::default();
        let block = |number: u64| B256::from(U256::from(number));
        let tips = |count: usize| vec![(U256::ZERO, 0); count].into();

        cache.cache_weighted(block(0), tips(MAX_TRANSACTIONS / 2));
        cache.cache_weighted(block(0), tips(MAX_TRANSACTIONS / 2));
        cache.cache_weighted(block(1), tips(MAX_TRANSACTIONS / 3));
        assert!(cache.weighted(block(0)).is_some(), "it was not counted twice");
        cache.cache_weighted(block(2), tips(MAX_TRANSACTIONS / 3));
        assert_eq!([0, 1, 2].map(|number| cache.weighted(block(number)).is_some()), [true, false, true]);

        for number in 0..=MAX_LOWEST as u64 {
            cache.cache_lowest(block(number), Arc::new([]));
        }
        assert_eq!([0, 1].map(|number| cache.lowest(block(number)).is_some()), [false, true]);
    }
}

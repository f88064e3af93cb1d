//! Cache of analysed code. The import and calls have one each, so that calls do not evict contracts that the import
//! needs.

use std::{num::NonZeroUsize, sync::Arc};

use alloy_primitives::{B256, Bytes};
use lru::LruCache;
use parking_lot::Mutex;
use revm::bytecode::Bytecode;

/// Number of cached contracts: at the maximum size (24 KiB of code and its jump table) about 55 MiB.
const CAPACITY: NonZeroUsize = NonZeroUsize::new(2048).unwrap();

/// The most recently used contracts, with their jump tables. Clones share it; entries never become stale, because keys
/// are code hashes.
#[derive(Clone)]
pub struct CodeCache {
    // Locked for one look-up or insertion; nothing awaits or reads the database under it.
    entries: Arc<Mutex<LruCache<B256, Bytecode>>>,
}

impl Default for CodeCache {
    fn default() -> Self {
        Self { entries: Arc::new(Mutex::new(LruCache::new(CAPACITY))) }
    }
}

impl CodeCache {
    /// The analysed code, from the cache or through `load`.
    pub(crate) fn get_or_load<E>(&self, hash: B256, load: impl FnOnce() -> Result<Bytes, E>) -> Result<Bytecode, E> {
        if let Some(code) = self.entries.lock().get(&hash) {
            return Ok(code.clone());
        }
        let code = analyse(load()?);
        self.entries.lock().put(hash, code.clone());
        Ok(code)
    }
}

/// Analyses code for the EVM.
pub(crate) fn analyse(code: Bytes) -> Bytecode {
    // Only a malformed delegation is refused; old chains may contain such bytes as ordinary (invalid) code.
    Bytecode::new_raw_checked(code.clone()).unwrap_or_else(|_| Bytecode::new_legacy(code))
}

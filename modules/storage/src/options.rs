//! What an operator may choose about the database.

use std::time::Duration;

/// How much of the past can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every state since the first block that this folder holds.
    Archive,
    /// The states of the head and of this many blocks before it. At least 1: less could not undo a block.
    ///
    /// Blocks, receipts and logs are kept in both modes.
    Pruned(u64),
}

impl Mode {
    /// The oldest height whose state must be kept when the head is at `head`; none when nothing may go.
    pub(crate) fn oldest_wanted(self, head: u64) -> Option<u64> {
        match self {
            Self::Archive => None,
            Self::Pruned(window) => Some(head.saturating_sub(window.max(1))),
        }
    }
}

/// When the write-ahead log is forced to the disk.
///
/// Every committed block reaches the operating system before `commit` returns, so the death of the process
/// loses nothing, whatever stands here. This is about power loss and kernel crashes: they lose at most the
/// blocks since the last sync, and never consistency, because the log is replayed up to a whole block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// fsync for every block; measured at 0.24 ms on a local disk.
    EveryBlock,
    /// fsync with the block that comes this many blocks, or this long, after the last one.
    Interval {
        /// Most blocks that a power loss may take.
        blocks: u64,
        /// A block that comes later than this after the last sync is synced itself, so that at the pace of a live
        /// chain each one is.
        period: Duration,
    },
    /// Only `flush` and an orderly close. For databases that can be rebuilt.
    OnFlush,
}

impl Default for Durability {
    fn default() -> Self {
        Self::Interval { blocks: 64, period: Duration::from_secs(1) }
    }
}

/// How a database is opened. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// How much of the past to keep. Default: [`Mode::Archive`].
    pub mode: Mode,
    /// When to fsync. Default: every 64 blocks or every second.
    pub durability: Durability,
    /// Cache of database blocks, indices and filters, shared by all column families. Default: 512 MiB.
    pub cache_bytes: usize,
    /// Most memory for writes that have not reached a table file yet. Default: 256 MiB.
    pub write_buffer_bytes: usize,
    /// Cache of trie nodes, which the next root computation reads again. Default: 64 MiB.
    pub trie_cache_bytes: usize,
    /// Cache of accounts and slots that were read lately. Default: 48 MiB.
    pub state_cache_bytes: usize,
    /// Cache of decoded headers, blocks and receipts together. Default: 96 MiB.
    pub block_cache_bytes: usize,
    /// Most table files held open; stays below the usual limit of 1 024 descriptors a process. Default: 512.
    pub max_open_files: i32,
    /// Threads that flush and compact. Default: the number of processors, from 2 to 8.
    pub background_threads: i32,
}

impl StoreOptions {
    /// With a cache of database blocks of this size, bytes. The other memory keeps its proportion to it, but does not grow
    /// beyond the default: more of it would not help.
    pub fn with_cache(bytes: usize) -> Self {
        let full = Self::default();
        let part = |default: usize| {
            let scaled = default as u128 * bytes as u128 / full.cache_bytes as u128;
            usize::try_from(scaled).unwrap_or(default).min(default)
        };
        Self {
            cache_bytes: bytes,
            write_buffer_bytes: part(full.write_buffer_bytes).max(LEAST_WRITE_BUFFER),
            trie_cache_bytes: part(full.trie_cache_bytes),
            state_cache_bytes: part(full.state_cache_bytes),
            block_cache_bytes: part(full.block_cache_bytes),
            ..full
        }
    }
}

/// Less would make a table file of every few blocks.
const LEAST_WRITE_BUFFER: usize = 16 << 20;

impl Default for StoreOptions {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Self {
            mode: Mode::Archive,
            durability: Durability::default(),
            cache_bytes: 512 << 20,
            write_buffer_bytes: 256 << 20,
            trie_cache_bytes: 64 << 20,
            state_cache_bytes: 48 << 20,
            block_cache_bytes: 96 << 20,
            max_open_files: 512,
            background_threads: i32::try_from(processors.clamp(2, 8)).unwrap_or(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_keeps_its_proportion_to_the_cache_up_to_the_default() {
        let full = StoreOptions::default();
        let sizes = |options: StoreOptions| {
            let StoreOptions {
                cache_bytes,
                write_buffer_bytes,
                trie_cache_bytes,
                state_cache_bytes,
                block_cache_bytes,
                ..
            } = options;
            [cache_bytes, write_buffer_bytes, trie_cache_bytes, state_cache_bytes, block_cache_bytes]
                .map(|bytes| bytes >> 20)
        };

        assert_eq!(StoreOptions::with_cache(full.cache_bytes), full);
        assert_eq!(sizes(StoreOptions::with_cache(64 << 20)), [64, 32, 8, 6, 12]);
        assert_eq!(sizes(StoreOptions::with_cache(8_192 << 20)), [8_192, 256, 64, 48, 96]);
        assert_eq!(sizes(StoreOptions::with_cache(0)), [0, 16, 0, 0, 0]);
    }
}

//! Options of the database.

use std::time::Duration;

/// How much past state is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every state since the first block of this folder.
    Archive,
    /// The states of the head and of this many blocks before it. At least 1, which is needed to undo a block.
    ///
    /// Blocks, receipts and logs are kept in both modes.
    Pruned(u64),
}

impl Mode {
    /// The oldest height whose state must be kept with the head at `head`; `None` if nothing may be removed.
    pub(crate) fn oldest_wanted(self, head: u64) -> Option<u64> {
        match self {
            Self::Archive => None,
            Self::Pruned(window) => Some(head.saturating_sub(window.max(1))),
        }
    }
}

/// When the write-ahead log is synced to disk.
///
/// In every mode each committed block reaches the operating system before `commit` returns, so the death of the process
/// loses nothing. This setting is about power loss and kernel crashes. They lose at most the blocks since the last
/// sync. The database stays consistent, because the log is replayed up to a whole block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// fsync for every block; measured at 0.24 ms on a local disk.
    EveryBlock,
    /// fsync with the first block that comes this many blocks, or this long, after the last sync.
    Interval {
        /// Maximum number of blocks lost in a power loss.
        blocks: u64,
        /// A block that comes later than this after the last sync is synced at once. On a live chain this is every
        /// block.
        period: Duration,
    },
    /// Only on `flush` and an orderly close. For databases that can be rebuilt.
    OnFlush,
}

impl Durability {
    /// The setting `process`: syncs every 64 blocks, and with the first block that is written a second or more after the
    /// last sync. A power failure can lose the blocks since then.
    pub const PROCESS: Self = Self::Interval { blocks: 64, period: Duration::from_secs(1) };
}

/// Options for opening a database. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// How much past state to keep.
    pub mode: Mode,
    /// Number of blocks below the head whose tries are kept whole in archive mode. Of older blocks, only the tries of
    /// checkpoints are kept. Has no effect in pruned mode, which keeps the tries of all its states. At least 1.
    pub trie_window: u64,
    /// Maximum of `trie_window` while the head is older than a day: that far below the head of the network, deep
    /// reorganisations do not occur. With a short window, most nodes are superseded and removed while they are still in
    /// the memory tables.
    pub old_trie_window: u64,
    /// Maximum number of blocks that one batch commits in archive mode, if they are older than a day and are imported
    /// together. Only the trie of the last one is then complete. 1 commits each block separately.
    pub old_group_blocks: usize,
    /// Distance of checkpoints in a new folder, blocks; an existing folder keeps its own. At least 1.
    pub trie_checkpoint_every: u64,
    /// When to fsync.
    pub durability: Durability,
    /// Cache of database blocks, indices and filters, shared by all column families.
    pub cache_bytes: usize,
    /// Maximum memory for writes that are not yet in a table file.
    pub write_buffer_bytes: usize,
    /// Cache of trie nodes, which the next root computation reads again.
    pub trie_cache_bytes: usize,
    /// Cache of recently read accounts and slots.
    pub state_cache_bytes: usize,
    /// Cache of decoded headers, blocks and receipts together.
    pub block_cache_bytes: usize,
    /// Maximum number of open table files.
    pub max_open_files: i32,
    /// Threads that flush and compact.
    pub background_threads: i32,
}

impl StoreOptions {
    /// Options of an archive with a cache of this size, bytes. The write buffer and the other caches have sizes in
    /// proportion to it, up to 256, 64, 48 and 96 MiB. The node replaces every value that has a setting; tests and
    /// benches use them as they are.
    pub fn with_cache(cache_bytes: usize) -> Self {
        let processors = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Self {
            mode: Mode::Archive,
            trie_window: 1_024,
            old_trie_window: 128,
            old_group_blocks: 64,
            trie_checkpoint_every: 4_096,
            durability: Durability::PROCESS,
            cache_bytes,
            write_buffer_bytes: (cache_bytes / 2).clamp(MIN_WRITE_BUFFER, 256 << 20),
            trie_cache_bytes: (cache_bytes / 8).min(64 << 20),
            state_cache_bytes: (cache_bytes / 32).min(16 << 20) * 3,
            block_cache_bytes: (cache_bytes / 16).min(32 << 20) * 3,
            max_open_files: 512,
            background_threads: i32::try_from(processors.clamp(2, 8)).unwrap_or(2),
        }
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        Self::with_cache(64 << 20)
    }
}

/// A smaller buffer would write a table file every few blocks.
const MIN_WRITE_BUFFER: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_scales_with_the_cache_up_to_a_maximum() {
        let sizes = |cache: usize| {
            let StoreOptions {
                cache_bytes,
                write_buffer_bytes,
                trie_cache_bytes,
                state_cache_bytes,
                block_cache_bytes,
                ..
            } = StoreOptions::with_cache(cache);
            [cache_bytes, write_buffer_bytes, trie_cache_bytes, state_cache_bytes, block_cache_bytes]
                .map(|bytes| bytes >> 20)
        };

        assert_eq!(sizes(64 << 20), [64, 32, 8, 6, 12]);
        assert_eq!(sizes(512 << 20), [512, 256, 64, 48, 96]);
        assert_eq!(sizes(8_192 << 20), [8_192, 256, 64, 48, 96]);
        assert_eq!(sizes(0), [0, 16, 0, 0, 0]);
    }
}

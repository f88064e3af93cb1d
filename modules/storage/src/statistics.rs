//! Sizes and statistics of the database.

use tenon_api::{BlockNumber, StoreError};

use crate::{Mode, format::columns::Column, store::Store};

/// One column family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnStatistics {
    /// Its name on disk.
    pub name: &'static str,
    /// Records, as estimated by the engine; overwritten and deleted ones count until they are compacted.
    pub entries: u64,
    /// Bytes in table files.
    pub disk_bytes: u64,
    /// Bytes that are only in memory and in the log.
    pub memory_bytes: u64,
}

/// The whole database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreStatistics {
    /// Every column family.
    pub columns: Vec<ColumnStatistics>,
    /// The head's height.
    pub head: BlockNumber,
    /// The oldest height whose state can be read.
    pub oldest_state: BlockNumber,
    /// The oldest height whose trie is kept whole; those of older states are computed from checkpoints.
    pub oldest_trie: BlockNumber,
    /// How much past state is kept.
    pub mode: Mode,
    /// The engine's statistics.
    pub engine: EngineStatistics,
}

/// Statistics of the database engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStatistics {
    /// Table files.
    pub files: u64,
    /// Bytes used by its block cache.
    pub cache_bytes: u64,
    /// Capacity of its block cache.
    pub cache_capacity: u64,
    /// Memory of open table files outside the block cache.
    pub table_reader_bytes: u64,
    /// Bytes waiting for compaction.
    pub compaction_pending_bytes: u64,
    /// Whether it has stopped writes because compaction is behind.
    pub is_write_stopped: bool,
    /// Flushes and compactions that failed since it was opened.
    pub background_errors: u64,
}

impl StoreStatistics {
    /// Bytes in table files of all column families.
    pub fn disk_bytes(&self) -> u64 {
        self.columns.iter().map(|column| column.disk_bytes).sum()
    }

    /// The share of each block in these bytes, block 0 counted.
    pub fn bytes_per_block(&self, bytes: u64) -> u64 {
        bytes / self.head.0.saturating_add(1)
    }
}

impl Store {
    /// Statistics that the engine keeps anyway; cheap.
    ///
    /// # Errors
    /// [`StoreError::Engine`].
    pub fn statistics(&self) -> Result<StoreStatistics, StoreError> {
        let database = &self.shared.database;
        let column = |column: Column| {
            Ok(ColumnStatistics {
                name: column.name(),
                entries: database.property(column, "rocksdb.estimate-num-keys")?,
                disk_bytes: database.property(column, "rocksdb.total-sst-files-size")?,
                memory_bytes: database.property(column, "rocksdb.cur-size-all-mem-tables")?,
            })
        };
        Ok(StoreStatistics {
            columns: Column::ALL.iter().copied().map(column).collect::<Result<_, StoreError>>()?,
            head: self.shared.head.load().number(),
            oldest_state: BlockNumber(self.shared.oldest_state()),
            oldest_trie: BlockNumber(self.shared.whole_tries_from()),
            mode: self.mode,
            engine: self.engine_statistics()?,
        })
    }

    fn engine_statistics(&self) -> Result<EngineStatistics, StoreError> {
        let database = &self.shared.database;
        // The columns share one cache and one engine: these four values are the same for each of them.
        let any = Column::Meta;
        let sum = |name: &str| -> Result<u64, StoreError> {
            Column::ALL.iter().map(|&column| database.property(column, name)).sum()
        };
        Ok(EngineStatistics {
            files: database.files()?.len() as u64,
            cache_bytes: database.property(any, "rocksdb.block-cache-usage")?,
            cache_capacity: database.property(any, "rocksdb.block-cache-capacity")?,
            table_reader_bytes: sum("rocksdb.estimate-table-readers-mem")?,
            compaction_pending_bytes: sum("rocksdb.estimate-pending-compaction-bytes")?,
            is_write_stopped: database.property(any, "rocksdb.is-write-stopped")? > 0,
            background_errors: database.property(any, "rocksdb.background-errors")?,
        })
    }
}

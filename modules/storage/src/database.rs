//! The engine behind typed columns: every access to RocksDB goes through this file.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use rocksdb::{
    Cache, ColumnFamily, ColumnFamilyDescriptor, DBPinnableSlice, DBRawIteratorWithThreadMode, DBRecoveryMode,
    DBWithThreadMode, DEFAULT_COLUMN_FAMILY_NAME, ErrorKind, Options, ReadOptions, SingleThreaded, WriteBatch,
    WriteOptions, checkpoint::Checkpoint,
};
use tenon_api::StoreError;

use crate::{
    StoreOptions,
    folder_lock::FolderLock,
    format::columns::Column,
    full_disk::{SPACE_TO_WRITE, with_advice},
    table_list::TableList,
    write_record::{WriteRecord, unix_time},
};

/// Reads and writes may come from any thread. `SingleThreaded` only means that no column is created or dropped after
/// opening, which saves a lock and a reference count for each read.
type Engine = DBWithThreadMode<SingleThreaded>;

/// A cursor over a column.
pub(crate) type Cursor<'a> = DBRawIteratorWithThreadMode<'a, Engine>;

/// Fails if a cursor stopped because of an error rather than at the end.
pub(crate) fn cursor_status(cursor: &Cursor<'_>) -> Result<(), StoreError> {
    cursor.status().map_err(engine_error)
}

/// The open database.
pub(crate) struct Database {
    /// In an `Arc` so that it can be left open if its folder was replaced: see `drop`.
    engine: Arc<Engine>,
    tables: TableList,
    pub(crate) writes: WriteRecord,
    /// The write at which a test makes the writer panic.
    #[cfg(test)]
    pub(crate) ordered_panic: parking_lot::Mutex<Option<OrderedPanic>>,
    /// Whether a test makes every sync fail.
    #[cfg(test)]
    pub(crate) fails_to_sync: AtomicBool,
    /// Released after the engine has closed: fields are dropped in their order.
    lock: Option<FolderLock>,
}

/// A panic in the middle of a write, for tests.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct OrderedPanic {
    /// Batches that are written before.
    pub(crate) batches: usize,
    /// Whether to panic after the next batch instead of before it.
    pub(crate) is_after_batch: bool,
}

/// Seconds between two log lines about damaged records that were read.
const DAMAGE_LOG_INTERVAL: u64 = 60;

/// Whether a read of any database of this process has found damage.
static IS_DAMAGED: AtomicBool = AtomicBool::new(false);

/// Whether a checksum of a database was wrong since the process started.
pub(crate) fn was_damage_read() -> bool {
    IS_DAMAGED.load(Ordering::Relaxed)
}

/// Logs damage, and remembers it for the health report. Otherwise only the client that reads the damaged record would
/// notice it.
fn report_damage(what: &str) {
    static DAMAGE_LOGGED: AtomicU64 = AtomicU64::new(0);
    IS_DAMAGED.store(true, Ordering::Relaxed);
    let (now, last) = (unix_time(), DAMAGE_LOGGED.load(Ordering::Relaxed));
    let is_due = now.abs_diff(last) >= DAMAGE_LOG_INTERVAL;
    if is_due && DAMAGE_LOGGED.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        tracing::error!(
            error = what,
            "the database is damaged: stop the node, run `tenon db verify`, and restore the \
            data folder from a backup"
        );
    }
}

/// Converts an error of the engine. Clients see it, so it names files without their folders.
fn engine_error(error: rocksdb::Error) -> StoreError {
    let is_damage = error.kind() == ErrorKind::Corruption;
    let text = without_folders(&error.into_string());
    if is_damage {
        report_damage(&text);
    }
    StoreError::Engine(with_advice(&text))
}

/// Replaces paths, also relative ones, by the names of their files.
pub(crate) fn without_folders(text: &str) -> String {
    let shown = |word: &'_ str| match word.rsplit_once('/') {
        // Words such as "I/O" stay.
        Some((folder, file)) if folder.is_empty() || folder.len() > 1 => file.to_owned(),
        _ => word.to_owned(),
    };
    text.split(' ').map(shown).collect::<Vec<_>>().join(" ")
}

impl Database {
    /// Opens or creates the folder with all columns.
    pub(crate) fn open(path: &Path, options: &StoreOptions) -> Result<Self, rocksdb::Error> {
        let cache = Cache::new_lru_cache(options.cache_bytes);
        let mut engine = Options::default();
        engine.create_if_missing(true);
        engine.create_missing_column_families(true);
        engine.set_max_open_files(options.max_open_files);
        engine.set_max_background_jobs(options.background_threads);
        engine.set_db_write_buffer_size(options.write_buffer_bytes);
        // A column that is rarely written would otherwise keep old log files forever.
        engine.set_max_total_wal_size(options.write_buffer_bytes.max(64 << 20) as u64);
        // Spreads the kernel's write-back instead of stalling at the end of a file.
        engine.set_bytes_per_sync(1 << 20);
        // After a power loss the log is replayed up to its first gap, in whole batches and so in whole blocks.
        // `log_check` has already refused a gap that no power loss can cause.
        engine.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
        // A closed log that is missing or shortened is an error; by default RocksDB would continue with the next one.
        engine.set_track_and_verify_wals_in_manifest(true);
        engine.set_keep_log_file_num(4);
        engine.set_max_log_file_size(4 << 20);

        // A folder of a newer release may have unknown columns. They must be opened too, or the engine refuses before
        // the format version can be read and reported.
        let existing = Engine::list_cf(&Options::default(), path).unwrap_or_default();
        let unknown = existing
            .into_iter()
            .filter(|name| name != DEFAULT_COLUMN_FAMILY_NAME && Column::ALL.iter().all(|column| column.name() != name))
            .map(|name| ColumnFamilyDescriptor::new(name, Options::default()));
        let known = Column::ALL.iter().map(|column| ColumnFamilyDescriptor::new(column.name(), column.options(&cache)));
        let mut unused = Options::default();
        unused.set_write_buffer_size(SPACE_TO_WRITE);
        let unused = ColumnFamilyDescriptor::new(DEFAULT_COLUMN_FAMILY_NAME, unused);
        let engine = Engine::open_cf_descriptors(&engine, path, known.chain(unknown).chain([unused]))?;
        Ok(Self {
            engine: Arc::new(engine),
            tables: TableList::start(path),
            writes: WriteRecord::default(),
            #[cfg(test)]
            ordered_panic: parking_lot::Mutex::default(),
            #[cfg(test)]
            fails_to_sync: AtomicBool::new(false),
            lock: None,
        })
    }

    /// The same, with the lock of its folder.
    pub(crate) fn holding(mut self, lock: FolderLock) -> Self {
        self.lock = Some(lock);
        self
    }

    /// Whether another folder, or none, now has the path.
    pub(crate) fn is_folder_replaced(&self) -> bool {
        self.require_folder().is_err()
    }

    /// Refuses to write if another folder, or none, now has the path. Compactions end then, because they create and
    /// remove files by path.
    fn require_folder(&self) -> Result<(), StoreError> {
        let in_place = self.lock.as_ref().map_or(Ok(()), FolderLock::require_in_place);
        in_place.inspect_err(|_| self.engine.cancel_all_background_work(false))
    }

    fn family(&self, column: Column) -> Result<&ColumnFamily, StoreError> {
        self.engine
            .cf_handle(column.name())
            .ok_or_else(|| StoreError::Engine(format!("column family {} is missing", column.name())))
    }

    /// A record.
    pub(crate) fn get(&self, column: Column, key: &[u8]) -> Result<Option<DBPinnableSlice<'_>>, StoreError> {
        self.engine.get_pinned_cf(self.family(column)?, key).map_err(engine_error)
    }

    /// The records of keys in ascending order: faster than one by one, because neighbours share blocks and filters.
    pub(crate) fn get_sorted<'a>(
        &self,
        column: Column,
        keys: impl IntoIterator<Item = &'a Vec<u8>>,
    ) -> Result<Vec<Option<DBPinnableSlice<'_>>>, StoreError> {
        let records = self.engine.batched_multi_get_cf(self.family(column)?, keys, true);
        records.into_iter().map(|record| record.map_err(engine_error)).collect()
    }

    /// A cursor restricted to keys with the same column prefix as the key it is moved to. Checks the prefix filters
    /// first, so that looking for an absent key costs no read.
    pub(crate) fn prefix_cursor(&self, column: Column) -> Result<Cursor<'_>, StoreError> {
        let mut options = ReadOptions::default();
        options.set_prefix_same_as_start(true);
        Ok(self.engine.raw_iterator_cf_opt(self.family(column)?, options))
    }

    /// A cursor over the keys from `from` up to, not including, `to`, already at its start.
    pub(crate) fn range_cursor(
        &self,
        column: Column,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<Cursor<'_>, StoreError> {
        let mut options = ReadOptions::default();
        options.set_total_order_seek(true);
        if let Some(to) = to {
            options.set_iterate_upper_bound(to.to_vec());
        }
        let mut cursor = self.engine.raw_iterator_cf_opt(self.family(column)?, options);
        cursor.seek(from);
        Ok(cursor)
    }

    /// An empty batch.
    pub(crate) fn batch(&self) -> Batch<'_> {
        Batch { database: self, changes: WriteBatch::default() }
    }

    /// Panics if a test has ordered it, before or after a batch is written.
    #[cfg(test)]
    fn panic_if_ordered(&self, is_after_batch: bool) {
        let mut ordered = self.ordered_panic.lock();
        let Some(order) = ordered.as_mut() else { return };
        if order.batches == 0 && order.is_after_batch == is_after_batch {
            *ordered = None;
            drop(ordered);
            panic!("ordered by a test");
        }
        order.batches = order.batches.saturating_sub(usize::from(is_after_batch));
    }

    #[cfg(not(test))]
    const fn panic_if_ordered(&self, _: bool) {}

    /// Syncs the write-ahead log: everything written before is then durable.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        // Checked because the engine also writes the synced length to its list of tables, a file that it opens by path.
        self.require_folder()?;
        #[cfg(test)]
        if self.fails_to_sync.load(Ordering::Relaxed) {
            return Err(StoreError::Engine("ordered by a test".to_owned()));
        }
        self.engine.flush_wal(true).map_err(engine_error)
    }

    /// Writes the memory tables to files, so that the next start replays no log.
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        self.require_folder()?;
        let families = Column::ALL.iter().map(|column| self.family(*column)).collect::<Result<Vec<_>, _>>()?;
        let outcome = self.engine.flush_cfs_opt(&families, &rocksdb::FlushOptions::default());
        self.tables.note();
        outcome.map_err(engine_error)
    }

    /// Copies everything written so far into a folder that does not exist.
    pub(crate) fn checkpoint(&self, folder: &Path) -> Result<(), StoreError> {
        self.require_folder()?;
        let made = Checkpoint::new(&self.engine).and_then(|checkpoint| checkpoint.create_checkpoint(folder));
        // The copy has flushed the memory tables to files first.
        self.tables.note();
        // Without advice about a full disk: the copy may be on another one.
        made.map_err(|error| StoreError::Engine(without_folders(&error.into_string())))
    }

    /// The table files.
    pub(crate) fn files(&self) -> Result<Vec<rocksdb::LiveFile>, StoreError> {
        self.engine.live_files().map_err(engine_error)
    }

    /// Rewrites a column without deleted and overwritten records.
    pub(crate) fn compact(&self, column: Column) -> Result<(), StoreError> {
        self.require_folder()?;
        self.engine.compact_range_cf(self.family(column)?, None::<&[u8]>, None::<&[u8]>);
        self.tables.note();
        Ok(())
    }

    /// A numeric property of a column.
    pub(crate) fn property(&self, column: Column, name: &str) -> Result<u64, StoreError> {
        Ok(self.engine.property_int_value_cf(self.family(column)?, name).map_err(engine_error)?.unwrap_or_default())
    }
}

impl Drop for Database {
    /// Records the final list of tables. The engine only closes its files afterwards.
    ///
    /// If the folder was replaced, the engine stays open. Closing it would remove unknown tables in the new folder, and
    /// write its list of tables there.
    fn drop(&mut self) {
        self.engine.cancel_all_background_work(true);
        if self.is_folder_replaced() {
            std::mem::forget(Arc::clone(&self.engine));
        } else {
            self.tables.note();
        }
    }
}

/// Changes that are applied together or not at all.
pub(crate) struct Batch<'a> {
    database: &'a Database,
    changes: WriteBatch,
}

impl Batch<'_> {
    /// Writes a record.
    pub(crate) fn put(
        &mut self,
        column: Column,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), StoreError> {
        self.changes.put_cf(self.database.family(column)?, key, value);
        Ok(())
    }

    /// Removes a record.
    pub(crate) fn delete(&mut self, column: Column, key: impl AsRef<[u8]>) -> Result<(), StoreError> {
        self.changes.delete_cf(self.database.family(column)?, key);
        Ok(())
    }

    /// Removes the records from `from` up to, not including, `to`.
    pub(crate) fn delete_range(&mut self, column: Column, from: &[u8], to: &[u8]) -> Result<(), StoreError> {
        self.changes.delete_range_cf(self.database.family(column)?, from, to);
        Ok(())
    }

    /// Applies the changes. Once it returns they survive the death of the process, and with `is_synced` a power loss
    /// too. On an error nothing was applied.
    pub(crate) fn write(self, is_synced: bool) -> Result<(), StoreError> {
        self.database.require_folder()?;
        self.database.panic_if_ordered(false);
        let mut options = WriteOptions::default();
        options.set_sync(is_synced);
        let outcome = self.database.engine.write_opt(self.changes, &options);
        self.database.writes.note(&outcome);
        self.database.tables.note();
        self.database.panic_if_ordered(true);
        outcome.map_err(engine_error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_for_clients_name_files_without_their_folders() {
        let text =
            "Corruption: block checksum mismatch: stored = 1, computed = 2 in /var/lib/node/db/000012.sst offset 7";
        assert_eq!(
            without_folders(text),
            "Corruption: block checksum mismatch: stored = 1, computed = 2 in 000012.sst offset 7"
        );
        assert_eq!(without_folders("I/O error: node/db/000012.sst: /CURRENT"), "I/O error: 000012.sst: CURRENT");
    }
}

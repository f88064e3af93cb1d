//! Protects the engine's list of tables with a record in a file of our own.
//!
//! RocksDB appends every change of its tables to one file, the MANIFEST, and reads it up to where it breaks off. If its
//! end is missing, it looks like an older, valid list. RocksDB then opens with it, and *deletes* the tables that it
//! does not name; requests for blocks of the chain return `null`. No crash causes this (the file is synced before
//! replaced files are deleted), but a broken disk or a bad copy can. So `TABLES` records how many bytes of which
//! MANIFEST are on disk, and their hash; [`check`] compares before the engine is opened.
//!
//! Invariant: the record never claims more than the disk holds, or a good database would be refused. Hence the MANIFEST
//! is synced before its length is recorded, the record is replaced as a whole, and a process that is killed in between
//! leaves an older record. A MANIFEST only grows; each opening creates one with a higher number, and points `CURRENT`
//! to it. A missing or damaged record claims nothing. Failing to write it is not an error.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use alloy_primitives::Keccak256;
use parking_lot::Mutex;

use self::record::{Known, NO_LOG, list_number};
use crate::OpenError;

mod record;

/// The record's name in the database folder. RocksDB ignores names that are not its own.
pub(crate) const RECORD: &str = "TABLES";
/// Renamed to the record.
const NEW_RECORD: &str = "TABLES.new";
/// The engine's file with the name of its list of tables.
const CURRENT: &str = "CURRENT";
/// Maximum length of a record, which is one line.
const MAX_RECORD: u64 = 512;
/// Bytes hashed at a time.
const PIECE: usize = 64 << 10;

/// Problems of a list of tables.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableListProblem {
    /// Its file is shorter than it was.
    #[error("the end of {file}, its list of tables, is missing: it has {found} bytes, but {known} were written")]
    Torn {
        /// The list's file.
        file: String,
        /// Its length, bytes.
        found: u64,
        /// Its recorded length, bytes.
        known: u64,
    },
    /// Its bytes have changed.
    #[error("{file}, its list of tables, was changed: its first {known} bytes are not those that were written")]
    Changed {
        /// The list's file.
        file: String,
        /// The length that was compared, bytes.
        known: u64,
    },
    /// An older list has replaced it.
    #[error("CURRENT names {found} as its list of tables, which is older than {known}")]
    Older {
        /// The list named now.
        found: String,
        /// The list recorded before.
        known: String,
    },
    /// No file names the list, although there are tables.
    #[error("CURRENT, which names its list of tables, is missing")]
    Unnamed {
        /// The list that `CURRENT` must have named; `None` if that is not certain.
        list: Option<String>,
    },
    /// The newest log is missing, and with it the last blocks.
    #[error("{file}, its newest log, is missing")]
    LogMissing {
        /// The log's file.
        file: String,
    },
}

impl TableListProblem {
    /// What an operator can do about it in this folder.
    pub(crate) fn remedy(&self, folder: &Path) -> String {
        let folder = folder.display();
        let restore = "restore a copy of the folder, or import the chain into a new one";
        match self {
            Self::Unnamed { list: None } => restore.into(),
            Self::Unnamed { list: Some(list) } => {
                format!("copy the folder and run `echo {list} > '{folder}/CURRENT'`, or {restore}")
            }
            _ => format!(
                "{restore}. To continue with the remaining data: copy the folder, remove {folder}/TABLES, start, and run \
                 `tenon db verify`; files that are not in the list of tables are then deleted"
            ),
        }
    }
}

/// Refuses a folder whose list of tables is behind its record. Changes nothing.
///
/// # Errors
/// [`OpenError::TableList`].
pub(crate) fn check(folder: &Path) -> Result<(), OpenError> {
    let refused = |problem| Err(OpenError::TableList { path: folder.into(), problem });
    // The record is read first: if another process writes to the database, the record is then older than the list read
    // below.
    let known = recorded(folder);
    let current = match fs::read(folder.join(CURRENT)) {
        Ok(current) => String::from_utf8_lossy(&current).trim_end().to_owned(),
        // Without it RocksDB would create a new database over the existing tables.
        Err(error) if error.kind() == io::ErrorKind::NotFound && (known.is_some() || has_tables(folder)) => {
            return refused(TableListProblem::Unnamed { list: certain_list(folder, known) });
        }
        Err(_) => return Ok(()),
    };
    let Some(known) = known else { return Ok(()) };
    // The engine itself refuses an invalid name, or that of a missing file.
    let Some(number) = list_number(&current) else { return Ok(()) };
    match number.cmp(&list_number(&known.file).unwrap_or_default()) {
        std::cmp::Ordering::Greater => Ok(()),
        std::cmp::Ordering::Less => refused(TableListProblem::Older { found: current, known: known.file }),
        std::cmp::Ordering::Equal => match problem_of(folder, known) {
            Some(problem) => refused(problem),
            None => Ok(()),
        },
    }
}

/// The record; `None` if it is missing or, with a warning, damaged.
fn recorded(folder: &Path) -> Option<Known> {
    let path = folder.join(RECORD);
    let mut record = Vec::new();
    match File::open(&path).and_then(|file| file.take(MAX_RECORD).read_to_end(&mut record)) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "could not read the record of the tables; they are not \
                checked");
            return None;
        }
    }
    let known = Known::decode(&record);
    if known.is_none() {
        tracing::warn!(path = %path.display(), "the record of the tables is damaged; they are not checked");
    }
    known
}

fn has_tables(folder: &Path) -> bool {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.into_iter().any(|file| file.path().extension().is_some_and(|extension| extension == "sst"))
}

/// Compares the recorded list with its file.
fn problem_of(folder: &Path, known: Known) -> Option<TableListProblem> {
    let Known { file, length: known, hash, log } = known;
    let path = folder.join(&file);
    let found = length_of(&path);
    if found < known {
        return Some(TableListProblem::Torn { file, found, known });
    }
    let mut hasher = Keccak256::new();
    let hashed = File::open(&path).and_then(|mut list| update(&mut hasher, &mut list, known));
    if hashed.is_err() || hasher.finalize() != hash {
        return Some(TableListProblem::Changed { file, known });
    }
    // A log is removed only after the list has grown by an entry that it is no longer needed.
    let is_needed = found == known && log != NO_LOG;
    (is_needed && !folder.join(&log).exists()).then_some(TableListProblem::LogMissing { file: log })
}

/// Hashes `left` bytes from the file's position.
fn update(hasher: &mut Keccak256, file: &mut File, mut left: u64) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    while left > 0 {
        let max = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        let part = piece.get_mut(..max).unwrap_or_default();
        file.read_exact(part)?;
        hasher.update(part);
        left -= max as u64;
    }
    Ok(())
}

/// Maintains the record of an open database.
pub(crate) struct TableList {
    folder: PathBuf,
    /// Held while the record is written. A thread that fails to take it skips the write: the holder does it.
    state: Mutex<State>,
}

/// The last record on disk.
#[derive(Default)]
struct State {
    /// The list's file; empty before the first record.
    file: String,
    /// Number of its bytes that are hashed and recorded.
    length: u64,
    /// The hash state after these bytes, to be extended.
    hasher: Keccak256,
    /// The length at the last attempt to write the record, successful or not. The next attempt is made when the list
    /// has grown.
    tried: u64,
    /// The newest log in the record.
    log: String,
    /// The length of `log` at the last check. Every write extends the newest log: if `log` has not grown, there is a
    /// newer one.
    log_length: u64,
    /// Whether the last attempt failed, to warn once and not at every block.
    has_failed: bool,
}

impl TableList {
    /// Records the list of a database that has just been opened.
    pub(crate) fn start(folder: &Path) -> Self {
        let list = Self { folder: folder.into(), state: Mutex::default() };
        list.note();
        list
    }

    /// Records the list if it has grown, or if there is a newer log. Called after every write; without news it costs
    /// reading the lengths of two files, some two microseconds.
    pub(crate) fn note(&self) {
        let Some(mut state) = self.state.try_lock() else { return };
        if state.is_up_to_date(&self.folder) {
            return;
        }
        match state.record(&self.folder) {
            Ok(()) => state.has_failed = false,
            Err(error) => {
                if !std::mem::replace(&mut state.has_failed, true) {
                    let path = self.folder.join(RECORD);
                    tracing::warn!(path = %path.display(), %error, "the record of the tables was not \
                        written; a truncated list of tables would not be detected");
                }
            }
        }
    }
}

impl State {
    fn is_up_to_date(&mut self, folder: &Path) -> bool {
        // If a newer list has replaced this one, its file is gone or no longer grows.
        let log_length = length_of(&folder.join(&self.log));
        let has_log_grown = std::mem::replace(&mut self.log_length, log_length) < log_length;
        !self.file.is_empty() && has_log_grown && length_of(&folder.join(&self.file)) == self.tried
    }

    fn record(&mut self, folder: &Path) -> io::Result<()> {
        let file = fs::read_to_string(folder.join(CURRENT))?.trim_end().to_owned();
        if file != self.file {
            *self = Self { file, has_failed: self.has_failed, ..Self::default() };
        }
        let mut list = File::open(folder.join(&self.file))?;
        let length = list.metadata()?.len();
        self.tried = length;
        let new = length.checked_sub(self.length).ok_or_else(|| io::Error::other("the list has become shorter"))?;
        // The engine has synced it, but perhaps not its latest entries.
        list.sync_data()?;
        list.seek(SeekFrom::Start(self.length))?;
        let mut hasher = self.hasher.clone();
        update(&mut hasher, &mut list, new)?;
        let hash = hasher.clone().finalize();
        // Read after the length: this log cannot be removed before the list has grown beyond it.
        let log = newest_log(folder)?;
        if log == NO_LOG && new == 0 && !self.log.is_empty() && self.log != NO_LOG {
            // The record keeps the log's name, so that the next start refuses the folder if the node is killed.
            return Err(io::Error::other(format!(
                "another program removed {}, which has the latest blocks; stop the node with SIGTERM, so that it writes \
                 them elsewhere",
                self.log
            )));
        }
        replace(folder, &Known { file: self.file.clone(), length, hash, log: log.clone() }.encode())?;
        self.log_length = length_of(&folder.join(&log));
        (self.length, self.hasher, self.log) = (length, hasher, log);
        Ok(())
    }
}

/// The list of a folder without `CURRENT`, if it is certain. With a record, the newest list must match the record;
/// without one, it must be the only list. With an incomplete list, the engine would delete tables.
fn certain_list(folder: &Path, known: Option<Known>) -> Option<String> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = files.into_iter().map(|file| file.file_name().to_string_lossy().into_owned());
    let mut lists: Vec<_> = names.filter_map(|name| Some((list_number(&name)?, name))).collect();
    lists.sort();
    let (is_only, (_, newest)) = (lists.len() == 1, lists.pop()?);
    let is_certain = known.map_or(is_only, |known| known.file == newest && problem_of(folder, known).is_none());
    is_certain.then_some(newest)
}

/// Length of a file; 0 if missing.
fn length_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

/// The name of the log with the highest number.
fn newest_log(folder: &Path) -> io::Result<String> {
    let mut newest = None;
    for file in fs::read_dir(folder)? {
        let name = file?.file_name().to_string_lossy().into_owned();
        let number = name.strip_suffix(".log").and_then(|number| number.parse::<u64>().ok());
        newest = newest.max(number.map(|number| (number, name)));
    }
    Ok(newest.map_or_else(|| NO_LOG.into(), |(_, name)| name))
}

/// Replaces the record atomically: after a power loss it is the old one or the new one.
fn replace(folder: &Path, record: &str) -> io::Result<()> {
    let path = folder.join(NEW_RECORD);
    let mut file = File::create(&path)?;
    file.write_all(record.as_bytes())?;
    file.sync_data()?;
    fs::rename(path, folder.join(RECORD))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failure fails the test")]

    use super::*;

    /// A folder whose list has these bytes.
    fn folder(number: u64, list: &[u8]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), number, list);
        folder
    }

    fn put(folder: &Path, number: u64, list: &[u8]) {
        fs::write(folder.join(format!("MANIFEST-{number:06}")), list).unwrap();
        fs::write(folder.join(CURRENT), format!("MANIFEST-{number:06}\n")).unwrap();
    }

    #[test]
    fn the_record_follows_a_growing_list_and_its_replacement() {
        let folder = folder(4, b"one");
        let tables = TableList::start(folder.path());
        let length = || recorded(folder.path()).map(|known| (known.file, known.length));
        assert_eq!(length(), Some(("MANIFEST-000004".into(), 3)));

        put(folder.path(), 4, b"one two");
        assert_eq!(check(folder.path()), Ok(()));
        tables.note();
        assert_eq!(length(), Some(("MANIFEST-000004".into(), 7)));
        assert_eq!(check(folder.path()), Ok(()));

        // The engine starts a new list when the old one has reached its maximum size.
        put(folder.path(), 12, b"2");
        assert_eq!(check(folder.path()), Ok(()));
        fs::remove_file(folder.path().join("MANIFEST-000004")).unwrap();
        assert_eq!(check(folder.path()), Ok(()));
        tables.note();
        assert_eq!(length(), Some(("MANIFEST-000012".into(), 1)));
        assert_eq!(check(folder.path()), Ok(()));
    }

    #[test]
    fn a_log_may_be_removed_once_the_list_has_grown() {
        let folder = folder(4, b"one");
        fs::write(folder.path().join("000009.log"), b"").unwrap();
        fs::write(folder.path().join("000010.log"), b"").unwrap();
        drop(TableList::start(folder.path()));

        fs::remove_file(folder.path().join("000009.log")).unwrap();
        assert_eq!(check(folder.path()), Ok(()));
        fs::remove_file(folder.path().join("000010.log")).unwrap();
        let problem = TableListProblem::LogMissing { file: "000010.log".into() };
        assert_eq!(check(folder.path()), Err(OpenError::TableList { path: folder.path().into(), problem }));
        put(folder.path(), 4, b"one two");
        assert_eq!(check(folder.path()), Ok(()));
    }

    #[test]
    fn each_newer_log_is_recorded_whatever_the_lengths_of_those_before_it() {
        for lengths in [[3, 2, 1, 1], [1, 2, 3, 3], [2, 2, 2, 0]] {
            let folder = folder(4, b"one");
            let tables = TableList::start(folder.path());
            for (number, length) in (9..).zip(lengths) {
                let log = format!("{number:06}.log");
                fs::write(folder.path().join(&log), vec![0; length]).unwrap();
                tables.note();
                assert_eq!(recorded(folder.path()).unwrap().log, log, "{lengths:?}");
            }
        }
    }

    #[test]
    fn a_list_of_the_engine_that_is_rolled_with_every_change_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let mut options = rocksdb::Options::default();
        options.create_if_missing(true);
        options.set_max_manifest_file_size(1);
        let engine = rocksdb::DB::open(&options, folder.path()).unwrap();
        let tables = TableList::start(folder.path());
        let first = recorded(folder.path()).unwrap();
        for round in 0_u8..20 {
            engine.put([round], [round]).unwrap();
            engine.flush().unwrap();
            assert_eq!(check(folder.path()), Ok(()));
            tables.note();
            assert_eq!(check(folder.path()), Ok(()));
        }

        let last = recorded(folder.path()).unwrap();
        assert!(list_number(&last.file) > list_number(&first.file), "{first:?} {last:?}");
        let list = folder.path().join(&last.file);
        File::options().write(true).open(list).unwrap().set_len(last.length - 1).unwrap();
        assert!(check(folder.path()).is_err());
    }
}

//! What is known of the engine's list of tables, kept beside it in a file of our own.
//!
//! RocksDB appends every change of its tables to one file, the MANIFEST, and reads it up to where it breaks off. With
//! its end missing it is an older list in good order: RocksDB opens with that one, *deletes* the tables that it does not
//! name, and `null` is answered for blocks that the chain has. No crash does this (the file is synced before what it
//! replaces goes), but a broken disk or a bad copy can. So `TABLES` says how many bytes of which MANIFEST are on the
//! disk, and what they hash to; [`check`] compares before the engine is opened.
//!
//! What must always hold: the record never says more than the disk holds, or a good database would be refused. Hence
//! the MANIFEST is synced before its length is recorded, the record is replaced as a whole, and a process that is killed
//! in between leaves one that says less. A MANIFEST only grows; each opening makes one with a higher number, and moves
//! `CURRENT` to it. A record that is missing or damaged says nothing. One that can't be written stops nobody.

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

/// The record's name in the database folder. RocksDB leaves names alone that are not its own.
pub(crate) const RECORD: &str = "TABLES";
/// Becomes the record by a rename.
const NEW_RECORD: &str = "TABLES.new";
/// The engine's file that names its list of tables.
const CURRENT: &str = "CURRENT";
/// Records are of one line; more is none.
const LONGEST_RECORD: u64 = 512;
/// Bytes that are hashed at a time.
const PIECE: usize = 64 << 10;

/// What is wrong with a list of tables.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableListProblem {
    /// Its file is shorter than it was.
    #[error("the end of {file}, its list of tables, is missing: {found} bytes are there, {known} were written")]
    Torn {
        /// The list's file.
        file: String,
        /// Its length, bytes.
        found: u64,
        /// The length that it is known to have had, bytes.
        known: u64,
    },
    /// Its bytes are others than they were.
    #[error("{file}, its list of tables, was changed: its first {known} bytes are not those that were written")]
    Changed {
        /// The list's file.
        file: String,
        /// The length over which it was compared, bytes.
        known: u64,
    },
    /// An older list has taken its place.
    #[error("CURRENT names {found} as its list of tables, which is older than {known}")]
    Older {
        /// The list that is named.
        found: String,
        /// The list that was named before.
        known: String,
    },
    /// Nothing says which file the list is, although there are tables.
    #[error("CURRENT, which names its list of tables, is missing")]
    Unnamed,
    /// The newest log is gone, and with it the last blocks.
    #[error("{file}, its newest log, is missing")]
    LogMissing {
        /// The log's file.
        file: String,
    },
}

/// Refuses a folder whose list of tables is less than what is recorded of it. Changes nothing.
///
/// # Errors
/// [`OpenError::TableList`].
pub(crate) fn check(folder: &Path) -> Result<(), OpenError> {
    let refused = |problem| Err(OpenError::TableList { path: folder.into(), problem });
    // The record first: of a database that another process is writing to it then says less than what is read later.
    let known = recorded(folder);
    let current = match fs::read(folder.join(CURRENT)) {
        Ok(current) => String::from_utf8_lossy(&current).trim_end().to_owned(),
        // Without it RocksDB would begin a new database, over the tables that are there.
        Err(error) if error.kind() == io::ErrorKind::NotFound && (known.is_some() || has_tables(folder)) => {
            return refused(TableListProblem::Unnamed);
        }
        Err(_) => return Ok(()),
    };
    let Some(known) = known else { return Ok(()) };
    // What is no name, or the name of nothing, the engine refuses itself.
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

/// The record; none when it is missing or, with a warning, damaged.
fn recorded(folder: &Path) -> Option<Known> {
    let path = folder.join(RECORD);
    let mut record = Vec::new();
    match File::open(&path).and_then(|file| file.take(LONGEST_RECORD).read_to_end(&mut record)) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "record of the tables not read; they are not compared with it");
            return None;
        }
    }
    let known = Known::decode(&record);
    if known.is_none() {
        tracing::warn!(path = %path.display(), "record of the tables is damaged; they are not compared with it");
    }
    known
}

fn has_tables(folder: &Path) -> bool {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.into_iter().any(|file| file.path().extension().is_some_and(|extension| extension == "sst"))
}

/// Compares the list that is recorded with its file.
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
    // A log goes only after the list has grown by the words that it is not needed any more.
    let is_needed = found == known && log != NO_LOG;
    (is_needed && !folder.join(&log).exists()).then_some(TableListProblem::LogMissing { file: log })
}

/// Hashes so many bytes from where the file stands.
fn update(hasher: &mut Keccak256, file: &mut File, mut left: u64) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        let part = piece.get_mut(..most).unwrap_or_default();
        file.read_exact(part)?;
        hasher.update(part);
        left -= most as u64;
    }
    Ok(())
}

/// Keeps the record of an open database.
pub(crate) struct TableList {
    folder: PathBuf,
    /// Held while the record is written; who does not get it leaves that to who has it.
    state: Mutex<State>,
}

/// How much of which list is recorded.
#[derive(Default)]
struct State {
    /// The list's file; empty before the first record.
    file: String,
    /// Bytes of it that are hashed and recorded.
    length: u64,
    /// The hash of these bytes, to which the next ones are added.
    hasher: Keccak256,
    /// The length at which the record was written, or could not be: it is tried again when the list has grown.
    tried: u64,
    /// The newest log that is recorded.
    log: String,
    /// Its length when it was looked at last. What is written makes the newest log longer; when this one is not, there is
    /// a newer one.
    log_length: u64,
    /// Whether the last attempt failed, so that one warning is given and not one a block.
    has_failed: bool,
}

impl TableList {
    /// Records the list of a database that has just been opened.
    pub(crate) fn start(folder: &Path) -> Self {
        let list = Self { folder: folder.into(), state: Mutex::default() };
        list.note();
        list
    }

    /// Records the list if it has grown, or if there is a newer log. Called after everything that is written: what finds
    /// nothing new costs a look at the lengths of two files, some two microseconds.
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
                    tracing::warn!(path = %path.display(), %error, "record of the tables not written; a torn list of them would not be noticed");
                }
            }
        }
    }
}

impl State {
    fn is_up_to_date(&mut self, folder: &Path) -> bool {
        // A list that has been replaced by a newer one is gone, or does not grow until it is.
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
        // The engine has synced it, but perhaps not its last words yet.
        list.sync_data()?;
        list.seek(SeekFrom::Start(self.length))?;
        let mut hasher = self.hasher.clone();
        update(&mut hasher, &mut list, new)?;
        let hash = hasher.clone().finalize();
        // After the length: this log can't go before the list has grown beyond it.
        let log = newest_log(folder)?;
        replace(folder, &Known { file: self.file.clone(), length, hash, log: log.clone() }.encode())?;
        self.log_length = length_of(&folder.join(&log));
        (self.length, self.hasher, self.log) = (length, hasher, log);
        Ok(())
    }
}

/// Bytes of a file; 0 of one that is not there.
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

/// Replaces the record as a whole: cut off by a power loss, it is the old one or the new one.
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
    fn the_record_follows_a_list_that_grows_and_one_that_takes_its_place() {
        let folder = folder(4, b"one");
        let tables = TableList::start(folder.path());
        let length = || recorded(folder.path()).map(|known| (known.file, known.length));
        assert_eq!(length(), Some(("MANIFEST-000004".into(), 3)));

        put(folder.path(), 4, b"one two");
        assert_eq!(check(folder.path()), Ok(()));
        tables.note();
        assert_eq!(length(), Some(("MANIFEST-000004".into(), 7)));
        assert_eq!(check(folder.path()), Ok(()));

        // The engine begins a new one when the old one has its full size.
        put(folder.path(), 12, b"2");
        assert_eq!(check(folder.path()), Ok(()));
        fs::remove_file(folder.path().join("MANIFEST-000004")).unwrap();
        assert_eq!(check(folder.path()), Ok(()));
        tables.note();
        assert_eq!(length(), Some(("MANIFEST-000012".into(), 1)));
        assert_eq!(check(folder.path()), Ok(()));
    }

    #[test]
    fn a_log_may_go_once_the_list_has_grown_and_not_before() {
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

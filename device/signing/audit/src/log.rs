//! Writing a log.

use std::{
    fs::{self, File, TryLockError},
    io::{Seek as _, SeekFrom, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use alloy_primitives::{B256, Bytes};

use crate::{
    AuditError, Checkpoint, Line, Memory, Report, Step,
    checkpoint::{CHECKPOINT_FILE, KEY_FILE, Sealer},
    line::{MAX_LINE, hash_of},
    owner,
    scan::{files, path_of, scan},
};

const LOCK_FILE: &str = "lock";
/// Length at which a new file is begun, bytes.
pub(crate) const FILE_BYTES: u64 = 64 << 20;

/// A log that is open for writing. Its folder stays locked until it is dropped.
pub struct AuditLog {
    folder: PathBuf,
    file: File,
    path: PathBuf,
    /// Length of the file, bytes.
    length: u64,
    /// Number and hash of the last entry.
    last: (u64, B256),
    memory: Memory,
    sealer: Sealer,
    /// A line could not be written, so the end of the file is unknown.
    is_broken: bool,
    file_bytes: u64,
    lock: File,
}

/// Result of opening a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The state of the log when it was opened.
    pub report: Report,
    /// The public key that its checkpoints are signed with, compressed (33 bytes).
    pub key: Bytes,
}

impl AuditLog {
    /// Opens the log of a folder, which is created if it is missing. Checks every line, rebuilds the memory from them,
    /// and removes a line that was only partly written when the service ended.
    ///
    /// # Errors
    /// [`AuditError`]: another process uses the folder, the log was changed, or a file can't be read or written.
    pub fn open(folder: &Path) -> Result<(Self, Opened), AuditError> {
        Self::open_with(folder, FILE_BYTES)
    }

    /// Like [`AuditLog::open`], with another maximum file length.
    pub(crate) fn open_with(folder: &Path, file_bytes: u64) -> Result<(Self, Opened), AuditError> {
        make_folder(folder)?;
        let lock = locked(folder)?;
        let mut memory = Memory::default();
        let (report, end) = scan(folder, |line| memory.take(line))?;
        let checkpoint = Checkpoint::read(folder)?;
        let sealer = Sealer::open(folder, checkpoint.as_ref(), report.files)?;
        let path = end.path.unwrap_or_else(|| path_of(folder, 1));
        let file = opened(&path, end.length, report.torn_bytes > 0)?;
        let last = (report.entries, report.last_hash);
        let (folder, key) = (folder.to_owned(), sealer.public_key());
        let log =
            Self { folder, file, path, length: end.length, last, memory, sealer, is_broken: false, file_bytes, lock };
        Ok((log, Opened { report, key }))
    }

    /// The state that the entries imply for later requests.
    pub const fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Number and hash of the last line.
    pub const fn last(&self) -> (u64, B256) {
        self.last
    }

    /// Writes an entry. When this returns, the entry is on disk and the checkpoint names it. `now` is in seconds since
    /// 1970; if it is before the time of the last entry, the entry gets that time.
    ///
    /// # Errors
    /// [`AuditError`] if it could not be written. Every later call then fails too, and nothing may be signed.
    pub fn append(&mut self, entry: Step, now: u64) -> Result<(), AuditError> {
        self.append_all([entry], now)
    }

    /// Like [`AuditLog::append`] for several entries, with one write and one checkpoint. On failure none of them takes
    /// effect.
    ///
    /// # Errors
    /// Those of [`AuditLog::append`].
    pub fn append_all(&mut self, entries: impl IntoIterator<Item = Step>, now: u64) -> Result<(), AuditError> {
        if self.is_broken {
            return Err(AuditError::Broken);
        }
        let time = now.max(tenon_signing_policy::History::latest(&self.memory));
        let (mut last, mut text, mut lines) = (self.last, Vec::new(), Vec::new());
        for entry in entries {
            let mut line = Line { number: last.0 + 1, time, previous: last.1, entry, signature: None };
            self.sealer.sign_line(&mut line);
            let written = serde_json::to_vec(&line).unwrap_or_default();
            if written.len() >= MAX_LINE {
                return Err(AuditError::TooLong(written.len()));
            }
            last = (line.number, hash_of(&written));
            text.extend_from_slice(&written);
            text.push(b'\n');
            lines.push(line);
        }
        let Some(first) = lines.first() else { return Ok(()) };
        let written = self.write(&text, first.number).and_then(|()| self.sealer.write(last.0, last.1));
        if let Err(error) = written {
            self.is_broken = true;
            return Err(error);
        }
        self.last = last;
        lines.iter().for_each(|line| self.memory.take(line));
        Ok(())
    }

    /// Checks that the paths still lead to the files that were opened. Writes to a moved or removed file would be lost,
    /// and a lock on one keeps no other service out.
    fn check_files(&self) -> Result<(), AuditError> {
        let file = self.file.metadata().map_err(|error| AuditError::file(&self.path, error))?;
        if file.len() != self.length || !is_at(&self.path, &file)? {
            return Err(AuditError::Replaced(self.path.clone()));
        }
        let lock = self.folder.join(LOCK_FILE);
        let held = self.lock.metadata().map_err(|error| AuditError::file(&lock, error))?;
        if is_at(&lock, &held)? { Ok(()) } else { Err(AuditError::Replaced(lock)) }
    }

    fn write(&mut self, text: &[u8], number: u64) -> Result<(), AuditError> {
        self.check_files()?;
        if self.length >= self.file_bytes {
            self.path = path_of(&self.folder, number);
            self.file = opened(&self.path, 0, false)?;
            self.length = 0;
        }
        let written = self.file.write_all(text).and_then(|()| self.file.sync_data());
        written.map_err(|error| AuditError::file(&self.path, error))?;
        self.length += text.len() as u64;
        Ok(())
    }
}

/// Whether the file at `path` is the one with this metadata.
fn is_at(path: &Path, held: &fs::Metadata) -> Result<bool, AuditError> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (held.dev(), held.ino())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(AuditError::file(path, error)),
    }
}

/// Creates the folder if it is missing. Checks that only root and the service's user can change the folder, its parent
/// folder and its files.
fn make_folder(folder: &Path) -> Result<(), AuditError> {
    use std::os::unix::fs::DirBuilderExt as _;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| AuditError::file(folder, error))?;
    owner::check_with_folder(folder)?;
    for path in files(folder)?.into_iter().chain([LOCK_FILE, KEY_FILE, CHECKPOINT_FILE].map(|name| folder.join(name))) {
        owner::check(&path)?;
    }
    Ok(())
}

fn locked(folder: &Path) -> Result<File, AuditError> {
    let path = folder.join(LOCK_FILE);
    let lock = fs::OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let lock = lock.map_err(|error| AuditError::file(&path, error))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(AuditError::InUse(folder.to_owned())),
        Err(TryLockError::Error(error)) => Err(AuditError::file(path, error)),
    }
}

/// Opens a file of the log, positioned at its end. If `is_torn`, the partial line after `length` is removed.
fn opened(path: &Path, length: u64, is_torn: bool) -> Result<File, AuditError> {
    let open = || {
        let mut file = fs::OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
        if is_torn {
            file.set_len(length)?;
            file.sync_all()?;
        }
        file.seek(SeekFrom::Start(length))?;
        if let Some(folder) = path.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok(file)
    };
    open().map_err(|error| AuditError::file(path, error))
}

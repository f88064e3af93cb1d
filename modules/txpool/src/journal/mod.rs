//! The file that restores local transactions after a restart.
//!
//! Every record has a checksum. The file is only appended to, or replaced as a whole by rotation; a record that a full
//! disk cut short is removed at once. So a crash or a full disk costs at most the record being written.
//!
//! Invariants: a file that is not a journal is left unchanged, even if the settings name it; only a regular file is
//! ever opened or replaced.

mod place;
mod records;

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use tenon_api::RecoveredTransaction;

use records::PartialFile;
pub(crate) use records::{read_records, record};

/// Growth after which the file is rotated, in bytes.
const ROTATE_AFTER: u64 = 16 * 1024 * 1024;

/// Why the journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be read or written.
    #[error("transaction journal {}: {source}; solve that, or choose another file with txpool.journal", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The path is not a regular file.
    #[error("transaction journal {}: it is {found}; choose a regular file with txpool.journal", path.display())]
    NoFile {
        /// The path in the settings.
        path: PathBuf,
        /// The kind of file found there.
        found: &'static str,
    },
    /// The file has content, but none of a journal.
    #[error(
        "transaction journal {}: the file has other content and was not changed; choose another one with \
         txpool.journal",
        path.display()
    )]
    NoJournal {
        /// The file.
        path: PathBuf,
    },
    /// Another file replaced it while it was open.
    #[error("transaction journal {}: another file now has its name and was not changed; move it away", path.display())]
    Replaced {
        /// The file.
        path: PathBuf,
    },
}

impl JournalError {
    fn io(path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path: path.clone(), source }
    }
}

/// Permissions of the file: the transactions of the node's operator are readable by its owner only.
const MODE: u32 = 0o600;

/// An open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// Length of the file up to the end of its last whole record, in bytes. Anything beyond is torn, and is cut off
    /// before the next record.
    length: u64,
    /// Whether there may be bytes beyond `length`.
    is_torn: bool,
    /// Bytes appended since the last rotation.
    appended: u64,
}

impl Journal {
    /// Passes every whole record of the file to `take`, oldest first, and opens it for appending. A link is followed. A
    /// file with damaged records among others is first copied to a file next to it.
    pub(crate) fn open(named: &Path, take: impl FnMut(&[u8])) -> Result<Self, JournalError> {
        let path = &place::real_path(named)?;
        let failed = JournalError::io(path);
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(&failed)?;
        }
        let file = place::open(path)?;
        let length = file.metadata().map_err(&failed)?.len();
        let found = read_records(&file, take).map_err(&failed)?;
        let partial_file = match found.whole {
            0 if length > 0 => records::partial_file(&file).map_err(&failed)?,
            _ => PartialFile::Torn,
        };
        if partial_file == PartialFile::Foreign {
            return Err(JournalError::NoJournal { path: path.clone() });
        }
        if found.damaged > 0 {
            tracing::warn!(bytes = found.damaged, journal = %path.display(), "damaged records of the journal were skipped");
        }
        if partial_file == PartialFile::Damaged || !found.is_torn_only(length) {
            let copy = place::copy_aside(path).map_err(&failed)?;
            tracing::warn!(copy = %copy.display(), "the damaged journal was copied");
        }
        Ok(Self { path: path.clone(), file, length: found.whole, is_torn: found.damaged > 0, appended: 0 })
    }

    /// Adds a transaction. It reaches the disk with the operating system's next flush: the journal is only a
    /// convenience, and the submitter still has the transaction.
    ///
    /// # Errors
    /// [`JournalError`] if it could not be written whole, for example on a full disk. The written part is cut off.
    pub(crate) fn append(&mut self, raw: &[u8]) -> Result<(), JournalError> {
        let record = record(raw);
        self.write(&record).map_err(JournalError::io(&self.path))?;
        self.appended = self.appended.saturating_add(record.len() as u64);
        Ok(())
    }

    fn write(&mut self, record: &[u8]) -> io::Result<()> {
        self.cut_torn_end()?;
        self.is_torn = true;
        if let Err(error) = self.file.write_all(record) {
            // If this fails too, the next record retries it.
            let _ = self.cut_torn_end();
            return Err(error);
        }
        self.is_torn = false;
        self.length += record.len() as u64;
        Ok(())
    }

    fn cut_torn_end(&mut self) -> io::Result<()> {
        if self.is_torn {
            self.file.set_len(self.length)?;
            self.is_torn = false;
        }
        Ok(())
    }

    /// Whether enough was appended for a rotation to be worthwhile.
    pub(crate) const fn needs_rotation(&self) -> bool {
        self.appended > ROTATE_AFTER
    }

    /// Whether the open file was deleted, so that the next start would not find what is written to it.
    pub(crate) fn was_deleted(&self) -> bool {
        // Some file systems in user space give no count of links.
        let is_missing =
            || fs::symlink_metadata(&self.path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        self.file.metadata().is_ok_and(|file| file.nlink() == 0) && is_missing()
    }

    /// Replaces the file by one with only these transactions. After an error the old one stays in use.
    pub(crate) fn rotate(&mut self, transactions: &[RecoveredTransaction]) -> Result<(), JournalError> {
        if !self.is_at_path() {
            return Err(JournalError::Replaced { path: self.path.clone() });
        }
        let fresh = place::beside(&self.path, ".rotating");
        place::remove_leftover(&fresh)?;
        self.replace(&fresh, transactions).map_err(|source| {
            let _ = fs::remove_file(&fresh);
            JournalError::Io { path: self.path.clone(), source }
        })
    }

    /// Whether the path still refers to the open file, or to none.
    fn is_at_path(&self) -> bool {
        match (fs::symlink_metadata(&self.path), self.file.metadata()) {
            (Ok(named), Ok(open)) => (named.dev(), named.ino()) == (open.dev(), open.ino()),
            (Err(error), _) => error.kind() == io::ErrorKind::NotFound,
            (Ok(_), Err(_)) => false,
        }
    }

    fn replace(&mut self, fresh: &Path, transactions: &[RecoveredTransaction]) -> io::Result<()> {
        let file = OpenOptions::new().create_new(true).write(true).mode(MODE).open(fresh)?;
        let mut writer = BufWriter::new(file);
        let mut length = 0;
        for recovered in transactions {
            let record = record(&tenon_chain::encode_transaction(&recovered.transaction));
            writer.write_all(&record)?;
            length += record.len() as u64;
        }
        writer.into_inner()?.sync_all()?;
        // Opened before it is renamed, so that nothing can fail after the rename.
        let file = OpenOptions::new().append(true).open(fresh)?;
        fs::rename(fresh, &self.path)?;
        (self.file, self.length, self.is_torn, self.appended) = (file, length, false, 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        Journal::open(path, |raw| records.push(raw.to_vec())).unwrap();
        records
    }

    #[test]
    fn appended_records_are_read_again_without_the_torn_end_of_a_crash() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub/transactions.journal");
        let mut journal = Journal::open(&path, |_| panic!("a new journal is empty")).unwrap();
        journal.append(b"one").unwrap();
        journal.append(b"three").unwrap();
        assert_eq!(read(&path), [b"one".to_vec(), b"three".to_vec()]);

        for tail in [&b"\0"[..], b"\0\0\0\x09four", b"\xff\xff\xff\xff", &record(b"four")[..14]] {
            let whole = fs::read(&path).unwrap();
            fs::write(&path, [&whole, tail].concat()).unwrap();
            assert_eq!(read(&path), [b"one".to_vec(), b"three".to_vec()], "{tail:?}");
            fs::write(&path, whole).unwrap();
        }
    }

    #[test]
    fn rotation_keeps_only_the_given_transactions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("transactions.journal");
        let mut journal = Journal::open(&path, |_| ()).unwrap();
        journal.append(b"one").unwrap();

        journal.rotate(&[]).unwrap();
        journal.append(b"two").unwrap();

        assert_eq!(read(&path), [b"two".to_vec()]);
    }

    /// The first truncation fails too in this test; on a real disk it succeeds (`tests/faults/test_pool.py`).
    #[test]
    fn a_record_cut_short_by_a_full_disk_is_removed_before_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("transactions.journal");
        let mut journal = Journal::open(&path, |_| ()).unwrap();
        journal.append(b"one").unwrap();
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let real = std::mem::replace(&mut journal.file, full);
        journal.append(b"two").unwrap_err();
        (&real).write_all(&record(b"two")[..10]).unwrap();
        journal.file = real;

        journal.append(b"three").unwrap();

        let whole = [record(b"one"), record(b"three")].concat();
        assert_eq!(fs::read(&path).unwrap(), whole);
        assert_eq!(read(&path), [b"one".to_vec(), b"three".to_vec()]);
    }

    #[test]
    fn a_torn_end_found_at_the_start_is_cut_off_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("transactions.journal");
        fs::write(&path, [&record(b"one"), &record(b"two")[..10]].concat()).unwrap();
        let mut journal = Journal::open(&path, |_| ()).unwrap();

        journal.append(b"three").unwrap();

        assert_eq!(fs::read(&path).unwrap(), [record(b"one"), record(b"three")].concat());
    }

    #[test]
    fn a_journal_that_cannot_be_opened_is_named() {
        let folder = tempfile::tempdir().unwrap();

        let error = Journal::open(folder.path(), |_| ()).unwrap_err().to_string();

        assert!(
            error.starts_with(&format!("transaction journal {}: it is a folder", folder.path().display())),
            "{error}"
        );
    }

    #[test]
    fn a_file_that_is_not_a_journal_is_refused_and_left_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.txt");
        for foreign in
            [&b"x"[..], b"{\"keys\": []}", &[0xc0; 100_000], &[0, 0, 0, 0x20, 0x66, 0x74, 0x79, 0x70].repeat(99)]
        {
            fs::write(&path, foreign).unwrap();

            let error = Journal::open(&path, |_| panic!("no record")).unwrap_err().to_string();

            assert!(error.contains("has other content and was not changed"), "{error}");
            assert_eq!(fs::read(&path).unwrap(), foreign);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_torn_first_record_and_a_file_of_zeros_are_accepted_as_remains_of_a_crash() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("transactions.journal");
        for left in [&record(b"one")[..1], &record(b"one")[..7], &[0; 4096]] {
            fs::write(&path, left).unwrap();

            let mut journal = Journal::open(&path, |_| panic!("no record")).unwrap();
            journal.append(b"two").unwrap();

            assert_eq!(read(&path), [b"two".to_vec()], "{left:?}");
        }
    }

    #[test]
    fn a_journal_with_damaged_records_is_copied_before_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("transactions.journal");
        let damaged = [&record(b"one")[..], b"some other text", &record(b"two")].concat();
        fs::write(&path, &damaged).unwrap();

        let mut journal = Journal::open(&path, |_| ()).unwrap();
        journal.rotate(&[]).unwrap();

        assert_eq!(fs::read(folder.path().join("transactions.journal.damaged-1")).unwrap(), damaged);
        assert_eq!(fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn a_journal_whose_only_record_is_damaged_is_copied_and_continued() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("transactions.journal");
        let mut damaged = record(b"one");
        *damaged.last_mut().unwrap() ^= 1;
        fs::write(&path, &damaged).unwrap();

        let mut journal = Journal::open(&path, |_| panic!("no record")).unwrap();
        journal.append(b"two").unwrap();

        assert_eq!(read(&path), [b"two".to_vec()]);
        assert_eq!(fs::read(folder.path().join("transactions.journal.damaged-1")).unwrap(), damaged);
    }

    #[test]
    fn links_are_followed_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, record(b"one")).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();

        let mut journal = Journal::open(&link, |_| ()).unwrap();
        journal.rotate(&[]).unwrap();
        journal.append(b"two").unwrap();

        assert!(link.is_symlink());
        assert_eq!(fs::read(&target).unwrap(), record(b"two"));
        fs::remove_file(&target).unwrap();
        let error = Journal::open(&link, |_| ()).unwrap_err().to_string();
        assert!(error.contains("it is a link to a file that does not exist"), "{error}");
    }

    #[test]
    fn pipes_sockets_and_devices_are_named_and_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());

        let refused =
            [&socket, &pipe, Path::new("/dev/zero")].map(|path| Journal::open(path, |_| ()).unwrap_err().to_string());

        for (error, what) in refused.iter().zip(["a socket", "a pipe", "a device"]) {
            assert!(error.contains(&format!("it is {what}; choose a regular file")), "{error}");
        }
        assert!(fs::symlink_metadata(&pipe).is_ok() && socket.exists());
    }

    #[test]
    fn another_file_at_the_journals_path_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("transactions.journal");
        let mut journal = Journal::open(&path, |_| ()).unwrap();
        journal.append(b"one").unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "mine").unwrap();

        let error = journal.rotate(&[]).unwrap_err().to_string();

        assert!(error.contains("another file now has its name"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        let other = folder.path().join("other.journal");
        let mut journal = Journal::open(&other, |_| ()).unwrap();
        fs::write(folder.path().join("other.new"), "mine").unwrap();
        journal.rotate(&[]).unwrap();
        assert_eq!(fs::read(folder.path().join("other.new")).unwrap(), b"mine");
    }
}

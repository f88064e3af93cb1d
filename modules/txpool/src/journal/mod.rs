//! The file that brings local transactions back after a restart.
//!
//! Every record has a checksum. The file is only ever appended to, and replaced whole by rotation; what a full disk
//! left of a record is cut off at once. So a crash or a full disk costs at most the record that was being written.

mod records;

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use tenon_api::RecoveredTransaction;

pub(crate) use records::{read_records, record};

/// When the file has grown by this much it is rotated, bytes.
const ROTATE_AFTER: u64 = 16 * 1024 * 1024;

/// The journal can't be used.
#[derive(Debug, thiserror::Error)]
#[error("transaction journal {}: {source}; remove the file or name another one", path.display())]
pub struct JournalError {
    /// The file.
    path: PathBuf,
    /// Why.
    source: io::Error,
}

/// Rights of the file: only its owner reads what this node's operator sends.
const MODE: u32 = 0o600;

/// An open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// Bytes of the file that are whole records. What lies beyond them was torn, and is cut off before the next record.
    length: u64,
    /// Whether something may lie beyond `length`.
    is_torn: bool,
    /// Bytes appended since the last rotation.
    appended: u64,
}

impl Journal {
    /// Passes every whole record of the file to `take`, oldest first, and opens it for appending.
    pub(crate) fn open(path: &Path, take: impl FnMut(&[u8])) -> Result<Self, JournalError> {
        let failed = |source| JournalError { path: path.to_owned(), source };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let file = OpenOptions::new().create(true).read(true).append(true).mode(MODE).open(path).map_err(failed)?;
        let found = read_records(&file, take).map_err(failed)?;
        if found.damaged > 0 {
            tracing::warn!(bytes = found.damaged, journal = %path.display(), "damaged records of the journal were skipped");
        }
        Ok(Self { path: path.to_owned(), file, length: found.whole, is_torn: found.damaged > 0, appended: 0 })
    }

    /// Adds a transaction. It reaches the disk with the operating system's next flush: the journal is a
    /// convenience, and the submitter still has the transaction.
    ///
    /// # Errors
    /// [`JournalError`] when it could not be written whole, for example on a full disk. What was written of it is cut off.
    pub(crate) fn append(&mut self, raw: &[u8]) -> Result<(), JournalError> {
        let record = record(raw);
        self.write(&record).map_err(|source| JournalError { path: self.path.clone(), source })?;
        self.appended = self.appended.saturating_add(record.len() as u64);
        Ok(())
    }

    fn write(&mut self, record: &[u8]) -> io::Result<()> {
        self.cut_torn_end()?;
        self.is_torn = true;
        if let Err(error) = self.file.write_all(record) {
            // If that fails too, the next record tries it again.
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

    /// Whether enough was appended for a rotation to pay.
    pub(crate) const fn wants_rotation(&self) -> bool {
        self.appended > ROTATE_AFTER
    }

    /// Replaces the file by one that holds these transactions only. After an error the old one stays in use.
    pub(crate) fn rotate(&mut self, transactions: &[RecoveredTransaction]) -> Result<(), JournalError> {
        let fresh = self.path.with_extension("new");
        self.replace(&fresh, transactions).map_err(|source| {
            let _ = fs::remove_file(&fresh);
            JournalError { path: self.path.clone(), source }
        })
    }

    fn replace(&mut self, fresh: &Path, transactions: &[RecoveredTransaction]) -> io::Result<()> {
        let file = OpenOptions::new().create(true).write(true).truncate(true).mode(MODE).open(fresh)?;
        let mut writer = BufWriter::new(file);
        let mut length = 0;
        for recovered in transactions {
            let record = record(&tenon_chain::encode_transaction(&recovered.transaction));
            writer.write_all(&record)?;
            length += record.len() as u64;
        }
        writer.into_inner()?.sync_all()?;
        // Opened before it gets its name: after the renaming nothing can fail any more.
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
    fn what_was_appended_is_read_again_without_the_tail_of_a_crash() {
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
    fn rotation_leaves_nothing_but_what_is_given() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("transactions.journal");
        let mut journal = Journal::open(&path, |_| ()).unwrap();
        journal.append(b"one").unwrap();

        journal.rotate(&[]).unwrap();
        journal.append(b"two").unwrap();

        assert_eq!(read(&path), [b"two".to_vec()]);
    }

    /// The first cut fails as well here; with a real disk it holds (`tests/faults/test_pool.py`).
    #[test]
    fn what_a_full_disk_left_of_a_record_is_cut_off_before_the_next() {
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
    fn a_torn_end_that_was_there_at_the_start_is_cut_off_too() {
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

        assert!(error.starts_with(&format!("transaction journal {}: ", folder.path().display())), "{error}");
    }
}

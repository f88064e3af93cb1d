//! The file that brings local transactions back after a restart.
//!
//! Records are a length of four bytes (big endian) and the canonical bytes of a transaction. The file is only
//! ever appended to, and replaced whole by rotation, so that a crash costs at most the last record.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
};

use tenon_api::RecoveredTransaction;

use crate::validation::MAX_TRANSACTION_BYTES;

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

/// An open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// Bytes appended since the last rotation.
    appended: u64,
}

impl Journal {
    /// Hands every record of the file to `take`, oldest first, and opens it for appending.
    pub(crate) fn open(path: &Path, take: impl FnMut(&[u8])) -> Result<Self, JournalError> {
        let failed = |source| JournalError { path: path.to_owned(), source };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let file = OpenOptions::new().create(true).read(true).append(true).open(path).map_err(failed)?;
        read_records(BufReader::new(&file), take).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file, appended: 0 })
    }

    /// Adds a transaction. It reaches the disk with the operating system's next flush: the journal is a
    /// convenience, and the submitter still has the transaction.
    pub(crate) fn append(&mut self, raw: &[u8]) -> Result<(), JournalError> {
        let record = record(raw);
        self.file.write_all(&record).map_err(|source| JournalError { path: self.path.clone(), source })?;
        self.appended = self.appended.saturating_add(record.len() as u64);
        Ok(())
    }

    /// Whether enough was appended for a rotation to pay.
    pub(crate) const fn wants_rotation(&self) -> bool {
        self.appended > ROTATE_AFTER
    }

    /// Replaces the file by one that holds these transactions only.
    pub(crate) fn rotate(&mut self, transactions: &[RecoveredTransaction]) -> Result<(), JournalError> {
        self.replace(transactions).map_err(|source| JournalError { path: self.path.clone(), source })
    }

    fn replace(&mut self, transactions: &[RecoveredTransaction]) -> io::Result<()> {
        let fresh = self.path.with_extension("new");
        let mut writer = BufWriter::new(File::create(&fresh)?);
        for recovered in transactions {
            writer.write_all(&record(&tenon_chain::encode_transaction(&recovered.transaction)))?;
        }
        writer.into_inner()?.sync_all()?;
        fs::rename(&fresh, &self.path)?;
        self.file = OpenOptions::new().append(true).open(&self.path)?;
        self.appended = 0;
        Ok(())
    }
}

pub(crate) fn record(raw: &[u8]) -> Vec<u8> {
    // The pool takes nothing near 4 GiB in.
    let length = u32::try_from(raw.len()).unwrap_or(u32::MAX);
    let mut record = Vec::with_capacity(raw.len() + 4);
    record.extend_from_slice(&length.to_be_bytes());
    record.extend_from_slice(raw);
    record
}

/// Stops without error at a record that is cut off or has an impossible length: the tail of a crash.
pub(crate) fn read_records(mut reader: impl Read, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut raw = Vec::new();
    loop {
        let mut length = [0; 4];
        match reader.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            outcome => outcome?,
        }
        let length = u64::from(u32::from_be_bytes(length));
        if length > MAX_TRANSACTION_BYTES {
            tracing::warn!(length, "transaction journal ends in a damaged record");
            return Ok(());
        }
        raw.clear();
        if reader.by_ref().take(length).read_to_end(&mut raw)? as u64 != length {
            return Ok(());
        }
        take(&raw);
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

        for tail in [&b"\0"[..], b"\0\0\0\x09four", b"\xff\xff\xff\xff"] {
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

    #[test]
    fn a_journal_that_cannot_be_opened_is_named() {
        let folder = tempfile::tempdir().unwrap();

        let error = Journal::open(folder.path(), |_| ()).unwrap_err().to_string();

        assert!(error.starts_with(&format!("transaction journal {}: ", folder.path().display())), "{error}");
    }
}

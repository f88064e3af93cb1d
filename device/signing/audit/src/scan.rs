//! Reads a log: checks every line, the hash chain and the checkpoint.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
};

use alloy_primitives::{B256, Bytes};

use crate::{
    AuditError, Checkpoint, Line, bounded,
    checkpoint::public_key,
    line::{MAX_LINE, hash_of},
    log::FILE_BYTES,
};

/// Reason for an unsigned entry beyond the checkpoint. Builds before lines were signed wrote such entries.
const UNSIGNED: &str = "the entry is beyond the checkpoint and not signed with the log's key; if an earlier build wrote it and \
    was killed, start and stop that build once";

/// Prefix and suffix of the file names. Between them is the number of the first entry, zero-padded so that names sort.
const FILE_PREFIX: &str = "audit-";
const FILE_SUFFIX: &str = ".jsonl";
/// Maximum length of a file, bytes. A request's entries are written together, so the last ones may exceed the length at
/// which a new file is begun.
const MAX_FILE: u64 = FILE_BYTES + 16 * MAX_LINE as u64;

/// Summary of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of files.
    pub files: usize,
    /// Number of entries.
    pub entries: u64,
    /// Hash of the last line.
    pub last_hash: B256,
    /// Time of the last entry, seconds since 1970.
    pub last_time: u64,
    /// The key that signed the checkpoint, compressed (33 bytes); `None` if there is no checkpoint.
    pub key: Option<Bytes>,
    /// Length in bytes of a partial last line, which was being written when the service ended. No signature was
    /// released for it.
    pub torn_bytes: u64,
}

/// The last file, for the writer.
#[derive(Clone, Debug, Default)]
pub(crate) struct End {
    pub(crate) path: Option<PathBuf>,
    /// Length without a torn line, bytes.
    pub(crate) length: u64,
}

/// Verifies a log and passes each line to `take`. The folder may be in use; lines written during the check may be
/// missed.
///
/// The checkpoint must be signed with `key` (compressed, 33 bytes), or with the folder's key file if `key` is `None`.
/// With any other key, a person who can write the files could have rewritten the whole log.
///
/// # Errors
/// [`AuditError`]:
///
/// - there is no log, or a file can't be read;
/// - a line was changed, removed, swapped or added, or the end was cut off;
/// - the checkpoint is signed with another key, or no key is given and the folder has none.
pub fn verify(folder: &Path, key: Option<&Bytes>, take: impl FnMut(&Line)) -> Result<Report, AuditError> {
    let (report, _) = scan(folder, take)?;
    if report.files == 0 && report.key.is_none() {
        return Err(AuditError::NoLog { folder: folder.to_owned(), has_key: public_key(folder)?.is_some() });
    }
    let Some(signer) = &report.key else { return Ok(report) };
    let own = match key {
        Some(key) => Some(key.clone()),
        None => public_key(folder)?,
    };
    let path = || folder.join("checkpoint.json");
    match own {
        Some(own) if own == *signer => Ok(report),
        Some(_) => Err(AuditError::Checkpoint { path: path(), reason: "it is not signed with the key of the log" }),
        None => Err(AuditError::NoKey(path())),
    }
}

/// Like [`verify`] without the check of the key; also returns the end of the last file.
pub(crate) fn scan(folder: &Path, mut take: impl FnMut(&Line)) -> Result<(Report, End), AuditError> {
    // The checkpoint is read before the log: the log may be ahead of its checkpoint, but never behind it.
    let checkpoint = Checkpoint::read(folder)?;
    let (mut report, mut end) = (Report::default(), End::default());
    let mut at_checkpoint = None;
    let paths = files(folder)?;
    for (position, path) in paths.iter().enumerate() {
        let is_last = position + 1 == paths.len();
        let mut found = FileScan { path, is_last, report: &mut report, checkpoint: checkpoint.as_ref() };
        end = End { path: Some(path.clone()), length: found.read(&mut at_checkpoint, &mut take)? };
        report.files += 1;
    }
    report.key = checkpoint.as_ref().map(|checkpoint| checkpoint.key.clone());
    match checkpoint {
        None if report.files > 0 => {
            let path = folder.join("checkpoint.json");
            return Err(AuditError::Checkpoint { path, reason: "it is missing, although the log has files" });
        }
        Some(checkpoint) if report.entries < checkpoint.number => {
            return Err(AuditError::CutOff { found: report.entries, wanted: checkpoint.number });
        }
        Some(checkpoint) => {
            let AtCheckpoint { hash, path, line } = at_checkpoint.unwrap_or_default();
            if hash != checkpoint.hash {
                return Err(AuditError::Damaged { path, line, reason: "the entry differs from the checkpoint" });
            }
        }
        None => {}
    }
    Ok((report, end))
}

/// The files of a log, oldest first.
///
/// # Errors
/// [`AuditError::File`].
pub fn files(folder: &Path) -> Result<Vec<PathBuf>, AuditError> {
    let entries = fs::read_dir(folder).map_err(|error| AuditError::file(folder, error))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| AuditError::file(folder, error))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with(FILE_PREFIX) && name.ends_with(FILE_SUFFIX) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Reads a file of a log without checking it.
///
/// # Errors
/// [`AuditError::File`], also if it is longer than the service writes.
pub fn read_file(path: &Path) -> Result<Vec<u8>, AuditError> {
    bounded::read(path, MAX_FILE).map_err(|error| AuditError::file(path, error))
}

/// Path of the file whose first entry has this number.
pub(crate) fn path_of(folder: &Path, first: u64) -> PathBuf {
    folder.join(format!("{FILE_PREFIX}{first:020}{FILE_SUFFIX}"))
}

/// The line that the checkpoint names.
#[derive(Default)]
struct AtCheckpoint {
    hash: B256,
    path: PathBuf,
    line: u64,
}

struct FileScan<'a> {
    path: &'a Path,
    is_last: bool,
    report: &'a mut Report,
    checkpoint: Option<&'a Checkpoint>,
}

impl FileScan<'_> {
    /// Reads the lines of a file; returns its length without a partial last line. Sets `at_checkpoint` to the line that
    /// the checkpoint names.
    fn read(
        &mut self,
        at_checkpoint: &mut Option<AtCheckpoint>,
        take: &mut impl FnMut(&Line),
    ) -> Result<u64, AuditError> {
        let path = self.path;
        let failed = |error| AuditError::file(path, error);
        if *self.path != path_of(self.path.parent().unwrap_or(Path::new("")), self.report.entries + 1) {
            return Err(self.damaged(1, "the file does not begin with the entry in its name"));
        }
        let mut reader = BufReader::new(bounded::open(self.path).map_err(failed)?);
        let (mut length, mut count) = (0, 0);
        let mut text = Vec::new();
        loop {
            text.clear();
            // A line and its end have at most MAX_LINE bytes, so that a line without an end has fewer.
            let read = reader.by_ref().take(MAX_LINE as u64).read_until(b'\n', &mut text).map_err(failed)?;
            if read == 0 {
                return Ok(length);
            }
            count += 1;
            let Some(line) = text.strip_suffix(b"\n") else {
                if read == MAX_LINE {
                    return Err(self.damaged(count, "the line is too long"));
                }
                return self.torn(read as u64, count).map(|()| length);
            };
            let hash = self.check(line, count, take)?;
            if self.checkpoint.is_some_and(|checkpoint| checkpoint.number == self.report.entries) {
                *at_checkpoint = Some(AtCheckpoint { hash, path: self.path.to_owned(), line: count });
            }
            length += read as u64;
        }
    }

    /// Handles a line without a line end, which is accepted only as the last one of the log and after the checkpoint's
    /// entry.
    fn torn(&mut self, bytes: u64, line: u64) -> Result<(), AuditError> {
        let is_known = self.checkpoint.is_some_and(|checkpoint| checkpoint.number > self.report.entries);
        if !self.is_last || is_known {
            return Err(self.damaged(line, "the line is incomplete"));
        }
        self.report.torn_bytes = bytes;
        Ok(())
    }

    fn check(&mut self, text: &[u8], position: u64, take: &mut impl FnMut(&Line)) -> Result<B256, AuditError> {
        let line: Line =
            serde_json::from_slice(text).map_err(|_| self.damaged(position, "the line is not an entry"))?;
        if serde_json::to_vec(&line).is_ok_and(|written| written != text) {
            return Err(self.damaged(position, "the line does not have the form of entries"));
        }
        if line.number != self.report.entries + 1 {
            return Err(self.damaged(
                position,
                "the number of the entry is wrong: entries were removed, added or \
                swapped",
            ));
        }
        if line.previous != self.report.last_hash {
            return Err(self.damaged(position, "the previous entry was changed, or this one is from another log"));
        }
        if line.time < self.report.last_time {
            return Err(self.damaged(position, "the entry is older than the previous one"));
        }
        // The checkpoint covers the lines up to its own. The chain of hashes alone proves nothing: anyone can continue it.
        if let Some(checkpoint) = self.checkpoint
            && line.number > checkpoint.number
            && !line.is_signed_by(&checkpoint.key)
        {
            return Err(self.damaged(position, UNSIGNED));
        }
        self.report.entries = line.number;
        self.report.last_hash = hash_of(text);
        self.report.last_time = line.time;
        take(&line);
        Ok(self.report.last_hash)
    }

    fn damaged(&self, line: u64, reason: &'static str) -> AuditError {
        AuditError::Damaged { path: self.path.to_owned(), line, reason }
    }
}

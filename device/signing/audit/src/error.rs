//! Why a log can't be used.

use std::path::PathBuf;

use crate::owner::ExposedPath;

/// A log can't be read or written. Nothing is signed in this case.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// A file can't be read or written.
    #[error("{}: {reason}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: std::io::Error,
    },
    /// Another process uses the folder.
    #[error("{}: another signing service uses this folder", .0.display())]
    InUse(PathBuf),
    /// A line was changed, removed, swapped or added.
    #[error("{}, line {line}: {reason}; restore the log from a copy", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The error.
        reason: &'static str,
    },
    /// The end of the log is missing.
    #[error("the log ends at entry {found}, but its checkpoint names entry {wanted}: the end was cut off")]
    CutOff {
        /// Number of the last entry; 0 if there is none.
        found: u64,
        /// Number in the checkpoint.
        wanted: u64,
    },
    /// The checkpoint is missing, or not signed with the log's key.
    #[error("{}: {reason}", .path.display())]
    Checkpoint {
        /// Its file.
        path: PathBuf,
        /// The error.
        reason: &'static str,
    },
    /// The folder has no entries and no checkpoint.
    #[error("{}: {}", .folder.display(), missing_log(*.has_key))]
    NoLog {
        /// The folder.
        folder: PathBuf,
        /// Whether it has a log's key.
        has_key: bool,
    },
    /// The log can't be verified without the key that signs its checkpoints.
    #[error(
        "{}: can't check whether it is signed with the log's key, as audit.key is not beside it; give the public key \
         with --key (the service prints it when it starts)", .0.display()
    )]
    NoKey(PathBuf),
    /// An earlier line could not be written, so the state of the file is unknown.
    #[error("an earlier write to the log failed; restart the service")]
    Broken,
    /// Other users may read or change files that are for the service's owner only.
    #[error("{}: {access}", .path.display())]
    Exposed {
        /// The file or folder.
        path: PathBuf,
        /// Who has access.
        access: tenon_file_access::FileExposure,
    },
    /// A file of the log was removed, shortened or replaced while the log was open.
    #[error("{}: removed or changed while the service runs; nothing is signed any more", .0.display())]
    Replaced(PathBuf),
    /// An entry is too long for a line.
    #[error("an entry of {0} bytes is too long for the log")]
    TooLong(usize),
}

fn missing_log(has_key: bool) -> &'static str {
    if has_key {
        "the log's key (audit.key) exists, but neither entries nor a checkpoint: the log was removed. Restore it from a \
         copy. If there is none, delete audit.key to begin a new log; the service then forgets what it has signed, for \
         all windows and nonces"
    } else {
        "the folder has no audit log (audit-….jsonl, checkpoint.json): give the folder that `log` in the settings of \
         the service names"
    }
}

impl From<ExposedPath> for AuditError {
    fn from(ExposedPath { path, access }: ExposedPath) -> Self {
        Self::Exposed { path, access }
    }
}

impl AuditError {
    /// Wraps the I/O error of a file.
    pub(crate) fn file(path: impl Into<PathBuf>, reason: std::io::Error) -> Self {
        Self::File { path: path.into(), reason }
    }
}

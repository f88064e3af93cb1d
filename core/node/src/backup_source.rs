//! A backup or snapshot that is read, and why it was not used.

use std::fmt;
use std::path::Path;

use crate::exit::Stop;

/// The file that lists a backup's content.
pub(crate) const MANIFEST: &str = "backup.json";

/// A backup or snapshot that is read, as errors name it.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    /// Its folder or file.
    pub(crate) path: &'a Path,
    /// "backup" or "snapshot".
    pub(crate) kind: &'static str,
}

impl<'a> Source<'a> {
    /// A backup in a folder.
    pub(crate) const fn backup(path: &'a Path) -> Self {
        Self { path, kind: "backup" }
    }

    /// A snapshot, in a folder or in one file.
    pub(crate) const fn snapshot(path: &'a Path) -> Self {
        Self { path, kind: "snapshot" }
    }

    /// The error for a damaged part.
    pub(crate) fn damaged(self, part: &str, problem: &str) -> Stop {
        self.refused(format_args!("{part} {problem}"))
    }

    /// The error for the backup or snapshot as a whole.
    pub(crate) fn refused(self, problem: impl fmt::Display) -> Stop {
        let kind = self.kind;
        Stop::Failure(format!("{kind} {}: {problem}; use another {kind}", self.path.display()))
    }

    /// The error for a list that cannot be used.
    pub(crate) fn not_whole(self, problem: &dyn fmt::Display) -> Stop {
        let (list, kind) = (self.path.join(MANIFEST), self.kind);
        Stop::Failure(format!("{}: {problem}; the {kind} is incomplete, make another one", list.display()))
    }

    /// The error for a place without a list.
    pub(super) fn not_one(self) -> Stop {
        let (path, kind) = (self.path.display(), self.kind);
        Stop::Usage(match self.path.exists() {
            true => format!("{path} is not a {kind}, or was not finished: it has no {MANIFEST}; give another"),
            false => format!("{path}: no such {kind}"),
        })
    }
}

/// Why a backup or snapshot was not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    /// Its content differs from its list: every attempt would fail.
    #[error(transparent)]
    Wrong(Stop),
    /// The disk, an option or an interruption was the reason: another attempt may succeed.
    #[error(transparent)]
    Attempt(#[from] Stop),
}

impl From<SourceError> for Stop {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Wrong(stop) | SourceError::Attempt(stop) => stop,
        }
    }
}

//! Why a plugin could not run in a process of its own.

use std::path::PathBuf;

/// Why a plugin could not run in a process of its own.
#[derive(Debug, thiserror::Error)]
pub enum IsolationError {
    /// Its process did not get ready to serve.
    #[error("plugin {}: {reason}", path.display())]
    Process {
        /// The file.
        path: PathBuf,
        /// Why the process failed.
        reason: String,
    },
    /// Its process refused the library. The text names the file.
    #[error("{0}")]
    Refused(String),
}

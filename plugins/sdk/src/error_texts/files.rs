//! Errors about files that a request names, in the words of the reference (`docs/spec/rpc-node.md` 4).

use std::path::Path;

/// The text for a file that could be opened but not read.
pub(crate) fn unreadable_file_text(path: &Path, reason: &str) -> String {
    format!("could not read file: {}: {reason}", path.display())
}

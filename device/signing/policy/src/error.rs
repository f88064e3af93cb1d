//! Why a policy is not accepted.

use std::path::PathBuf;

/// A policy is not accepted. The one in force stays.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// A file can't be read.
    #[error("{}: {reason}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The text is no policy file: bad TOML, an unknown key, a value of the wrong form. The reason names the line.
    #[error("the policy is not valid: {0}")]
    Form(String),
    /// A rule says something that has no meaning.
    #[error("rule \"{rule}\": {reason}")]
    Rule {
        /// The rule's name.
        rule: String,
        /// What is wrong, and what to write instead.
        reason: String,
    },
    /// An interface of contracts can't be used.
    #[error("interface \"{name}\": {reason}")]
    Interface {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
}

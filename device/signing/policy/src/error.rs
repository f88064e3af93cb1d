//! Why a policy is rejected.

use std::path::PathBuf;

/// A policy is rejected. The current one stays in force.
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
    /// The text is not a policy file: bad TOML, an unknown key or a value of the wrong form. The reason names the line.
    #[error("the policy is not valid: {0}")]
    Form(String),
    /// A rule is contradictory or incomplete.
    #[error("rule \"{rule}\": {reason}")]
    Rule {
        /// The rule's name.
        rule: String,
        /// What is wrong, and what to write instead.
        reason: String,
    },
    /// The interface of a contract can't be used.
    #[error("interface \"{name}\": {reason}")]
    Interface {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
}

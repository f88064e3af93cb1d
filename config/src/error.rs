//! Errors of settings.

use std::path::PathBuf;

/// Source of a value.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
pub enum Origin {
    /// The built-in default.
    #[display("default")]
    Default,
    /// The default of one command, such as `dev`.
    #[display("default of `{_0}`")]
    Command(&'static str),
    /// A settings file.
    #[display("{}:{line}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
    },
    /// An environment variable.
    #[display("environment {_0}")]
    Environment(String),
    /// A flag, with its dashes.
    #[display("flag {_0}")]
    Flag(String),
    /// An argument without dashes, by its name in the help text.
    #[display("argument {_0}")]
    Argument(&'static str),
}

/// An invalid setting. Every text names the source, the key, and the correction.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The settings file cannot be read.
    #[error("{}: can't read the settings file: {source}; give another with --config", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The settings file is not TOML.
    #[error("{}:{line}:{column}: not valid TOML: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// Column, counted from 1.
        column: usize,
        /// The parser's message.
        message: String,
    },
    /// A key of the file that is not a setting.
    #[error("{}:{line}: unknown key `{key}`; {fix}", path.display())]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// The key with its section.
        key: String,
        /// How to correct it.
        fix: String,
    },
    /// An invalid value.
    #[error("{origin}: `{key}`: {problem}")]
    BadValue {
        /// Its source.
        origin: Origin,
        /// The setting's key.
        key: String,
        /// The problem and the expected value.
        problem: String,
    },
    /// An unknown network.
    #[error("{origin}: unknown network `{name}`; {fix}")]
    UnknownNetwork {
        /// Its source.
        origin: Origin,
        /// The name.
        name: String,
        /// How to correct it.
        fix: String,
    },
}

use std::fmt;
use std::path::PathBuf;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Built in.
    Default,
    /// Built in for one command, such as `dev`.
    Command(&'static str),
    /// A settings file.
    File {
        /// The file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
    },
    /// An environment variable.
    Environment(String),
    /// A flag, with its dashes.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::Command(command) => write!(formatter, "default of `{command}`"),
            Self::File { path, line } => write!(formatter, "{}:{line}", path.display()),
            Self::Environment(name) => write!(formatter, "environment {name}"),
            Self::Flag(flag) => write!(formatter, "flag {flag}"),
        }
    }
}

/// A setting that can't be used. Every text names the place, the key, and what to write instead.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The settings file can't be read.
    #[error("{}: can't read the settings file: {source}; give another with --config", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
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
        /// The parser's words.
        message: String,
    },
    /// A key of the file that no setting has.
    #[error("{}:{line}: unknown key `{key}`; {fix}", path.display())]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// The key with its section.
        key: String,
        /// What to do.
        fix: String,
    },
    /// A value that does not fit its setting.
    #[error("{origin}: `{key}`: {problem}")]
    BadValue {
        /// Where it stands.
        origin: Origin,
        /// The setting's key.
        key: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// A network that this program has no definition of.
    #[error("{origin}: unknown network `{name}`; {fix}")]
    UnknownNetwork {
        /// Where it stands.
        origin: Origin,
        /// The name.
        name: String,
        /// What to do.
        fix: String,
    },
}

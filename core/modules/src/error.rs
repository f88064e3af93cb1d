//! Why an operation on a module failed.

use std::{io::ErrorKind, path::PathBuf};

use tenon_api::{BusError, Capability};
use tenon_host::HostError;
use tenon_isolation::IsolationError;
use tenon_sdk::Failure;

use crate::actor::SwitchError;

/// Why an operation on a module failed.
#[derive(Debug, thiserror::Error)]
pub enum ModuleError {
    /// The library was refused.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Its process was not started.
    #[error(transparent)]
    Isolation(#[from] IsolationError),
    /// This program has no subcommand that runs plugins.
    #[error("plugin {}: this program cannot start plugins in processes of their own", path.display())]
    NoProcesses {
        /// The file.
        path: PathBuf,
    },
    /// A module was to be enabled for a duration out of range.
    #[error("a module can be enabled for 1 to {max} seconds")]
    BadTime {
        /// Maximum duration, in seconds.
        max: u64,
    },
    /// A build that is neither built in nor vouched for would replace one that is.
    #[error("module {name}: {}: this build (SHA-256 {hash}) is neither built in nor vouched for, and the module is not a \
        foreign one; vouch for it with --trust or plugins.trusted, or load it under another name", path.display())]
    UnknownBuild {
        /// The module.
        name: String,
        /// The library.
        path: PathBuf,
        /// SHA-256 of the library, hex.
        hash: String,
    },
    /// The settings require a foreign build to run in the node's own process.
    #[error("module {name}: {}: isolation = \"in-process\", but this build (SHA-256 {hash}) is neither built in nor \
        vouched for, and nothing would restrict it in the node's process; vouch for it with --trust or \
        plugins.trusted, or leave isolation out", path.display())]
    ForeignInProcess {
        /// The module.
        name: String,
        /// The library.
        path: PathBuf,
        /// SHA-256 of the library, hex.
        hash: String,
    },
    /// A foreign build would serve a namespace of a built-in plugin.
    #[error("plugin {}: namespace {namespace} belongs to a built-in plugin, and this build is neither built in nor vouched for; \
        build it with a namespace of its own, or vouch for it with --trust or plugins.trusted", path.display())]
    ReservedNamespace {
        /// The file.
        path: PathBuf,
        /// The namespace.
        namespace: String,
    },
    /// Another plugin serves the namespace.
    #[error("plugin {}: namespace {namespace} is served by {by} already; disable that module first, or put the library in its place with `tenon module replace`", path.display())]
    NamespaceTaken {
        /// The file.
        path: PathBuf,
        /// The namespace.
        namespace: String,
        /// The plugin that serves it.
        by: String,
    },
    /// The plugin refused to start.
    #[error("plugin {}: did not start: {failure}{}", path.display(), missing_grants(missing))]
    NotStarted {
        /// The file.
        path: PathBuf,
        /// Its reason.
        failure: Failure,
        /// Requested capabilities that were not granted.
        missing: Vec<Capability>,
    },
    /// No module has this name.
    #[error("there is no module {name:?}; there are: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The known modules.
        known: String,
    },
    /// A module actor that cannot be stopped.
    #[error("module {name} cannot be stopped: {reason}")]
    Fixed {
        /// The module.
        name: String,
        /// Why it cannot be changed.
        reason: &'static str,
    },
    /// Its storage could not be removed.
    #[error("storage of module {name}: {failure}")]
    Space {
        /// The module.
        name: String,
        /// The reason.
        failure: Failure,
    },
    /// A module actor did not start.
    #[error("module {name} did not start: {error}")]
    Actor {
        /// The module.
        name: String,
        /// Its reason.
        error: SwitchError,
    },
    /// All plugins together took too long to start with the node.
    #[error(
        "module {name}: not started, because the plugins used all of {whole:?} to start; `tenon module enable \
         {name}` starts it"
    )]
    NoTimeLeft {
        /// The module.
        name: String,
        /// Their time limit.
        whole: std::time::Duration,
    },
    /// The file with the operator's run-time choices can't be read. It says which modules are disabled, and what
    /// plugins are granted.
    #[error(
        "stored choices about modules, {}: {reason}; the file says which modules are disabled and what plugins are \
         granted: correct the file, or remove it and disable again the modules that you do not want", path.display()
    )]
    Choices {
        /// The file.
        path: PathBuf,
        /// The problem with it.
        reason: String,
    },
    /// The operation was done, but the choice could not be written for the next start.
    #[error(
        "module {name}: the change is in effect but could not be saved in {}: {reason}; it is lost when the node \
         stops; fix the problem and repeat the command", path.display()
    )]
    ChoicesNotStored {
        /// The module.
        name: String,
        /// The file.
        path: PathBuf,
        /// The system's error.
        reason: String,
    },
    /// The text is neither a plugin's name nor its path.
    #[error("{name:?} is not a valid module name; expected: letters, digits, - and _, at most 64")]
    BadName {
        /// The given text.
        name: String,
    },
    /// The path is longer than the system allows.
    #[error("plugin {beginning}: a path has at most {max} bytes")]
    LongPath {
        /// Its beginning.
        beginning: String,
        /// Maximum length, in bytes.
        max: usize,
    },
    /// A file whose name gives no module name.
    #[error("plugin {}: the library is not named NAME.so or libNAME.so; give the name of the module too", path.display())]
    NamelessFile {
        /// The file.
        path: PathBuf,
    },
    /// No plugin folder has a library of this name.
    #[error(
        "no plugin folder has a library for {name}; looked in {folders}: copy it there as libtenon_plugin_{name}.so"
    )]
    NotFound {
        /// The name.
        name: String,
        /// The folders that were searched.
        folders: String,
    },
    /// The module is not in a state that allows the operation.
    #[error("module {name} {problem}")]
    WrongState {
        /// The module.
        name: String,
        /// The conflict.
        problem: String,
    },
    /// A plugin needs a namespace that is not served, or not in that version.
    #[error("module {name} needs {need}: {problem}")]
    Needs {
        /// The module.
        name: String,
        /// The needed namespace, with its version.
        need: String,
        /// The namespace's actual state.
        problem: String,
    },
    /// Enabled modules need the one that would be removed.
    #[error("module {name} is needed by {by}; disable that first")]
    NeededBy {
        /// The module.
        name: String,
        /// The modules that need it.
        by: String,
    },
    /// The operation itself crashed.
    #[error("the operation crashed; the log has more")]
    Crashed,
    /// Another operation is under way.
    #[error("another operation on modules is running")]
    Busy,
    /// The host is shutting down.
    #[error("the node is shutting down")]
    ShuttingDown,
}

impl ModuleError {
    /// Whether the disk had no space for the copy of a library.
    pub(crate) fn lacks_space(&self) -> bool {
        let Self::Host(HostError::File { reason, .. }) = self else { return false };
        matches!(reason.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
    }

    /// The error for a plugin with the name of a module actor.
    pub(crate) fn name_of_actor(name: &str) -> Self {
        let problem = "is a part of the node; give the library another name".to_owned();
        Self::WrongState { name: name.to_owned(), problem }
    }
}

/// Capabilities that an operator may have to grant a plugin that did not start.
fn missing_grants(missing: &[Capability]) -> String {
    if missing.is_empty() {
        return String::new();
    }
    let names: Vec<_> = missing.iter().map(|capability| capability.name()).collect();
    let names = names.join(",");
    format!(
        "; it requests {names}, which it was not granted: grant them with --grant {names}, or under capabilities in \
         its settings"
    )
}

impl From<ModuleError> for BusError {
    fn from(error: ModuleError) -> Self {
        Self::failed(error)
    }
}

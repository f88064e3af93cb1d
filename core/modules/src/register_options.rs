//! The settings of the register.

use std::{num::NonZeroUsize, path::PathBuf, sync::Arc, thread::available_parallelism, time::Duration};

use tenon_api::{Capability, PluginSpaces, SpaceLimits};
use tenon_bus::MemoryBudget;
use tenon_host::{BuiltIns, NamespaceAlias, PluginFolder, VouchedBuilds};
use tenon_isolation::IsolationOptions;

/// Concurrent slow calls of a plugin per thread of the work pool: enough that few wait behind one that computes.
const SLOW_CALLS_PER_THREAD: usize = 16;

/// Settings of a [`ModuleRegister`](crate::ModuleRegister).
#[derive(Clone, Debug)]
pub struct ModuleOptions {
    /// Folder for the library copies to load. Created if missing, readable and writable by its owner only: write access
    /// here is code execution in the node. Two nodes must not share it, because unused copies are removed.
    pub cache_folder: PathBuf,
    /// Folders from which libraries may be loaded at run time.
    pub folders: Vec<PluginFolder>,
    /// File with the operator's run-time choices; with `None` they are not stored.
    pub choices_file: Option<PathBuf>,
    /// How plugins run in their own processes; `None` if this program cannot be started as such a process.
    pub processes: Option<IsolationOptions>,
    /// Time limit for running calls to end when their plugin is removed.
    pub grace: Duration,
    /// Maximum number of concurrent methods of the slow class (EVM runs, scans) of one plugin, at most half of them of
    /// one client. Most of their work is a job of the work pool, which limits how much is computed at a time; this
    /// limits how many may wait there.
    pub slow_calls: NonZeroUsize,
    /// Maximum number of waiting calls of the slow class; further ones are refused with `-32005`.
    pub slow_queue: usize,
    /// Budget for memory that plugins keep for clients, and that plugins' calls use.
    pub memory: MemoryBudget,
    /// Storage of the plugins; with `None` they can store nothing.
    pub spaces: Option<Arc<dyn PluginSpaces>>,
    /// Storage limit of a plugin whose settings have none.
    pub space_limits: SpaceLimits,
    /// Other names of namespaces, including those that are not served: a plugin's methods for them are then not served
    /// either.
    pub aliases: Vec<NamespaceAlias>,
    /// Namespaces that the node's chain does not have: their plugins get no routes.
    pub unserved: Vec<String>,
    /// Maximum capabilities of plugins; each receives those that it requests out of these and its own settings.
    pub granted: Vec<Capability>,
    /// Time limit for all plugins together to start with the node. Those in the node's process are not interrupted.
    pub start_time: Duration,
    /// The plugins that were built with this node.
    pub built_ins: BuiltIns,
    /// Further namespaces that no foreign build may serve, in any spelling: those of the built-in plugins, for a node
    /// whose list of them is missing.
    pub reserved: Vec<String>,
    /// Builds that the operator's settings vouch for. [`ModuleRegister::vouch_for`](crate::ModuleRegister::vouch_for)
    /// changes them.
    pub vouched: VouchedBuilds,
    /// Whether every library counts as vouched for: for programs that load only their own, such as benches. The node
    /// never sets it.
    pub vouches_for_all: bool,
}

impl ModuleOptions {
    /// Number of concurrent slow calls of a plugin, given the threads of the work pool.
    pub const fn slow_calls_for(threads: NonZeroUsize) -> NonZeroUsize {
        threads.saturating_mul(match NonZeroUsize::new(SLOW_CALLS_PER_THREAD) {
            Some(calls) => calls,
            None => NonZeroUsize::MIN,
        })
    }

    /// These options, with no folders, nothing stored, 16 slow calls of a plugin for each processor, every plugin foreign.
    pub fn new(cache_folder: impl Into<PathBuf>, grace: Duration, slow_queue: usize) -> Self {
        Self {
            cache_folder: cache_folder.into(),
            folders: Vec::new(),
            choices_file: None,
            processes: None,
            grace,
            slow_calls: Self::slow_calls_for(available_parallelism().unwrap_or(NonZeroUsize::MIN)),
            slow_queue,
            memory: MemoryBudget::unbounded(),
            spaces: None,
            space_limits: SpaceLimits::default(),
            aliases: Vec::new(),
            unserved: Vec::new(),
            granted: Capability::ALL.to_vec(),
            start_time: Duration::from_secs(60),
            built_ins: BuiltIns::default(),
            reserved: Vec::new(),
            vouched: VouchedBuilds::default(),
            vouches_for_all: false,
        }
    }
}

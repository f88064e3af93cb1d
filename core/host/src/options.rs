use std::{num::NonZeroUsize, path::PathBuf, sync::Arc, thread::available_parallelism, time::Duration};

use tenon_api::{Capability, PluginSpaces, SpaceLimits};
use tenon_bus::MemoryBudget;

use crate::{BuiltIns, Isolation, IsolationOptions, PluginLimits, VouchedBuilds};

/// A folder from which libraries may be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginFolder {
    /// The folder.
    pub path: PathBuf,
    /// Whether to consider only `libtenon_plugin_NAME.so` in it: the program's own folder has other libraries too.
    pub has_only_own_names: bool,
}

impl PluginFolder {
    /// A folder in which every library is considered.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), has_only_own_names: false }
    }
}

/// Another name of a namespace: its methods and subscriptions are served under both. A plugin that answers differently
/// under the other name has a method for that: `<other name>_<method>` calls `<namespace>_<other name>_<method>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceAlias {
    /// The other name.
    pub name: String,
    /// The name by which its plugin serves it, which decides whether it is exposed.
    pub namespace: String,
    /// Whether it is served under the other name. If not, the methods specific to that name are not served either.
    pub is_served: bool,
}

impl NamespaceAlias {
    /// For a method specific to the other name: the part after that name.
    pub(crate) fn name_of_internal<'a>(&self, method: &'a str) -> Option<&'a str> {
        let rest = method.strip_prefix(&self.namespace)?.strip_prefix('_')?;
        rest.strip_prefix(&self.name)?.strip_prefix('_')
    }
}

/// Concurrent slow calls of a plugin per thread of the work pool: enough that few wait behind one that computes.
const SLOW_CALLS_A_THREAD: usize = 16;

/// Settings of a [`PluginHost`](crate::PluginHost).
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// Folder for the library copies to load. Created if missing, readable and writable by its owner only: write access
    /// here is code execution in the node. Two nodes must not share it, because unused copies are removed.
    pub cache_folder: PathBuf,
    /// Folders from which libraries may be loaded at run time.
    pub folders: Vec<PluginFolder>,
    /// File with the operator's run-time choices; none stores nothing.
    pub choices_file: Option<PathBuf>,
    /// How plugins run in their own processes; none if this program cannot be started as one.
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
    /// Storage of the plugins; none stores nothing.
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
    /// Builds that the operator's settings vouch for. [`PluginHost::vouch_for`](crate::PluginHost::vouch_for) changes them.
    pub vouched: VouchedBuilds,
    /// Whether every library counts as vouched for: for programs that load only their own, such as benches. The node
    /// never sets it.
    pub vouches_for_all: bool,
}

impl HostOptions {
    /// Number of concurrent slow calls of a plugin, given the threads of the work pool.
    pub const fn slow_calls_for(threads: NonZeroUsize) -> NonZeroUsize {
        threads.saturating_mul(match NonZeroUsize::new(SLOW_CALLS_A_THREAD) {
            Some(calls) => calls,
            None => NonZeroUsize::MIN,
        })
    }

    /// Defaults: no folders, nothing stored, a grace of two seconds, a minute to start, 16 slow calls of a plugin for
    /// each processor, 1024 waiting, every plugin foreign.
    pub fn new(cache_folder: impl Into<PathBuf>) -> Self {
        Self {
            cache_folder: cache_folder.into(),
            folders: Vec::new(),
            choices_file: None,
            processes: None,
            grace: Duration::from_secs(2),
            slow_calls: Self::slow_calls_for(available_parallelism().unwrap_or(NonZeroUsize::MIN)),
            slow_queue: 1024,
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

/// The settings of one plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginPlan {
    /// Its name in operations.
    pub name: String,
    /// Its library.
    pub path: PathBuf,
    /// Whether it is started with the node.
    pub is_enabled: bool,
    /// Whether the node refuses to start without it.
    pub is_required: bool,
    /// JSON text of its own settings.
    pub settings: String,
    /// Granted capabilities among the requested ones. None: all for a build that is built in or vouched for, nothing
    /// for a foreign one.
    pub capabilities: Option<Vec<Capability>>,
    /// SHA-256 (hex) of the build that the operator vouched for at run time, if one was.
    pub vouched: Option<String>,
    /// Whether a foreign build may start in its process even if the kernel cannot close the sandbox.
    pub may_run_unsandboxed: bool,
    /// Its storage limit; none means [`HostOptions::space_limits`].
    pub storage: Option<SpaceLimits>,
    /// Where it runs. None: in this process if its build is built in or vouched for, otherwise in its own.
    pub isolation: Option<Isolation>,
    /// Its limits.
    pub limits: PluginLimits,
}

impl PluginPlan {
    /// An enabled plugin without settings.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            path: path.into(),
            is_enabled: true,
            is_required: false,
            settings: "{}".to_owned(),
            capabilities: None,
            vouched: None,
            may_run_unsandboxed: false,
            storage: None,
            isolation: None,
            limits: PluginLimits::default(),
        }
    }
}

use std::{num::NonZeroUsize, path::PathBuf, sync::Arc, thread::available_parallelism, time::Duration};

use tenon_api::{Capability, PluginSpaces, SpaceLimits};
use tenon_bus::MemoryBudget;

use crate::{BuiltIns, Isolation, IsolationOptions, PluginLimits, VouchedBuilds};

/// A folder that libraries may be loaded from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginFolder {
    /// The folder.
    pub path: PathBuf,
    /// Whether only `libtenon_plugin_NAME.so` counts in it: the program's own folder has other libraries too.
    pub has_only_own_names: bool,
}

impl PluginFolder {
    /// A folder in which every library counts.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), has_only_own_names: false }
    }
}

/// Another name of a namespace: its methods and subscriptions are served under both. Where a plugin answers otherwise by
/// the other name, it has a method for that: `<namespace>_<other name>_<method>` is what `<other name>_<method>` calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceAlias {
    /// The other name.
    pub name: String,
    /// The name by which its plugin serves it, which decides whether it is exposed.
    pub namespace: String,
    /// Whether it is served under the other name. If not, the methods that are there for that name are not served either.
    pub is_served: bool,
}

impl NamespaceAlias {
    /// For a method that is there for the other name only: what follows that name.
    pub(crate) fn name_of_internal<'a>(&self, method: &'a str) -> Option<&'a str> {
        let rest = method.strip_prefix(&self.namespace)?.strip_prefix('_')?;
        rest.strip_prefix(&self.name)?.strip_prefix('_')
    }
}

/// Slow calls of a plugin for each thread of the work pool: few wait there for one that computes, and many clients have theirs.
const SLOW_CALLS_A_THREAD: usize = 16;

/// Settings of a [`PluginHost`](crate::PluginHost).
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// Folder for the copies that libraries are loaded from. Created when it is missing, readable and writable
    /// by its owner only: write access here is code execution in the node. Not to be shared by two nodes: copies that
    /// nothing uses are removed.
    pub cache_folder: PathBuf,
    /// Folders that libraries may be loaded from at run time.
    pub folders: Vec<PluginFolder>,
    /// File that keeps what the operator chose at run time; none keeps nothing.
    pub choices_file: Option<PathBuf>,
    /// How plugins in processes of their own are run; none when this program cannot be started as one.
    pub processes: Option<IsolationOptions>,
    /// How long running calls may take to end when their plugin is taken away.
    pub grace: Duration,
    /// How many methods of the slow class (EVM runs, scans) of one plugin run at a time, at most half of them of one client.
    /// Most of what they do is a job of the work pool, which bounds how much is computed at a time; here it is how many may wait
    /// there.
    pub slow_calls: NonZeroUsize,
    /// How many calls of the slow class may wait for their turn; further ones are refused with `-32005`.
    pub slow_queue: usize,
    /// What plugins keep for clients, and what calls of plugins take, draws on this.
    pub memory: MemoryBudget,
    /// Where plugins keep what they store; none keeps nothing.
    pub spaces: Option<Arc<dyn PluginSpaces>>,
    /// How much a plugin can store whose settings say nothing of it.
    pub space_limits: SpaceLimits,
    /// Other names of namespaces, also those that are not served: a plugin's methods for them are then not served either.
    pub aliases: Vec<NamespaceAlias>,
    /// Namespaces that the node's chain does not have: nothing is routed to their plugins.
    pub unserved: Vec<String>,
    /// What plugins can be granted at most; each gets what it asks for out of these and out of its own settings.
    pub granted: Vec<Capability>,
    /// How long all plugins together may take to start with the node. Those that run in its own process are not interrupted.
    pub start_time: Duration,
    /// The plugins that were built with this node.
    pub built_ins: BuiltIns,
    /// Further namespaces that no foreign build gets, by any spelling: those of the built-in plugins, for a node whose list of them
    /// is missing.
    pub reserved: Vec<String>,
    /// Builds that the operator's settings vouch for. [`PluginHost::vouch_for`](crate::PluginHost::vouch_for) changes them.
    pub vouched: VouchedBuilds,
    /// Whether every library counts as vouched for: for programs that load nothing but their own, such as benches. The node
    /// never sets it.
    pub vouches_for_all: bool,
}

impl HostOptions {
    /// How many slow calls of a plugin run at a time, given the threads of the work pool.
    pub const fn slow_calls_for(threads: NonZeroUsize) -> NonZeroUsize {
        threads.saturating_mul(match NonZeroUsize::new(SLOW_CALLS_A_THREAD) {
            Some(calls) => calls,
            None => NonZeroUsize::MIN,
        })
    }

    /// Defaults: no folders, nothing kept, a grace of two seconds, a minute to start, 16 slow calls of a plugin for each processor, 1024 waiting,
    /// every plugin foreign.
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

/// What the settings say about one plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginPlan {
    /// The name by which operations know it.
    pub name: String,
    /// Its library.
    pub path: PathBuf,
    /// Whether it is started with the node.
    pub is_enabled: bool,
    /// Whether the node must not start without it.
    pub is_required: bool,
    /// JSON text of its own settings.
    pub settings: String,
    /// What it is granted of what it asks for. None: everything for a build that is built in or vouched for, nothing for a
    /// foreign one.
    pub capabilities: Option<Vec<Capability>>,
    /// SHA-256 (hex) of the build that the operator vouched for at run time, if one was.
    pub vouched: Option<String>,
    /// Whether a foreign build is started in its process also where the kernel cannot close the sandbox.
    pub may_run_unsandboxed: bool,
    /// How much it can store; none means [`HostOptions::space_limits`].
    pub storage: Option<SpaceLimits>,
    /// Where it runs. None: in this process when its build is built in or vouched for, others in processes of their own.
    pub isolation: Option<Isolation>,
    /// Its bounds.
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

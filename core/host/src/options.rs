use std::{num::NonZeroUsize, path::PathBuf, sync::Arc, thread::available_parallelism, time::Duration};

use tenon_api::{Capability, PluginSpaces, SpaceLimits};
use tenon_bus::MemoryBudget;

use crate::{Isolation, IsolationOptions, PluginLimits};

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
}

/// Settings of a [`PluginHost`](crate::PluginHost).
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// Folder for the copies that libraries are loaded from. Created when it is missing, readable and writable
    /// by its owner only: whoever can write here runs code in the node. Not to be shared by two nodes: copies that
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
    /// How many methods of the slow class (EVM runs, scans) run at a time.
    pub slow_calls: NonZeroUsize,
    /// How many calls of the slow class may wait for their turn; further ones are refused with `-32005`.
    pub slow_queue: usize,
    /// What plugins keep for clients, and what calls of plugins take, draws on this.
    pub memory: MemoryBudget,
    /// Where plugins keep what they store; none keeps nothing.
    pub spaces: Option<Arc<dyn PluginSpaces>>,
    /// How much a plugin can store whose settings say nothing of it.
    pub space_limits: SpaceLimits,
    /// Other names of namespaces.
    pub aliases: Vec<NamespaceAlias>,
    /// What plugins can be granted at most; each gets what it asks for out of these and out of its own settings.
    pub granted: Vec<Capability>,
}

impl HostOptions {
    /// Defaults: no folders, nothing kept, a grace of two seconds, as many slow calls as processors, 1024 waiting,
    /// everything granted.
    pub fn new(cache_folder: impl Into<PathBuf>) -> Self {
        Self {
            cache_folder: cache_folder.into(),
            folders: Vec::new(),
            choices_file: None,
            processes: None,
            grace: Duration::from_secs(2),
            slow_calls: available_parallelism().unwrap_or(NonZeroUsize::MIN),
            slow_queue: 1024,
            memory: MemoryBudget::unbounded(),
            spaces: None,
            space_limits: SpaceLimits::default(),
            aliases: Vec::new(),
            granted: Capability::ALL.to_vec(),
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
    /// What it is granted of what it asks for; none means all of it.
    pub capabilities: Option<Vec<Capability>>,
    /// How much it can store; none means [`HostOptions::space_limits`].
    pub storage: Option<SpaceLimits>,
    /// Where it runs. None: in this process when it is called like one of this workspace (`libtenon_plugin_NAME.so`),
    /// others in a process of their own if the host can start one.
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
            storage: None,
            isolation: None,
            limits: PluginLimits::default(),
        }
    }
}

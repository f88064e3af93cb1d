//! The register: its state, and the access to it for other files of this crate.
//!
//! The operations are in files of their own, each an `impl` of [`ModuleRegister`] that imports this file; this file
//! imports data only.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicBool},
};

use parking_lot::Mutex;
use tenon_bus::Bus;
use tenon_host::{LibraryCache, Router, VouchedBuilds};

use crate::{
    ModuleError, ModuleOptions, PluginPlan, actor::KnownActor, choices::Choices, end_times::EndTimes,
    plugin_module::KnownPlugins,
};

/// The register of plugins and module actors. All clones of its router serve the plugins that are enabled in it.
pub struct ModuleRegister {
    pub(crate) bus: Bus,
    pub(crate) options: ModuleOptions,
    pub(crate) router: Router,
    /// The copies that libraries are loaded from.
    pub(crate) libraries: LibraryCache,
    /// The choices that the last operation stored for the next start. Nothing awaits under the lock.
    pub(crate) kept: Mutex<Option<Choices>>,
    /// Changed by operations only; nothing awaits under the lock.
    pub(crate) modules: Mutex<KnownPlugins>,
    /// Whether the last operation's choices could not be written.
    pub(crate) is_unsaved: AtomicBool,
    /// Module actors, in the order of their start. Nothing awaits under the lock.
    pub(crate) actors: Mutex<Vec<Arc<KnownActor>>>,
    /// When each module that is enabled for a limited time will be disabled. Changed by operations only; nothing awaits
    /// under the lock.
    pub(crate) ends: Mutex<EndTimes>,
    /// Notified of every change of `ends`.
    pub(crate) ends_changed: tokio::sync::Notify,
    /// Builds that the settings vouch for. Nothing awaits under the lock.
    pub(crate) vouched: Mutex<VouchedBuilds>,
    /// The last applied settings. Used by operations only.
    pub(crate) configured: Mutex<BTreeMap<String, PluginPlan>>,
    /// Held by the running operation.
    pub(crate) operation: tokio::sync::Mutex<()>,
}

impl ModuleRegister {
    /// Creates a register without modules. `bus` serves the plugins' requests.
    pub fn new(bus: Bus, options: ModuleOptions) -> Arc<Self> {
        let ModuleOptions { slow_calls, slow_queue, ref aliases, ref unserved, .. } = options;
        let router = Router::new(slow_calls.get(), slow_queue, aliases.clone(), unserved.clone());
        let libraries = LibraryCache::new(options.cache_folder.clone());
        let vouched = Mutex::new(options.vouched.clone());
        Arc::new(Self {
            bus,
            options,
            router,
            libraries,
            kept: Mutex::default(),
            modules: Mutex::default(),
            is_unsaved: AtomicBool::new(false),
            actors: Mutex::default(),
            ends: Mutex::default(),
            ends_changed: tokio::sync::Notify::new(),
            vouched,
            configured: Mutex::default(),
            operation: tokio::sync::Mutex::default(),
        })
    }

    /// The router over the plugins.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// The operator's run-time choices.
    pub(crate) fn read_choices(&self) -> Result<Choices, ModuleError> {
        self.options.choices_file.as_deref().map_or_else(|| Ok(Choices::default()), Choices::read)
    }

    /// The end of a module, if it has one.
    pub(crate) fn end_of(&self, name: &str) -> Option<u64> {
        self.ends.lock().get(name).copied()
    }

    /// Sets the end of a module; none removes it.
    pub(crate) fn set_end(&self, name: &str, end: Option<u64>) {
        match end {
            Some(end) => self.ends.lock().insert(name.to_owned(), end),
            None => self.ends.lock().remove(name),
        };
        self.ends_changed.notify_one();
    }

    /// The module actor of this name.
    pub(crate) fn actor(&self, name: &str) -> Option<Arc<KnownActor>> {
        self.actors.lock().iter().find(|actor| actor.name() == name).cloned()
    }

    /// The module actors, in the order of their start.
    pub(crate) fn known_actors(&self) -> Vec<Arc<KnownActor>> {
        self.actors.lock().clone()
    }
}

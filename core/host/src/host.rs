//! The set of loaded plugins, from load to shutdown.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tenon_api::{Capability, messages::ListNamespaces};
use tenon_bus::{Bus, CallContext, RegisterError};
use tokio::time::{Instant, timeout_at};

use crate::{
    HostError, HostOptions, Router,
    boundary::{Library, LocalPlugin},
    instance::{OpenedPlugin, Start},
    router::{RouteTable, Running},
};

/// How often a plugin is looked at whose last call has just gone, before it is stopped.
const STOP_POLL: Duration = Duration::from_millis(1);

/// What was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginInfo {
    /// Name of the plugin.
    pub name: String,
    /// The namespace that it serves.
    pub namespace: String,
    /// `<major>.<minor>` of the namespace.
    pub version: String,
    /// How many methods it serves.
    pub methods: usize,
    /// Its subscription kinds.
    pub subscriptions: Vec<String>,
    /// What it was granted.
    pub granted: Vec<Capability>,
    /// Compiler and build.
    pub built_with: String,
    /// The file that was named.
    pub path: PathBuf,
    /// SHA-256 of the file, hex.
    pub content_hash: String,
}

/// What [`PluginHost::shutdown`] left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Plugins that were stopped.
    pub stopped: Vec<String>,
    /// Plugins that still had calls or streams after the grace period, with their number. They are stopped when
    /// the last one goes.
    pub abandoned: Vec<(String, usize)>,
}

/// Loads plugins and owns them.
pub struct PluginHost {
    bus: Bus,
    options: HostOptions,
    router: Router,
    /// Changed by load and shutdown only; nothing awaits under the lock.
    plugins: Mutex<Plugins>,
}

#[derive(Default)]
struct Plugins {
    running: Vec<Arc<Running>>,
    is_shutting_down: bool,
}

impl PluginHost {
    /// A host without plugins. `bus` is what plugins may ask.
    pub fn new(bus: Bus, options: HostOptions) -> Arc<Self> {
        let router = Router::new(options.slow_calls.get(), options.slow_queue);
        Arc::new(Self { bus, options, router, plugins: Mutex::default() })
    }

    /// Loads a library, starts it and routes its namespace to it. `settings` is the JSON text of the plugin's
    /// own settings; empty means none. Blocks for a few milliseconds.
    ///
    /// # Errors
    /// [`HostError`]: nothing has changed then, except that the library may stay mapped.
    pub fn load(&self, path: &Path, settings: &str) -> Result<PluginInfo, HostError> {
        let (library, manifest, content_hash) = Library::open(path, &self.options.cache_folder)?;
        // Held while the plugin starts, so that two loads cannot take one namespace.
        let mut plugins = self.plugins();
        if plugins.is_shutting_down {
            return Err(HostError::ShuttingDown { path: path.to_owned() });
        }
        let taken = plugins.running.iter().find(|other| other.manifest.namespace == manifest.namespace);
        if let Some(other) = taken {
            return Err(HostError::NamespaceTaken {
                path: path.to_owned(),
                namespace: manifest.namespace,
                by: other.manifest.name.clone(),
            });
        }
        let wanted = manifest.capabilities.iter();
        let granted: Vec<_> = wanted.copied().filter(|wanted| self.options.granted.contains(wanted)).collect();
        let settings = if settings.is_empty() { "{}" } else { settings };
        let opened: Box<dyn OpenedPlugin> = Box::new(LocalPlugin { library, manifest: manifest.clone() });
        let start = Start { granted: granted.clone(), bus: self.bus.clone(), settings, handover: &[] };
        let instance =
            opened.start(start).map_err(|failure| HostError::NotStarted { path: path.to_owned(), failure })?;
        let info = PluginInfo {
            name: manifest.name.clone(),
            namespace: manifest.namespace.clone(),
            version: manifest.version.clone(),
            methods: manifest.methods.len(),
            subscriptions: manifest.subscriptions.clone(),
            granted,
            built_with: manifest.built_with.clone(),
            path: path.to_owned(),
            content_hash,
        };
        plugins.running.push(Arc::new(Running::new(manifest, instance)));
        self.router.replace(RouteTable::of(&plugins.running));
        tracing::info!(plugin = info.name, namespace = info.namespace, methods = info.methods, "plugin loaded");
        Ok(info)
    }

    /// The router over the plugins.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Takes all methods away, closes subscriptions, waits at most `grace` for running calls, and stops the
    /// plugins. Libraries stay mapped.
    pub async fn shutdown(&self, grace: Duration) -> ShutdownReport {
        let running = {
            let mut plugins = self.plugins();
            plugins.is_shutting_down = true;
            std::mem::take(&mut plugins.running)
        };
        self.router.replace(RouteTable::default());
        for plugin in &running {
            plugin.close();
        }
        let deadline = Instant::now() + grace;
        let mut report = ShutdownReport::default();
        for plugin in running {
            let name = plugin.manifest.name.clone();
            match stop(plugin, deadline).await {
                Ok(()) => report.stopped.push(name),
                Err(in_flight) => {
                    tracing::warn!(plugin = name, in_flight, "plugin still has calls after the grace period");
                    report.abandoned.push((name, in_flight));
                }
            }
        }
        report
    }

    fn plugins(&self) -> MutexGuard<'_, Plugins> {
        self.plugins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stops a closed plugin as soon as nothing of it is in flight. The error is how much is at the deadline.
async fn stop(mut plugin: Arc<Running>, deadline: Instant) -> Result<(), usize> {
    if timeout_at(deadline, plugin.drained()).await.is_err() {
        return Err(plugin.in_flight());
    }
    loop {
        // A look-up that has just been refused entry may hold a share for an instant.
        match Arc::try_unwrap(plugin) {
            Ok(last) => {
                drop(last);
                return Ok(());
            }
            Err(shared) if Instant::now() >= deadline => return Err(shared.in_flight().max(1)),
            Err(shared) => plugin = shared,
        }
        tokio::time::sleep(STOP_POLL).await;
    }
}

/// Answers `ListNamespaces` on the bus.
///
/// # Errors
/// When the bus has a handler for it already.
pub fn register(bus: &Bus, router: Router) -> Result<(), RegisterError> {
    bus.handle_read(move |_: ListNamespaces, _: &CallContext| Ok(router.namespaces()))
}

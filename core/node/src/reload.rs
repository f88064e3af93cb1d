//! Reads the settings again while the node runs: SIGHUP, `admin_reloadSettings`, `tenon module reload`.
//!
//! Plugins change at once, each in its own transaction with a report, and so does the front-ends' exposure. Every other
//! changed setting is listed in the report, because it takes effect at the next start.

use std::sync::Arc;

use tenon_api::BusError;
use tenon_api::messages::{ChangedSetting, ModuleFailure, ReloadSettings, SettingsReport};
use tenon_bus::{Bus, RegisterError};
use tenon_config::Settings;
use tenon_modules::{AppliedPlan, ModuleRegister};

use crate::exit::Stop;
use crate::front_end_modules::FrontEnds;
use crate::live_settings::LIVE;
use crate::plugin_folder;
use crate::setting_changes::differences;

/// The source of a node's settings.
#[derive(Clone, derive_more::Debug)]
#[debug("SettingsSource")]
pub(crate) struct SettingsSource {
    /// The settings at the start, before any override (the folder of an ephemeral node, for instance).
    started_with: Arc<Settings>,
    /// Reads them again, from the same command line.
    read: Arc<dyn Fn() -> Result<Settings, Stop> + Send + Sync>,
}

impl SettingsSource {
    pub(crate) fn new(
        started_with: Settings,
        read: impl Fn() -> Result<Settings, Stop> + Send + Sync + 'static,
    ) -> Self {
        Self { started_with: Arc::new(started_with), read: Arc::new(read) }
    }
}

/// Applies changed settings. Clones share the same state.
#[derive(Clone)]
pub(crate) struct Reloader {
    source: SettingsSource,
    plugins: Arc<ModuleRegister>,
    front_ends: Arc<FrontEnds>,
}

impl Reloader {
    pub(crate) const fn new(source: SettingsSource, plugins: Arc<ModuleRegister>, front_ends: Arc<FrontEnds>) -> Self {
        Self { source, plugins, front_ends }
    }

    /// Answers [`ReloadSettings`].
    ///
    /// # Errors
    /// [`RegisterError`] if the request already has a handler.
    pub(crate) fn register(&self, bus: &Bus) -> Result<(), RegisterError> {
        let own = self.clone();
        bus.handle(move |request: ReloadSettings, _| {
            let own = own.clone();
            async move { own.reload(request.asked_by.as_deref()).await }
        })
    }

    /// Reads the settings and applies the changes that need no restart.
    ///
    /// # Errors
    /// If they can't be used; nothing has changed then.
    pub(crate) async fn reload(&self, asked_by: Option<&str>) -> Result<SettingsReport, BusError> {
        let read = Arc::clone(&self.source.read);
        let reading = tokio::task::spawn_blocking(move || -> Result<_, Stop> {
            let settings = read()?;
            let plans = plugin_folder::plans(&settings, &plugin_folder::program_folder()?)?;
            let vouched = plugin_folder::vouched(&settings)?;
            Ok((settings, plans, vouched))
        });
        let outcome = reading.await.map_err(|_| BusError::failed("the settings could not be read"))?;
        let (settings, plans, vouched) =
            outcome.map_err(|error| BusError::failed(format!("no change was applied: {error}")))?;
        // The exposure changes before the plugins, so that a new plugin is never reachable through an exposure that the
        // new settings remove.
        let changed = self.front_ends.reload(&settings).await?;
        self.plugins.vouch_for(vouched);
        let applied = self.plugins.apply(plans, asked_by).await;
        let needs_restart =
            differences(&self.source.started_with, &settings, |key| !LIVE.contains(&key) && !APPLIED.contains(&key));
        let report = SettingsReport { changed, ..report(applied, needs_restart) };
        tracing::info!(
            changes = report.modules.len(),
            settings = report.changed.len(),
            failures = report.failures.len(),
            needs_restart = report.needs_restart.len(),
            "settings read again"
        );
        for ModuleFailure { module, reason } in &report.failures {
            tracing::error!(module, reason, "a change of the settings could not be applied");
        }
        for ChangedSetting { key, .. } in &report.changed {
            tracing::info!(key, "this setting changed and is in effect");
        }
        for ChangedSetting { key, .. } in &report.needs_restart {
            tracing::warn!(key, "this setting changed; it takes effect at the next start");
        }
        Ok(report)
    }
}

fn report(applied: Vec<AppliedPlan>, needs_restart: Vec<ChangedSetting>) -> SettingsReport {
    let mut report = SettingsReport { needs_restart, ..SettingsReport::default() };
    for AppliedPlan { name, outcome } in applied {
        match outcome {
            Ok(done) => report.modules.push(done),
            Err(error) => report.failures.push(ModuleFailure { module: name, reason: error.to_string() }),
        }
    }
    report
}

/// Settings that take effect when a plugin is next loaded.
const APPLIED: [&str; 2] = ["plugins.trusted", "plugins.unsandboxed"];

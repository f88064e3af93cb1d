//! The node's health: `GET /health`, `eth_syncing`, and a log line when it changes.
//!
//! Facts in memory (head, writes, actors) are read for each request. Slow ones (the disk, the engine's background work,
//! modules) are read by [`Health::watch`] every few seconds, and the last result is shown.

mod report;

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tenon_api::messages::{
    GetNetworkStatus, ListModules, ModuleInfo, ModuleKind, ModuleState, SyncChanged, SyncStatus, Trust,
};
use tenon_api::{
    BackgroundCondition, BlockNumber, ChainReader, ConsensusEngine, DatabaseWatch, SealedHeader, StoreError,
};
use tenon_bus::{Bus, CallContext};
use tenon_config::HealthSettings;
use tenon_network_service::Network;
use tenon_supervisor::{ActorState, Supervisor};
use tokio::time::MissedTickBehavior;

use crate::plugin_folder::BUILT_IN_PLUGINS;
use crate::service_manager;

use self::report::{ActorsReport, DatabaseReport, DiskReport, HeadReport, PeersReport, PluginsReport, Report, State};

/// Interval of the slow checks.
const PERIOD: Duration = Duration::from_secs(5);
/// Maximum age of a check's result. An older one means that the disk or the engine did not respond.
const MAX_CHECK_AGE: Duration = Duration::from_secs(30);
/// Maximum number of missing blocks, as time, before a head counts as old: rounds may fail, and clocks differ.
const MISSING_BLOCKS: u32 = 30;
/// Heads younger than this are never old, whatever the block interval.
const MIN_HEAD_AGE: Duration = Duration::from_secs(60);

/// The expected block interval.
pub(crate) enum BlockInterval {
    /// By the rules: the network makes blocks.
    Network(Arc<dyn ConsensusEngine>),
    /// This node makes a block at this interval.
    Own(Duration),
    /// This node makes a block whenever there are transactions.
    OnDemand,
}

/// The observed parts of the node.
pub(crate) struct Parts {
    /// The chain whose head is checked.
    pub(crate) chain: Arc<dyn ChainReader>,
    /// The database.
    pub(crate) database: Arc<dyn DatabaseWatch>,
    /// Weak: the node stops its supervisor itself, as its only owner.
    pub(crate) supervisor: Weak<Supervisor>,
    /// The database's folder, whose disk is checked.
    pub(crate) folder: PathBuf,
    /// The expected block interval.
    pub(crate) block_interval: BlockInterval,
    /// Whether an old head means that the node is behind others: on the public networks, and if the operator has set a
    /// maximum head age. On a private chain there may simply be no block producer, and the reference answers `false`
    /// (`docs/spec/rpc-eth.md` 8).
    pub(crate) old_means_behind: bool,
    /// The thresholds.
    pub(crate) limits: HealthSettings,
    /// The peer-to-peer network, running or not.
    pub(crate) network: Option<Arc<Network>>,
    /// Whether the settings enable the network.
    pub(crate) has_network: bool,
}

/// The health of a node.
pub(crate) struct Health {
    parts: Parts,
    begun: Instant,
    /// The head when the node started.
    starting: BlockNumber,
    /// Locked to copy or replace the result; nothing waits under the lock.
    seen: Mutex<Seen>,
}

/// Result of the last check.
#[derive(Clone)]
struct Seen {
    at: Instant,
    background: Result<BackgroundCondition, StoreError>,
    /// Time of the last increase of the number of background errors.
    last_error: Option<Instant>,
    /// Free bytes; `None` if the system does not report them.
    free: Option<u64>,
    peers: u64,
    /// Modules that have failed.
    failed: FailedModules,
}

/// Enabled modules that have failed, by name.
#[derive(Clone, Debug, Default)]
struct FailedModules {
    /// Parts of the node.
    parts: Vec<String>,
    /// Plugins that come with the node, and builds that replace them.
    built_in: Vec<String>,
    /// Other plugins.
    others: Vec<String>,
}

impl FailedModules {
    fn of(modules: Vec<ModuleInfo>) -> Self {
        let mut failed = Self::default();
        for module in modules.into_iter().filter(|module| module.state == ModuleState::Failed) {
            let library = module.plugin().and_then(|plugin| plugin.library.as_ref());
            let is_built_in = library.is_some_and(|library| library.trust == Trust::BuiltIn)
                || BUILT_IN_PLUGINS.contains(&module.name.as_str());
            match module.kind() {
                ModuleKind::Actor => failed.parts.push(module.name),
                ModuleKind::Plugin if is_built_in => failed.built_in.push(module.name),
                ModuleKind::Plugin => failed.others.push(module.name),
            }
        }
        failed
    }
}

impl Health {
    /// Creates it for a starting node. Checks disk and database once.
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let seen = Seen {
            at: Instant::now(),
            background: parts.database.background(),
            last_error: None,
            free: free_bytes(&parts.folder),
            peers: 0,
            failed: FailedModules::default(),
        };
        let starting = parts.chain.head().number();
        Arc::new(Self { parts, begun: Instant::now(), starting, seen: Mutex::new(seen) })
    }

    /// Whether blocks come from peers.
    pub(crate) const fn has_network(&self) -> bool {
        self.parts.has_network
    }

    /// How far the node is behind; `None` if it is not behind. While the node takes blocks from peers, it is compared
    /// with them. Otherwise it is behind if an old head means that (`old_means_behind`), and its head is older than a
    /// known maximum. Its own head is then also the highest known one.
    pub(crate) fn sync_status(&self) -> Option<SyncStatus> {
        if let Some((starting, highest)) = self.parts.network.as_ref().and_then(|network| network.progress()) {
            let current = self.parts.chain.head().number();
            return Some(SyncStatus { starting, current, highest: highest.max(current) });
        }
        if !self.parts.old_means_behind {
            return None;
        }
        let head = self.parts.chain.head();
        let limit = self.max_head_age(&head.header)?;
        let (starting, current) = (self.starting, head.number());
        (self.head_age(&head.header) > limit).then_some(SyncStatus { starting, current, highest: current })
    }

    /// The answer to `GET /health`.
    pub(crate) fn report(&self) -> Report {
        let seen = self.seen.lock().clone();
        Report {
            head: self.head(),
            peers: PeersReport::new(seen.peers, self.parts.limits.peers),
            database: self.database(&seen),
            disk: DiskReport::new(seen.free, self.parts.limits.disk_free.0),
            actors: ActorsReport::new(self.failed_actors().into_iter().chain(seen.failed.parts).collect()),
            plugins: PluginsReport::new(seen.failed.built_in, seen.failed.others),
        }
    }

    fn head(&self) -> HeadReport {
        let head = self.parts.chain.head();
        let (age, limit) = (self.head_age(&head.header), self.max_head_age(&head.header));
        HeadReport {
            state: if limit.is_some_and(|limit| age > limit) { State::Old } else { State::Ok },
            number: head.header.number,
            timestamp: head.header.timestamp,
            age: age.as_secs(),
            max_age: limit.map(|limit| limit.as_secs()),
        }
    }

    fn head_age(&self, head: &SealedHeader) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
        let age = Duration::from_secs(now.saturating_sub(head.timestamp));
        match self.parts.block_interval {
            BlockInterval::Network(_) => age,
            // A development network makes no blocks while it is stopped.
            BlockInterval::Own(_) | BlockInterval::OnDemand => age.min(self.begun.elapsed()),
        }
    }

    fn max_head_age(&self, head: &SealedHeader) -> Option<Duration> {
        if let Some(chosen) = self.parts.limits.head_age {
            return (!chosen.is_zero()).then_some(chosen);
        }
        let block_interval = match &self.parts.block_interval {
            BlockInterval::Network(engine) => engine.min_block_interval(head)?,
            BlockInterval::Own(period) => *period,
            BlockInterval::OnDemand => return None,
        };
        Some(block_interval.saturating_mul(MISSING_BLOCKS).max(MIN_HEAD_AGE))
    }

    fn database(&self, seen: &Seen) -> DatabaseReport {
        let writes = self.parts.database.writes();
        let memory = self.parts.limits.database_errors;
        let has_standing_error = seen.last_error.is_some_and(|at| at.elapsed() < memory);
        let background = seen.background.as_ref().ok().filter(|_| seen.at.elapsed() < MAX_CHECK_AGE);
        let state = match background {
            Some(background) if background.is_folder_replaced => State::FolderReplaced,
            _ if writes.failure.is_some() => State::WritesFail,
            Some(background) if background.is_damaged => State::Damaged,
            _ if writes.panicking_since.is_some() => State::WritesPanic,
            None => State::Unknown,
            Some(background) if background.is_write_stopped => State::WritesStopped,
            Some(_) if has_standing_error => State::BackgroundErrors,
            Some(_) => State::Ok,
        };
        DatabaseReport {
            state,
            last_write: writes.last_success,
            failing_since: writes.failure.as_ref().map(|failure| failure.since).or(writes.panicking_since),
            space_needed: writes.failure.and_then(|failure| failure.space_needed),
            background_errors: background.map(|background| background.errors),
        }
    }

    fn failed_actors(&self) -> Vec<String> {
        let actors = self.parts.supervisor.upgrade().map(|supervisor| supervisor.health()).unwrap_or_default();
        let is_failed = |state: &ActorState| matches!(state, ActorState::Failed { .. } | ActorState::Restarting);
        actors.into_iter().filter(|actor| is_failed(&actor.state)).map(|actor| actor.name.to_owned()).collect()
    }

    /// Runs the slow checks repeatedly, and reports changes to the log and to subscribers. Ends with the task.
    pub(crate) async fn watch(self: Arc<Self>, bus: Bus) {
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut said, mut was_syncing) = (Vec::new(), self.sync_status().is_some());
        loop {
            ticks.tick().await;
            if !Arc::clone(&self).check_now(&bus).await {
                continue;
            }
            said = self.say_changes(said);
            let status = self.sync_status();
            if status.is_some() != was_syncing {
                was_syncing = status.is_some();
                bus.publish(SyncChanged { status });
            }
        }
    }

    /// Runs the slow checks; returns whether they completed.
    pub(crate) async fn check_now(self: Arc<Self>, bus: &Bus) -> bool {
        let (failed, peers) = failed_modules_and_peers(bus).await;
        // A disk that hangs blocks only this thread, and the next check.
        let looking = tokio::task::spawn_blocking(move || {
            self.check(failed, peers);
            service_manager::alive(&self.status_line());
        });
        looking.await.is_ok()
    }

    /// The node's status, in one line.
    pub(crate) fn status_line(&self) -> String {
        let report = self.report();
        let bad: Vec<_> = report.bad_members().iter().map(|(name, state)| format!("{name} {state}")).collect();
        let head = report.head.number;
        if bad.is_empty() { format!("head {head}") } else { format!("head {head}; not healthy: {}", bad.join(", ")) }
    }

    fn check(&self, failed: FailedModules, peers: u64) {
        let database = &self.parts.database;
        if database.writes().failure.is_some() {
            // The database itself records the outcome.
            let _ = database.try_write();
        }
        let (background, free) = (database.background(), free_bytes(&self.parts.folder));
        let mut seen = self.seen.lock();
        let errors = |of: &Result<BackgroundCondition, StoreError>| of.as_ref().map_or(0, |of| of.errors);
        let has_risen = errors(&background) > errors(&seen.background);
        let last_error = if has_risen { Some(Instant::now()) } else { seen.last_error };
        *seen = Seen { at: Instant::now(), background, last_error, free, peers, failed };
    }

    /// Logs one line for each member that became unhealthy or healthy; returns the unhealthy ones.
    fn say_changes(&self, said: Vec<&'static str>) -> Vec<&'static str> {
        let report = self.report();
        let bad = report.bad_members();
        for (name, state) in bad.iter().filter(|(name, _)| !said.contains(name)) {
            let facts = report.member(name);
            match self.parts.database.writes().failure.filter(|_| *name == "database") {
                Some(failure) => tracing::warn!(member = name, %state, %facts, error = failure.reason, "not healthy"),
                None => tracing::warn!(member = name, %state, %facts, "not healthy"),
            }
        }
        let bad: Vec<_> = bad.into_iter().map(|(name, _)| name).collect();
        for member in said.iter().filter(|name| !bad.contains(name)) {
            tracing::info!(member, "healthy again");
        }
        bad
    }
}

/// The modules that have failed, and the number of peers.
async fn failed_modules_and_peers(bus: &Bus) -> (FailedModules, u64) {
    let context = CallContext::new();
    let modules = bus.call(ListModules, &context).await.unwrap_or_default();
    let peers = bus.call(GetNetworkStatus, &context).await.map_or(0, |status| status.peers);
    (FailedModules::of(modules), peers)
}

/// Bytes that this user may still write on the folder's disk.
fn free_bytes(folder: &std::path::Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

#[cfg(test)]
mod tests;

//! The wiring: the dependencies of each component, the order of their start, and of their stop.

mod chain;
mod modules;
mod peers;
mod plan;
mod shared;
mod signing;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tenon_api::messages::{GetSpelling, Spelling};
use tenon_bus::{Bus, CallContext};
use tenon_config::{NamespaceNames, Settings};
use tenon_host::Router;
use tenon_ipc::{HealthCheck, HealthReport, Servers};
use tenon_metrics::CountedWriter;
use tenon_modules::{ActorStage, ModuleRegister};
use tenon_network_service::{MAX_NETWORK_STOP_TIME, Network};
use tenon_supervisor::Supervisor;
use tokio::task::JoinSet;

use crate::data_folder::DataFolder;
use crate::endpoints::{Announcer, Endpoints};
use crate::exit::Stop;
use crate::family::voting::Voting;
use crate::front_end_modules::FrontEnds;
use crate::health::Health;
use crate::metrics::NodeSource;
use crate::module_actors::{POOL_GRACE, SEALER_GRACE};
use crate::opened_chain::OpenedChain;
use crate::reload::Reloader;
use crate::{allocator, block_log, development_log, service_manager, start_lines};

use self::chain::{RunningChain, open_pool};
use self::modules::module_start_error;
use self::shared::Shared;
use self::signing::OpenedWallets;

pub(crate) use self::plan::{NodePlan, Role};

/// Time limit for actors and tasks to finish accepted work.
const DRAIN: Duration = Duration::from_secs(2);
/// Time that the stop of all actors may take: of the sealer, the pool, the network and the others.
const MAX_ACTORS_STOP_TIME: Duration =
    SEALER_GRACE.saturating_add(POOL_GRACE).saturating_add(MAX_NETWORK_STOP_TIME).saturating_add(DRAIN);
/// Time for the parts of a stop that have no limit of their own, such as the flush of the database.
const STOP_MARGIN: Duration = Duration::from_secs(4);

/// A running node.
pub(crate) struct Node {
    grace: Duration,
    plugin_grace: Duration,
    servers: Arc<Servers<Router>>,
    register: Arc<ModuleRegister>,
    reloader: Reloader,
    health: Arc<Health>,
    tasks: JoinSet<()>,
    network: Arc<Network>,
    supervisor: Arc<Supervisor>,
    bus: Bus,
    chain: OpenedChain,
    endpoints: Arc<Announcer>,
    folder: DataFolder,
}

impl Node {
    /// Starts the components in order: the database's writer, chain, pool, accounts, sealer, plugins, front-ends.
    /// Requests are accepted only when everything that answers them has started.
    ///
    /// # Errors
    /// [`Stop`] naming the component that did not start. What had started is dropped in reverse order.
    pub(crate) async fn start(plan: NodePlan) -> Result<Self, Stop> {
        allocator::release_memory_in_background();
        let mut shared = Shared::new(&plan)?;
        let chain = RunningChain::start(&plan, &shared)?;
        let register = modules::new_register(&plan, &shared.bus, &shared.memory)?;
        let wallets = OpenedWallets::open(&plan, &shared.bus)?;
        let pool = open_pool(&shared.bus, &plan.settings, &plan.chain, &wallets.directory)?;
        let voting = Voting::default();
        plan.chain.family.register_voting(&shared.bus, &voting)?;
        let network = peers::network_module(&plan, &shared, &chain.importer, &pool, &voting)?;
        wallets.serve(&plan.settings, &shared.bus).await?;
        peers::start_voting(&plan, &shared, &register, &voting, (&chain.importer, &pool, &wallets.directory))?;
        modules::add_actors(&register, &plan, &shared, &chain, &pool, wallets)?;
        answer_spelling(&plan, &shared.bus)?;
        let endpoints = Arc::new(Announcer::new(&plan.folder, start_lines::chain_name(&plan.chain.info)));
        let servers = servers(&register, &shared);
        let source = node_source(&plan, &shared, &register, &servers, chain.writer, &voting);
        let front_ends = modules::add_front_ends(&register, &plan, source, &endpoints)?;
        if let Some(module) = network {
            register.add_actor(module).map_err(Stop::failure)?;
        }
        let reloader = Reloader::new(plan.source.clone(), Arc::clone(&register), Arc::clone(&front_ends));
        reloader.register(&shared.bus)?;
        begin_serving(&plan, &mut shared, &register, &front_ends).await?;
        endpoints.announce()?;
        let Shared { health, network, tasks, supervisor, bus, .. } = shared;
        let NodePlan { settings, chain, folder, .. } = plan;
        let (grace, plugin_grace) = (settings.node.grace, settings.plugins.grace);
        Ok(Self {
            grace,
            plugin_grace,
            servers,
            register,
            reloader,
            health,
            tasks,
            network,
            supervisor,
            bus,
            chain,
            endpoints,
            folder,
        })
    }

    /// Its health.
    pub(crate) fn health(&self) -> &Health {
        &self.health
    }

    /// Its addresses.
    pub(crate) fn endpoints(&self) -> Endpoints {
        self.endpoints.endpoints()
    }

    /// Whether its data folder is removed at the end.
    pub(crate) const fn has_ephemeral_folder(&self) -> bool {
        self.folder.is_ephemeral()
    }

    /// Notifies the service manager that the node serves.
    pub(crate) fn notify_ready(&self) {
        service_manager::ready(&self.health.status_line());
    }

    /// Reads the settings again and applies changes that need no restart; logs the result.
    pub(crate) async fn reload(&self) {
        service_manager::reloading();
        if let Err(error) = self.reloader.reload(None).await {
            tracing::error!(%error, "SIGHUP: the settings can't be used");
        }
        self.notify_ready();
    }

    /// Stops in order: refuses new requests and gives running ones their grace period; lets plugins, module actors, the
    /// importer and the database's writer finish accepted work; flushes the database.
    ///
    /// # Errors
    /// [`Stop::Failure`] when the database could not be flushed.
    pub(crate) async fn stop(self) -> Result<(), Stop> {
        service_manager::stopping();
        self.endpoints.withdraw();
        self.servers.stop(self.grace).await;
        self.register.shutdown(self.plugin_grace).await;
        let mut tasks = self.tasks;
        tasks.shutdown().await;
        self.network.stop(&self.supervisor).await;
        drop(self.network);
        // An unfinished operation on a module may still hold the supervisor, but can start no actor after this.
        let unfinished = self.supervisor.stop(DRAIN).await;
        if !unfinished.is_empty() {
            tracing::warn!(actors = ?unfinished, "actors did not finish in time");
        }
        drop(self.supervisor);
        self.bus.close();
        drop((self.bus, self.reloader, self.register, self.servers, self.health));
        let store = self.chain.into_store();
        store.flush()?;
        let head = tenon_api::ChainReader::head(&*store);
        // The last owner closes the database. Another owner can only be a call that outlived its grace period.
        if Arc::try_unwrap(store).is_err() {
            tracing::warn!("a call that did not end keeps the database open; its data is safe");
        }
        tracing::info!(head = head.header.number, hash = %head.header.hash(), "stopped");
        Ok(())
    }
}

/// Time limit of a stop, from the signal to the end of the process: by then something hangs. Calls have `grace` to
/// finish; cancelled calls then have `plugins.grace` to end.
pub(crate) const fn max_stop_time(settings: &Settings) -> Duration {
    let (grace, plugin_grace) = (settings.node.grace, settings.plugins.grace);
    grace.saturating_add(plugin_grace).saturating_add(MAX_ACTORS_STOP_TIME).saturating_add(STOP_MARGIN)
}

/// Answers `GetSpelling`: the reference's spelling if its namespace names are served, otherwise our own.
fn answer_spelling(plan: &NodePlan, bus: &Bus) -> Result<(), Stop> {
    let has_aliases = plan.namespace_names() == NamespaceNames::WITH_ALIASES;
    let spelling = if has_aliases { Spelling::Reference } else { Spelling::Own };
    bus.handle_read(move |_: GetSpelling, _: &CallContext| Ok(spelling))?;
    Ok(())
}

/// The front-ends' servers, none of which listens yet.
fn servers(register: &ModuleRegister, shared: &Shared) -> Arc<Servers<Router>> {
    let servers = Servers::new(register.router(), Some(health_check(&shared.health)));
    Arc::new(servers.with_memory(shared.memory.clone()))
}

/// The sources of the metrics.
fn node_source(
    plan: &NodePlan,
    shared: &Shared,
    register: &ModuleRegister,
    servers: &Arc<Servers<Router>>,
    writer: Arc<CountedWriter>,
    voting: &Voting,
) -> NodeSource {
    NodeSource {
        bus: shared.bus.clone(),
        router: register.router(),
        servers: Arc::clone(servers),
        memory: shared.memory.clone(),
        work: shared.work.clone(),
        store: Arc::clone(&plan.chain.store),
        writer,
        supervisor: Arc::downgrade(&shared.supervisor),
        traffic: shared.network.traffic(),
        voting: voting.counts(),
        chain: Arc::clone(&plan.chain.info),
    }
}

/// Starts the modules below the plugins, the node's own tasks, the plugins, the front-ends, and the other modules.
async fn begin_serving(
    plan: &NodePlan,
    shared: &mut Shared,
    register: &Arc<ModuleRegister>,
    front_ends: &FrontEnds,
) -> Result<(), Stop> {
    let Shared { bus, tasks, health, .. } = shared;
    register.start_actors(ActorStage::BeforePlugins).await.map_err(module_start_error)?;
    match plan.is_development() {
        true => tasks.spawn(development_log::write(bus.clone())),
        false => tasks.spawn(block_log::write(bus.clone())),
    };
    tasks.spawn(Arc::clone(health).watch(bus.clone()));

    // Apart from this task, because a library can hang while it is loaded, and the start must still end at a signal.
    let (plugins, settings) = (Arc::clone(register), plan.settings.clone());
    tokio::task::spawn_blocking(move || modules::start_plugins(&plugins, &settings)).await.map_err(Stop::failure)??;
    tasks.spawn(Arc::clone(register).end_on_time());
    tasks.spawn(Arc::clone(register).start_when_there_is_space());
    front_ends.open_fixed().await?;
    register.start_actors(ActorStage::AfterPlugins).await.map_err(module_start_error)?;
    // So that the first answer of `/health` includes failed modules.
    Arc::clone(health).check_now(bus).await;
    Ok(())
}

/// The answer to `GET /health`.
fn health_check(health: &Arc<Health>) -> HealthCheck {
    let health = Arc::clone(health);
    Arc::new(move || {
        let report = health.report();
        HealthReport { is_healthy: report.is_healthy(), details: report.to_json().to_string() }
    })
}

//! The wiring: the dependencies of each component, the order of their start, and of their stop.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tenon_accounts::{Accounts, WalletDirectory};
use tenon_api::messages::{BlockCommitted, GetSpelling, Spelling};
use tenon_api::{
    BlockCommit, BlockPort, ConsensusEngine, DatabaseWatch, PeerTransactions, PendingTransactions, PluginSpaces,
    RoundMessages,
};
use tenon_bus::{Bus, CallContext, Delivery, MemoryBudget, MemoryLimits, WorkPool};
use tenon_config::{NamespaceNames, Settings};
use tenon_consensus::{SealChoices, SealMode, SealerClock, SealerOptions, SealerPorts, SealingOnDemand};
use tenon_device_wallets::DeviceWallets;
use tenon_execution::{ChainActor, ChainHandle, Importer};
use tenon_execution_block::Executor;
use tenon_host::{BuiltIns, NamespaceAlias, Router};
use tenon_ipc::{HealthCheck, HealthReport, Servers};
use tenon_isolation::IsolationOptions;
use tenon_metrics::CountedWriter;
use tenon_modules::{ActorModule, ActorStage, ModuleError, ModuleOptions, ModuleRegister};
use tenon_native_spec::PublicNetwork;
use tenon_native_voting::Voting;
use tenon_network_service::{Network, NetworkPorts};
use tenon_signing_wallet::ServiceWallet;
use tenon_simulation::{CallLimits, CallResources, Families, ScriptOptions};
use tenon_storage::{StoreLimits, StoreResources};
use tenon_supervisor::{ActorOptions, Supervisor};
use tenon_txpool::Pool;
use tokio::task::JoinSet;

use crate::allocator;
use crate::chain_files::{self, RequestFolders};
use crate::checkpoints;
use crate::data_folder::DataFolder;
use crate::endpoints::{Announcer, Endpoints};
use crate::exit::Stop;
use crate::front_end_modules::{self, FrontEnds};
use crate::health::{BlockInterval, Health, Parts};
use crate::metrics::{self, NodeSource};
use crate::module_actors::{self, PoolSwitch};
use crate::opened_chain::OpenedChain;
use crate::reload::{Reloader, SettingsSource};
use crate::sealing::{BlockMaking, OneMasternode};
use crate::voting::{self, VotingParts};
use crate::{
    development_log, devices, node_facts, peer_network, plugin_folder, pool_settings, process_facts, profiles, sealing,
    service_manager, start_lines, wallets,
};

#[cfg(test)]
mod tests;

/// Time limit for actors and tasks to finish accepted work.
const DRAIN: Duration = Duration::from_secs(2);
/// File of the data folder with the operator's run-time choices about modules.
const MODULE_CHOICES: &str = "modules.json";

/// Everything needed to start a node.
pub(crate) struct NodePlan {
    /// The settings.
    pub(crate) settings: Settings,
    /// The data folder.
    pub(crate) folder: DataFolder,
    /// The chain, which is in the folder.
    pub(crate) chain: OpenedChain,
    /// The consensus engine.
    pub(crate) engine: Arc<dyn ConsensusEngine>,
    /// The node's role besides serving.
    pub(crate) role: Role,
    /// The source from which the settings are read again.
    pub(crate) source: SettingsSource,
}

/// The role of a node besides serving.
pub(crate) enum Role {
    /// None. On a native network with one masternode it makes blocks once requested, if it has the account.
    Follow {
        /// The masternode of such a network.
        masternode: Option<OneMasternode>,
    },
    /// Makes blocks, and signs with the development accounts.
    Develop {
        /// The accounts.
        accounts: Accounts,
        /// Options of block production.
        sealer: SealerOptions,
    },
}

impl Role {
    /// The accounts of its mnemonic, if it has one.
    fn accounts(&self) -> Option<Accounts> {
        match self {
            Self::Follow { .. } => None,
            Self::Develop { accounts, .. } => Some(accounts.clone()),
        }
    }
}

/// A running node. Its fields are in the order in which they are stopped.
pub(crate) struct Node {
    grace: Duration,
    plugin_grace: Duration,
    servers: Arc<Servers<Router>>,
    plugins: Arc<ModuleRegister>,
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
    /// [`Stop`] naming the component that did not start.
    pub(crate) async fn start(plan: NodePlan) -> Result<Self, Stop> {
        let NodePlan { settings, folder, chain, engine, role, source } = plan;
        allocator::release_memory_in_background();
        let bus = Bus::new();
        let supervisor = Arc::new(Supervisor::new()?);
        let mut tasks = JoinSet::new();
        let work = work_pool(&settings);
        let memory = request_memory(&settings);

        let is_development = matches!(role, Role::Develop { .. });
        let network = Network::new(&bus)?;
        let health = Health::new(health_parts(&settings, &folder, &chain, &engine, &role, &supervisor, &network));
        node_facts::register(&bus, &settings.node.identity, &folder, &health)?;
        process_facts::register(&bus, &work)?;
        profiles::register(&bus, RequestFolders::of(&settings))?;
        // Before the importer, so that it is stopped after it.
        let storage = tenon_storage::spawn_writer(&supervisor, &chain.store)?;
        let counted = Arc::new(CountedWriter::new(Arc::new(storage), chain.reader()));
        let (importer_handle, importer) =
            start_chain(&bus, &supervisor, (&settings, &memory), &chain, &engine, &work, Arc::clone(&counted))?;
        chain_files::register(&bus, &work, RequestFolders::of(&settings), chain.reader(), importer_handle.clone())?;
        checkpoints::register(&bus, &work, &folder, Arc::clone(&chain.store))?;
        let plugins = plugin_host(&bus, &settings, &memory, &chain)?;
        let is_confined = is_development && !settings.dev.expose;
        let devices = DeviceWallets::new(bus.clone());
        let service = wallets::signing_service(&settings, &bus)?;
        let directory = wallets::directory(&settings, &chain, role.accounts(), devices.clone(), service.clone(), &bus)?;
        let pool = open_pool(&bus, &settings, &chain, &directory)?;
        let voting = Voting::default();
        chain.family.register_voting(&bus, &voting)?;
        let peers = match is_development {
            true if settings.peers.enabled => {
                return Err(Stop::Usage("p2p.enabled: a development network has no peers".to_owned()));
            }
            true => None,
            false => {
                let pool = Arc::clone(&pool) as Arc<dyn PeerTransactions>;
                let consensus = Some(Arc::new(voting.clone()) as Arc<dyn RoundMessages>);
                let blocks = Arc::clone(&importer) as Arc<dyn BlockPort>;
                let ports = NetworkPorts { chain: chain.encoded_reader(), blocks, pool, consensus, bus: bus.clone() };
                peer_network::module(&network, &supervisor, ports, &chain, &settings)?
            }
        };
        tenon_accounts::register(&bus, &directory)?;
        wallets::unlock_at_start(&settings, &directory).await?;
        if !is_development {
            let (importer, pool, directory) = (&importer, &pool, &directory);
            let parts = VotingParts {
                bus: &bus,
                supervisor: &supervisor,
                chain: &chain,
                importer,
                pool,
                directory,
                network: &network,
            };
            if voting::start(&settings, &voting, &parts)? {
                let voting = module_actors::voting(&supervisor, settings.masternode.account.is_some());
                plugins.add_actor(voting).map_err(Stop::failure)?;
            }
        }
        add_actors(&plugins, role, (&bus, &supervisor), &chain, (&pool, &directory, service), importer_handle)?;
        plugins.add_actor(devices::module(&settings, devices, &supervisor)?).map_err(Stop::failure)?;
        let has_aliases = namespace_names(&settings, &chain) == NamespaceNames::WITH_ALIASES;
        let spelling = if has_aliases { Spelling::Reference } else { Spelling::Own };
        bus.handle_read(move |_: GetSpelling, _: &CallContext| Ok(spelling))?;
        let endpoints = Arc::new(Announcer::new(&folder, start_lines::chain_name(&chain.info)));
        let servers = Servers::new(plugins.router(), Some(health_check(&health)));
        let servers = Arc::new(servers.with_memory(memory.clone()));
        let node_source = NodeSource {
            bus: bus.clone(),
            router: plugins.router(),
            servers: Arc::clone(&servers),
            memory,
            work,
            store: Arc::clone(&chain.store),
            writer: counted,
            supervisor: Arc::downgrade(&supervisor),
            traffic: network.traffic(),
            voting: voting.counts(),
            chain: Arc::clone(&chain.info),
        };
        let names = namespace_names(&settings, &chain);
        let front_ends = add_front_ends(&plugins, &settings, is_confined, names, node_source, &endpoints)?;
        if let Some(module) = peers {
            plugins.add_actor(module).map_err(Stop::failure)?;
        }
        let reloader = Reloader::new(source, Arc::clone(&plugins), Arc::clone(&front_ends));
        reloader.register(&bus)?;
        plugins.start_actors(ActorStage::BeforePlugins).await.map_err(module_start_error)?;
        match is_development {
            true => tasks.spawn(development_log::write(bus.clone())),
            false => tasks.spawn(log_blocks(bus.clone())),
        };
        tasks.spawn(Arc::clone(&health).watch(bus.clone()));

        start_plugins(&plugins, &settings)?;
        tasks.spawn(Arc::clone(&plugins).end_on_time());
        front_ends.open_fixed().await?;
        plugins.start_actors(ActorStage::AfterPlugins).await.map_err(module_start_error)?;
        // So that the first answer of `/health` includes failed modules.
        Arc::clone(&health).check_now(&bus).await;
        endpoints.announce()?;
        Ok(Self {
            grace: settings.node.grace,
            plugin_grace: settings.plugins.grace,
            servers,
            plugins,
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

    /// Its data folder, if it is removed at the end.
    pub(crate) fn ephemeral_folder(&self) -> Option<PathBuf> {
        self.folder.is_ephemeral().then(|| self.folder.path().to_owned())
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

    /// Stops in order: no more requests, running ones get their grace, plugins, module actors, the importer and the
    /// database's writer finish accepted work, the database is flushed.
    ///
    /// # Errors
    /// [`Stop::Failure`] when the database could not be flushed.
    pub(crate) async fn stop(self) -> Result<(), Stop> {
        service_manager::stopping();
        self.endpoints.withdraw();
        self.servers.stop(self.grace).await;
        self.plugins.shutdown(self.plugin_grace).await;
        let mut tasks = self.tasks;
        tasks.shutdown().await;
        self.network.stop(&self.supervisor).await;
        drop(self.network);
        // An operation on a module that still runs may hold the supervisor too; it can start no actor afterwards.
        let unfinished = self.supervisor.stop(DRAIN).await;
        if !unfinished.is_empty() {
            tracing::warn!(actors = ?unfinished, "actors did not finish in time");
        }
        drop(self.supervisor);
        self.bus.close();
        drop((self.bus, self.reloader, self.plugins, self.servers, self.health));
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

/// Threads for calls, traces, scans and proofs.
fn work_pool(settings: &Settings) -> WorkPool {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let threads = match settings.rpc.threads {
        0 => cores,
        threads => threads as usize,
    };
    WorkPool::new("calls", threads, settings.rpc.queue as usize)
}

/// The memory budget of requests.
fn request_memory(settings: &Settings) -> MemoryBudget {
    let rpc = &settings.rpc;
    MemoryBudget::new(MemoryLimits { total: rpc.memory.as_usize(), client: rpc.client_share().as_usize() })
}

/// Maximum memory of all traces: one client's maximum, unless the settings say otherwise.
fn trace_memory(settings: &Settings, memory: &MemoryBudget) -> u64 {
    match settings.rpc.trace_memory.0 {
        0 => memory.limits().client as u64,
        bytes => bytes,
    }
}

/// The chain's handlers, and the actor that decides which blocks become canonical.
fn start_chain(
    bus: &Bus,
    supervisor: &Supervisor,
    (settings, memory): (&Settings, &MemoryBudget),
    chain: &OpenedChain,
    engine: &Arc<dyn ConsensusEngine>,
    work: &WorkPool,
    writer: Arc<CountedWriter>,
) -> Result<(ChainHandle, Arc<Importer>), Stop> {
    let log_results = usize::try_from(settings.rpc.log_results).unwrap_or(usize::MAX);
    let log_blocks = if settings.rpc.log_blocks == 0 { u64::MAX } else { settings.rpc.log_blocks };
    let limits = StoreLimits::new(log_results, log_blocks);
    let store = Arc::clone(&chain.store);
    let resources = StoreResources { limits, memory: memory.clone() };
    tenon_storage::register(bus, store, Arc::clone(&chain.spec), Arc::clone(&chain.info), work, resources)?;

    let importer =
        Arc::new(Importer::new(chain.family.execution(), chain.reader(), writer, Arc::clone(engine), bus.clone()));
    let port = Arc::clone(&importer);
    let make = move || Ok(ChainActor::new(Arc::clone(&importer)));
    let handle = ChainHandle::new(supervisor.spawn(module_actors::CHAIN, ActorOptions::default(), make)?);
    let limits = CallLimits {
        call_gas_cap: settings.rpc.gas_cap,
        call_timeout: settings.rpc.evm_timeout,
        attempt_time: CallLimits::ATTEMPT_TIME,
        trace_timeout: settings.rpc.trace_timeout,
        trace_steps: settings.rpc.trace_steps,
        trace_bytes: trace_memory(settings, memory),
        trace_answer_bytes: CallLimits::TRACE_ANSWER_BYTES,
        min_tip: tenon_api::U256::from(settings.pool.price_limit),
    };
    let max_scripts = usize::try_from(settings.rpc.scripts).unwrap_or(usize::MAX);
    let scripts = ScriptOptions::in_processes(settings.rpc.script_memory.0, max_scripts);
    let resources = CallResources { limits, memory: memory.clone(), scripts };
    let executor = Executor::new(chain.family.execution());
    let families = Families { simulation: chain.family.simulation(), tracers: chain.family.tracers() };
    tenon_simulation::register(bus, chain.reader(), executor, families, Arc::clone(engine), work, resources)?;
    tenon_execution::register(bus, handle.clone())?;
    chain.family.register(bus, &chain.store, work)?;
    Ok((handle, port))
}

fn open_pool(
    bus: &Bus,
    settings: &Settings,
    chain: &OpenedChain,
    directory: &WalletDirectory,
) -> Result<Arc<PoolSwitch>, Stop> {
    pool_settings::check(settings)?;
    let (options, own) = (pool_settings::options(settings), Arc::new(directory.clone()));
    let pool =
        Pool::open(Arc::clone(&chain.spec), chain.family.pool_policy(), chain.reader(), own, bus.clone(), options);
    let pool = pool.map_err(pool_settings::refusal)?;
    tenon_txpool::register(bus, &pool)?;
    Ok(PoolSwitch::new(pool))
}

/// The parts of the node that are modules, in the order in which they start.
fn add_actors(
    host: &ModuleRegister,
    role: Role,
    (bus, supervisor): (&Bus, &Arc<Supervisor>),
    chain: &OpenedChain,
    (pool, directory, service): (&Arc<PoolSwitch>, &WalletDirectory, Option<ServiceWallet>),
    importer: ChainHandle,
) -> Result<(), Stop> {
    let accounts = wallets::module(supervisor, directory.clone(), service);
    let execution = module_actors::execution(supervisor);
    for actor in
        [module_actors::storage(supervisor), execution, module_actors::pool(supervisor, Arc::clone(pool)), accounts]
    {
        host.add_actor(actor).map_err(Stop::failure)?;
    }
    let choices = SealChoices::default();
    let masternode = match &role {
        Role::Follow { masternode } => masternode.as_ref(),
        Role::Develop { .. } => None,
    };
    masternode.iter().for_each(|masternode| masternode.open(directory));
    sealing::register(&BlockMaking {
        bus: bus.clone(),
        choices: choices.clone(),
        directory: directory.clone(),
        without_account: chain.family.sealing_without_account(),
        masternode: masternode.map(OneMasternode::account),
    })?;
    let on_demand = SealingOnDemand::default();
    on_demand.register(bus, chain.reader())?;
    let sealer = match role {
        Role::Develop { sealer, .. } => Some((sealer, true)),
        Role::Follow { masternode } => masternode.map(|masternode| (masternode.sealer, false)),
    };
    if let Some((options, is_wanted)) = sealer {
        let ports = SealerPorts {
            spec: Arc::clone(&chain.spec),
            chain: chain.reader(),
            pool: Arc::clone(pool) as Arc<dyn PendingTransactions>,
            producer: Arc::new(importer),
            clock: SealerClock::system(),
            choices,
        };
        let sealing = module_actors::sealing(supervisor, bus, options, ports, on_demand);
        host.add_actor(ActorModule { is_wanted, ..sealing }).map_err(Stop::failure)?;
    }
    Ok(())
}

/// The front-ends and the metrics as modules: registered before the plugins, started after them.
fn add_front_ends(
    host: &Arc<ModuleRegister>,
    settings: &Settings,
    is_confined: bool,
    names: NamespaceNames,
    source: NodeSource,
    endpoints: &Arc<Announcer>,
) -> Result<Arc<FrontEnds>, Stop> {
    let (servers, endpoints) = (Arc::clone(&source.servers), Arc::clone(endpoints));
    let front_ends =
        FrontEnds::new(servers, host.router(), settings.clone(), is_confined, names, Arc::clone(&endpoints));
    front_end_modules::register(&source.bus, host, &front_ends)?;
    let metrics = metrics::module(settings, source, endpoints);
    for module in front_ends.modules().into_iter().chain([metrics]) {
        host.add_actor(module).map_err(Stop::failure)?;
    }
    Ok(front_ends)
}

/// The names under which namespaces are served on this chain.
fn namespace_names(settings: &Settings, chain: &OpenedChain) -> NamespaceNames {
    chain.family.namespace_names(settings.rpc.aliases)
}

/// The host of plugins and module actors, without any yet.
fn plugin_host(
    bus: &Bus,
    settings: &Settings,
    memory: &MemoryBudget,
    chain: &OpenedChain,
) -> Result<Arc<ModuleRegister>, Stop> {
    let (grace, slow_queue) = (settings.plugins.grace, settings.rpc.queue as usize);
    let mut options = ModuleOptions::new(settings.node.datadir.join("plugins"), grace, slow_queue);
    if let Some(threads) = std::num::NonZero::new(settings.rpc.threads as usize) {
        options.slow_calls = ModuleOptions::slow_calls_for(threads);
    }
    options.memory = memory.clone();
    options.processes = Some(IsolationOptions::of_this_program());
    let program_folder = plugin_folder::program_folder()?;
    options.folders = plugin_folder::folders(settings, &program_folder);
    options.built_ins = plugin_folder::built_ins(&program_folder)?;
    if options.built_ins == BuiltIns::default() {
        plugin_folder::warn_of_no_list(&program_folder);
    }
    options.reserved = plugin_folder::BUILT_IN_PLUGINS.iter().map(|name| (*name).to_owned()).collect();
    options.vouched = plugin_folder::vouched(settings)?;
    options.choices_file = Some(settings.node.datadir.join(MODULE_CHOICES));
    let served = namespace_names(settings, chain).aliases();
    let alias = |alias: &(&str, &str)| NamespaceAlias {
        name: alias.0.to_owned(),
        namespace: alias.1.to_owned(),
        is_served: served.contains(alias),
    };
    options.aliases = NamespaceNames::WITH_ALIASES.aliases().iter().map(alias).collect();
    options.unserved = chain.family.unserved_namespaces().iter().map(|name| (*name).to_owned()).collect();
    options.spaces = Some(Arc::clone(&chain.store) as Arc<dyn PluginSpaces>);
    let host = ModuleRegister::new(bus.clone(), options);
    tenon_modules::register(bus, &host)?;
    Ok(host)
}

/// Starts every plugin that is found and enabled. A plugin that can't be started is recorded as failed, and does not
/// prevent the others from being served, unless it is required.
fn start_plugins(host: &ModuleRegister, settings: &Settings) -> Result<(), Stop> {
    let plans = plugin_folder::plans(settings, &plugin_folder::program_folder()?)?;
    host.start(&plans).map(drop).map_err(module_start_error)
}

/// Why modules prevent the node from starting.
fn module_start_error(error: ModuleError) -> Stop {
    match error {
        ModuleError::Choices { .. } => Stop::DataFolder(error.to_string()),
        other => Stop::failure(other),
    }
}

/// The inputs of the node's health.
fn health_parts(
    settings: &Settings,
    folder: &DataFolder,
    chain: &OpenedChain,
    engine: &Arc<dyn ConsensusEngine>,
    role: &Role,
    supervisor: &Arc<Supervisor>,
    network: &Arc<Network>,
) -> Parts {
    let block_interval = match role {
        Role::Follow { .. } => BlockInterval::Network(Arc::clone(engine)),
        Role::Develop { sealer, .. } => match sealer.mode {
            SealMode::Interval(period) => BlockInterval::Own(period),
            SealMode::OnTransaction => BlockInterval::OnDemand,
        },
    };
    Parts {
        chain: chain.reader(),
        database: Arc::clone(&chain.store) as Arc<dyn DatabaseWatch>,
        supervisor: Arc::downgrade(supervisor),
        folder: folder.database(),
        block_interval,
        old_means_behind: PublicNetwork::by_genesis_hash(chain.info.genesis_hash).is_some()
            || settings.health.head_age.is_some(),
        limits: settings.health.clone(),
        network: Some(Arc::clone(network)),
        has_network: settings.peers.enabled,
    }
}

/// The answer to `GET /health`.
fn health_check(health: &Arc<Health>) -> HealthCheck {
    let health = Arc::clone(health);
    Arc::new(move || {
        let report = health.report();
        HealthReport { is_healthy: report.is_healthy(), details: report.to_json().to_string() }
    })
}

/// Logs one line per block.
async fn log_blocks(bus: Bus) {
    let mut blocks = bus.subscribe::<BlockCommitted>();
    drop(bus);
    while let Some(delivery) = blocks.next().await {
        match delivery {
            Delivery::Event(BlockCommitted { commit }) => log_block(&commit),
            Delivery::Missed(count) => tracing::info!(count, "blocks were not logged"),
        }
    }
}

/// The log line of a block.
pub(crate) fn log_block(commit: &BlockCommit) {
    tracing::info!(
        number = commit.block.header.number,
        hash = %commit.block.hash(),
        txs = commit.block.transactions.len(),
        gas = commit.block.header.gas_used,
        "block"
    );
}

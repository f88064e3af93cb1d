//! The modules of a node: the register, the parts of the node that operators can stop, the plugins.

use std::sync::Arc;

use tenon_accounts::WalletDirectory;
use tenon_api::{PendingTransactions, PluginSpaces};
use tenon_bus::{Bus, MemoryBudget};
use tenon_config::{NamespaceNames, Settings};
use tenon_consensus::{SealChoices, SealerClock, SealerPorts, SealingOnDemand};
use tenon_host::{BuiltIns, NamespaceAlias};
use tenon_isolation::IsolationOptions;
use tenon_modules::{ActorModule, ModuleError, ModuleOptions, ModuleRegister};

use super::chain::RunningChain;
use super::plan::{NodePlan, Role};
use super::shared::Shared;
use super::signing::OpenedWallets;
use crate::endpoints::Announcer;
use crate::exit::Stop;
use crate::front_end_modules::{self, FrontEnds};
use crate::metrics::{self, NodeSource};
use crate::module_actors::{self, PoolSwitch};
use crate::sealing::{self, BlockMaking, OneMasternode};
use crate::{devices, plugin_folder, wallets};

/// File of the data folder with the operator's run-time choices about modules.
const MODULE_CHOICES: &str = "modules.json";

/// Adds the parts of the node that are modules, in the order in which they start.
///
/// # Errors
/// [`Stop`].
pub(super) fn add_actors(
    modules: &ModuleRegister,
    plan: &NodePlan,
    shared: &Shared,
    chain: &RunningChain,
    pool: &Arc<PoolSwitch>,
    wallets: OpenedWallets,
) -> Result<(), Stop> {
    let OpenedWallets { directory, service, devices } = wallets;
    let supervisor = &shared.supervisor;
    for actor in [
        module_actors::storage(supervisor),
        module_actors::execution(supervisor),
        module_actors::pool(supervisor, Arc::clone(pool)),
        wallets::module(supervisor, directory.clone(), service),
    ] {
        modules.add_actor(actor).map_err(Stop::failure)?;
    }
    add_sealing(modules, plan, shared, chain, pool, directory)?;
    modules.add_actor(devices::module(&plan.settings, devices, supervisor)?).map_err(Stop::failure)
}

/// Answers the requests about block production, and adds its module if the node can make blocks.
fn add_sealing(
    modules: &ModuleRegister,
    plan: &NodePlan,
    shared: &Shared,
    running: &RunningChain,
    pool: &Arc<PoolSwitch>,
    directory: WalletDirectory,
) -> Result<(), Stop> {
    let NodePlan { chain, role, .. } = plan;
    let Shared { bus, supervisor, .. } = shared;
    let choices = SealChoices::default();
    let masternode = match role {
        Role::Follow { masternode } => masternode.as_ref(),
        Role::Develop { .. } => None,
    };
    masternode.iter().for_each(|masternode| masternode.open(&directory));
    sealing::register(&BlockMaking {
        bus: bus.clone(),
        choices: choices.clone(),
        directory,
        without_account: chain.family.sealing_without_account(),
        masternode: masternode.map(OneMasternode::account),
    })?;
    let on_demand = SealingOnDemand::default();
    on_demand.register(bus, chain.reader())?;
    let (options, is_wanted) = match (role, masternode) {
        (Role::Develop { sealer, .. }, _) => (sealer, true),
        (Role::Follow { .. }, Some(masternode)) => (&masternode.sealer, false),
        (Role::Follow { .. }, None) => return Ok(()),
    };
    let ports = SealerPorts {
        spec: Arc::clone(&chain.spec),
        chain: chain.reader(),
        pool: Arc::clone(pool) as Arc<dyn PendingTransactions>,
        producer: Arc::new(running.handle.clone()),
        clock: SealerClock::system(),
        choices,
    };
    let sealing = module_actors::sealing(supervisor, bus, options.clone(), ports, on_demand);
    modules.add_actor(ActorModule { is_wanted, ..sealing }).map_err(Stop::failure)
}

/// Adds the front-ends and the metrics: registered before the plugins, started after them.
///
/// # Errors
/// [`Stop`].
pub(super) fn add_front_ends(
    modules: &Arc<ModuleRegister>,
    plan: &NodePlan,
    source: NodeSource,
    endpoints: &Arc<Announcer>,
) -> Result<Arc<FrontEnds>, Stop> {
    let NodePlan { settings, .. } = plan;
    let is_confined = plan.is_development() && !settings.dev.expose;
    let (servers, endpoints, names) = (Arc::clone(&source.servers), Arc::clone(endpoints), plan.namespace_names());
    let front_ends =
        FrontEnds::new(servers, modules.router(), settings.clone(), is_confined, names, Arc::clone(&endpoints));
    front_end_modules::register(&source.bus, modules, &front_ends)?;
    let metrics = metrics::module(settings, source, endpoints);
    for module in front_ends.modules().into_iter().chain([metrics]) {
        modules.add_actor(module).map_err(Stop::failure)?;
    }
    Ok(front_ends)
}

/// The register of plugins and module actors, without any yet.
///
/// # Errors
/// [`Stop`].
pub(super) fn new_register(plan: &NodePlan, bus: &Bus, memory: &MemoryBudget) -> Result<Arc<ModuleRegister>, Stop> {
    let NodePlan { settings, chain, .. } = plan;
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
    let names = plan.namespace_names();
    let served = names.aliases();
    let alias = |alias: &(&str, &str)| NamespaceAlias {
        name: alias.0.to_owned(),
        namespace: alias.1.to_owned(),
        is_served: served.contains(alias),
    };
    options.aliases = NamespaceNames::WITH_ALIASES.aliases().iter().map(alias).collect();
    options.unserved = chain.family.unserved_namespaces().iter().map(|name| (*name).to_owned()).collect();
    options.spaces = Some(Arc::clone(&chain.store) as Arc<dyn PluginSpaces>);
    let modules = ModuleRegister::new(bus.clone(), options);
    tenon_modules::register(bus, &modules)?;
    Ok(modules)
}

/// Starts every plugin that is found and enabled. A plugin that can't be started is recorded as failed, and does not
/// prevent the others from being served, unless it is required.
///
/// # Errors
/// [`Stop`].
pub(super) fn start_plugins(modules: &ModuleRegister, settings: &Settings) -> Result<(), Stop> {
    let plans = plugin_folder::plans(settings, &plugin_folder::program_folder()?)?;
    modules.start(&plans).map(drop).map_err(module_start_error)
}

/// Why modules prevent the node from starting.
pub(super) fn module_start_error(error: ModuleError) -> Stop {
    match error {
        ModuleError::Choices { .. } => Stop::DataFolder(error.to_string()),
        other => Stop::failure(other),
    }
}

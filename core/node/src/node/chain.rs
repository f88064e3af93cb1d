//! The chain and the transaction pool of a node: their actors, and the handlers that read them.

use std::sync::Arc;

use tenon_accounts::WalletDirectory;
use tenon_api::ConsensusEngine;
use tenon_bus::{Bus, MemoryBudget, WorkPool};
use tenon_config::Settings;
use tenon_execution::{ChainActor, ChainHandle, Importer};
use tenon_execution_block::Executor;
use tenon_metrics::CountedWriter;
use tenon_simulation::{CallLimits, CallResources, Families, ScriptOptions};
use tenon_storage::{StoreLimits, StoreResources};
use tenon_supervisor::{ActorOptions, Supervisor};
use tenon_txpool::Pool;

use super::plan::NodePlan;
use super::shared::Shared;
use crate::chain_files::{self, RequestFolders};
use crate::checkpoints;
use crate::exit::Stop;
use crate::module_actors::{self, PoolSwitch};
use crate::opened_chain::OpenedChain;
use crate::pool_settings;

/// The parts of the write path that other components use.
pub(super) struct RunningChain {
    pub(super) importer: Arc<Importer>,
    /// Reaches the actor that decides which blocks become canonical.
    pub(super) handle: ChainHandle,
    /// The database's writer.
    pub(super) writer: Arc<CountedWriter>,
}

impl RunningChain {
    /// Starts the database's writer and the importer, and answers the requests about the chain.
    ///
    /// # Errors
    /// [`Stop`].
    pub(super) fn start(plan: &NodePlan, shared: &Shared) -> Result<Self, Stop> {
        let NodePlan { settings, folder, chain, engine, .. } = plan;
        let Shared { bus, supervisor, work, memory, .. } = shared;
        // Before the importer, so that it is stopped after it.
        let writer = tenon_storage::spawn_writer(supervisor, &chain.store)?;
        let writer = Arc::new(CountedWriter::new(Arc::new(writer), chain.reader()));
        let (handle, importer) =
            start_chain(bus, supervisor, (settings, memory), chain, engine, work, Arc::clone(&writer))?;
        chain_files::register(bus, work, RequestFolders::of(settings), chain.reader(), handle.clone())?;
        checkpoints::register(bus, work, folder, Arc::clone(&chain.store))?;
        Ok(Self { importer, handle, writer })
    }
}

/// Maximum memory of all traces: one client's maximum, unless the settings say otherwise.
fn trace_memory(settings: &Settings, memory: &MemoryBudget) -> u64 {
    match settings.rpc.trace_memory.0 {
        0 => memory.limits().client as u64,
        bytes => bytes,
    }
}

/// The chain's handlers, and the actor that decides which blocks become canonical.
pub(super) fn start_chain(
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

pub(super) fn open_pool(
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

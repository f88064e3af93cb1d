//! What every component of a node uses: the bus, the actors' supervisor, the limits of requests, the network, the
//! health.

use std::sync::Arc;

use tenon_api::DatabaseWatch;
use tenon_bus::{Bus, MemoryBudget, MemoryLimits, WorkPool};
use tenon_config::Settings;
use tenon_consensus::SealMode;
use tenon_network_service::Network;
use tenon_supervisor::Supervisor;
use tokio::task::JoinSet;

use super::plan::{NodePlan, Role};
use crate::chain_files::RequestFolders;
use crate::exit::Stop;
use crate::family::PublicNetwork;
use crate::health::{BlockInterval, Health, Parts};
use crate::{node_facts, process_facts, profiles};

/// Created before all other components. A failed start drops the fields in this order, after everything that uses
/// them.
pub(super) struct Shared {
    pub(super) health: Arc<Health>,
    pub(super) network: Arc<Network>,
    pub(super) memory: MemoryBudget,
    pub(super) work: WorkPool,
    /// The node's own tasks.
    pub(super) tasks: JoinSet<()>,
    pub(super) supervisor: Arc<Supervisor>,
    pub(super) bus: Bus,
}

impl Shared {
    /// Creates them, and answers the requests about the node and its process.
    ///
    /// # Errors
    /// [`Stop::Failure`].
    pub(super) fn new(plan: &NodePlan) -> Result<Self, Stop> {
        let NodePlan { settings, folder, .. } = plan;
        let bus = Bus::new();
        let supervisor = Arc::new(Supervisor::new()?);
        let tasks = JoinSet::new();
        let work = work_pool(settings);
        let memory = request_memory(settings);
        let network = Network::new(&bus)?;
        let health = Health::new(health_parts(plan, &supervisor, &network));
        node_facts::register(&bus, &settings.node.identity, folder, &health)?;
        process_facts::register(&bus, &work)?;
        profiles::register(&bus, RequestFolders::of(settings))?;
        Ok(Self { health, network, memory, work, tasks, supervisor, bus })
    }
}

/// Threads for calls, traces, scans and proofs.
pub(super) fn work_pool(settings: &Settings) -> WorkPool {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let threads = match settings.rpc.threads {
        0 => cores,
        threads => threads as usize,
    };
    WorkPool::new("calls", threads, settings.rpc.queue as usize)
}

/// The memory budget of requests.
pub(super) fn request_memory(settings: &Settings) -> MemoryBudget {
    let rpc = &settings.rpc;
    MemoryBudget::new(MemoryLimits { total: rpc.memory.as_usize(), client: rpc.client_share().as_usize() })
}

/// The inputs of the node's health.
fn health_parts(plan: &NodePlan, supervisor: &Arc<Supervisor>, network: &Arc<Network>) -> Parts {
    let NodePlan { settings, role, engine, chain, folder, .. } = plan;
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

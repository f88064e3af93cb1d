//! A node without network: the real database, the importer, and the handlers of calls and traces.

use std::sync::Arc;

use tempfile::TempDir;
use tenon_api::{Block, BlockNumber, ChainReader, ConsensusEngine, Request};
use tenon_bus::{Bus, CallContext, WorkPool};
use tenon_chain::{ChainSpec, Genesis};
use tenon_execution::{ChainActor, ChainHandle, ImportSummary, Importer};
use tenon_execution_block::Executor;
use tenon_execution_interface::EthereumFamily;
use tenon_native_execution::family_of;
use tenon_native_simulation::simulation_of;
use tenon_native_tracers::tracers_of;
use tenon_sdk::Failure;
use tenon_simulation::{EthereumSimulation, EthereumTracers, Families};
use tenon_storage::{Durability, Mode, Store, StoreOptions};
use tenon_supervisor::{ActorOptions, Supervisor};
use tenon_test_node::{LIMITS, resources};
use tokio::runtime::Runtime;

/// A memory file system, if the system has one.
const MEMORY_FOLDER: &str = "/dev/shm";

/// A node over a database in its own folder.
pub struct Node {
    /// The database.
    pub store: Arc<Store>,
    /// Executes and commits blocks.
    pub importer: Arc<Importer>,
    runtime: Runtime,
    bus: Bus,
    _supervisor: Supervisor,
    // Dropped last: the database must be closed before its folder is removed.
    _folder: TempDir,
}

impl Node {
    /// A node with block 0 only.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn new(genesis: &Genesis, make_engine: impl Fn(Arc<ChainSpec>) -> Arc<dyn ConsensusEngine>) -> Self {
        Self::keeping(genesis, |spec, _| make_engine(spec))
    }

    /// Like [`Node::new`], with an engine that keeps records in the database.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn keeping(
        genesis: &Genesis,
        make_engine: impl FnOnce(Arc<ChainSpec>, &Arc<Store>) -> Arc<dyn ConsensusEngine>,
    ) -> Self {
        let folder = tempfile::tempdir_in(MEMORY_FOLDER).or_else(|_| tempfile::tempdir()).unwrap();
        let store = Store::open(folder.path(), small_database()).unwrap();
        store.initialise(&genesis.commit().unwrap(), genesis.spec.chain_id).unwrap();
        let (spec, engine) = (Arc::clone(&genesis.spec), make_engine(Arc::clone(&genesis.spec), &store));
        let reader = Arc::clone(&store) as Arc<dyn ChainReader>;
        let bus = Bus::new();
        let rules = family_of(&spec).unwrap_or_else(|| Arc::new(EthereumFamily::new(Arc::clone(&spec))));
        let importer = Arc::new(Importer::new(
            Arc::clone(&rules),
            Arc::clone(&reader),
            Arc::new(store.take_writer().unwrap()),
            Arc::clone(&engine),
            bus.clone(),
        ));
        let supervisor = Supervisor::new().unwrap();
        let own = Arc::clone(&importer);
        let actor = supervisor.spawn("chain", ActorOptions::default(), move || Ok(ChainActor::new(Arc::clone(&own))));
        let handle = ChainHandle::new(actor.unwrap());
        let pool = WorkPool::new("execution", 1, 16);
        let executor = Executor::new(rules);
        let simulation = simulation_of(&spec).unwrap_or_else(|| Arc::new(EthereumSimulation::new(Arc::clone(&spec))));
        let tracers = tracers_of(&spec).unwrap_or_else(|| Arc::new(EthereumTracers));
        let families = Families { simulation, tracers };
        tenon_simulation::register(&bus, reader, executor, families, engine, &pool, resources(LIMITS)).unwrap();
        tenon_execution::register(&bus, handle).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        Self { store, importer, runtime, bus, _supervisor: supervisor, _folder: folder }
    }

    /// Sends a request like a plugin.
    ///
    /// # Errors
    /// The handler's error.
    pub fn ask<R: Request>(&self, request: R) -> Result<R::Reply, Failure> {
        Ok(self.runtime.block_on(self.bus.call(request, &CallContext::new()))?)
    }

    /// Imports many blocks in one call.
    ///
    /// # Panics
    /// If one is refused.
    pub fn import(&self, blocks: &[Block]) -> ImportSummary {
        let blocks = blocks.iter().cloned().map(Ok::<_, String>);
        self.importer.import(blocks, &mut ()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The height of the head.
    pub fn height(&self) -> u64 {
        self.store.head().number().0
    }

    /// The canonical block of a height, in its form on the network.
    ///
    /// # Panics
    /// If there is none.
    pub fn block(&self, number: u64) -> Block {
        let hash = self.store.canonical_hash(BlockNumber(number)).unwrap();
        let hash = hash.unwrap_or_else(|| panic!("there is no block {number}"));
        let block = self.store.block(hash).unwrap().unwrap_or_else(|| panic!("block {number}, {hash}, is missing"));
        block.block.clone()
    }

    /// Every canonical block but the first.
    pub fn blocks(&self) -> Vec<Block> {
        (1..=self.height()).map(|number| self.block(number)).collect()
    }
}

fn small_database() -> StoreOptions {
    StoreOptions {
        mode: Mode::Archive,
        durability: Durability::OnFlush,
        // Small, so that records are flushed to table files while the chain grows.
        write_buffer_bytes: 1 << 20,
        trie_cache_bytes: 1 << 20,
        state_cache_bytes: 48 << 20,
        block_cache_bytes: 1 << 20,
        background_threads: 2,
        ..StoreOptions::with_cache(4 << 20)
    }
}

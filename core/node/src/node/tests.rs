//! Compares the topics that each module lists with the handlers that it registers.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use tenon_accounts::WalletDirectory;
use tenon_api::messages::{ExportChain, ReadRequestFile};
use tenon_api::{BusError, Request, Topic};
use tenon_config::Settings;
use tenon_device_wallets::DeviceWallets;
use tenon_modules::ActorModule;
use tenon_storage::{StoreLimits, StoreResources};

use super::chain::start_chain;
use super::shared::{request_memory, work_pool};
use super::*;
use crate::chain_files::{self, RequestFolders};
use crate::commands::dev;
use crate::opened_chain::ChosenGenesis;
use crate::{module_actors, wallets};

/// The topics of requests.
const TOPICS: RangeInclusive<u32> = 1..=Topic::FIRST_EVENT.0 - 1;

/// A schema that no message has, so that a handler refuses the frame unread.
const NO_SCHEMA: u16 = u16::MAX;

/// The requests that have a handler on this bus.
fn answered(bus: &Bus) -> BTreeSet<Topic> {
    let context = CallContext::new();
    let has_handler = |topic: &Topic| {
        let refusal = bus.try_read_frame(*topic, NO_SCHEMA, &[], &context);
        !matches!(refusal, Some(Err(BusError::UnknownTopic { .. })))
    };
    TOPICS.map(Topic).filter(has_handler).collect()
}

/// The requests that the modules list.
fn listed<const N: usize>(modules: [&ActorModule; N]) -> BTreeSet<Topic> {
    modules.iter().flat_map(|module| module.answers).copied().collect()
}

/// A chain in a temporary folder, and what a node needs besides to answer requests about it.
struct Opened {
    settings: Settings,
    supervisor: Arc<Supervisor>,
    chain: OpenedChain,
    /// The last field, so that the chain is closed before the folder is removed.
    _folder: DataFolder,
}

impl Opened {
    fn new() -> Self {
        let folder = DataFolder::ephemeral().unwrap();
        let mut settings = Settings::default();
        settings.node.datadir = folder.path().to_owned();
        let genesis = ChosenGenesis::from(dev::genesis(&settings).unwrap());
        let chain = OpenedChain::open(&settings, &folder, &genesis).unwrap();
        Self { settings, supervisor: Arc::new(Supervisor::new().unwrap()), chain, _folder: folder }
    }

    fn register_storage(&self, bus: &Bus) {
        let (chain, work) = (&self.chain, work_pool(&self.settings));
        let resources = StoreResources { limits: StoreLimits::new(1, 1), memory: request_memory(&self.settings) };
        let (spec, info) = (Arc::clone(&chain.spec), Arc::clone(&chain.info));
        tenon_storage::register(bus, Arc::clone(&chain.store), spec, info, &work, resources).unwrap();
    }

    fn start_chain(&self, bus: &Bus) {
        let (chain, settings) = (&self.chain, &self.settings);
        let (work, memory, engine) = (work_pool(settings), request_memory(settings), chain.checking_engine());
        let writer = tenon_storage::spawn_writer(&self.supervisor, &chain.store).unwrap();
        let writer = Arc::new(CountedWriter::new(Arc::new(writer), chain.reader()));
        let (importer, _) =
            start_chain(bus, &self.supervisor, (settings, &memory), chain, &engine, &work, writer).unwrap();
        chain_files::register(bus, &work, RequestFolders::of(settings), chain.reader(), importer).unwrap();
    }

    fn wallets(&self, bus: &Bus) -> WalletDirectory {
        let devices = DeviceWallets::new(bus.clone());
        wallets::directory(&self.settings, &self.chain, None, devices, None, bus).unwrap()
    }
}

#[tokio::test]
async fn every_request_that_storage_and_execution_answer_is_listed_by_its_module() {
    let node = Opened::new();
    let (of_storage, of_both) = (Bus::new(), Bus::new());
    let (storage, execution) = (module_actors::storage(&node.supervisor), module_actors::execution(&node.supervisor));

    node.register_storage(&of_storage);
    node.start_chain(&of_both);

    let of_storage = answered(&of_storage);
    assert_eq!(of_storage, listed([&storage]));
    // The node itself answers these. They change nothing of the chain.
    let of_node = BTreeSet::from([ExportChain::TOPIC, ReadRequestFile::TOPIC]);
    let of_others = of_storage.union(&of_node).copied().collect();
    assert_eq!(answered(&of_both).difference(&of_others).copied().collect::<BTreeSet<_>>(), listed([&execution]));
    node.supervisor.stop(DRAIN).await;
}

#[tokio::test]
async fn every_request_that_the_pool_and_the_wallets_answer_is_listed_by_its_module() {
    let node = Opened::new();
    let (of_pool, of_wallets) = (Bus::new(), Bus::new());

    let directory = node.wallets(&of_wallets);
    tenon_accounts::register(&of_wallets, &directory).unwrap();
    let pool = open_pool(&of_pool, &node.settings, &node.chain, &directory).unwrap();

    assert_eq!(answered(&of_pool), listed([&module_actors::pool(&node.supervisor, pool)]));
    assert_eq!(answered(&of_wallets), listed([&wallets::module(&node.supervisor, directory, None)]));
}

#[test]
fn a_stop_has_the_time_that_the_documents_say() {
    let mut settings = Settings::default();

    // docs/running.md, docs/settings.md, docs/troubleshooting.md
    assert_eq!(max_stop_time(&settings), Duration::from_secs(30));
    settings.node.grace = Duration::from_secs(60);
    settings.plugins.grace = Duration::ZERO;
    assert_eq!(max_stop_time(&settings), Duration::from_secs(60 + 24));
}

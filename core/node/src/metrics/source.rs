//! The content of a scrape, component by component.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use tenon_api::messages::{ChainInfo, GetNetworkStatus, GetPoolStatus, ListModules, ModuleInfo, ModuleState};
use tenon_api::{ChainReader as _, DurationCounts};
use tenon_bus::{Bus, CallContext, MemoryBudget, MemoryUse, Transport, WorkPool};
use tenon_host::{CallCounts, Cost, Router};
use tenon_ipc::Servers;
use tenon_metrics::{CountedWriter, Page, Source, families};
use tenon_network_service::Traffic;
use tenon_storage::Store;
use tenon_supervisor::{ActorState, Supervisor};

use crate::allocator::{self, AllocatorUsage};
use crate::family::voting::VotingCounts;
use crate::process_facts;
use crate::version;

/// Sources of all figures.
pub(crate) struct NodeSource {
    /// Modules, pool and peers are queried over the bus.
    pub(crate) bus: Bus,
    /// Calls.
    pub(crate) router: Router,
    /// Connections.
    pub(crate) servers: Arc<Servers<Router>>,
    /// Memory of requests.
    pub(crate) memory: MemoryBudget,
    /// Jobs.
    pub(crate) work: WorkPool,
    /// The database.
    pub(crate) store: Arc<Store>,
    /// The write path.
    pub(crate) writer: Arc<CountedWriter>,
    /// Weak: the node stops its supervisor itself, as its only owner.
    pub(crate) supervisor: Weak<Supervisor>,
    /// Traffic with peers.
    pub(crate) traffic: Arc<Traffic>,
    /// Rounds and votes.
    pub(crate) voting: Arc<VotingCounts>,
    /// Constant facts.
    pub(crate) chain: Arc<ChainInfo>,
}

#[async_trait]
impl Source for NodeSource {
    async fn collect(&self) -> Page {
        let mut page = Page::default();
        self.add_calls(&mut page);
        self.add_memory(&mut page);
        self.add_front_ends(&mut page);
        self.add_chain(&mut page);
        self.add_network(&mut page);
        self.add_voting(&mut page);
        self.add_pool(&mut page).await;
        self.add_modules(&mut page).await;
        let store = Arc::clone(&self.store);
        // On a blocking thread, because reading from the database and the system may block.
        let blocking = tokio::task::spawn_blocking(move || {
            add_storage(&mut page, &store);
            add_process(&mut page);
            page
        });
        let mut page = blocking.await.unwrap_or_default();
        let (version, commit, compiler) = version::build();
        page.add(&families::BUILD, &[version, commit, compiler], 1);
        let ChainInfo { chain_id, network_id, genesis_hash, .. } = &*self.chain;
        let labels = [chain_id.to_string(), network_id.to_string(), genesis_hash.to_string()];
        page.add(&families::CHAIN, &labels.each_ref().map(String::as_str), 1);
        page
    }
}

const fn class(cost: Cost) -> &'static str {
    match cost {
        Cost::Fast => "fast",
        Cost::Slow => "slow",
    }
}

impl NodeSource {
    fn add_calls(&self, page: &mut Page) {
        let calls = self.router.calls();
        for count in &calls {
            let labels = [count.method.as_str(), count.transport.name()];
            page.add(&families::CALLS, &labels, count.calls);
            page.add(&families::FAILED_CALLS, &labels, count.failed);
            page.add(&families::CANCELLED_CALLS, &labels, count.cancelled);
        }
        for (transport, calls) in self.router.unknown_calls() {
            page.add(&families::UNKNOWN_CALLS, &[transport.name()], calls);
        }
        for (count, durations) in by_class(&calls) {
            let labels = [count.namespace.as_str(), class(count.cost), count.transport.name()];
            page.add_durations(&families::CALL_DURATIONS, &labels, durations);
        }
        page.add(&families::SLOW_CALLS_WAITING, &[], self.router.waiting_slow_calls() as u64);
        let (running, parked, waiting) = self.work.jobs();
        page.add(&families::POOL_JOBS, &["running"], running as u64);
        page.add(&families::POOL_JOBS, &["parked"], parked as u64);
        page.add(&families::POOL_JOBS, &["waiting"], waiting as u64);
    }

    fn add_memory(&self, page: &mut Page) {
        let (limits, usage) = (self.memory.limits(), self.memory.usage());
        page.add(&families::REQUEST_MEMORY_LIMIT, &["all"], limits.total as u64);
        page.add(&families::REQUEST_MEMORY_LIMIT, &["client"], limits.client as u64);
        for (held_for, (held, refused)) in MemoryUse::ALL.iter().zip(usage.held.iter().zip(usage.refused)) {
            page.add(&families::REQUEST_MEMORY, &[held_for.name()], *held as u64);
            page.add(&families::REQUEST_MEMORY_REFUSED, &[held_for.name()], refused);
        }
        page.add(&families::REQUEST_MEMORY_CLIENTS, &[], usage.clients as u64);
        if let Some((client, held)) = usage.largest_client {
            page.add(&families::REQUEST_MEMORY_LARGEST, &[&client.to_string()], held as u64);
        }
    }

    fn add_front_ends(&self, page: &mut Page) {
        let (endpoints, traffic) = (self.servers.endpoints(), self.servers.traffic());
        let transports = [
            (Transport::Socket, &traffic.socket, endpoints.socket.is_some()),
            (Transport::Http, &traffic.http, endpoints.http.is_some()),
            (Transport::WebSocket, &traffic.websocket, endpoints.websocket.is_some()),
        ];
        for (transport, traffic, is_listening) in transports {
            let (labels, counted) = ([transport.name()], traffic.counted());
            page.add(&families::LISTENING, &labels, u64::from(is_listening));
            page.add(&families::CONNECTIONS, &labels, counted.open);
            page.add(&families::ACCEPTED, &labels, counted.accepted);
            page.add(&families::REFUSED, &labels, counted.refused);
            page.add(&families::RECEIVED, &labels, counted.received);
            page.add(&families::SENT, &labels, counted.sent);
            page.add(&families::NOTIFICATIONS, &labels, counted.notifications);
        }
    }

    fn add_chain(&self, page: &mut Page) {
        let head = self.store.head();
        page.add(&families::HEAD, &[], head.header.number);
        page.add(&families::HEAD_TIME, &[], head.header.timestamp);
        if let Some(safe) = head.safe {
            page.add(&families::SAFE, &[], safe.0);
        }
        if let Some(finalized) = head.finalized {
            page.add(&families::FINALIZED, &[], finalized.0);
        }
        let counted = self.writer.counted();
        page.add(&families::BLOCKS, &[], counted.blocks);
        page.add(&families::TRANSACTIONS, &[], counted.transactions);
        page.add(&families::GAS, &[], counted.gas);
        page.add_durations(&families::COMMITS, &[], counted.durations);
        page.add(&families::UNWOUND, &[], counted.unwinds);
        page.add(&families::SIDE_BLOCKS, &[], counted.side_blocks);
        let recovered = tenon_recovery::check_status();
        page.add(&families::RECOVERED, &[], recovered.results);
        page.add(&families::RECOVERED_TWICE, &[], recovered.checked);
        page.add(&families::RECOVERED_WRONGLY, &[], recovered.wrong);
    }

    fn add_network(&self, page: &mut Page) {
        for count in self.traffic.messages() {
            page.add(&families::NETWORK_MESSAGES, &[count.message, count.direction], count.messages);
            page.add(&families::NETWORK_BYTES, &[count.message, count.direction], count.bytes);
        }
        page.add(&families::NETWORK_BANS, &[], self.traffic.bans());
    }

    fn add_voting(&self, page: &mut Page) {
        let counts = &self.voting;
        page.add(&families::VOTING_ROUND, &[], counts.round());
        page.add(&families::VOTING_FAILED_ROUNDS, &[], counts.failed_rounds());
        for (direction, kinds) in [("received", counts.received()), ("sent", counts.sent())] {
            for (kind, messages) in kinds {
                page.add(&families::VOTING_MESSAGES, &[kind, direction], messages);
            }
        }
        page.add(&families::VOTING_BLOCKS, &[], counts.blocks());
        page.add_durations(&families::VOTING_BLOCK_TO_VOTE, &[], counts.block_to_vote());
    }

    async fn add_pool(&self, page: &mut Page) {
        let context = CallContext::new();
        // A stopped module refuses the request, and its figures are omitted.
        if let Ok(status) = self.bus.call(GetPoolStatus, &context).await {
            page.add(&families::POOL, &["pending"], status.pending);
            page.add(&families::POOL, &["queued"], status.queued);
        }
        if let Ok(status) = self.bus.call(GetNetworkStatus, &context).await {
            page.add(&families::PEERS, &[], status.peers);
        }
    }

    async fn add_modules(&self, page: &mut Page) {
        for module in self.bus.call(ListModules, &CallContext::new()).await.unwrap_or_default() {
            add_module(page, &module);
        }
        let actors = self.supervisor.upgrade().map(|supervisor| supervisor.health()).unwrap_or_default();
        for actor in actors {
            page.add(&families::ACTOR_RUNNING, &[actor.name], u64::from(matches!(actor.state, ActorState::Running)));
            page.add(&families::ACTOR_RESTARTS, &[actor.name], actor.restarts);
        }
    }
}

/// The durations of calls of each namespace, class and transport, with the first call as representative.
fn by_class(calls: &[CallCounts]) -> Vec<(&CallCounts, DurationCounts)> {
    let mut classes: Vec<(&CallCounts, DurationCounts)> = Vec::new();
    for call in calls {
        let is_same =
            |of: &CallCounts| of.namespace == call.namespace && of.cost == call.cost && of.transport == call.transport;
        match classes.iter_mut().find(|(of, _)| is_same(of)) {
            Some((_, durations)) => durations.add(&call.durations),
            None => classes.push((call, call.durations)),
        }
    }
    classes
}

fn add_module(page: &mut Page, module: &ModuleInfo) {
    let name = module.name.as_str();
    for state in [ModuleState::Loaded, ModuleState::Enabled, ModuleState::Disabled, ModuleState::Failed] {
        let is_in = u64::from(module.state == state);
        page.add(&families::MODULE_STATE, &[name, module.kind().name(), state.name()], is_in);
    }
    page.add(&families::MODULE_RESTARTS, &[name], module.faults.restarts);
    page.add(&families::MODULE_PANICS, &[name], module.faults.panics);
    if let Some(plugin) = module.plugin() {
        page.add(&families::MODULE_CALLS, &[name], plugin.running_calls);
        page.add(&families::MODULE_SUBSCRIPTIONS, &[name], plugin.open_subscriptions);
        page.add(&families::MODULE_FAILED, &[name], module.faults.failed_calls);
        page.add(&families::MODULE_REFUSED, &[name], module.faults.refused_calls);
        page.add(&families::MODULE_OMITTED, &[name], module.faults.omitted_lines);
    }
    if let Some(usage) = module.plugin().and_then(|plugin| plugin.storage.as_ref()) {
        page.add(&families::MODULE_STORAGE, &[name], usage.bytes);
    }
}

fn add_storage(page: &mut Page, store: &Store) {
    let statistics = match store.statistics() {
        Ok(statistics) => statistics,
        Err(error) => return tracing::warn!(%error, "could not read the figures of the database"),
    };
    for column in &statistics.columns {
        page.add(&families::DISK, &[column.name], column.disk_bytes);
        page.add(&families::MEMORY, &[column.name], column.memory_bytes);
        page.add(&families::RECORDS, &[column.name], column.entries);
    }
    let engine = statistics.engine;
    page.add(&families::TABLES, &[], engine.files);
    page.add(&families::CACHE, &[], engine.cache_bytes);
    page.add(&families::CACHE_CAPACITY, &[], engine.cache_capacity);
    page.add(&families::TABLE_READERS, &[], engine.table_reader_bytes);
    page.add(&families::COMPACTION, &[], engine.compaction_pending_bytes);
    page.add(&families::STOPPED_WRITES, &[], u64::from(engine.is_write_stopped));
    page.add(&families::BACKGROUND_ERRORS, &[], engine.background_errors);
    page.add(&families::OLDEST_STATE, &[], statistics.oldest_state.0);
}

fn add_process(page: &mut Page) {
    if let Some(usage) = allocator::usage() {
        let AllocatorUsage { allocated, active, resident, retained } = usage;
        let states = [("allocated", allocated), ("active", active), ("resident", resident), ("retained", retained)];
        for (state, bytes) in states {
            page.add(&families::ALLOCATOR, &[state], bytes);
        }
    }
    if let Ok(memory) = process_facts::memory() {
        page.add(&families::RESIDENT, &[], memory.resident);
        page.add(&families::VIRTUAL, &[], memory.mapped);
    }
    if let Ok(usage) = process_facts::usage() {
        page.add_fraction(&families::CPU, &[], usage.processor_seconds);
        page.add(&families::THREADS, &[], usage.threads);
        page.add_fraction(&families::STARTED, &[], usage.started);
        page.add(&families::OPEN_FILES, &[], usage.open_files);
        if let Some(max) = usage.max_files {
            page.add(&families::MAX_FILES, &[], max);
        }
    }
}

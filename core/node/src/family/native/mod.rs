//! Nodes of native chains.

mod description;
pub(super) mod development;
mod masternode;
mod snapshot_trust;

use std::path::Path;
use std::sync::Arc;

use tenon_accounts::keystore::FileNames;
use tenon_api::messages::{GetVotingPool, SealingStart};
use tenon_api::{ChainReader, ConsensusEngine, EngineRecords, Header};
use tenon_bus::{Bus, WorkPool};
use tenon_chain::ChainSpec;
use tenon_config::{CertificateChecks, NamespaceNames, Settings};
use tenon_execution_interface::ChainFamily;
use tenon_native_consensus::{NativeEngine, queries, v2};
use tenon_native_exchange::{TradingProblem, trading_root, verify_trading_state};
use tenon_native_execution::family_of;
use tenon_native_pool::NativePolicy;
use tenon_native_simulation::simulation_of;
use tenon_native_spec::{NativeSettings, native_bootnodes};
use tenon_native_tracers::tracers_of;
use tenon_simulation_interface::SimulationFamily;
use tenon_storage::Store;
use tenon_traces::TraceFamily;
use tenon_txpool_interface::PoolPolicy;

use super::development_maker::Development;
use super::voting::Voting;
use super::{Engine, NodeFamily, OwnState};
use crate::data_folder::DataFolder;
use crate::exit::Stop;
use crate::sealing::OneMasternode;
use crate::snapshot::trust::Trust;

pub(super) struct NativeNode {
    spec: Arc<ChainSpec>,
    execution: Arc<dyn ChainFamily>,
    simulation: Arc<dyn SimulationFamily>,
    tracers: Arc<dyn TraceFamily>,
    settings: NativeSettings,
}

impl NativeNode {
    /// `None` if the rules are not those of a native chain.
    pub(super) fn of(spec: &Arc<ChainSpec>) -> Option<Self> {
        Some(Self {
            spec: Arc::clone(spec),
            execution: family_of(spec)?,
            simulation: simulation_of(spec)?,
            tracers: tracers_of(spec)?,
            settings: NativeSettings::of(spec).cloned()?,
        })
    }
}

impl NodeFamily for NativeNode {
    fn execution(&self) -> Arc<dyn ChainFamily> {
        Arc::clone(&self.execution)
    }

    fn simulation(&self) -> Arc<dyn SimulationFamily> {
        Arc::clone(&self.simulation)
    }

    fn tracers(&self) -> Arc<dyn TraceFamily> {
        Arc::clone(&self.tracers)
    }

    fn engine(&self, store: &Arc<Store>, certificates: CertificateChecks) -> Result<Engine, Stop> {
        let engine = NativeEngine::keeping(&self.spec, records(store)).map_err(Stop::failure)?;
        let engine = Arc::new(engine.sampling_certificates(certificates == CertificateChecks::Sampled));
        Ok(Engine { checking: Arc::clone(&engine) as _, certifying: Some(engine) })
    }

    fn pool_policy(&self) -> Box<dyn PoolPolicy> {
        Box::new(NativePolicy::new(&self.spec, self.settings.clone()))
    }

    /// The engine reads the candidates of the next epoch from the state of the gap block (`docs/spec/consensus.md` 3.4).
    fn states_for_engine(&self) -> u64 {
        self.settings.consensus.gap.saturating_add(1)
    }

    fn register(&self, bus: &Bus, store: &Arc<Store>, work: &WorkPool) -> Result<(), Stop> {
        let reader = Arc::clone(store) as Arc<dyn ChainReader>;
        queries::register(bus, &self.spec, reader, records(store), work).map_err(Stop::failure)
    }

    /// A node that does not vote, such as that of a development network, has no votes.
    fn register_voting(&self, bus: &Bus, voting: &Voting) -> Result<(), Stop> {
        let voting = voting.clone();
        bus.handle(move |_: GetVotingPool, _| {
            let voting = voting.clone();
            async move { Ok(voting.waiting().await?) }
        })?;
        Ok(())
    }

    fn one_masternode(&self, store: &Arc<Store>, genesis: &Header) -> Result<Option<OneMasternode>, Stop> {
        masternode::one_masternode(&self.spec, store, genesis)
    }

    fn development(
        &self,
        settings: &Settings,
        _: &DataFolder,
        store: &Arc<Store>,
        genesis: &Header,
    ) -> Result<Development, Stop> {
        development::open(settings, (&self.spec, &self.settings), store, genesis)
    }

    /// With another switch block than the chain was made with, a block of engine v1 may be mistaken for one of v2: it has
    /// no round.
    fn round_of(&self, header: &Header) -> Option<u64> {
        let consensus = &self.settings.consensus;
        if header.number > consensus.switch_block { v2::round_of(consensus, header).ok() } else { None }
    }

    /// The state of the historic exchange.
    fn check_own_state(
        &self,
        store: &Arc<Store>,
        engine: &dyn ConsensusEngine,
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<OwnState, Stop> {
        let root = trading_root(&self.spec, &**store, engine).map_err(Stop::failure)?;
        let Some(root) = root else { return Ok(OwnState::Sound(String::new())) };
        match verify_trading_state(&*store.trie(), root, &mut |_| !is_interrupted()) {
            Ok(found) => Ok(OwnState::Sound(format!(", {} trading nodes, {} open orders", found.nodes, found.orders))),
            Err(TradingProblem::Damage { what, problem }) => Ok(OwnState::Damaged(format!("{what}: {problem}"))),
            Err(TradingProblem::Store(error)) => Err(error.into()),
            Err(TradingProblem::Stopped) => Ok(OwnState::Interrupted),
        }
    }

    fn trust_in_head(&self, source: &Path, store: &Arc<Store>) -> Result<Trust, Stop> {
        snapshot_trust::trust_in_head(self, source, store)
    }

    /// A node of the reference always has an account, so its error names the missing key.
    fn sealing_without_account(&self) -> SealingStart {
        SealingStart::NoSigner
    }

    fn bootnodes(&self, network_id: u64) -> Option<&'static [String]> {
        Some(native_bootnodes(network_id))
    }

    /// As those of the reference client.
    fn key_file_names(&self) -> FileNames {
        FileNames::Prefixed
    }

    fn namespace_names(&self, aliases: bool) -> NamespaceNames {
        if aliases { NamespaceNames::WITH_ALIASES } else { NamespaceNames::OWN }
    }

    fn unserved_namespaces(&self) -> &'static [&'static str] {
        &[]
    }

    fn has_rules_by_network_id(&self) -> bool {
        true
    }
}

fn records(store: &Arc<Store>) -> Arc<dyn EngineRecords> {
    Arc::clone(store) as Arc<dyn EngineRecords>
}

//! Nodes of chains with Ethereum's rules.

use std::path::Path;
use std::sync::Arc;

use tenon_accounts::keystore::FileNames;
use tenon_api::messages::SealingStart;
use tenon_api::{ConsensusEngine, Header};
use tenon_bus::{Bus, WorkPool};
use tenon_chain::ChainSpec;
use tenon_config::{CertificateChecks, NamespaceNames, Settings};
use tenon_consensus::{DevEngine, EthereumEngine};
use tenon_execution_interface::{ChainFamily, EthereumFamily};
use tenon_simulation::{EthereumSimulation, EthereumTracers};
use tenon_simulation_interface::SimulationFamily;
use tenon_storage::Store;
use tenon_traces::TraceFamily;
use tenon_txpool::EthereumPolicy;
use tenon_txpool_interface::PoolPolicy;

use super::development_maker::Development;
use super::voting::Voting;
use super::{ChainDescription, Engine, NodeFamily, OwnState};
use crate::data_folder::DataFolder;
use crate::exit::Stop;
use crate::sealing::OneMasternode;
use crate::snapshot::trust::Trust;

/// The namespaces that only native chains have.
const UNSERVED: [&str; 1] = ["Consensus"];

pub(super) struct EthereumNode {
    spec: Arc<ChainSpec>,
}

impl EthereumNode {
    pub(super) fn new(spec: &Arc<ChainSpec>) -> Self {
        Self { spec: Arc::clone(spec) }
    }
}

impl ChainDescription for EthereumNode {}

impl NodeFamily for EthereumNode {
    fn execution(&self) -> Arc<dyn ChainFamily> {
        Arc::new(EthereumFamily::new(Arc::clone(&self.spec)))
    }

    fn simulation(&self) -> Arc<dyn SimulationFamily> {
        Arc::new(EthereumSimulation::new(Arc::clone(&self.spec)))
    }

    fn tracers(&self) -> Arc<dyn TraceFamily> {
        Arc::new(EthereumTracers)
    }

    fn engine(&self, _: &Arc<Store>, _: CertificateChecks) -> Result<Engine, Stop> {
        Ok(Engine { checking: Arc::new(EthereumEngine::new(Arc::clone(&self.spec))), certifying: None })
    }

    fn pool_policy(&self) -> Box<dyn PoolPolicy> {
        Box::new(EthereumPolicy::new(Arc::clone(&self.spec)))
    }

    fn states_for_engine(&self) -> u64 {
        0
    }

    fn register(&self, _: &Bus, _: &Arc<Store>, _: &WorkPool) -> Result<(), Stop> {
        Ok(())
    }

    fn register_voting(&self, _: &Bus, _: &Voting) -> Result<(), Stop> {
        Ok(())
    }

    fn one_masternode(&self, _: &Arc<Store>, _: &Header) -> Result<Option<OneMasternode>, Stop> {
        Ok(None)
    }

    fn development(&self, _: &Settings, folder: &DataFolder, _: &Arc<Store>, _: &Header) -> Result<Development, Stop> {
        let engine = DevEngine::new(Arc::clone(&self.spec)).map_err(|error| {
            Stop::DataFolder(format!("{} holds no development network: {error}", folder.path().display()))
        })?;
        Ok(Development { engine: Arc::new(engine), masternode: None })
    }

    fn round_of(&self, _: &Header) -> Option<u64> {
        None
    }

    fn check_own_state(&self, _: &Arc<Store>, _: &dyn ConsensusEngine, _: &dyn Fn() -> bool) -> Result<OwnState, Stop> {
        Ok(OwnState::Sound(String::new()))
    }

    fn trust_in_head(&self, _: &Path, _: &Arc<Store>) -> Result<Trust, Stop> {
        Ok(Trust::Maker)
    }

    fn sealing_without_account(&self) -> SealingStart {
        SealingStart::NoEtherbase
    }

    fn bootnodes(&self, _: u64) -> Option<&'static [String]> {
        None
    }

    fn key_file_names(&self) -> FileNames {
        FileNames::Plain
    }

    fn namespace_names(&self, _: bool) -> NamespaceNames {
        NamespaceNames::OWN
    }

    fn unserved_namespaces(&self) -> &'static [&'static str] {
        &UNSERVED
    }

    fn has_rules_by_network_id(&self) -> bool {
        false
    }
}

//! The family of the node's chain. [`family_of`] chooses it from the rules of the genesis file; the node and the commands
//! ask the [`NodeFamily`] that it returns. Everything in this crate that needs a native crate is in this folder, except
//! `tenon verify-headers`, which has no other purpose than native headers.

mod description;
pub(crate) mod development;
pub(crate) mod development_maker;
mod ethereum;
mod native;
pub(crate) mod voting;

use std::path::Path;
use std::sync::Arc;

use tenon_accounts::keystore::FileNames;
use tenon_api::messages::SealingStart;
use tenon_api::{ConsensusEngine, Header};
use tenon_bus::{Bus, WorkPool};
use tenon_chain::ChainSpec;
use tenon_config::{CertificateChecks, NamespaceNames, Settings};
use tenon_execution_interface::ChainFamily;
use tenon_native_consensus::NativeEngine;
use tenon_simulation_interface::SimulationFamily;
use tenon_storage::Store;
use tenon_traces::TraceFamily;
use tenon_txpool_interface::PoolPolicy;

use crate::data_folder::DataFolder;
use crate::exit::Stop;
use crate::sealing::OneMasternode;
use crate::snapshot::trust::Trust;

use development_maker::Development;
use ethereum::EthereumNode;
use native::NativeNode;
use voting::Voting;

pub(crate) use description::{ChainDescription, GenesisCheck, RuleHeight};
// All public networks are native. The reader of genesis files knows both families, and chooses by the content.
pub(crate) use tenon_native_spec::{PublicNetwork, native_bootnodes, read_genesis};

/// Outcome of the check of state that only the chains of one family have.
pub(crate) enum OwnState {
    /// It is complete, or there is none: its size as text, to be added to the size of the state of all chains.
    Sound(String),
    /// Damaged; the text says where and how.
    Damaged(String),
    /// The check was interrupted.
    Interrupted,
}

/// The engine for a chain's rules.
pub(crate) struct Engine {
    /// Checks blocks made by others.
    pub(crate) checking: Arc<dyn ConsensusEngine>,
    /// The engine by its own type, if it certifies blocks by votes.
    pub(crate) certifying: Option<Arc<NativeEngine>>,
}

/// What a family of chains decides about the node.
pub(crate) trait NodeFamily: ChainDescription + Send + Sync {
    /// The rules of blocks.
    fn execution(&self) -> Arc<dyn ChainFamily>;

    /// The rules of calls and simulated blocks.
    fn simulation(&self) -> Arc<dyn SimulationFamily>;

    /// The tracers.
    fn tracers(&self) -> Arc<dyn TraceFamily>;

    /// The engine, with its records in this store.
    ///
    /// # Errors
    /// [`Stop::Failure`] if the parameters in the genesis file cannot be used.
    fn engine(&self, store: &Arc<Store>, certificates: CertificateChecks) -> Result<Engine, Stop>;

    /// The rules of the transaction pool.
    fn pool_policy(&self) -> Box<dyn PoolPolicy>;

    /// States up to this number of blocks before the head are read by the engine; 0 if it reads none.
    fn states_for_engine(&self) -> u64;

    /// Answers the requests that only this family has.
    ///
    /// # Errors
    /// [`Stop::Failure`] if something else answers one of them already.
    fn register(&self, bus: &Bus, store: &Arc<Store>, work: &WorkPool) -> Result<(), Stop>;

    /// Answers the requests about votes, if the family has any.
    ///
    /// # Errors
    /// [`Stop::Failure`] if something else answers one of them already.
    fn register_voting(&self, bus: &Bus, voting: &Voting) -> Result<(), Stop>;

    /// The masternode of a chain that has had exactly one since its genesis; `None` for other chains.
    ///
    /// # Errors
    /// [`Stop`] if the chain can't be read.
    fn one_masternode(&self, store: &Arc<Store>, genesis: &Header) -> Result<Option<OneMasternode>, Stop>;

    /// The maker of blocks of the development network in this folder.
    ///
    /// # Errors
    /// [`Stop::DataFolder`] if the folder has another network than that of the settings.
    fn development(
        &self,
        settings: &Settings,
        folder: &DataFolder,
        store: &Arc<Store>,
        genesis: &Header,
    ) -> Result<Development, Stop>;

    /// The consensus round in which a block was made; `None` if it has none.
    fn round_of(&self, header: &Header) -> Option<u64>;

    /// Checks the state that only this family's chains have, as far as the head has any.
    ///
    /// # Errors
    /// [`Stop`] if the database can't be read.
    fn check_own_state(
        &self,
        store: &Arc<Store>,
        engine: &dyn ConsensusEngine,
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<OwnState, Stop>;

    /// Checks the head of the snapshot in the file or folder `source` by what its own chain proves about it.
    ///
    /// # Errors
    /// [`Stop::Failure`] if it fails.
    fn trust_in_head(&self, source: &Path, store: &Arc<Store>) -> Result<Trust, Stop>;

    /// The answer to a request to make blocks, if the node has no account for them.
    fn sealing_without_account(&self) -> SealingStart;

    /// The bootnodes of the network with this id; `None` if the family has no peer-to-peer network here.
    fn bootnodes(&self, network_id: u64) -> Option<&'static [String]>;

    /// The names of new key files.
    fn key_file_names(&self) -> FileNames;

    /// The names of namespaces. `aliases` is the setting `rpc.aliases`.
    fn namespace_names(&self, aliases: bool) -> NamespaceNames;

    /// The namespaces that are not served on this chain.
    fn unserved_namespaces(&self) -> &'static [&'static str];

    /// Whether rules depend on a network id other than that of the genesis file, which a backup does not contain.
    fn has_rules_by_network_id(&self) -> bool;
}

/// The family of a chain with these rules.
pub(crate) fn family_of(spec: &Arc<ChainSpec>) -> Arc<dyn NodeFamily> {
    match NativeNode::of(spec) {
        Some(native) => Arc::new(native),
        None => Arc::new(EthereumNode::new(spec)),
    }
}

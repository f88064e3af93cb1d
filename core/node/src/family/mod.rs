//! The family of the node's chain. [`family_of`] chooses it from the rules of the genesis file, and a running node asks
//! the [`NodeFamily`] that it returns. Three places read the settings of native chains themselves: the commands that
//! print or check a genesis file, `tenon dev`, which makes one, and `rules_in_force`, which reads rounds from headers.

mod ethereum;
mod native;

use std::sync::Arc;

use tenon_accounts::keystore::FileNames;
use tenon_api::messages::SealingStart;
use tenon_api::{ConsensusEngine, Header};
use tenon_bus::{Bus, WorkPool};
use tenon_chain::ChainSpec;
use tenon_config::{CertificateChecks, NamespaceNames};
use tenon_execution_interface::ChainFamily;
use tenon_native_consensus::NativeEngine;
use tenon_native_voting::Voting;
use tenon_simulation_interface::SimulationFamily;
use tenon_storage::Store;
use tenon_traces::TraceFamily;
use tenon_txpool_interface::PoolPolicy;

use crate::exit::Stop;
use crate::sealing::OneMasternode;

use ethereum::EthereumNode;
use native::NativeNode;

/// The engine for a chain's rules.
pub(crate) struct Engine {
    /// Checks blocks made by others.
    pub(crate) checking: Arc<dyn ConsensusEngine>,
    /// The engine by its own type, if it certifies blocks by votes.
    pub(crate) certifying: Option<Arc<NativeEngine>>,
}

/// What a family of chains decides about the node.
pub(crate) trait NodeFamily: Send + Sync {
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

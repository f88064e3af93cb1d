//! The parts of a node that talk to other nodes: the network's module, and the voting of native chains.

use std::sync::Arc;

use tenon_accounts::WalletDirectory;
use tenon_api::{BlockPort, PeerTransactions, RoundMessages};
use tenon_execution::Importer;
use tenon_modules::{ActorModule, ModuleRegister};
use tenon_network_service::NetworkPorts;

use super::plan::NodePlan;
use super::shared::Shared;
use crate::exit::Stop;
use crate::family::voting::{self, Voting, VotingParts};
use crate::module_actors::{self, PoolSwitch};
use crate::peer_network;

/// The network's module; `None` for a development network, or a chain that has no network.
///
/// # Errors
/// [`Stop::Usage`] naming the wrong setting.
pub(super) fn network_module(
    plan: &NodePlan,
    shared: &Shared,
    importer: &Arc<Importer>,
    pool: &Arc<PoolSwitch>,
    voting: &Voting,
) -> Result<Option<ActorModule>, Stop> {
    let NodePlan { settings, chain, .. } = plan;
    if plan.is_development() {
        return match settings.peers.enabled {
            true => Err(Stop::Usage("p2p.enabled: a development network has no peers".to_owned())),
            false => Ok(None),
        };
    }
    let ports = NetworkPorts {
        chain: chain.encoded_reader(),
        blocks: Arc::clone(importer) as Arc<dyn BlockPort>,
        pool: Arc::clone(pool) as Arc<dyn PeerTransactions>,
        consensus: Some(Arc::new(voting.clone()) as Arc<dyn RoundMessages>),
        bus: shared.bus.clone(),
    };
    peer_network::module(&shared.network, &shared.supervisor, ports, chain, settings)
}

/// Starts the voting, and adds it to the modules. A development network has none.
///
/// # Errors
/// [`Stop::Usage`] naming the wrong setting.
pub(super) fn start_voting(
    plan: &NodePlan,
    shared: &Shared,
    modules: &ModuleRegister,
    voting: &Voting,
    (importer, pool, directory): (&Arc<Importer>, &Arc<PoolSwitch>, &WalletDirectory),
) -> Result<(), Stop> {
    if plan.is_development() {
        return Ok(());
    }
    let NodePlan { settings, chain, .. } = plan;
    let Shared { bus, supervisor, network, .. } = shared;
    let parts = VotingParts {
        bus,
        supervisor,
        chain_id: chain.spec.chain_id,
        engine: chain.engine(),
        chain: chain.reader(),
        importer,
        pending: Arc::clone(pool) as _,
        pool: Arc::clone(pool) as _,
        directory,
        network,
    };
    if voting::start(settings, voting, parts)? {
        let module = module_actors::voting(supervisor, &[voting::ACTOR], settings.masternode.account.is_some());
        modules.add_actor(module).map_err(Stop::failure)?;
    }
    Ok(())
}

//! This node's part in the voting of a native chain: its key, and the actor.

use std::sync::Arc;

use tenon_accounts::WalletDirectory;
use tenon_api::messages::GetVotingPool;
use tenon_api::{Address, BlockPort, BlockSigner, PeerTransactions, PendingTransactions, RoundBuilder};
use tenon_bus::Bus;
use tenon_config::Settings;
use tenon_execution::Importer;
use tenon_native_voting::{Voting, VotingPorts, read_key};
use tenon_network_service::Network;
use tenon_supervisor::Supervisor;

use crate::exit::Stop;
use crate::module_actors::PoolSwitch;
use crate::opened_chain::OpenedChain;
use crate::sealing::WalletSigner;

/// Whether the settings contain a masternode's key.
pub(crate) fn has_key(settings: &Settings) -> bool {
    settings.masternode.key.is_some() || settings.masternode.account.is_some()
}

/// The key of the settings, which signs votes, timeouts and blocks.
fn key(settings: &Settings, directory: &WalletDirectory) -> Result<Option<Arc<dyn BlockSigner>>, Stop> {
    let masternode = &settings.masternode;
    match (&masternode.key, &masternode.account) {
        (Some(_), Some(_)) => Err(Stop::Usage(
            "masternode.key and masternode.account: a node signs with one key; name one of them".to_owned(),
        )),
        (Some(path), None) => {
            let key = read_key(&settings.in_data_folder(path))
                .map_err(|error| Stop::Usage(format!("masternode.key: {error}")))?;
            Ok(Some(Arc::new(key)))
        }
        (None, Some(account)) => {
            let account: Address = account.parse().map_err(|_| {
                Stop::Usage(format!("masternode.account: {account:?} is no address of 40 hexadecimal digits"))
            })?;
            Ok(Some(Arc::new(WalletSigner::of(account, directory))))
        }
        (None, None) => Ok(None),
    }
}

/// Parts of the node that voting needs.
pub(crate) struct VotingParts<'a> {
    pub(crate) bus: &'a Bus,
    pub(crate) supervisor: &'a Supervisor,
    pub(crate) chain: &'a OpenedChain,
    pub(crate) importer: &'a Arc<Importer>,
    pub(crate) pool: &'a Arc<PoolSwitch>,
    pub(crate) directory: &'a WalletDirectory,
    pub(crate) network: &'a Arc<Network>,
}

/// Starts the voting of a native chain if there is a network to vote in, or a key to vote with.
///
/// # Errors
/// [`Stop::Usage`] naming the wrong setting.
pub(crate) fn start(settings: &Settings, voting: &Voting, parts: &VotingParts<'_>) -> Result<(), Stop> {
    let key = key(settings, parts.directory)?;
    let shown = voting.clone();
    if parts.chain.spec.native.is_some() {
        parts.bus.handle(move |_: GetVotingPool, _| {
            let voting = shown.clone();
            async move { voting.waiting().await }
        })?;
    }
    let Some(engine) = parts.chain.native_engine() else {
        return match key {
            Some(_) => Err(Stop::Usage("masternode: only native chains have masternodes".to_owned())),
            None => Ok(()),
        };
    };
    if key.is_none() && !settings.peers.enabled {
        return Ok(());
    }
    let ports = VotingPorts {
        engine,
        chain: parts.chain.reader(),
        blocks: Arc::clone(parts.importer) as Arc<dyn BlockPort>,
        builder: Arc::clone(parts.importer) as Arc<dyn RoundBuilder>,
        pending: Arc::clone(parts.pool) as Arc<dyn PendingTransactions>,
        pool: Arc::clone(parts.pool) as Arc<dyn PeerTransactions>,
        network: Arc::clone(parts.network) as _,
        bus: parts.bus.clone(),
        key,
        gas_limit: settings.masternode.gas_limit,
        chain_id: parts.chain.spec.chain_id,
    };
    voting.start(parts.supervisor, ports).map_err(Stop::failure)
}

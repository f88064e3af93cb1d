//! This node's part in the voting of a native chain: its key, and the actor.

use std::sync::Arc;

use tenon_accounts::WalletDirectory;
use tenon_api::{Address, BlockPort, BlockSigner, ChainReader, PeerTransactions, PendingTransactions, RoundBuilder};
use tenon_bus::Bus;
use tenon_config::Settings;
use tenon_execution::Importer;
use tenon_native_voting::{VotingPorts, read_key};
use tenon_network_service::Network;
use tenon_signing_wallet::ServiceMasternode;
use tenon_supervisor::Supervisor;

use super::Engine;
use crate::exit::Stop;
use crate::sealing::WalletSigner;
use crate::wallets::signing_endpoint;

pub(crate) use tenon_native_voting::{ACTOR, Voting, VotingCounts};

/// Whether the settings contain a masternode's key.
pub(crate) fn has_key(settings: &Settings) -> bool {
    let masternode = &settings.masternode;
    masternode.key.is_some() || masternode.account.is_some() || masternode.signer.is_some()
}

/// The key of the settings, which signs votes, timeouts and blocks.
fn key(settings: &Settings, chain_id: u64, directory: &WalletDirectory) -> Result<Option<Arc<dyn BlockSigner>>, Stop> {
    let masternode = &settings.masternode;
    match (&masternode.key, &masternode.account, &masternode.signer) {
        (Some(path), None, None) => {
            let key = read_key(&settings.in_data_folder(path))
                .map_err(|error| Stop::Usage(format!("masternode.key: {error}")))?;
            Ok(Some(Arc::new(key)))
        }
        (None, Some(account), None) => {
            let account = address("masternode.account", account)?;
            Ok(Some(Arc::new(WalletSigner::of(account, directory))))
        }
        (None, None, Some(account)) => {
            let account = address("masternode.signer", account)?;
            let endpoint = signing_endpoint(settings)?.ok_or_else(|| {
                Stop::Usage("masternode.signer: name the signing service in signer.url (--signer) too".to_owned())
            })?;
            Ok(Some(Arc::new(ServiceMasternode::new(endpoint, account, chain_id))))
        }
        (None, None, None) => Ok(None),
        _ => Err(Stop::Usage(
            "masternode.key, masternode.account and masternode.signer: a node signs with one key; give one of them"
                .to_owned(),
        )),
    }
}

fn address(setting: &str, text: &str) -> Result<Address, Stop> {
    text.parse().map_err(|_| Stop::Usage(format!("{setting}: {text:?} is not an address of 40 hexadecimal digits")))
}

/// The parts of the node that the voting needs.
pub(crate) struct VotingParts<'a> {
    pub(crate) bus: &'a Bus,
    pub(crate) supervisor: &'a Supervisor,
    pub(crate) chain_id: u64,
    pub(crate) engine: &'a Engine,
    pub(crate) chain: Arc<dyn ChainReader>,
    pub(crate) importer: &'a Arc<Importer>,
    pub(crate) pending: Arc<dyn PendingTransactions>,
    pub(crate) pool: Arc<dyn PeerTransactions>,
    pub(crate) directory: &'a WalletDirectory,
    pub(crate) network: &'a Arc<Network>,
}

/// Starts the voting of a native chain if there is a network to vote in, or a key to vote with. Returns whether it was
/// started.
///
/// # Errors
/// [`Stop::Usage`] naming the wrong setting.
pub(crate) fn start(settings: &Settings, voting: &Voting, parts: VotingParts<'_>) -> Result<bool, Stop> {
    let key = key(settings, parts.chain_id, parts.directory)?;
    let Some(engine) = parts.engine.certifying.clone() else {
        return match key {
            Some(_) => Err(Stop::Usage("masternode: only native chains have masternodes".to_owned())),
            None => Ok(false),
        };
    };
    if key.is_none() && !settings.peers.enabled {
        return Ok(false);
    }
    let ports = VotingPorts {
        engine,
        chain: parts.chain,
        blocks: Arc::clone(parts.importer) as Arc<dyn BlockPort>,
        builder: Arc::clone(parts.importer) as Arc<dyn RoundBuilder>,
        pending: parts.pending,
        pool: parts.pool,
        network: Arc::clone(parts.network) as _,
        bus: parts.bus.clone(),
        key,
        gas_limit: settings.masternode.gas_limit,
        chain_id: parts.chain_id,
    };
    voting.start(parts.supervisor, ports).map_err(Stop::failure)?;
    Ok(true)
}

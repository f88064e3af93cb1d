//! Operators' requests about block production (`miner_*`).

use std::sync::{Arc, OnceLock};

use tenon_accounts::WalletDirectory;
use tenon_api::messages::{
    ChangeModule, GetModule, GetSealing, ModuleChange, ModuleState, SealingStart, SealingState, SetSealing,
    StartSealing,
};
use tenon_api::{Address, B256, BlockSigner, BusError, ConsensusEngine, OwnAccounts as _, SignError};
use tenon_bus::{Bus, CallContext};
use tenon_consensus::{SealChoices, SealerOptions};

use crate::exit::Stop;

/// The module that makes blocks.
const MODULE: &str = "sealing";

/// The only masternode of a native network, whose account may be in the wallets of this node.
pub(crate) struct OneMasternode {
    signer: Arc<WalletSigner>,
    /// Options of its block production.
    pub(crate) sealer: SealerOptions,
    /// Checks the blocks of the network, and makes its own.
    pub(crate) engine: Arc<dyn ConsensusEngine>,
}

/// Signs blocks with an account of the wallets while it is unlocked.
pub(crate) struct WalletSigner {
    account: Address,
    /// Set once the wallets are open; the engine is created before them.
    directory: OnceLock<WalletDirectory>,
}

impl WalletSigner {
    /// A signer for an account of wallets that are opened later ([`OneMasternode::open`]).
    pub(crate) fn unopened(account: Address) -> Self {
        Self { account, directory: OnceLock::new() }
    }

    /// A signer for an account of these wallets.
    pub(crate) fn of(account: Address, directory: &WalletDirectory) -> Self {
        Self { account, directory: OnceLock::from(directory.clone()) }
    }
}

impl BlockSigner for WalletSigner {
    fn address(&self) -> Address {
        self.account
    }

    fn sign(&self, digest: B256) -> Result<[u8; 65], SignError> {
        let sign_error = |reason: String| SignError { address: self.account, reason, is_pending: false };
        let directory = self.directory.get().ok_or_else(|| sign_error("the wallets are not open yet".to_owned()))?;
        directory.sign_block(self.account, digest).map_err(|error| sign_error(error.to_string()))
    }
}

impl OneMasternode {
    /// A masternode whose blocks `engine` makes with `signer`.
    pub(crate) fn new(signer: Arc<WalletSigner>, sealer: SealerOptions, engine: Arc<dyn ConsensusEngine>) -> Self {
        Self { signer, sealer, engine }
    }

    /// Lets it sign with the account of these wallets.
    pub(crate) fn open(&self, directory: &WalletDirectory) {
        // A node opens its wallets only once, so this never fails.
        let _ = self.signer.directory.set(directory.clone());
    }

    /// Its account.
    pub(crate) fn account(&self) -> Address {
        self.signer.account
    }
}

/// State of a node's block production.
#[derive(Clone)]
pub(crate) struct BlockMaking {
    pub(crate) bus: Bus,
    pub(crate) choices: SealChoices,
    pub(crate) directory: WalletDirectory,
    /// The answer to a request to make blocks, if the node has no account for them.
    pub(crate) without_account: SealingStart,
    /// The only account for which this node can make blocks: that of the chain's single masternode. `None` if making
    /// blocks needs no account of the wallets.
    pub(crate) masternode: Option<Address>,
}

/// Answers the requests `0x0a00..`.
///
/// # Errors
/// [`Stop`] if another module already answers one of them.
pub(crate) fn register(making: &BlockMaking) -> Result<(), Stop> {
    let own = making.clone();
    making.bus.handle(move |_: GetSealing, context| {
        let own = own.clone();
        async move {
            let is_sealing = own.module(&context).await == Some(ModuleState::Enabled);
            Ok(SealingState { is_sealing, etherbase: own.choices.etherbase() })
        }
    })?;
    let choices = making.choices.clone();
    making.bus.handle_read(move |request: SetSealing, _: &CallContext| {
        choices.change(request.change).map_err(BusError::failed)
    })?;
    let own = making.clone();
    making.bus.handle(move |_: StartSealing, context| {
        let own = own.clone();
        async move { own.start(&context).await }
    })?;
    Ok(())
}

impl BlockMaking {
    /// State of the module; `None` if this node does not have it.
    async fn module(&self, context: &CallContext) -> Option<ModuleState> {
        Some(self.bus.call(GetModule { name: MODULE.to_owned() }, context).await.ok()?.state)
    }

    async fn start(&self, context: &CallContext) -> Result<SealingStart, BusError> {
        match self.module(context).await {
            Some(ModuleState::Enabled) => Ok(SealingStart::Running),
            Some(_) if self.masternode.is_some() && self.masternode != self.own_etherbase() => {
                Ok(self.reason_against())
            }
            Some(_) => {
                let (name, change) = (MODULE.to_owned(), ModuleChange::Enable);
                self.bus.call(ChangeModule { name, change, waits_for_drain: true }, context).await?;
                Ok(SealingStart::Running)
            }
            None => Ok(self.reason_against()),
        }
    }

    /// Why this node makes no blocks, checked in the reference's order.
    fn reason_against(&self) -> SealingStart {
        match self.etherbase() {
            None => self.without_account,
            Some(etherbase) if !self.directory.has_key(etherbase) => SealingStart::NoSigner,
            Some(_) => SealingStart::Unsupported,
        }
    }

    /// The account for which blocks would be made, if it is in a wallet of this node.
    fn own_etherbase(&self) -> Option<Address> {
        self.etherbase().filter(|etherbase| self.directory.has_key(*etherbase))
    }

    /// The chosen account, or else the first of the wallets.
    fn etherbase(&self) -> Option<Address> {
        self.choices.etherbase().or_else(|| self.directory.addresses().first().copied())
    }
}

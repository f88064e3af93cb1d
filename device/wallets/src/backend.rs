//! The wallets of the connected devices, as a backend of the node's accounts.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use tenon_accounts::{AccountsError, Authority, KeyPlace, Signer, WalletBackend};
use tenon_api::messages::{
    SignerAbilities, Wallet, WalletAccount, WalletAnswer, WalletFailure, WalletOperation, WalletStatus as ListedStatus,
};
use tenon_api::{AccountRefusal, Address, WalletFeature};
use tenon_bus::{Bus, CallContext};
use tenon_device_session::{DerivationPath, Hub, WalletHandle};
use zeroize::Zeroizing;

use crate::person::EventPerson;
use crate::running::{Running, warn_of_second};
use crate::signer::DeviceSigner;

/// The wallets of the connected devices. Clones share them. There are none before [`DeviceWallets::start`].
#[derive(Clone)]
pub struct DeviceWallets {
    bus: Bus,
    running: Arc<ArcSwapOption<Running>>,
}

impl DeviceWallets {
    /// Creates the backend in the stopped state. Publishes changes and prompts on `bus`, and calls it for balances.
    pub fn new(bus: Bus) -> Self {
        Self { bus, running: Arc::default() }
    }

    /// Starts looking for devices of `hub`, and opens those that need no input. A request without a deadline waits for
    /// its turn for up to `prompt`, the time that a person has for a prompt. Must not be called before an earlier start
    /// was stopped.
    pub fn start(&self, hub: Hub, prompt: Duration) {
        self.running.store(Some(Running::start(hub, self.bus.clone(), prompt)));
    }

    /// Stops: cancels running requests on the devices, and closes and forgets all wallets.
    pub async fn stop(&self) {
        if let Some(running) = self.running.swap(None) {
            running.stop().await;
        }
    }

    /// Whether devices were started but are no longer looked for.
    pub fn has_failed(&self) -> bool {
        self.running.load().as_ref().is_some_and(|running| running.has_failed())
    }

    /// The running devices, and their wallet for this account. The first wallet that had the account keeps it while it
    /// is connected, open or not, because another device may report an address that is not its own.
    fn with_account(&self, address: Address) -> Option<(Arc<Running>, String, WalletHandle)> {
        let running = self.running.load_full()?;
        let (url, handle) = running.hub.with_account(address).into_iter().next()?;
        Some((running, url, handle))
    }

    async fn operate(
        &self,
        url: &str,
        operation: WalletOperation,
        context: &CallContext,
    ) -> Result<WalletAnswer, AccountsError> {
        let running = self.running.load_full().ok_or(AccountRefusal::UnknownWallet)?;
        let handle = running.hub.wallet(url).ok_or(AccountRefusal::UnknownWallet)?;
        let caller = running.caller(context);
        // While waiting for a person, only the wallet's handle is kept.
        drop(running);
        let person = EventPerson::boxed(&self.bus, url);
        match operation {
            WalletOperation::Open { passphrase } => {
                let prompt_reply = handle.status().reply_to_prompt(Zeroizing::new(passphrase.expose().to_owned()));
                drop(passphrase);
                caller.wait(handle.open(prompt_reply, person, caller.deadline)).await.map_err(AccountRefusal::from)?;
                Ok(WalletAnswer::Done)
            }
            WalletOperation::Derive { path, is_pinned } => {
                let path: DerivationPath = path.parse().map_err(AccountRefusal::Path)?;
                let account_url = account_url(url, &path);
                let derived = handle.derive(path, is_pinned, false, person, caller.deadline);
                let address = caller.wait(derived).await.map_err(AccountRefusal::from)?;
                if is_pinned && let Some(running) = self.running.load_full() {
                    warn_of_second(&running.hub, url, address);
                }
                Ok(WalletAnswer::Account(WalletAccount { address, url: account_url }))
            }
            WalletOperation::Initialize => Err(AccountRefusal::NotSupported(WalletFeature::Initialization).into()),
            WalletOperation::Unpair { .. } => Err(AccountRefusal::NotSupported(WalletFeature::Pairing).into()),
        }
    }
}

fn account_url(wallet: &str, path: &DerivationPath) -> String {
    format!("{wallet}/{path}")
}

/// The listing of a wallet (10.7), with accounts in the order of their paths.
fn listed(url: String, handle: &WalletHandle) -> Wallet {
    let status = handle.status();
    let mut accounts: Vec<_> = status.accounts.iter().collect();
    accounts.sort_by_key(|(_, path)| *path);
    let account = |(address, path): (&Address, &DerivationPath)| WalletAccount {
        address: *address,
        url: account_url(&url, path),
    };
    let accounts = accounts.into_iter().map(account).collect();
    let listed = ListedStatus::Device(status.device_status());
    let failure = status.failure.map(|error| WalletFailure::Device(error.into()));
    Wallet { status: listed, failure, accounts, url }
}

#[async_trait]
impl WalletBackend for DeviceWallets {
    fn scheme(&self) -> &'static str {
        "trezor"
    }

    fn key_place(&self) -> KeyPlace {
        KeyPlace::Device
    }

    fn wallets(&self) -> Vec<Wallet> {
        let Some(running) = self.running.load_full() else { return Vec::new() };
        let wallets = running.hub.wallets();
        for (url, handle) in wallets.iter().filter(|(_, handle)| handle.is_open()) {
            running.discover(url, handle);
        }
        wallets.into_iter().map(|(url, handle)| listed(url, &handle)).collect()
    }

    fn addresses(&self) -> Vec<Address> {
        let Some(running) = self.running.load_full() else { return Vec::new() };
        let of_wallet = |(url, handle): (String, WalletHandle)| listed(url, &handle).accounts;
        let mut known = HashSet::new();
        let accounts = running.hub.wallets().into_iter().flat_map(of_wallet);
        accounts.map(|account| account.address).filter(|address| known.insert(*address)).collect()
    }

    fn has_key(&self, address: Address) -> bool {
        let running = self.running.load();
        running.as_ref().is_some_and(|running| !running.hub.with_account(address).is_empty())
    }

    fn abilities(&self, address: Address) -> SignerAbilities {
        match self.with_account(address) {
            Some((_, _, handle)) => SignerAbilities { signs_fee_market: handle.status().signs_fee_market },
            None => SignerAbilities::ALL,
        }
    }

    async fn signer(&self, address: Address, authority: Authority<'_>) -> Result<Box<dyn Signer>, AccountsError> {
        let (running, url, handle) = self.with_account(address).ok_or(AccountRefusal::UnknownAccount)?;
        let caller = running.caller(authority.context);
        Ok(Box::new(DeviceSigner { bus: self.bus.clone(), url, handle, account: address, caller }))
    }

    async fn use_wallet(
        &self,
        url: &str,
        operation: WalletOperation,
        context: &CallContext,
    ) -> Result<WalletAnswer, AccountsError> {
        self.operate(url, operation, context).await
    }
}

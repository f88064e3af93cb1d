//! The wallets of the node: from settings, unlocked at the start, and as a module.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tenon_accounts::keystore::{CostLimits, FileNames, KeyDerivation, KeyFolder};
use tenon_accounts::{Accounts, AccountsError, KeystoreOptions, WalletBackend, WalletDirectory, spawn_accounts};
use tenon_api::messages::{
    CreateAccount, DescribeSigner, ImportKey, ListAccounts, ListWallets, LockAccount, RecoverSigner, SendTransaction,
    SignMessage, SignTransaction, SignTypedData, UnlockAccount, UseWallet,
};
use tenon_api::{BusError, Request as _, RequestError, Topic};
use tenon_bus::{Bus, CallContext};
use tenon_config::Settings;
use tenon_device_wallets::DeviceWallets;
use tenon_modules::{ActorControl, ActorModule, ActorStage, ActorSwitch, SwitchError};
use tenon_sdk::error_texts::account_refusal_text;
use tenon_signing_wallet::{Endpoint, ServiceWallet};
use tenon_supervisor::Supervisor;
use tokio::task::JoinHandle;

use crate::actor_reports;
use crate::bounded_file;
use crate::exit::Stop;
use crate::module_actors;
use crate::opened_chain::OpenedChain;
use crate::passwords::Passwords;
use crate::pool_settings;

/// Time limit for a listing of the key files.
const ACTOR_GRACE: Duration = Duration::from_secs(5);

/// The requests that the wallets answer.
const REQUESTS: &[Topic] = &[
    ListAccounts::TOPIC,
    SignMessage::TOPIC,
    SignTransaction::TOPIC,
    SendTransaction::TOPIC,
    ListWallets::TOPIC,
    CreateAccount::TOPIC,
    ImportKey::TOPIC,
    UnlockAccount::TOPIC,
    LockAccount::TOPIC,
    UseWallet::TOPIC,
    RecoverSigner::TOPIC,
    SignTypedData::TOPIC,
    DescribeSigner::TOPIC,
];

/// The wallets described by the settings.
///
/// # Errors
/// [`Stop::Usage`] if there is no working directory for a relative path.
pub(crate) fn directory(
    settings: &Settings,
    chain: &OpenedChain,
    development: Option<Accounts>,
    devices: DeviceWallets,
    service: Option<ServiceWallet>,
    bus: &Bus,
) -> Result<WalletDirectory, Stop> {
    let options = KeystoreOptions {
        folder: key_folder(settings, chain.family.key_file_names())?,
        memory: settings.accounts.memory.0,
        allows_insecure_unlock: settings.accounts.allow_insecure_unlock,
    };
    let directory = WalletDirectory::new(chain.info.chain_id, bus.clone(), development, Some(options));
    let service = service.map(|service| Arc::new(service) as Arc<dyn WalletBackend>);
    let directory = service.into_iter().fold(directory.with_backend(Arc::new(devices)), WalletDirectory::with_backend);
    Ok(directory.with_fee_cap(pool_settings::fee_cap(settings)))
}

/// The wallet of the signing service in the settings.
///
/// # Errors
/// [`Stop::Usage`] for an invalid URL, or a token that can't be read.
pub(crate) fn signing_service(settings: &Settings, bus: &Bus) -> Result<Option<ServiceWallet>, Stop> {
    Ok(signing_endpoint(settings)?.map(|endpoint| ServiceWallet::new(endpoint, bus.clone())))
}

/// The address of the signing service in the settings.
///
/// # Errors
/// See [`signing_service`].
pub(crate) fn signing_endpoint(settings: &Settings) -> Result<Option<Endpoint>, Stop> {
    let Some(url) = &settings.signer.url else { return Ok(None) };
    let token = settings.signer.token.as_ref().map(|path| {
        bounded_file::secret_text(path)
            .map_err(|error| Stop::Usage(format!("signer.token: {}: {error}", path.display())))
    });
    let token = token.transpose()?;
    let endpoint = Endpoint::new(url, token.as_ref().map(|token| token.as_str()));
    endpoint.map(Some).map_err(|error| Stop::Usage(format!("signer.url: {error}")))
}

/// The folder of key files. `names` is the form of the names of new files.
///
/// # Errors
/// [`Stop::Usage`].
pub(crate) fn key_folder(settings: &Settings, names: FileNames) -> Result<KeyFolder, Stop> {
    let accounts = &settings.accounts;
    let path = settings.in_data_folder(&accounts.keystore);
    // URLs of wallets have absolute paths.
    let path = std::path::absolute(&path)
        .map_err(|error| Stop::Usage(format!("accounts.keystore: {}: {error}", path.display())))?;
    let derivation = if accounts.light_kdf { KeyDerivation::LIGHT } else { KeyDerivation::STANDARD };
    Ok(KeyFolder::new(path, names, derivation, CostLimits::with_memory(accounts.memory.0)))
}

/// Unlocks the accounts of `accounts.unlock`, until the node ends.
///
/// # Errors
/// [`Stop::Usage`] naming the account that is missing, or whose password is wrong.
pub(crate) async fn unlock_at_start(settings: &Settings, directory: &WalletDirectory) -> Result<(), Stop> {
    let words = &settings.accounts.unlock;
    if words.is_empty() {
        return Ok(());
    }
    let Some(path) = &settings.accounts.password else {
        return Err(Stop::Usage(
            "accounts.unlock: name a file with the passwords in accounts.password (--password)".into(),
        ));
    };
    let mut passwords = Passwords::from_file("accounts.password", path)?;
    for word in words {
        let usage = |error: &dyn std::fmt::Display| Stop::Usage(format!("accounts.unlock: {word}: {error}"));
        let account = directory
            .account_at_start(word.trim())
            .ok_or_else(|| usage(&"it is neither an address nor a position in the list of key files"))?;
        let password = passwords.next("");
        let unlocked = directory.unlock(account, &password?, 0, &CallContext::new()).await;
        unlocked.map_err(|error| usage(&error_text(error)))?;
        tracing::info!(%account, "account unlocked until the node ends");
    }
    Ok(())
}

/// The text of a wallet's error: the one that RPC clients receive, if there is one.
fn error_text(error: AccountsError) -> String {
    match BusError::from(error) {
        BusError::Module(RequestError::Account(refusal)) => account_refusal_text(&refusal),
        error => error.to_string(),
    }
}

/// The wallets as a module. While it is stopped, all accounts are locked and nothing is signed.
pub(crate) fn module(
    supervisor: &Arc<Supervisor>,
    directory: WalletDirectory,
    service: Option<ServiceWallet>,
) -> ActorModule {
    let (weak, following) = (Arc::downgrade(supervisor), Mutex::default());
    let switch = AccountsSwitch { supervisor: weak, directory, service, following };
    ActorModule {
        name: "accounts",
        summary: "Signs with the keys of this node.",
        uses: &["pool"],
        answers: REQUESTS,
        stage: ActorStage::BeforePlugins,
        is_wanted: true,
        control: ActorControl::Switch(Box::new(switch)),
        probe: Some(actor_reports::probe(supervisor, &[tenon_accounts::ACTOR])),
    }
}

struct AccountsSwitch {
    /// Weak: the node stops its supervisor itself, as its only owner.
    supervisor: Weak<Supervisor>,
    directory: WalletDirectory,
    service: Option<ServiceWallet>,
    /// The task that wakes the actor of the key files, and follows the signing service. Nothing awaits under the lock.
    following: Mutex<Option<JoinHandle<()>>>,
}

impl AccountsSwitch {
    fn exchange(&self, task: Option<JoinHandle<()>>) -> Option<JoinHandle<()>> {
        std::mem::replace(&mut *self.following.lock(), task)
    }
}

#[async_trait]
impl ActorSwitch for AccountsSwitch {
    async fn start(&self) -> Result<(), SwitchError> {
        let service = self.service.clone();
        if let Some(service) = &service {
            // Its accounts are listed from the start, if it is reachable.
            service.scan().await;
        }
        let supervisor = self.supervisor.upgrade().ok_or(SwitchError::ShuttingDown)?;
        let feed = spawn_accounts(&supervisor, &self.directory).map_err(SwitchError::new)?;
        let following = async move {
            match service {
                Some(service) => tokio::join!(feed.run(), service.follow()).0,
                None => feed.run().await,
            }
        };
        let before = self.exchange(Some(tokio::spawn(following)));
        before.iter().for_each(JoinHandle::abort);
        Ok(())
    }

    async fn stop(&self) -> Result<(), SwitchError> {
        module_actors::end(self.exchange(None)).await;
        self.directory.lock_all();
        let late = "a listing of the key files did not end in time; all accounts are locked";
        module_actors::stop_actor(&self.supervisor, tenon_accounts::ACTOR, ACTOR_GRACE, late).await
    }

    fn failure(&self) -> Option<String> {
        actor_reports::failure(&self.supervisor, tenon_accounts::ACTOR).or_else(|| {
            let has_ended = self.following.lock().as_ref().is_some_and(JoinHandle::is_finished);
            has_ended.then(|| "it failed and no longer follows the key files; enable it again".to_owned())
        })
    }
}

//! Key files as wallets, one wallet per file (`docs/spec/rpc-node.md` 6.3, 6.4).

use std::{
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use parking_lot::Mutex;
use tenon_api::{
    AccountRefusal, Address, KeyFileProblem, KeyTextProblem, SecretText,
    messages::{Wallet, WalletAccount, WalletChange, WalletChanged, WalletStatus},
};
use tenon_bus::{Bus, CallContext, Transport};
use tokio::time::Instant;

use crate::{
    AccountsError,
    attempts::Attempts,
    key::{HashSignature, Key, scrub_stack},
    key_text::parse_key_text,
    key_work::KeyWork,
    keystore::{KeyChanges, KeyFolder, KeyFolderError, KeyList, ListedKey, StoredKey},
    port::{Authority, KeyPlace, Signable, Signer, WalletBackend},
    unlocked::{UnlockTime, UnlockedKeys},
};

/// Number of checks of the folder's modification time after which every file is checked: a file can change without its
/// folder.
const CHECKS_PER_SCAN: u32 = 6;
/// Minimum time between two scans for an address that is not in the list.
const RESCAN_AFTER: Duration = Duration::from_secs(1);

/// Options for key files.
#[derive(Clone, Debug)]
pub struct KeystoreOptions {
    /// Their folder.
    pub folder: KeyFolder,
    /// Memory for deriving keys from passwords, bytes. Two keys are derived at a time, if the memory suffices.
    pub memory: u64,
    /// Whether accounts may be unlocked, and unlocked accounts used, over HTTP and WebSocket without a bearer token.
    pub allows_insecure_unlock: bool,
}

/// State of the regular check of the folder.
#[derive(Debug, Default)]
pub(crate) struct FolderCheck {
    /// The folder's modification time at the last scan.
    modified: Option<SystemTime>,
    checks_since_scan: u32,
}

/// The wallets of a folder of key files.
pub(crate) struct KeystoreWallets {
    options: KeystoreOptions,
    list: KeyList,
    unlocked: UnlockedKeys,
    attempts: Attempts,
    work: KeyWork,
    bus: Bus,
    /// Time of the last scan for an address that was not in the list. Nothing awaits under the lock.
    looked: Mutex<Option<Instant>>,
}

impl KeystoreWallets {
    pub(crate) fn new(options: KeystoreOptions, bus: Bus) -> Self {
        let list = KeyList::new(options.folder.path().to_owned());
        let work = KeyWork::new(options.memory);
        let wallets = Self {
            options,
            list,
            unlocked: UnlockedKeys::default(),
            attempts: Attempts::default(),
            work,
            bus,
            looked: Mutex::default(),
        };
        wallets.options.folder.remove_abandoned();
        wallets.scan();
        wallets.warn_of_exposed_files();
        wallets
    }

    /// Exposed files are used nevertheless, as by the reference: they are encrypted.
    fn warn_of_exposed_files(&self) {
        let exposed = self.options.folder.exposed(self.list.listed().keys());
        if let Some((path, access)) = exposed.first() {
            let further = exposed.len() - 1;
            tracing::warn!(path = %path.display(), %access, further, "other users can access key files");
        }
    }

    /// Scans the folder and publishes changes.
    pub(crate) fn scan(&self) {
        match self.list.scan() {
            Ok(changes) => self.publish_changes(&changes),
            Err(error) => {
                tracing::warn!(%error, folder = %self.options.folder.path().display(), "key files can't be listed")
            }
        }
    }

    fn publish_changes(&self, changes: &KeyChanges) {
        let listed = self.list.listed();
        for key in &changes.dropped {
            // The key is locked when the account's last file is removed.
            if !listed.has(key.address) {
                self.unlocked.lock(key.address);
            }
            self.publish(WalletChange::Dropped, url(key));
        }
        changes.arrived.iter().for_each(|key| self.publish(WalletChange::Arrived, url(key)));
    }

    fn publish(&self, change: WalletChange, url: String) {
        self.bus.publish(WalletChanged { change, url });
    }

    fn publish_of_account(&self, change: WalletChange, address: Address) {
        let listed = self.list.listed();
        let files = listed.keys().iter().filter(|key| key.address == address);
        files.for_each(|key| self.publish(change, url(key)));
    }

    /// Scans the folder if its modification time has changed, or after some checks.
    pub(crate) fn check_folder(&self, check: &mut FolderCheck) {
        let modified = folder_stamp(&self.options.folder);
        check.checks_since_scan += 1;
        if modified != check.modified || check.checks_since_scan >= CHECKS_PER_SCAN {
            *check = FolderCheck { modified, checks_since_scan: 0 };
            self.scan();
        }
    }

    /// Waits until the time of an unlocked key is over.
    pub(crate) async fn key_expiry(&self) {
        self.unlocked.expiry().await;
    }

    /// Removes keys whose time is over.
    pub(crate) fn lock_expired(&self) {
        let expired = self.unlocked.take_expired();
        expired.into_iter().for_each(|address| self.publish_of_account(WalletChange::Locked, address));
    }

    /// Removes all keys from memory.
    pub(crate) fn lock_all(&self) {
        let locked = self.unlocked.lock_all();
        locked.into_iter().for_each(|address| self.publish_of_account(WalletChange::Locked, address));
    }

    pub(crate) fn lock(&self, address: Address) {
        if self.unlocked.lock(address) {
            self.publish_of_account(WalletChange::Locked, address);
        }
    }

    /// Unlocks an account.
    ///
    /// # Errors
    /// [`AccountsError`]; the account is unchanged then.
    pub(crate) async fn unlock(
        &self,
        address: Address,
        password: &SecretText,
        time: UnlockTime,
        context: &CallContext,
    ) -> Result<(), AccountsError> {
        if !self.may_use(context) {
            return Err(AccountRefusal::UnlockForbidden.into());
        }
        self.file_of(address)?;
        let begun = self.unlocked.begin(address);
        let key = self.open(address, password, context).await?;
        leak_secrets_if_requested(password, &key);
        if self.unlocked.unlock(begun, key, time)? {
            self.publish_of_account(WalletChange::Opened, address);
        }
        Ok(())
    }

    /// Creates a key and stores it.
    ///
    /// # Errors
    /// [`AccountsError::Folder`], [`AccountsError::NotCompleted`].
    pub(crate) async fn create(&self, password: SecretText, context: &CallContext) -> Result<Address, AccountsError> {
        self.store(context, move |folder| folder.create(password.expose().as_bytes())).await
    }

    /// Stores a given key.
    ///
    /// # Errors
    /// [`AccountRefusal::KeyText`], [`AccountRefusal::Exists`]; as [`KeystoreWallets::create`].
    pub(crate) async fn import(
        &self,
        key: &SecretText,
        password: SecretText,
        context: &CallContext,
    ) -> Result<Address, AccountsError> {
        let key = given_key(key);
        // This thread does not end, so its stack is wiped here.
        scrub_stack();
        let key = key?;
        if self.list.listed().has(key.address()) {
            return Err(AccountRefusal::Exists.into());
        }
        self.store(context, move |folder| folder.store(&key, password.expose().as_bytes())).await
    }

    async fn store(
        &self,
        context: &CallContext,
        job: impl FnOnce(&KeyFolder) -> Result<StoredKey, KeyFolderError> + Send + 'static,
    ) -> Result<Address, AccountsError> {
        let folder = self.options.folder.clone();
        let memory = folder.memory_of_new_file();
        let stored = self.work.run(context, memory, move || job(&folder)).await??;
        self.scan();
        Ok(stored.address)
    }

    /// Returns whether the caller may use unlocked accounts: over TCP only with a token, unless the operator allows it.
    fn may_use(&self, context: &CallContext) -> bool {
        let origin = context.origin();
        match origin.transport {
            Transport::Inside | Transport::Socket => true,
            Transport::Http | Transport::WebSocket => origin.has_token || self.options.allows_insecure_unlock,
        }
    }

    /// Decrypts the key of an account. A client that gave wrong passwords waits before its next attempt.
    async fn open(&self, address: Address, password: &SecretText, context: &CallContext) -> Result<Key, AccountsError> {
        let path = self.file_of(address)?;
        let attempt = self.attempts.begin(address, context.origin().client).await;
        let file = self.options.folder.read(&path)?;
        let memory = file.memory();
        let password = password.clone();
        let opened = self.work.run(context, memory, move || file.open(password.expose().as_bytes())).await?;
        let opened = opened.and_then(|key| match key.address() {
            have if have == address => Ok(key),
            have => Err(KeyFileProblem::OtherAccount { have, want: address }),
        });
        match &opened {
            Err(KeyFileProblem::WrongPassword) => attempt.fail(),
            _ => attempt.end_delay(),
        }
        opened.map_err(|source| KeyFolderError::File { path, source }.into())
    }

    /// The single file of an account. The folder is scanned again before an account is reported unknown.
    fn file_of(&self, address: Address) -> Result<PathBuf, AccountsError> {
        if !self.list.listed().has(address) && self.may_scan_again() {
            self.scan();
        }
        let listed = self.list.listed();
        let paths: Vec<_> = listed.keys().iter().filter(|key| key.address == address).map(|key| &key.path).collect();
        match paths.as_slice() {
            [] => Err(AccountRefusal::NoKeyFile.into()),
            [path] => Ok((*path).clone()),
            several => {
                let paths = several.iter().map(|path| (*path).clone()).collect();
                Err(AccountRefusal::SeveralKeyFiles(paths).into())
            }
        }
    }

    fn may_scan_again(&self) -> bool {
        let mut looked = self.looked.lock();
        let now = Instant::now();
        let is_due = looked.is_none_or(|before| now.saturating_duration_since(before) >= RESCAN_AFTER);
        if is_due {
            *looked = Some(now);
        }
        is_due
    }

    fn status(&self, address: Address) -> WalletStatus {
        match self.unlocked.get(address) {
            Some(_) => WalletStatus::Unlocked,
            None => WalletStatus::Locked,
        }
    }
}

fn url(key: &ListedKey) -> String {
    format!("keystore://{}", key.path.display())
}

fn folder_stamp(folder: &KeyFolder) -> Option<SystemTime> {
    fs::metadata(folder.path()).and_then(|metadata| metadata.modified()).ok()
}

#[async_trait]
impl WalletBackend for KeystoreWallets {
    fn scheme(&self) -> &'static str {
        "keystore"
    }

    fn key_place(&self) -> KeyPlace {
        KeyPlace::Node
    }

    fn wallets(&self) -> Vec<Wallet> {
        let wallet = |key: &ListedKey| Wallet {
            url: url(key),
            status: self.status(key.address),
            failure: None,
            accounts: vec![WalletAccount { address: key.address, url: url(key) }],
        };
        self.list.listed().keys().iter().map(wallet).collect()
    }

    fn addresses(&self) -> Vec<Address> {
        self.list.listed().keys().iter().map(|key| key.address).collect()
    }

    fn has_key(&self, address: Address) -> bool {
        self.list.listed().has(address)
    }

    async fn signer(&self, address: Address, authority: Authority<'_>) -> Result<Box<dyn Signer>, AccountsError> {
        let key = match authority.password {
            Some(password) => Arc::new(self.open(address, password, authority.context).await?),
            None if self.may_use(authority.context) => self.unlocked.get(address).ok_or(AccountRefusal::Locked)?,
            None => return Err(AccountRefusal::Locked.into()),
        };
        Ok(Box::new(KeySigner(key)))
    }
}

/// Parses a key.
#[inline(never)]
fn given_key(text: &SecretText) -> Result<Key, AccountsError> {
    let secret = parse_key_text(text.expose()).map_err(AccountRefusal::KeyText)?;
    Ok(Key::from_secret(secret).ok_or(AccountRefusal::KeyText(KeyTextProblem::TooLarge))?)
}

/// Keeps copies forever if `TENON_TEST_LEAK_SECRETS` is set, in builds with debug assertions: the test that scans the
/// process's memory must find them.
#[cfg(debug_assertions)]
fn leak_secrets_if_requested(password: &SecretText, key: &Key) {
    if std::env::var_os("TENON_TEST_LEAK_SECRETS").is_some() {
        Box::leak(password.expose().to_owned().into_boxed_str());
        Box::leak(Box::new(*key.secret()));
    }
}

/// Does nothing in a release build.
#[cfg(not(debug_assertions))]
const fn leak_secrets_if_requested(_: &SecretText, _: &Key) {}

/// Signs with a key in memory, which is wiped when its last owner drops it.
pub(crate) struct KeySigner(pub(crate) Arc<Key>);

#[async_trait]
impl Signer for KeySigner {
    async fn sign(&self, what: Signable<'_>) -> Result<HashSignature, AccountsError> {
        let signature = self.0.sign(what.hash());
        signature.ok_or_else(|| AccountRefusal::UnknownAccount.into())
    }

    fn has_key_in_memory(&self) -> bool {
        true
    }

    fn public_key(&self) -> Option<[u8; 64]> {
        self.0.public_key()
    }
}

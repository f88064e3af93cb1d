//! The directory of all wallets of the node.

use std::{
    collections::{BTreeMap, HashSet},
    num::NonZeroUsize,
    sync::Arc,
};

use futures_util::FutureExt as _;
use lru::LruCache;
use parking_lot::Mutex;
use tenon_api::{
    AccountRefusal, Address, B256, Bytes, OwnAccounts, SecretText, Transaction, U256,
    messages::{
        CallRequest, GetPoolNonce, PoolRefusal, SendTransaction, SignTypedData, SignerAbilities, SubmitTransaction,
        Wallet, WalletAnswer, WalletOperation,
    },
};
use tenon_bus::{Bus, CallContext};

use crate::{
    Accounts, AccountsError,
    keystore_wallets::{KeystoreOptions, KeystoreWallets},
    port::{Authority, Signable, Signer, WalletBackend},
    reservations::Reservations,
    transaction,
    unlocked::UnlockTime,
};

/// The wallets of this node. Clones share them.
#[derive(Clone)]
pub struct WalletDirectory {
    inner: Arc<Inner>,
}

struct Inner {
    chain_id: u64,
    /// Maximum cost of a transaction that is signed but not sent, wei; 0 means no limit. The pool checks those that are
    /// sent.
    fee_cap: U256,
    bus: Bus,
    backends: Vec<Arc<dyn WalletBackend>>,
    keystore: Option<Arc<KeystoreWallets>>,
    reservations: Reservations,
    /// Addresses that several backends list, for which a warning is in the log. Nothing awaits under the lock.
    reported: Mutex<HashSet<Address>>,
    /// Senders of the transactions that keys in memory have signed last, by hash.
    signed: Mutex<LruCache<B256, Address>>,
}

/// Number of signed transactions whose senders are kept until the pool has accepted them.
const SENDER_CACHE_SIZE: NonZeroUsize = NonZeroUsize::new(256).unwrap();

impl WalletDirectory {
    /// The wallets of a mnemonic and of a folder of key files, if present. Transactions are signed for `chain_id`.
    pub fn new(chain_id: u64, bus: Bus, development: Option<Accounts>, keystore: Option<KeystoreOptions>) -> Self {
        let keystore = keystore.map(|options| Arc::new(KeystoreWallets::new(options, bus.clone())));
        let (reservations, fee_cap) = (Reservations::default(), U256::ZERO);
        let own = keystore.clone();
        let signed = Mutex::new(LruCache::new(SENDER_CACHE_SIZE));
        let (backends, reported) = (Vec::new(), Mutex::default());
        let inner = Inner { chain_id, fee_cap, bus, backends, keystore: own, reservations, reported, signed };
        let directory = Self { inner: Arc::new(inner) };
        let backends = development.map(|accounts| Arc::new(accounts) as Arc<dyn WalletBackend>);
        let backends = backends.into_iter().chain(keystore.map(|keystore| keystore as Arc<dyn WalletBackend>));
        backends.fold(directory, Self::with_backend)
    }

    /// Adds wallets of another kind, in the order of schemes. Call it before the directory is shared.
    #[must_use]
    pub fn with_backend(mut self, backend: Arc<dyn WalletBackend>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.backends.push(backend);
            inner.backends.sort_by_key(|backend| backend.scheme());
        }
        self
    }

    /// Sets the maximum cost of a transaction that is signed but not sent, wei. Call it before the directory is shared.
    #[must_use]
    pub fn with_fee_cap(mut self, fee_cap: U256) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.fee_cap = fee_cap;
        }
        self
    }

    /// All addresses, each once, in the order of the wallets.
    pub fn addresses(&self) -> Vec<Address> {
        let mut known = HashSet::new();
        let addresses = self.inner.backends.iter().flat_map(|backend| backend.addresses());
        addresses.filter(|address| known.insert(*address)).collect()
    }

    /// All wallets, in the order of their URLs.
    pub fn wallets(&self) -> Vec<Wallet> {
        self.inner.backends.iter().flat_map(|backend| backend.wallets()).collect()
    }

    /// The kinds of data that the account with this address can sign. For an unknown account, everything.
    pub fn abilities(&self, address: Address) -> SignerAbilities {
        self.backend(address).map_or(SignerAbilities::ALL, |backend| backend.abilities(address))
    }

    /// The wallets of key files.
    pub(crate) fn key_files(&self) -> Option<&Arc<KeystoreWallets>> {
        self.inner.keystore.as_ref()
    }

    /// Removes the keys of all unlocked accounts from memory.
    pub fn lock_all(&self) {
        if let Some(keystore) = &self.inner.keystore {
            keystore.lock_all();
        }
    }

    /// Signs a message in the personal-message form of EIP-191: 65 bytes `r ‖ s ‖ v` with `v` 27 or 28.
    ///
    /// # Errors
    /// [`AccountsError`].
    pub async fn sign_message(
        &self,
        address: Address,
        message: &[u8],
        password: Option<&SecretText>,
        context: &CallContext,
    ) -> Result<Bytes, AccountsError> {
        let signer = self.signer(address, Authority { password, context }).await?;
        Ok(signer.sign(Signable::Message(message)).await?.to_message_bytes())
    }

    /// Signs typed data (EIP-712): 65 bytes `r ‖ s ‖ v` with `v` 27 or 28.
    ///
    /// # Errors
    /// [`AccountsError`].
    pub async fn sign_typed_data(&self, request: SignTypedData, context: &CallContext) -> Result<Bytes, AccountsError> {
        let SignTypedData { address, domain, message, data, password } = request;
        let signer = self.signer(address, Authority { password: password.as_ref(), context }).await?;
        let what = Signable::TypedData { domain, message, data: data.as_deref() };
        Ok(signer.sign(what).await?.to_message_bytes())
    }

    /// Signs a consensus digest with an unlocked account: R, S, recovery id. Does not block.
    ///
    /// # Errors
    /// [`AccountsError`]; [`AccountsError::NotSupported`] if the account's wallet needs a person's confirmation.
    pub fn sign_block(&self, address: Address, digest: B256) -> Result<[u8; 65], AccountsError> {
        let context = CallContext::new();
        let signed = async {
            let signer = self.signer(address, Authority { password: None, context: &context }).await?;
            signer.sign(Signable::Block(digest)).await
        };
        let signature = signed.now_or_never().unwrap_or(Err(AccountsError::NotSupported(
            "signing a block needs a key \
            file",
        )))?;
        Ok(signature.to_block_bytes())
    }

    /// Signs a complete transaction of type 0, 1, 2 or 4 with the key of its `from`.
    ///
    /// # Errors
    /// [`AccountsError`].
    pub async fn sign_transaction(
        &self,
        request: &CallRequest,
        password: Option<&SecretText>,
        context: &CallContext,
    ) -> Result<Transaction, AccountsError> {
        let address = request.from.ok_or(AccountRefusal::UnknownAccount)?;
        self.backend(address)?;
        let unsigned = transaction::unsigned(request, self.inner.chain_id)?;
        self.check_fee(&unsigned)?;
        let signer = self.signer(address, Authority { password, context }).await?;
        self.signed(&*signer, unsigned).await
    }

    /// Signs a transaction and submits it to the pool, with the sender's next nonce unless it has one. Returns the
    /// pool's answer.
    ///
    /// # Errors
    /// As [`WalletDirectory::sign_transaction`], and [`AccountsError::Pool`].
    pub async fn send_transaction(
        &self,
        request: SendTransaction,
        context: &CallContext,
    ) -> Result<Result<B256, PoolRefusal>, AccountsError> {
        let SendTransaction { mut request, password } = request;
        let sender = request.from.ok_or(AccountRefusal::UnknownAccount)?;
        // Deriving a key takes a second, during which the sender's other transactions must not wait.
        let signer = self.signer(sender, Authority { password: password.as_ref(), context }).await?;
        let _reservation = match request.nonce {
            Some(_) => None,
            None => {
                let reservation = self.inner.reservations.reserve(sender).await;
                let nonce = self.inner.bus.call(GetPoolNonce { address: sender }, context).await;
                request.nonce = Some(nonce.map_err(AccountsError::Pool)?);
                Some(reservation)
            }
        };
        let unsigned = transaction::unsigned(&request, self.inner.chain_id)?;
        let transaction = self.signed(&*signer, unsigned).await?;
        if signer.has_key_in_memory() {
            self.inner.signed.lock().put(transaction.hash, sender);
        }
        let raw = tenon_chain::encode_transaction(&transaction).into();
        self.inner.bus.call(SubmitTransaction { raw }, context).await.map_err(AccountsError::Pool)
    }

    fn check_fee(&self, transaction: &Transaction) -> Result<(), AccountsError> {
        let fee = transaction.max_fee_per_gas().saturating_mul(U256::from(transaction.gas_limit));
        match self.inner.fee_cap {
            cap if !cap.is_zero() && fee > cap => Err(AccountRefusal::FeeTooHigh { fee, cap }.into()),
            _ => Ok(()),
        }
    }

    async fn signed(&self, signer: &dyn Signer, mut transaction: Transaction) -> Result<Transaction, AccountsError> {
        let signature = signer.sign(Signable::Transaction(&transaction)).await?;
        transaction::attach(&mut transaction, signature, self.inner.chain_id);
        Ok(transaction)
    }

    /// Creates a key in a new key file.
    ///
    /// # Errors
    /// [`AccountRefusal::NoKeystore`], [`AccountsError::Folder`], [`AccountsError::NotCompleted`].
    pub async fn create_account(&self, password: SecretText, context: &CallContext) -> Result<Address, AccountsError> {
        self.keystore()?.create(password, context).await
    }

    /// Stores a given key in a new key file.
    ///
    /// # Errors
    /// [`AccountsError`].
    pub async fn import_key(
        &self,
        key: &SecretText,
        password: SecretText,
        context: &CallContext,
    ) -> Result<Address, AccountsError> {
        self.keystore()?.import(key, password, context).await
    }

    /// Unlocks an account for this many seconds; 0 means until it is locked. Accounts of a mnemonic are always
    /// unlocked.
    ///
    /// # Errors
    /// [`AccountsError`]; the account is unchanged then.
    pub async fn unlock(
        &self,
        address: Address,
        password: &SecretText,
        seconds: u64,
        context: &CallContext,
    ) -> Result<(), AccountsError> {
        let time = UnlockTime::from_seconds(seconds)?;
        match &self.inner.keystore {
            Some(keystore) if keystore.has_key(address) || self.backend(address).is_err() => {
                keystore.unlock(address, password, time, context).await
            }
            _ if self.backend(address)?.is_always_unlocked() => Ok(()),
            _ => Err(AccountRefusal::NoKeyFile.into()),
        }
    }

    /// Removes an account's key from memory.
    pub fn lock(&self, address: Address) {
        if let Some(keystore) = &self.inner.keystore {
            keystore.lock(address);
        }
    }

    /// Runs a wallet operation, most of which only devices support. May wait for confirmation by a person.
    ///
    /// # Errors
    /// [`AccountRefusal::NoWalletUrl`], [`AccountRefusal::UnknownWallet`], [`AccountRefusal::NotSupported`]; the
    /// wallet's own error.
    pub async fn use_wallet(
        &self,
        url: &str,
        operation: WalletOperation,
        context: &CallContext,
    ) -> Result<WalletAnswer, AccountsError> {
        let mut parts = url.split("://");
        let scheme = match (parts.next(), parts.next(), parts.next()) {
            (Some(scheme), Some(_), None) if !scheme.is_empty() => scheme,
            _ => return Err(AccountRefusal::NoWalletUrl.into()),
        };
        let of_scheme = self.inner.backends.iter().filter(|backend| backend.scheme() == scheme);
        let mut having = of_scheme.filter(|backend| backend.wallets().iter().any(|wallet| wallet.url == url));
        having.next().ok_or(AccountRefusal::UnknownWallet)?.use_wallet(url, operation, context).await
    }

    /// The account that an argument of `--unlock` refers to: an address, or a position in the list of key files.
    pub fn account_at_start(&self, word: &str) -> Option<Address> {
        let digits = word.strip_prefix("xdc").unwrap_or(word);
        if let Ok(position) = word.parse::<usize>() {
            return self.inner.keystore.as_ref()?.addresses().get(position).copied();
        }
        digits.parse().ok()
    }

    /// The signer of an account, if the caller may use it. Does not wait for confirmation.
    ///
    /// # Errors
    /// [`AccountsError`]: the account is unknown, or locked.
    pub async fn signer(&self, address: Address, authority: Authority<'_>) -> Result<Box<dyn Signer>, AccountsError> {
        self.backend(address)?.signer(address, authority).await
    }

    /// The backend that signs for an address.
    fn backend(&self, address: Address) -> Result<&dyn WalletBackend, AccountsError> {
        let listing = || self.inner.backends.iter().filter(|backend| backend.has_key(address));
        let backend = listing().min_by_key(|backend| backend.key_place()).ok_or(AccountRefusal::UnknownAccount)?;
        if let Some(other) = listing().find(|other| !Arc::ptr_eq(other, backend)) {
            self.report_duplicate(address, backend.scheme(), other.scheme());
        }
        Ok(&**backend)
    }

    fn report_duplicate(&self, address: Address, used: &str, ignored: &str) {
        if self.inner.reported.lock().insert(address) {
            tracing::warn!(
                %address, used, ignored,
                "two kinds of wallets list the same account, and only one of them signs: remove it from the ignored kind"
            );
        }
    }

    fn keystore(&self) -> Result<&KeystoreWallets, AccountsError> {
        Ok(self.inner.keystore.as_deref().ok_or(AccountRefusal::NoKeystore)?)
    }
}

impl OwnAccounts for WalletDirectory {
    fn has_key(&self, address: Address) -> bool {
        self.backend(address).is_ok()
    }

    fn signer_of(&self, transaction: B256) -> Option<Address> {
        self.inner.signed.lock().get(&transaction).copied()
    }
}

impl std::fmt::Debug for WalletDirectory {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let schemes: BTreeMap<String, usize> = self.wallets().iter().fold(BTreeMap::new(), |mut counts, wallet| {
            let scheme = wallet.url.split(':').next().unwrap_or_default().to_owned();
            *counts.entry(scheme).or_default() += 1;
            counts
        });
        formatter.debug_struct("WalletDirectory").field("wallets", &schemes).finish_non_exhaustive()
    }
}

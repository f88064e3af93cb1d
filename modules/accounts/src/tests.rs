//! Tests of the directory on a bus: permissions, locking and error texts.

use std::{path::Path, sync::Arc, time::Duration};

use alloy_primitives::{address, hex};
use async_trait::async_trait;
use futures_util::FutureExt as _;
use tenon_api::{AccountRefusal, Address, B256, BusError, Bytes, OwnAccounts as _, SecretText, U256, messages::*};
use tenon_bus::{Bus, CallContext, ClientId, Delivery, Origin, Subscription, Transport};
use tenon_config::DEVELOPMENT_MNEMONIC;
use tenon_sdk::Failure;
use tenon_supervisor::Supervisor;

use crate::{
    Accounts, AccountsError, Authority, KeyPlace, KeystoreOptions, Signer, WalletBackend, WalletDirectory,
    keystore::{CostLimits, FileNames, KeyDerivation, KeyFolder},
    register, spawn_accounts,
};

const CHEAP: KeyDerivation = KeyDerivation::Scrypt { log_n: 1, r: 1, p: 1 };
const KEY: &str = "0707070707070707070707070707070707070707070707070707070707070707";
const STRANGER: Address = address!("00000000000000000000000000000000000000aa");

pub(crate) struct Node {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) bus: Bus,
    pub(crate) directory: WalletDirectory,
    pub(crate) account: Address,
}

impl Node {
    /// A node with one key file, whose password is `pass`.
    pub(crate) fn new() -> Self {
        Self::with(None, false)
    }

    fn with(development: Option<Accounts>, allows_insecure_unlock: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let secret = crate::parse_key_text(KEY).unwrap();
        let account = key_folder(folder.path()).import(secret, b"pass").unwrap().address;
        let bus = Bus::new();
        let options = KeystoreOptions { folder: key_folder(folder.path()), memory: 1 << 20, allows_insecure_unlock };
        let ether = U256::from(1_000_000_000_000_000_000_u64);
        let directory = WalletDirectory::new(1, bus.clone(), development, Some(options)).with_fee_cap(ether);
        register(&bus, &directory).unwrap();
        Self { folder, bus, directory, account }
    }

    async fn unlock(&self, password: &str, seconds: u64, context: &CallContext) -> Result<(), BusError> {
        let password = SecretText::from(password);
        self.bus.call(UnlockAccount { address: self.account, password, seconds }, context).await
    }

    async fn sign(&self, password: Option<&str>, context: &CallContext) -> Result<Bytes, BusError> {
        let password = password.map(SecretText::from);
        let message = Bytes::from_static(b"hello world");
        self.bus.call(SignMessage { address: self.account, message, password }, context).await
    }
}

#[tokio::test]
async fn blocks_are_signed_while_the_account_is_unlocked() {
    let node = Node::new();
    let digest = B256::repeat_byte(5);
    assert!(matches!(
        node.directory.sign_block(node.account, digest),
        Err(crate::AccountsError::Refused(AccountRefusal::Locked))
    ));
    assert!(matches!(
        node.directory.sign_block(STRANGER, digest),
        Err(crate::AccountsError::Refused(AccountRefusal::UnknownAccount))
    ));

    node.unlock("pass", 0, &CallContext::new()).await.unwrap();

    let signature = node.directory.sign_block(node.account, digest).unwrap();
    let id = secp256k1::ecdsa::RecoveryId::try_from(i32::from(signature[64])).unwrap();
    let signature = secp256k1::ecdsa::RecoverableSignature::from_compact(&signature[..64], id).unwrap();
    let public = secp256k1::SECP256K1.recover_ecdsa(secp256k1::Message::from_digest(digest.0), &signature).unwrap();
    let hash = alloy_primitives::keccak256(&public.serialize_uncompressed()[1..]);
    assert_eq!(&hash[12..], node.account.as_slice());
}

pub(crate) fn key_folder(path: &Path) -> KeyFolder {
    KeyFolder::new(path.join("keystore"), FileNames::Plain, CHEAP, CostLimits::with_memory(512 << 20))
}

fn over(transport: Transport, has_token: bool) -> CallContext {
    let origin = Origin { has_token, ..Origin::new(transport, ClientId::of_process(1)) };
    CallContext::new().with_origin(origin)
}

fn socket() -> CallContext {
    over(Transport::Socket, false)
}

/// The text of an error that clients receive.
fn words<T: std::fmt::Debug>(answer: Result<T, impl Into<BusError>>) -> String {
    Failure::from(answer.map_err(Into::into).unwrap_err()).message
}

fn signer_of(signature: &[u8]) -> Address {
    crate::key::recover_signer(b"hello world", signature).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_account_signs_only_with_its_password() {
    let node = Node::new();

    assert_eq!(words(node.sign(None, &socket()).await), "authentication needed: password or unlock");
    assert_eq!(words(node.sign(Some("wrong"), &socket()).await), "could not decrypt key with given password");
    let signature = node.sign(Some("pass"), &socket()).await.unwrap();

    assert_eq!(signer_of(&signature), node.account);
    assert!(node.sign(None, &socket()).await.is_err(), "it is locked as before");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unlocked_account_signs_until_it_is_locked() {
    let node = Node::new();

    assert_eq!(words(node.unlock("wrong", 300, &socket()).await), "could not decrypt key with given password");
    node.unlock("pass", 300, &socket()).await.unwrap();
    let signature = node.sign(None, &socket()).await.unwrap();
    let status = node.directory.wallets().remove(0).status;
    node.bus.call(LockAccount { address: node.account }, &socket()).await.unwrap();

    assert_eq!((signer_of(&signature), status), (node.account, WalletStatus::Unlocked));
    assert_eq!(words(node.sign(None, &socket()).await), "authentication needed: password or unlock");
    node.bus.call(LockAccount { address: STRANGER }, &socket()).await.unwrap();
}

/// Runs the actor until a condition is true.
async fn follow_until(node: &Node, is_true: impl Fn() -> bool) {
    let supervisor = Supervisor::new().unwrap();
    let following = tokio::spawn(spawn_accounts(&supervisor, &node.directory).unwrap().run());
    while !is_true() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    following.abort();
    assert!(supervisor.stop(Duration::from_secs(20)).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_whose_key_file_is_removed_during_an_unlock_stays_locked() {
    let node = Node::new();
    let file = node.directory.wallets()[0].url.strip_prefix("keystore://").unwrap().to_owned();
    let aside = node.folder.path().join("aside");
    let (password, context) = (SecretText::from("pass"), socket());
    // After a wrong password, an unlock first waits.
    node.unlock("wrong", 0, &context).await.unwrap_err();
    let mut unlocking = Box::pin(node.directory.unlock(node.account, &password, 0, &context));
    assert!(unlocking.as_mut().now_or_never().is_none());

    std::fs::rename(&file, &aside).unwrap();
    follow_until(&node, || !node.directory.has_key(node.account)).await;
    std::fs::rename(&aside, &file).unwrap();
    follow_until(&node, || node.directory.has_key(node.account)).await;

    assert!(matches!(unlocking.await, Err(AccountsError::LockedMeanwhile)));
    assert_eq!(words(node.sign(None, &context).await), "authentication needed: password or unlock");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unlock_that_is_in_progress_does_not_undo_a_lock() {
    let node = Node::new();
    let (password, context) = (SecretText::from("pass"), socket());
    let locks: [fn(&Node); 2] = [|node| node.directory.lock(node.account), |node| node.directory.lock_all()];
    for lock in locks {
        node.unlock("wrong", 0, &context).await.unwrap_err();
        let mut unlocking = Box::pin(node.directory.unlock(node.account, &password, 0, &context));
        assert!(unlocking.as_mut().now_or_never().is_none());

        lock(&node);

        assert!(matches!(unlocking.await, Err(AccountsError::LockedMeanwhile)));
        assert_eq!(words(node.sign(None, &context).await), "authentication needed: password or unlock");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tcp_an_unlocked_account_needs_a_token() {
    let node = Node::new();
    for transport in [Transport::Http, Transport::WebSocket] {
        let without = over(transport, false);
        let with = over(transport, true);

        assert_eq!(words(node.unlock("pass", 0, &without).await), "account unlock with HTTP access is forbidden");
        node.unlock("pass", 0, &socket()).await.unwrap();
        assert_eq!(words(node.sign(None, &without).await), "authentication needed: password or unlock");
        assert!(node.sign(None, &with).await.is_ok());
        assert!(node.sign(Some("pass"), &without).await.is_ok(), "a password alone authorises a signature");
        node.directory.lock_all();
        node.unlock("pass", 0, &with).await.unwrap();
        node.directory.lock_all();
    }

    let insecure = Node::with(None, true);
    insecure.unlock("pass", 0, &over(Transport::Http, false)).await.unwrap();
    assert!(insecure.sign(None, &over(Transport::WebSocket, false)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_without_a_file_or_with_two_are_refused_with_the_recorded_texts() {
    let node = Node::new();
    let unlock = UnlockAccount { address: STRANGER, password: SecretText::default(), seconds: 1 };
    let sign = SignMessage { address: STRANGER, message: Bytes::new(), password: None };
    let twice = node.folder.path().join("keystore/second");
    let first = node.directory.wallets()[0].url.strip_prefix("keystore://").unwrap().to_owned();

    assert_eq!(words(node.bus.call(unlock.clone(), &socket()).await), "no key for given address or file");
    assert_eq!(words(node.bus.call(sign, &socket()).await), "unknown account");
    let too_long = UnlockAccount { seconds: u64::MAX, ..unlock };
    assert_eq!(words(node.bus.call(too_long, &socket()).await), "unlock duration too large");
    std::fs::copy(&first, &twice).unwrap();
    follow_until(&node, || node.directory.wallets().len() == 2).await;
    let wanted = format!("multiple keys match address ({first}, {})", twice.display());
    assert_eq!(words(node.sign(Some("pass"), &socket()).await), wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_created_and_imported() {
    let node = Node::new();
    let password = SecretText::from("");
    let import = |key: &str| ImportKey { key: SecretText::from(key), password: SecretText::from("other") };

    let created = node.bus.call(CreateAccount { password }, &socket()).await.unwrap();
    let imported = node.bus.call(import(&"08".repeat(32)), &socket()).await.unwrap();

    let listed = node.bus.call(ListAccounts, &socket()).await.unwrap();
    assert_eq!(listed.len(), 3);
    assert!([node.account, created, imported].iter().all(|account| node.directory.has_key(*account)));
    assert_eq!(words(node.bus.call(import(KEY), &socket()).await), "account already exists");
    assert_eq!(words(node.bus.call(import("07"), &socket()).await), "invalid length, need 256 bits");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mnemonic_is_a_wallet_beside_the_key_files() {
    let node = Node::with(Some(Accounts::from_mnemonic(DEVELOPMENT_MNEMONIC, 2, 1).unwrap()), false);
    let development = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
    let message = Bytes::from_static(b"hello world");
    let sign = SignMessage { address: development, message, password: None };
    let unlock = UnlockAccount { address: development, password: SecretText::default(), seconds: 1 };

    let wallets = node.bus.call(ListWallets, &socket()).await.unwrap();
    let signature = node.bus.call(sign, &over(Transport::Http, false)).await.unwrap();

    assert_eq!(wallets[0].url, "development://mnemonic");
    assert_eq!(wallets[0].accounts[0].url, "development://mnemonic/m/44'/60'/0'/0/0");
    assert!(wallets[1].url.starts_with("keystore:///"));
    assert_eq!(signer_of(&signature), development);
    node.bus.call(unlock, &socket()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn device_operations_are_refused_with_the_recorded_texts() {
    let node = Node::new();
    let url = node.directory.wallets()[0].url.clone();
    let context = CallContext::new();
    let ask = |url: &str, operation| node.bus.call(UseWallet { url: url.to_owned(), operation }, &context);
    let derive = || WalletOperation::Derive { path: "m/44'".to_owned(), is_pinned: false };
    let unpair = WalletOperation::Unpair { pin: SecretText::from("1") };
    let initialize = WalletOperation::Initialize;
    let open = WalletOperation::Open { passphrase: SecretText::default() };

    for no_url in ["", "keystore", "://x", "a://b://c"] {
        assert_eq!(words(ask(no_url, derive()).await), "protocol scheme missing", "{no_url}");
    }
    assert_eq!(words(ask("trezor://1", derive()).await), "unknown wallet");
    assert_eq!(words(ask(&url, derive()).await), "not supported");
    assert_eq!(words(ask(&url, unpair).await), "specified wallet does not support pairing");
    assert_eq!(words(ask(&url, initialize).await), "specified wallet does not support initialization");
    assert_eq!(ask(&url, open).await, Ok(WalletAnswer::Done));
}

async fn next(events: &mut Subscription<WalletChanged>) -> WalletChange {
    let next = tokio::time::timeout(Duration::from_secs(20), events.next());
    match next.await.expect("an event").expect("an open bus") {
        Delivery::Event(event) => event.change,
        Delivery::Missed(count) => panic!("missed {count}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wallets_publish_their_changes() {
    let node = Node::new();
    let mut events = node.bus.subscribe::<WalletChanged>();
    let supervisor = Supervisor::new().unwrap();
    let following = tokio::spawn(spawn_accounts(&supervisor, &node.directory).unwrap().run());

    node.unlock("pass", 1, &socket()).await.unwrap();
    assert_eq!(next(&mut events).await, WalletChange::Opened);
    assert_eq!(next(&mut events).await, WalletChange::Locked);
    key_folder(node.folder.path()).create(b"").unwrap();
    assert_eq!(next(&mut events).await, WalletChange::Arrived);
    node.unlock("pass", 0, &socket()).await.unwrap();
    assert_eq!(next(&mut events).await, WalletChange::Opened);
    std::fs::remove_dir_all(node.folder.path().join("keystore")).unwrap();
    assert_eq!(next(&mut events).await, WalletChange::Dropped);
    assert_eq!(next(&mut events).await, WalletChange::Dropped);

    assert_eq!(words(node.sign(None, &socket()).await), "unknown account");
    following.abort();
    assert!(supervisor.stop(Duration::from_secs(20)).await.is_empty());
}

/// A pool that only counts transactions and returns the next nonce.
fn add_pool(bus: &Bus) -> Arc<std::sync::Mutex<Vec<u64>>> {
    let taken = Arc::new(std::sync::Mutex::new(Vec::new()));
    let nonces = Arc::clone(&taken);
    bus.handle_read(move |_: GetPoolNonce, _: &CallContext| Ok(nonces.lock().unwrap().len() as u64)).unwrap();
    let nonces = Arc::clone(&taken);
    bus.handle(move |request: SubmitTransaction, _| {
        let nonces = Arc::clone(&nonces);
        async move {
            tokio::task::yield_now().await;
            let transaction = tenon_chain::decode_transaction(&request.raw).unwrap();
            nonces.lock().unwrap().push(transaction.nonce);
            Ok(Ok(transaction.hash))
        }
    })
    .unwrap();
    taken
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_without_nonce_get_distinct_ones() {
    let node = Node::new();
    let taken = add_pool(&node.bus);
    let request = CallRequest {
        from: Some(node.account),
        to: Some(STRANGER),
        gas: Some(21_000),
        gas_price: Some(U256::from(1)),
        ..CallRequest::default()
    };
    let send = |request| SendTransaction { request, password: None };
    assert_eq!(
        words(node.bus.call(send(request.clone()), &socket()).await),
        "authentication needed: password or unlock"
    );
    node.unlock("pass", 0, &socket()).await.unwrap();

    let sends: Vec<_> = (0..200)
        .map(|number| {
            let (bus, message) = (node.bus.clone(), send(request.clone()));
            tokio::spawn(async move {
                let context = socket();
                let sending = bus.call(message, &context);
                // Some callers leave before or during their turn.
                match number % 7 {
                    0 => drop(tokio::time::timeout(Duration::from_micros(number), sending).await),
                    _ => drop(sending.await.unwrap()),
                }
            })
        })
        .collect();
    for task in sends {
        task.await.unwrap();
    }
    let last = node.bus.call(send(request), &socket()).await.unwrap().unwrap();

    assert_eq!(node.directory.signer_of(last), Some(node.account), "the pool needs no recovery");
    assert_eq!(node.directory.signer_of(B256::ZERO), None);
    let taken = taken.lock().unwrap();
    let wanted: Vec<u64> = (0..taken.len() as u64).collect();
    assert!(taken.len() >= 171, "{}", taken.len());
    assert_eq!(*taken, wanted);
}

/// eth-account's signature of the message with the first development key.
#[test]
fn the_signer_of_a_message_is_recovered() {
    let signature = hex!(
        "a461f509887bd19e312c0c58467ce8ff8e300d3c1a90b608a760c5b80318eaf1"
        "5fe57c96f9175d6cd4daad4663763baa7e78836e067d0163e9a2ccf2ff753f5b1b"
    );
    let recover = |signature: &[u8]| crate::key::recover_signer(b"hello world", signature);
    let with_last = |byte: u8| [&signature[..64], &[byte]].concat();

    assert_eq!(recover(&signature).unwrap(), address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266"));
    assert_eq!(words(recover(&signature[..64])), "signature must be 65 bytes long");
    for byte in [0, 1, 26, 29] {
        assert_eq!(words(recover(&with_last(byte))), "invalid Ethereum signature (V is not 27 or 28)");
    }
    assert_eq!(words(recover(&[&[0; 64][..], &[27]].concat())), "recovery failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_could_cost_more_than_the_cap_is_not_signed() {
    let node = Node::new();
    let sign = |gas: u64| SignTransaction {
        request: CallRequest {
            from: Some(node.account),
            to: Some(STRANGER),
            gas: Some(gas),
            gas_price: Some(U256::from(20_000_000_000_u64)),
            nonce: Some(0),
            ..CallRequest::default()
        },
        password: None,
    };

    assert_eq!(
        words(node.bus.call(sign(100_000_000), &socket()).await),
        "tx fee (2.00 ether) exceeds the configured cap (1.00 ether)"
    );
    assert_eq!(words(node.bus.call(sign(50_000_000), &socket()).await), "authentication needed: password or unlock");
}

#[tokio::test(flavor = "multi_thread")]
async fn debug_output_contains_no_secret() {
    let node = Node::new();
    node.unlock("pass", 0, &socket()).await.unwrap();

    let printed = format!("{:?} {:?}", node.directory, node.bus.call(ListWallets, &socket()).await);

    assert!(!printed.contains("pass") && !printed.contains(KEY), "{printed}");
}

/// Wallets of another kind, which need a person's confirmation for everything.
struct ConfirmingWallets {
    account: Address,
    asked: tokio::sync::Notify,
}

impl ConfirmingWallets {
    fn with_account(account: Address) -> Arc<Self> {
        Arc::new(Self { account, asked: tokio::sync::Notify::new() })
    }
}

#[async_trait]
impl WalletBackend for ConfirmingWallets {
    fn scheme(&self) -> &'static str {
        "extapi"
    }

    fn key_place(&self) -> KeyPlace {
        KeyPlace::Service
    }

    fn wallets(&self) -> Vec<Wallet> {
        let status = WalletStatus::Text("waits".to_owned());
        vec![Wallet { url: "extapi://1".to_owned(), status, failure: None, accounts: vec![] }]
    }

    fn addresses(&self) -> Vec<Address> {
        vec![self.account]
    }

    fn has_key(&self, address: Address) -> bool {
        address == self.account
    }

    fn abilities(&self, _: Address) -> SignerAbilities {
        SignerAbilities { signs_fee_market: false }
    }

    async fn signer(&self, _: Address, _: Authority<'_>) -> Result<Box<dyn Signer>, AccountsError> {
        Err(AccountsError::Wallet("it was not confirmed".to_owned()))
    }

    async fn use_wallet(&self, url: &str, _: WalletOperation, _: &CallContext) -> Result<WalletAnswer, AccountsError> {
        assert_eq!(url, "extapi://1");
        self.asked.notify_one();
        std::future::pending().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wallets_of_another_kind_are_listed_by_scheme_and_may_wait() {
    let own = Accounts::from_mnemonic(DEVELOPMENT_MNEMONIC, 1, 1).unwrap();
    let of_mnemonic = own.addresses()[0];
    let confirming = ConfirmingWallets::with_account(STRANGER);
    let bus = Bus::new();
    let directory = WalletDirectory::new(1, bus.clone(), Some(own), None).with_backend(confirming.clone());
    register(&bus, &directory).unwrap();
    let context = socket();
    let describe = |address| bus.call(DescribeSigner { address }, &context);

    let urls: Vec<_> = directory.wallets().into_iter().map(|wallet| wallet.url).collect();
    let signed = bus.call(SignMessage { address: STRANGER, message: Bytes::new(), password: None }, &context).await;
    let unlock = UnlockAccount { address: STRANGER, password: SecretText::from("x"), seconds: 1 };

    assert_eq!(urls, ["development://mnemonic", "extapi://1"]);
    assert_eq!(directory.addresses(), [of_mnemonic, STRANGER]);
    assert_eq!(describe(STRANGER).await, Ok(SignerAbilities { signs_fee_market: false }));
    assert_eq!(describe(of_mnemonic).await, Ok(SignerAbilities::ALL));
    assert_eq!(describe(Address::ZERO).await, Ok(SignerAbilities::ALL));
    assert_eq!(words(signed), "it was not confirmed");
    assert_eq!(words(bus.call(unlock, &context).await), "no key for given address or file");
    let operation = WalletOperation::Open { passphrase: SecretText::default() };
    let opening = bus.call(UseWallet { url: "extapi://1".to_owned(), operation }, &context);
    tokio::select! {
        answer = opening => panic!("{answer:?}"),
        () = confirming.asked.notified() => {}
    }
    // Other requests are answered in the meantime.
    assert_eq!(bus.call(ListAccounts, &context).await, Ok(vec![of_mnemonic, STRANGER]));
}

/// The scheme of the signing service sorts before that of the key files.
#[tokio::test(flavor = "multi_thread")]
async fn a_signing_service_does_not_take_over_the_account_of_a_key_file() {
    let own = Node::new();
    let options =
        KeystoreOptions { folder: key_folder(own.folder.path()), memory: 1 << 20, allows_insecure_unlock: false };
    let service = ConfirmingWallets::with_account(own.account);
    let directory = WalletDirectory::new(1, Bus::new(), None, Some(options)).with_backend(service);
    let (password, context) = (SecretText::from("pass"), socket());

    let with_password = directory.sign_message(own.account, b"hello world", Some(&password), &context).await.unwrap();
    let locked = directory.sign_message(own.account, b"hello world", None, &context).await;
    directory.unlock(own.account, &password, 0, &context).await.unwrap();
    let unlocked = directory.sign_message(own.account, b"hello world", None, &context).await.unwrap();

    assert_eq!((signer_of(&with_password), signer_of(&unlocked)), (own.account, own.account));
    assert!(matches!(locked, Err(AccountsError::Refused(AccountRefusal::Locked))));
    assert_eq!(directory.addresses(), [own.account], "it is listed once");
    assert_eq!(directory.abilities(own.account), SignerAbilities::ALL);
}

//! The service as a wallet backend.

use std::{sync::Arc, time::Duration};

use alloy_primitives::{Address, Bytes, U256};
use arc_swap::ArcSwap;
use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};
use tenon_accounts::{AccountsError, Authority, HashSignature, KeyPlace, Signable, Signer, WalletBackend};
use tenon_api::{
    AccessListItem, SignedAuthorization, Transaction, TransactionPayload,
    messages::{Wallet, WalletAccount, WalletChange, WalletChanged, WalletStatus},
};
use tenon_bus::Bus;
use tokio::time::Instant;

use crate::{Endpoint, EndpointError};

/// Interval at which the list of accounts is refreshed.
const REFRESH_INTERVAL: Duration = Duration::from_secs(5);
/// Time limit for a refresh.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of accounts that are listed.
const MAX_ACCOUNTS: usize = 10_000;
/// Time limit for a signature if the caller has no deadline.
const SIGN_TIMEOUT: Duration = Duration::from_secs(900);

/// The last known state of the service.
#[derive(Debug, Default)]
struct Snapshot {
    accounts: Vec<Address>,
    version: String,
    failure: Option<String>,
}

/// A signing service as a wallet of the node. Clones share the snapshot.
#[derive(Clone)]
pub struct ServiceWallet {
    endpoint: Endpoint,
    bus: Bus,
    known: Arc<ArcSwap<Snapshot>>,
}

impl ServiceWallet {
    /// Creates the wallet of a service, with no accounts until the first refresh. Publishes changes on `bus`.
    pub fn new(endpoint: Endpoint, bus: Bus) -> Self {
        Self { endpoint, bus, known: Arc::default() }
    }

    /// Refreshes the accounts periodically. Never returns.
    pub async fn follow(self) {
        loop {
            self.scan().await;
            tokio::time::sleep(REFRESH_INTERVAL).await;
        }
    }

    /// Refreshes the accounts once.
    pub async fn scan(&self) {
        let asked = tokio::time::timeout(REFRESH_TIMEOUT, self.ask()).await;
        let before = self.known.load_full();
        let now = match asked {
            Ok(Ok(now)) => now,
            Ok(Err(error)) => self.failed(error.to_string()),
            Err(_) => self.failed(format!("the signing service at {} does not answer in time", self.endpoint)),
        };
        if before.failure != now.failure {
            match &now.failure {
                Some(reason) => tracing::warn!(%reason, "the signing service did not sign"),
                None => tracing::info!(endpoint = %self.endpoint, accounts = now.accounts.len(), "signing service"),
            }
        }
        let has_arrived = before.accounts.is_empty() && !now.accounts.is_empty();
        self.known.store(Arc::new(now));
        if has_arrived {
            self.bus.publish(WalletChanged { change: WalletChange::Arrived, url: self.url() });
        }
    }

    /// Keeps the accounts of an unavailable service listed, so that a request for a signature fails with the reason
    /// instead of as an unknown account.
    fn failed(&self, reason: String) -> Snapshot {
        let before = self.known.load();
        Snapshot { accounts: before.accounts.clone(), version: before.version.clone(), failure: Some(reason) }
    }

    async fn ask(&self) -> Result<Snapshot, EndpointError> {
        let version = self.endpoint.call("account_version", &json!([])).await?;
        let listed = self.endpoint.call("account_list", &json!([])).await?;
        let accounts = listed.as_array().into_iter().flatten().take(MAX_ACCOUNTS);
        let accounts = accounts.filter_map(|account| account.as_str()?.parse().ok()).collect();
        let version: String = version.as_str().unwrap_or("?").chars().filter(char::is_ascii_graphic).take(20).collect();
        Ok(Snapshot { accounts, version, failure: None })
    }

    fn url(&self) -> String {
        format!("{}://{}", self.scheme(), self.endpoint)
    }
}

impl WalletBackend for ServiceWallet {
    fn scheme(&self) -> &'static str {
        "extapi"
    }

    fn key_place(&self) -> KeyPlace {
        KeyPlace::Service
    }

    fn wallets(&self) -> Vec<Wallet> {
        let known = self.known.load();
        let account = |address: &Address| WalletAccount { address: *address, url: self.url() };
        let status = match &known.failure {
            None => format!("ok [version={}]", known.version),
            Some(_) => "not reached".to_owned(),
        };
        vec![Wallet {
            url: self.url(),
            status: WalletStatus::Told(status),
            failure: known.failure.clone(),
            accounts: known.accounts.iter().map(account).collect(),
        }]
    }

    fn addresses(&self) -> Vec<Address> {
        self.known.load().accounts.clone()
    }

    fn has_key(&self, address: Address) -> bool {
        self.known.load().accounts.contains(&address)
    }

    fn signer<'a>(
        &'a self,
        address: Address,
        authority: Authority<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn Signer>, AccountsError>> {
        let until = authority.context.deadline().map_or_else(|| Instant::now() + SIGN_TIMEOUT, Instant::from_std);
        let signer = ServiceSigner { endpoint: self.endpoint.clone(), account: address, until };
        std::future::ready(Ok(Box::new(signer) as Box<dyn Signer>)).boxed()
    }
}

/// An account of the service, for one caller.
struct ServiceSigner {
    endpoint: Endpoint,
    account: Address,
    until: Instant,
}

impl ServiceSigner {
    async fn ask(&self, what: Signable<'_>) -> Result<HashSignature, AccountsError> {
        let account = self.account;
        let (method, params) = match what {
            Signable::Message(message) => {
                ("account_signData", json!(["text/plain", account, Bytes::copy_from_slice(message)]))
            }
            Signable::Transaction(transaction) => {
                ("account_signTransaction", json!([transaction_json(account, transaction)]))
            }
            Signable::TypedData { data: Some(text), .. } => {
                let data: Value = serde_json::from_str(text).map_err(|error| failed(error.to_string()))?;
                ("account_signTypedData", json!([account, data]))
            }
            Signable::TypedData { data: None, .. } => {
                return Err(AccountsError::NotSupported("a signing service needs the typed data, not their hash"));
            }
            Signable::Block(_) => {
                return Err(AccountsError::NotSupported("a signing service does not sign the hash of a block"));
            }
        };
        let answering = tokio::time::timeout_at(self.until, self.endpoint.call(method, &params)).await;
        let answer = answering.map_err(|_| failed("the signing service did not answer in time".to_owned()))?;
        let answer = answer.map_err(|error| failed(error.to_string()))?;
        let signature = match what {
            Signable::Transaction(transaction) => of_transaction(&answer, transaction),
            _ => of_bytes(&answer),
        };
        let signature = signature.filter(|signature| signature.signer_of(what.hash()) == Some(account));
        signature.ok_or_else(|| failed("the signing service signed something else".to_owned()))
    }
}

impl Signer for ServiceSigner {
    fn sign<'a>(&'a self, what: Signable<'a>) -> BoxFuture<'a, Result<HashSignature, AccountsError>> {
        self.ask(what).boxed()
    }
}

fn failed(reason: String) -> AccountsError {
    AccountsError::Wallet(reason)
}

/// A signature of 65 bytes: `r ‖ s ‖ v`.
pub(crate) fn of_bytes(answer: &Value) -> Option<HashSignature> {
    let bytes: Bytes = answer.as_str()?.parse().ok()?;
    let (compact, v) = bytes.split_at_checked(64)?;
    let y_parity = match v {
        [0 | 27] => false,
        [1 | 28] => true,
        _ => return None,
    };
    Some(HashSignature { r: U256::from_be_slice(&compact[..32]), s: U256::from_be_slice(&compact[32..]), y_parity })
}

/// The signature of `{raw, tx}`, if it is of this transaction.
pub(crate) fn of_transaction(answer: &Value, wanted: &Transaction) -> Option<HashSignature> {
    let raw: Bytes = answer["raw"].as_str()?.parse().ok()?;
    let signed = tenon_chain::decode_transaction(&raw).ok()?;
    if tenon_chain::signing_hash(&signed) != tenon_chain::signing_hash(wanted) {
        return None;
    }
    let v = signed.signature.v;
    let y_parity = match &signed.payload {
        // EIP-155: `v` is 35 plus twice the chain id plus the parity.
        TransactionPayload::Legacy { .. } => v % 2 == 0,
        _ => v == 1,
    };
    Some(HashSignature { r: signed.signature.r, s: signed.signature.s, y_parity })
}

/// A transaction with the members of `account_signTransaction`.
pub(crate) fn transaction_json(sender: Address, transaction: &Transaction) -> Value {
    let quantity = |number: u64| format!("{number:#x}");
    let mut json = json!({
        "from": sender,
        "to": transaction.to,
        "gas": quantity(transaction.gas_limit),
        "value": transaction.value,
        "nonce": quantity(transaction.nonce),
        "input": transaction.input,
        "chainId": transaction.chain_id.map(quantity),
    });
    let mut set = |name: &str, value: Value| json[name] = value;
    match &transaction.payload {
        TransactionPayload::Legacy { gas_price } => set("gasPrice", json!(gas_price)),
        TransactionPayload::AccessList { gas_price, access_list } => {
            set("gasPrice", json!(gas_price));
            set("accessList", access_list_json(access_list));
        }
        TransactionPayload::DynamicFee { max_fee_per_gas, max_priority_fee_per_gas, access_list }
        | TransactionPayload::Blob { max_fee_per_gas, max_priority_fee_per_gas, access_list, .. }
        | TransactionPayload::SetCode { max_fee_per_gas, max_priority_fee_per_gas, access_list, .. } => {
            set("maxFeePerGas", json!(max_fee_per_gas));
            set("maxPriorityFeePerGas", json!(max_priority_fee_per_gas));
            set("accessList", access_list_json(access_list));
        }
    }
    if let TransactionPayload::SetCode { authorization_list, .. } = &transaction.payload {
        set("authorizationList", authorization_list.iter().map(authorization_json).collect());
    }
    json
}

fn access_list_json(items: &[AccessListItem]) -> Value {
    items.iter().map(|item| json!({ "address": item.address, "storageKeys": item.storage_keys })).collect()
}

fn authorization_json(given: &SignedAuthorization) -> Value {
    json!({
        "chainId": given.chain_id,
        "address": given.address,
        "nonce": format!("{:#x}", given.nonce),
        "yParity": format!("{:#x}", given.y_parity),
        "r": given.r,
        "s": given.s,
    })
}

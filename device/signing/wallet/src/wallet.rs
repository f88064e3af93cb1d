//! The service as a wallet backend.

use std::{sync::Arc, time::Duration};

use alloy_primitives::{Address, Bytes, U256};
use arc_swap::ArcSwap;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};
use tenon_accounts::{AccountsError, Authority, HashSignature, KeyPlace, Signable, Signer, WalletBackend};
use tenon_api::{
    AccessListItem, SignedAuthorization, Transaction, TransactionPayload,
    messages::{Wallet, WalletAccount, WalletChange, WalletChanged, WalletFailure, WalletStatus},
};
use tenon_bus::{Bus, BusError, EnterError, FairLimits, FairQueue, JobPermit, PoolBusy, Share};
use tokio::time::Instant;

use crate::{Endpoint, EndpointError, endpoint::Answer};

/// Interval at which the list of accounts is refreshed.
const REFRESH_INTERVAL: Duration = Duration::from_secs(5);
/// Time limit for a refresh.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of accounts that are listed.
const MAX_ACCOUNTS: usize = 10_000;
/// Time limit for a signature if the caller has no deadline.
const SIGN_TIMEOUT: Duration = Duration::from_secs(900);

/// The parameters of methods that have none.
pub(crate) const NO_PARAMS: [(); 0] = [];
/// Maximum length of a signature, a version or a refusal, bytes.
const MAX_SHORT_ANSWER: usize = 16 << 10;
/// Maximum length of a list of accounts, bytes.
const MAX_LIST_ANSWER: usize = 1 << 20;
/// Limits of the signatures that the node's clients request at a time. A request may wait for a person's approval, so
/// clients without a place get up to 4 extra ones: 8 in all. The signing service accepts 16 connections of the node,
/// and the votes of a masternode use the same socket.
const CALL_LIMITS: FairLimits = FairLimits { places: 4, client_places: 4, queue: 128, client_queue: 64, parked: 0 };

/// A signature of 65 bytes: `r ‖ s ‖ v`.
#[derive(Deserialize)]
#[serde(transparent)]
struct SignatureAnswer(Bytes);

impl Answer for SignatureAnswer {
    fn max_length(_: usize) -> usize {
        MAX_SHORT_ANSWER
    }
}

/// A signed transaction. Its other member, `tx`, is not read.
#[derive(Deserialize)]
struct TransactionAnswer {
    raw: Bytes,
}

impl Answer for TransactionAnswer {
    /// Both members contain the data of the request.
    fn max_length(request: usize) -> usize {
        request.saturating_mul(2).saturating_add(MAX_SHORT_ANSWER)
    }
}

/// The service's accounts.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct AccountsAnswer(pub(crate) Vec<Address>);

impl Answer for AccountsAnswer {
    fn max_length(_: usize) -> usize {
        MAX_LIST_ANSWER
    }
}

/// The version of the service's methods.
#[derive(Deserialize)]
#[serde(transparent)]
struct VersionAnswer(String);

impl Answer for VersionAnswer {
    fn max_length(_: usize) -> usize {
        MAX_SHORT_ANSWER
    }
}

/// The last known state of the service.
#[derive(Debug, Default)]
struct Snapshot {
    accounts: Vec<Address>,
    version: String,
    failure: Option<String>,
}

/// A signing service as a wallet of the node. Clones share the snapshot and the limits of requests.
#[derive(Clone)]
pub struct ServiceWallet {
    endpoint: Endpoint,
    bus: Bus,
    known: Arc<ArcSwap<Snapshot>>,
    calls: FairQueue,
}

impl ServiceWallet {
    /// Creates the wallet of a service, with no accounts until the first refresh. Publishes changes on `bus`.
    pub fn new(endpoint: Endpoint, bus: Bus) -> Self {
        Self { endpoint, bus, known: Arc::default(), calls: FairQueue::new(CALL_LIMITS) }
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
        let VersionAnswer(version) = self.endpoint.request("account_version", &NO_PARAMS).await?;
        let AccountsAnswer(mut accounts) = self.endpoint.request("account_list", &NO_PARAMS).await?;
        accounts.truncate(MAX_ACCOUNTS);
        let version: String = version.chars().filter(char::is_ascii_graphic).take(20).collect();
        Ok(Snapshot { accounts, version, failure: None })
    }

    fn url(&self) -> String {
        format!("{}://{}", self.scheme(), self.endpoint)
    }
}

#[async_trait]
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
            status: WalletStatus::Text(status),
            failure: known.failure.clone().map(WalletFailure::Text),
            accounts: known.accounts.iter().map(account).collect(),
        }]
    }

    fn addresses(&self) -> Vec<Address> {
        self.known.load().accounts.clone()
    }

    fn has_key(&self, address: Address) -> bool {
        self.known.load().accounts.contains(&address)
    }

    async fn signer(&self, address: Address, authority: Authority<'_>) -> Result<Box<dyn Signer>, AccountsError> {
        let until = authority.context.deadline().map_or_else(|| Instant::now() + SIGN_TIMEOUT, Instant::from_std);
        let share = Share::from(authority.context.origin());
        let (endpoint, calls) = (self.endpoint.clone(), self.calls.clone());
        Ok(Box::new(ServiceSigner { endpoint, calls, share, account: address, until }))
    }
}

/// An account of the service, for one caller.
struct ServiceSigner {
    endpoint: Endpoint,
    calls: FairQueue,
    share: Share,
    account: Address,
    until: Instant,
}

impl ServiceSigner {
    async fn ask(&self, what: Signable<'_>) -> Result<HashSignature, AccountsError> {
        let _place = self.enter().await?;
        let asking = tokio::time::timeout_at(self.until, self.request_signature(what)).await;
        let signature = asking.map_err(|_| failed("the signing service did not answer in time".to_owned()))??;
        let signature = signature.filter(|signature| signature.signer_of(what.hash()) == Some(self.account));
        signature.ok_or_else(|| failed("the signing service returned no valid signature of this account".to_owned()))
    }

    async fn request_signature(&self, what: Signable<'_>) -> Result<Option<HashSignature>, AccountsError> {
        let (endpoint, account) = (&self.endpoint, self.account);
        let signature = match what {
            Signable::Message(message) => {
                let params = ("text/plain", account, Bytes::copy_from_slice(message));
                signature(endpoint, "account_signData", &params).await
            }
            Signable::Transaction(transaction) => transaction_signature(endpoint, account, transaction).await,
            Signable::TypedData { data: Some(text), .. } => {
                // Not parsed into values, which take more memory than the text.
                let data: &RawValue = serde_json::from_str(text).map_err(|error| failed(error.to_string()))?;
                signature(endpoint, "account_signTypedData", &(account, data)).await
            }
            Signable::TypedData { data: None, .. } => {
                return Err(AccountsError::NotSupported("a signing service needs the typed data, not their hash"));
            }
            Signable::Block(_) => {
                return Err(AccountsError::NotSupported("a signing service does not sign the hash of a block"));
            }
        };
        signature.map_err(|error| failed(error.to_string()))
    }

    /// Waits for the right to call the service.
    async fn enter(&self) -> Result<JobPermit, AccountsError> {
        let entered = self.calls.enter(self.share, Some(self.until.into_std())).await;
        entered.map_err(|reason| {
            let pool = "signing service";
            AccountsError::NotCompleted(BusError::Busy(match reason {
                EnterError::QueueFull => PoolBusy::QueueFull { pool, waiting: CALL_LIMITS.queue },
                EnterError::ClientFull => PoolBusy::ClientFull { pool, waiting: CALL_LIMITS.client_queue },
                EnterError::Displaced => PoolBusy::Displaced { pool },
                EnterError::DeadlinePassed => PoolBusy::DeadlinePassed { pool },
            }))
        })
    }
}

#[async_trait]
impl Signer for ServiceSigner {
    async fn sign(&self, what: Signable<'_>) -> Result<HashSignature, AccountsError> {
        self.ask(what).await
    }
}

fn failed(reason: String) -> AccountsError {
    AccountsError::Wallet(reason)
}

/// Requests a signature. `None` if the answer is not one.
pub(crate) async fn signature(
    endpoint: &Endpoint,
    method: &str,
    params: &impl Serialize,
) -> Result<Option<HashSignature>, EndpointError> {
    let SignatureAnswer(bytes) = endpoint.request(method, params).await?;
    Ok(of_bytes(&bytes))
}

/// Requests the signature of a transaction. `None` if the answer is another transaction.
pub(crate) async fn transaction_signature(
    endpoint: &Endpoint,
    sender: Address,
    transaction: &Transaction,
) -> Result<Option<HashSignature>, EndpointError> {
    let params = [transaction_json(sender, transaction)];
    let TransactionAnswer { raw } = endpoint.request("account_signTransaction", &params).await?;
    Ok(of_transaction(&raw, transaction))
}

fn of_bytes(bytes: &[u8]) -> Option<HashSignature> {
    let (compact, v) = bytes.split_at_checked(64)?;
    let y_parity = match v {
        [0 | 27] => false,
        [1 | 28] => true,
        _ => return None,
    };
    Some(HashSignature { r: U256::from_be_slice(&compact[..32]), s: U256::from_be_slice(&compact[32..]), y_parity })
}

/// The signature of a signed transaction, if it is this one.
fn of_transaction(raw: &[u8], wanted: &Transaction) -> Option<HashSignature> {
    let signed = tenon_chain::decode_transaction(raw).ok()?;
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
fn transaction_json(sender: Address, transaction: &Transaction) -> Value {
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

#[cfg(test)]
mod tests;

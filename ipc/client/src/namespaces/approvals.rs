//! `approvals`, `policy` and `wallets`: the signing service, at the socket of an approver (`docs/signer.md`).

use alloy_primitives::{Address, B256};
use jsonrpsee::proc_macros::rpc;
use serde::{Deserialize, Serialize};

/// Requests that wait for people.
#[rpc(client, namespace = "approvals")]
pub trait Approvals {
    /// All requests that wait.
    #[method(name = "list")]
    async fn waiting_requests(&self) -> RpcResult<Vec<WaitingRequest>>;

    /// The request with this number. The service's log records that it was shown.
    #[method(name = "show")]
    async fn waiting_request(&self, number: u64) -> RpcResult<WaitingRequest>;

    /// Approves a request with this hash; returns how many approvals it still needs.
    #[method(name = "approve")]
    async fn approve_request(&self, number: u64, hash: &str) -> RpcResult<u8>;

    /// Refuses a request.
    #[method(name = "deny")]
    async fn deny_request(&self, number: u64) -> RpcResult<bool>;

    /// A URL of the page for approvals; it works once, within two minutes.
    #[method(name = "login")]
    async fn page_login(&self) -> RpcResult<String>;
}

/// The policy of a signing service.
#[rpc(client, namespace = "policy")]
pub trait Policy {
    /// Reads the policy again; returns the hash of the one in force.
    #[method(name = "reload")]
    async fn reload_policy(&self) -> RpcResult<B256>;

    /// Hash of the policy in force.
    #[method(name = "hash")]
    async fn policy_hash(&self) -> RpcResult<B256>;
}

/// Hardware wallets of a signing service. `wallets_open` takes a secret:
/// [`Client::call_with_secret`](crate::Client::call_with_secret).
#[rpc(client, namespace = "wallets")]
pub trait Wallets {
    /// All wallets.
    #[method(name = "list")]
    async fn signer_wallets(&self) -> RpcResult<Vec<SignerWallet>>;

    /// Adds the account at a derivation path of a hardware wallet.
    #[method(name = "derive")]
    async fn derive_account(&self, url: &str, path: &str) -> RpcResult<Derived>;
}

/// A request that waits for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingRequest {
    /// Its number in the log.
    pub number: u64,
    /// Name of the client.
    pub client: String,
    /// The account whose key should sign.
    pub account: Address,
    /// Kind of request, as a policy names it.
    pub kind: String,
    /// The hash to sign, which an approval repeats.
    pub hash: B256,
    /// The rule that requires an approval.
    pub rule: String,
    /// When it expires, seconds since 1970.
    pub until: u64,
    /// Required approvals.
    pub needed: u8,
    /// People who have approved.
    pub approved_by: Vec<String>,
    /// The text for approvers.
    pub presentation: RequestPresentation,
}

/// The text that approvers read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestPresentation {
    /// What would be signed, in one line.
    pub title: String,
    /// The details.
    pub lines: Vec<PresentationLine>,
    /// Names of the warnings.
    pub marks: Vec<String>,
}

/// A detail of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresentationLine {
    /// The label.
    pub label: String,
    /// The value.
    pub value: String,
}

/// A wallet of the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignerWallet {
    /// Name in operations.
    pub url: String,
    /// `locked`, `unlocked`, or what the device says.
    pub status: String,
    /// Why it can't be used.
    pub failure: Option<String>,
    /// Its accounts.
    pub accounts: Vec<Address>,
}

/// The answer to a derivation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Derived {
    /// The account.
    Account(Address),
    /// It was derived; the wallet does not return its address.
    Done(bool),
}

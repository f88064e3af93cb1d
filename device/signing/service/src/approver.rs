//! JSON-RPC for approvers, each on their own socket: `approvals_list`, `approvals_show`, `approvals_approve`,
//! `approvals_deny`, `approvals_login`, `policy_reload`; and for hardware wallets: `wallets_list`, `wallets_open`,
//! `wallets_derive`.

use std::sync::Arc;

use alloy_primitives::B256;
use serde::de::DeserializeOwned;
use serde_json::json;
use tenon_api::{
    BusError, SecretText,
    messages::{Wallet, WalletAnswer, WalletOperation, WalletStatus},
};
use tenon_bus::CallContext;
use tenon_ipc::{Caller, NoNotifications, RawCall, RpcService};
use tenon_sdk::{
    Failure,
    error_texts::{device_status_text, wallet_failure_text},
};

use crate::{ApproveError, Page, Service, methods};

/// The RPC service of one approver.
#[derive(Clone)]
pub struct ApproverService {
    service: Service,
    approver: Arc<str>,
    page: Option<Page>,
}

impl ApproverService {
    /// Creates the service of an approver. With a page it issues logins.
    pub fn new(service: Service, approver: &str, page: Option<Page>) -> Self {
        Self { service, approver: approver.into(), page }
    }

    async fn answer(
        &self,
        method: &str,
        params: Option<&str>,
        context: &CallContext,
    ) -> Result<serde_json::Value, Failure> {
        let missing = |number: u64| Failure::from(ApproveError::NotWaiting(number));
        match method {
            "approvals_list" => json_of(&self.service.approvals().list()),
            "approvals_show" => {
                let (number,) = arguments(params)?;
                let waiting = self.service.approvals().get(number).ok_or_else(|| missing(number))?;
                self.service.note_shown(number, "command line").await?;
                json_of(&waiting)
            }
            "approvals_approve" => {
                let (number, hash): (u64, B256) = arguments(params)?;
                self.service.approve(&self.approver, number, hash).await?;
                Ok(json!(self.service.approvals().get(number).map_or(0, |waiting| {
                    waiting.needed.saturating_sub(u8::try_from(waiting.approved_by.len()).unwrap_or(u8::MAX))
                })))
            }
            "approvals_deny" => {
                let (number,) = arguments(params)?;
                self.service.refuse(&self.approver, number)?;
                Ok(json!(true))
            }
            "approvals_login" => {
                let page = self.page.as_ref().ok_or_else(|| Failure::server("the settings have no `[page]`"))?;
                Ok(json!(page.login_of(&self.approver)))
            }
            "policy_reload" => json_of(&self.service.reload().await?),
            "policy_hash" => json_of(&self.service.policy().hash()),
            "wallets_list" => Ok(self.service.wallets().wallets().iter().map(wallet_json).collect()),
            "wallets_open" => {
                let (url, secret): (String, SecretText) = arguments(params)?;
                let operation = WalletOperation::Open { passphrase: secret };
                self.service.wallets().use_wallet(&url, operation, context).await.map_err(BusError::from)?;
                Ok(json!(true))
            }
            "wallets_derive" => {
                let (url, path): (String, String) = arguments(params)?;
                let operation = WalletOperation::Derive { path, is_pinned: true };
                match self.service.wallets().use_wallet(&url, operation, context).await.map_err(BusError::from)? {
                    WalletAnswer::Account(account) => json_of(&account.address),
                    WalletAnswer::Done | WalletAnswer::Mnemonic(_) => Ok(json!(true)),
                }
            }
            _ => Err(methods::unknown_to_approvers(method)),
        }
    }
}

/// JSON of a wallet: URL, status, failure and accounts.
fn wallet_json(wallet: &Wallet) -> serde_json::Value {
    let failure = wallet.failure.as_ref();
    let status = match &wallet.status {
        WalletStatus::Locked => "locked",
        WalletStatus::Unlocked => "unlocked",
        WalletStatus::Device(status) => &device_status_text(status, failure),
        WalletStatus::Text(text) => text,
    };
    let failure = failure.map(wallet_failure_text);
    let accounts: Vec<_> = wallet.accounts.iter().map(|account| account.address).collect();
    json!({ "url": wallet.url, "status": status, "failure": failure, "accounts": accounts })
}

fn json_of(value: &impl serde::Serialize) -> Result<serde_json::Value, Failure> {
    serde_json::to_value(value).map_err(|error| Failure::server(error.to_string()))
}

/// Parses a list of arguments as a tuple.
fn arguments<T: DeserializeOwned>(params: Option<&str>) -> Result<T, Failure> {
    serde_json::from_str(params.unwrap_or("[]")).map_err(|error| Failure::invalid_params(error.to_string()))
}

impl From<ApproveError> for Failure {
    fn from(error: ApproveError) -> Self {
        Self::server(error.to_string())
    }
}

impl RpcService for ApproverService {
    type Json = Vec<u8>;
    type Notifications = NoNotifications<Vec<u8>>;

    async fn serve_call(&self, call: &mut RawCall<'_>, caller: &Caller) -> Result<Vec<u8>, Failure> {
        let answer = self.answer(call.method(), call.params(), &caller.context).await?;
        serde_json::to_vec(&answer).map_err(|error| Failure::server(error.to_string()))
    }

    fn only_reads(&self, method: &str) -> bool {
        matches!(method, "approvals_list" | "policy_hash" | "wallets_list")
    }

    /// All calls are wiped, because even a call of a misspelt `wallets_open` contains a passphrase.
    fn takes_secrets(&self, _method: &[u8]) -> bool {
        true
    }

    async fn subscribe(
        &self,
        namespace: &str,
        _kind: &str,
        _params: Option<&str>,
        _caller: &Caller,
    ) -> Result<Self::Notifications, Failure> {
        Err(methods::unknown_to_approvers(&format!("{namespace}_subscribe")))
    }
}

//! Methods for clients.

mod consensus;
mod decoding;
mod ethereum;

use alloy_primitives::Bytes;
use tenon_bus::CallContext;
use tenon_sdk::{Failure, FailureCode};
use tenon_signing_policy::Subject;

use crate::{
    Service, ServiceError,
    service::{SignatureRequest, message_bytes},
};
pub(crate) use decoding::Arguments;

/// The methods as an OpenRPC document: the result of `rpc_discover`.
pub const DISCOVERY: &str = include_str!("discovery.json");

/// Version of the request and response formats that `account_version` returns.
const ACCOUNT_VERSION: &str = "6.1.0";

/// Answers a method.
///
/// # Errors
/// A failure for the client.
pub(crate) async fn answer(
    service: &Service,
    client: &str,
    method: &str,
    params: Option<&str>,
    context: &CallContext,
) -> Result<Vec<u8>, Failure> {
    if !only_reads(method) {
        service.count(client)?;
    }
    let arguments = Arguments::new(params)?;
    arguments.at_most(max_arguments(method))?;
    match method {
        "eth_accounts" | "account_list" => return to_json(&service.accounts()),
        "account_version" => return to_json(&ACCOUNT_VERSION),
        "rpc_discover" => return in_one_line(DISCOVERY),
        _ => {}
    }
    let ask = match takes_typed_data(method) {
        true => ask_on_scheduler(service, client, method, params).await?,
        false => ask(method, &arguments)?,
    };
    let subject = ask.subject.clone();
    let account = ask.account;
    let signed = service.sign(client, ask, context).await?;
    match subject {
        Subject::Transaction { transaction, .. } => {
            Ok(ethereum::signed_transaction(*transaction, account, signed.signature))
        }
        Subject::Validator(_) => to_json(&Bytes::copy_from_slice(&signed.signature.to_block_bytes())),
        _ => to_json(&message_bytes(&signed)),
    }
}

/// Whether a method may take typed data, which is slow to hash.
fn takes_typed_data(method: &str) -> bool {
    matches!(method, "eth_signTypedData_v4" | "eth_signTypedData" | "account_signTypedData" | "account_signData")
}

/// Like [`ask`], on another thread, so that hashing typed data does not block the thread that serves all clients.
async fn ask_on_scheduler(
    service: &Service,
    client: &str,
    method: &str,
    params: Option<&str>,
) -> Result<SignatureRequest, Failure> {
    let (method, params) = (method.to_owned(), params.map(str::to_owned));
    let asking = service.scheduler().run(client, move || ask(&method, &Arguments::new(params.as_deref())?));
    asking.await?
}

/// Maximum number of arguments of a known method.
fn max_arguments(method: &str) -> usize {
    match method {
        "eth_accounts" | "account_list" | "account_version" | "rpc_discover" => 0,
        "eth_signTransaction" | "account_signTransaction" => 1,
        "eth_sign" | "eth_signTypedData_v4" | "eth_signTypedData" | "account_signTypedData" => 2,
        "account_signData" => 3,
        _ if method.starts_with("consensus_") => 3,
        _ => usize::MAX,
    }
}

/// Rewrites JSON as a single line, because clients of the socket separate responses by line.
fn in_one_line(json: &str) -> Result<Vec<u8>, Failure> {
    let value: serde_json::Value = serde_json::from_str(json).map_err(|error| Failure::server(error.to_string()))?;
    to_json(&value)
}

/// Parses the arguments of a signing method.
///
/// # Errors
/// A failure for the client: the method does not exist or its arguments are not valid.
pub(crate) fn ask(method: &str, arguments: &Arguments<'_>) -> Result<SignatureRequest, Failure> {
    match method {
        "eth_sign" => ethereum::message(arguments),
        "eth_signTransaction" | "account_signTransaction" => ethereum::transaction(arguments),
        "eth_signTypedData_v4" | "eth_signTypedData" | "account_signTypedData" => ethereum::typed_data_of(arguments),
        "account_signData" => ethereum::data(arguments),
        "consensus_signSeal" => consensus::seal(arguments),
        "consensus_signVote" => consensus::vote(arguments),
        "consensus_signTimeout" => consensus::timeout(arguments),
        "consensus_signSyncInfo" => consensus::sync_info(arguments),
        _ => Err(unknown_method(method)),
    }
}

/// Whether a method signs nothing, so that such calls in a batch need no order.
pub(crate) fn only_reads(method: &str) -> bool {
    matches!(method, "eth_accounts" | "account_list" | "account_version" | "rpc_discover")
}

/// The failure for a method that clients don't have.
pub(crate) fn unknown_method(method: &str) -> Failure {
    match method.split_once('_') {
        Some(("approvals" | "policy" | "wallets", _)) => {
            refused_method(method, "is only for approvers, on their own sockets")
        }
        _ => Failure::method_not_found(method),
    }
}

/// The failure for a method that approvers don't have.
pub(crate) fn unknown_to_approvers(method: &str) -> Failure {
    match method.split_once('_') {
        Some(("eth" | "account" | "consensus", _)) => {
            refused_method(method, "is only for clients, on their own sockets")
        }
        _ => Failure::method_not_found(method),
    }
}

fn refused_method(method: &str, reason: &str) -> Failure {
    Failure { code: FailureCode::METHOD_NOT_FOUND, ..Failure::server(format!("the method {method} {reason}")) }
}

fn to_json(value: &impl serde::Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(value).map_err(|error| Failure::server(error.to_string()))
}

/// Signs bytes for a client over HTTP.
///
/// # Errors
/// [`ServiceError`].
pub(crate) async fn sign_raw(
    service: &Service,
    client: &str,
    account: alloy_primitives::Address,
    data: Vec<u8>,
    context: &CallContext,
) -> Result<Bytes, ServiceError> {
    service.count(client)?;
    let ask = SignatureRequest { account, subject: crate::raw_data::subject_of(data)?, typed_data: None };
    Ok(message_bytes(&service.sign(client, ask, context).await?))
}

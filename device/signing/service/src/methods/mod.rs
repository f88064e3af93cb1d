//! The methods of clients.

mod consensus;
mod decoding;
mod ethereum;

use tenon_api::{Failure, FailureCode};
use tenon_bus::CallContext;
use tenon_signing_policy::Subject;

use crate::{
    Service, ServiceError, Signed,
    service::{Ask, message_bytes},
};
use decoding::Arguments;

/// The methods as an OpenRPC document: the answer of `rpc_discover`.
pub const DISCOVERY: &str = include_str!("discovery.json");

/// The form of requests and answers that `account_version` names.
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
    let arguments = Arguments::new(params)?;
    let ask = match method {
        "eth_accounts" | "account_list" => return to_json(&service.accounts()),
        "account_version" => return to_json(&ACCOUNT_VERSION),
        "rpc_discover" => return Ok(DISCOVERY.as_bytes().to_vec()),
        "eth_signTransaction" | "account_signTransaction" => {
            return sign_transaction(service, client, &arguments, context).await;
        }
        "eth_sign" => ethereum::message(&arguments)?,
        "eth_signTypedData_v4" | "eth_signTypedData" | "account_signTypedData" => ethereum::typed_data_of(&arguments)?,
        "account_signData" => ethereum::data(&arguments)?,
        "consensus_signSeal" => consensus::seal(&arguments)?,
        "consensus_signVote" => consensus::vote(&arguments)?,
        "consensus_signTimeout" => consensus::timeout(&arguments)?,
        "consensus_signSyncInfo" => consensus::sync_info(&arguments)?,
        _ => return Err(unknown_method(method)),
    };
    let is_consensus = matches!(ask.subject, Subject::Validator(_));
    let signed = service.sign(client, ask, context).await?;
    let bytes = match is_consensus {
        true => signed.signature.to_block_bytes().to_vec().into(),
        false => message_bytes(&signed),
    };
    to_json(&bytes)
}

/// Whether a method signs nothing: such calls of a batch need no order.
pub(crate) fn only_reads(method: &str) -> bool {
    matches!(method, "eth_accounts" | "account_list" | "account_version" | "rpc_discover")
}

/// The failure for a method that is not there.
pub(crate) fn unknown_method(method: &str) -> Failure {
    let mut failure = Failure::server(format!("the method {method} does not exist/is not available"));
    failure.code = FailureCode::METHOD_NOT_FOUND;
    failure
}

async fn sign_transaction(
    service: &Service,
    client: &str,
    arguments: &Arguments<'_>,
    context: &CallContext,
) -> Result<Vec<u8>, Failure> {
    let ask = ethereum::transaction(arguments)?;
    let Subject::Transaction { transaction, .. } = &ask.subject else { return Err(unknown_method("eth_sign")) };
    let (account, unsigned) = (ask.account, transaction.clone());
    let Signed { signature, .. } = service.sign(client, ask, context).await?;
    Ok(ethereum::signed_transaction(*unsigned, account, signature))
}

fn to_json(value: &impl serde::Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(value).map_err(|error| Failure::server(error.to_string()))
}

/// The request of a client over HTTP for the signature of bytes.
///
/// # Errors
/// [`ServiceError`].
pub(crate) async fn sign_raw(
    service: &Service,
    client: &str,
    account: alloy_primitives::Address,
    data: Vec<u8>,
    context: &CallContext,
) -> Result<alloy_primitives::Bytes, ServiceError> {
    let ask = Ask { account, subject: crate::raw_data::subject_of(data)?, typed_data: None };
    Ok(message_bytes(&service.sign(client, ask, context).await?))
}

//! Signing and sending with a password (`docs/spec/rpc-node.md` 6.2).

use tenon_sdk::{
    prelude::*,
    shapes::{CallArguments, JsonWriter},
    transactions::{fill, signed_json},
};

use crate::PersonalContext;

pub(crate) async fn send_transaction(
    context: PersonalContext,
    arguments: CallArguments,
    password: SecretText,
) -> Result<B256, Failure> {
    require_account(&context, arguments.from).await?;
    let chain_id = context.call(GetChainInfo).await?.chain_id;
    let request = fill(&context, arguments, chain_id).await?;
    let hash = context.call(SendTransaction { request, password: Some(password) }).await.or_failure()?;
    // Clients look for the receipt right after the answer. Even if the wait fails, the transaction is in the pool.
    let _ = context.call(AwaitSealing { hash }).await;
    Ok(hash)
}

/// Only value and chain id have defaults: the caller must have given all values that affect money.
pub(crate) async fn sign_transaction(
    context: PersonalContext,
    arguments: CallArguments,
    password: SecretText,
) -> Result<JsonWriter, Failure> {
    let has_caps = arguments.max_fee_per_gas.is_some() && arguments.max_priority_fee_per_gas.is_some();
    let missing = if arguments.from.is_none() {
        Some("sender not specified")
    } else if arguments.gas.is_none() {
        Some("gas not specified")
    } else if arguments.gas_price.is_none() && !has_caps {
        Some("missing gasPrice or maxFeePerGas/maxPriorityFeePerGas")
    } else if arguments.nonce.is_none() {
        Some("nonce not specified")
    } else {
        None
    };
    if let Some(missing) = missing {
        return Err(Failure::server(missing));
    }
    require_account(&context, arguments.from).await?;
    let chain_id = context.call(GetChainInfo).await?.chain_id;
    // Prices, gas and nonce are given, so this only checks them and adds the rest.
    let request = fill(&context, arguments, chain_id).await?;
    let signed = context.call(SignTransaction { request: request.clone(), password: Some(password) }).await?;
    signed_json(&request, &signed)
}

/// Browser wallets send no password: the account must be unlocked then.
pub(crate) async fn sign(
    context: PersonalContext,
    message: Bytes,
    address: Address,
    password: Option<SecretText>,
) -> Result<Bytes, Failure> {
    context.call(SignMessage { address, message, password }).await
}

pub(crate) async fn recover(context: PersonalContext, message: Bytes, signature: Bytes) -> Result<Address, Failure> {
    context.call(RecoverSigner { message, signature }).await
}

async fn require_account(context: &PersonalContext, address: Option<Address>) -> Result<(), Failure> {
    let accounts = context.call(ListAccounts).await?;
    match address.is_some_and(|address| accounts.contains(&address)) {
        true => Ok(()),
        false => Err(Failure::server("unknown account")),
    }
}

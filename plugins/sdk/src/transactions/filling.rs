//! Fills in omitted fields of a transaction: `docs/spec/rpc-eth.md` 12.2.

use crate::Failure;
use alloy_primitives::U256;
use tenon_api::{
    BlockId,
    messages::{BlockOverrides, CallRequest, DescribeSigner, EstimateGas, GetHead, GetPoolNonce, SuggestTip},
};

use crate::{Context, error_texts::RefusableAnswer as _, shapes::CallArguments};

/// Completes a transaction except for its nonce, which the node may choose when the transaction is sent.
///
/// # Errors
/// `-32000` with the reference's text if members are missing or contradictory; those of the estimate.
pub async fn fill<S: Send + Sync + 'static>(
    context: &Context<S>,
    arguments: CallArguments,
    chain_id: u64,
) -> Result<CallRequest, Failure> {
    let mut request = fill_all_but_gas(context, arguments, chain_id).await?;
    if request.gas.is_none() {
        request.gas = Some(estimate(context, &request).await?);
    }
    Ok(request)
}

/// Completes a call as the reference does before it computes the access list: as for sending, but with the maximum gas
/// of a call, and with the nonce that a creation would have.
///
/// # Errors
/// As [`fill`], except those of the estimate.
pub async fn fill_for_access_list<S: Send + Sync + 'static>(
    context: &Context<S>,
    arguments: CallArguments,
    chain_id: u64,
) -> Result<CallRequest, Failure> {
    with_nonce(context, fill_all_but_gas(context, arguments, chain_id).await?).await
}

/// Sets the nonce, if missing, to the one that the pool expects next from the sender.
///
/// # Errors
/// Those of the pool.
pub async fn with_nonce<S: Send + Sync + 'static>(
    context: &Context<S>,
    mut request: CallRequest,
) -> Result<CallRequest, Failure> {
    if request.nonce.is_none() {
        let address = request.from.unwrap_or_default();
        request.nonce = Some(context.call(GetPoolNonce { address }).await?);
    }
    Ok(request)
}

async fn fill_all_but_gas<S: Send + Sync + 'static>(
    context: &Context<S>,
    arguments: CallArguments,
    own_id: u64,
) -> Result<CallRequest, Failure> {
    let input_differs = matches!((&arguments.data, &arguments.input), (Some(data), Some(input)) if data != input);
    let chain_id = arguments.chain_id;
    let mut request = arguments.into_request()?;
    fill_prices(context, &mut request).await?;
    request.value.get_or_insert_default();
    if input_differs {
        return Err(Failure::server(
            "both \"data\" and \"input\" are set and not equal. Please use \"input\" to pass transaction call data",
        ));
    }
    if request.to.is_none() && request.input.is_empty() {
        return Err(Failure::server("contract creation without any data provided"));
    }
    if let Some(given) = chain_id.filter(|given| *given != U256::from(own_id)) {
        return Err(Failure::server(format!("chainId does not match node's (have={given}, want={own_id})")));
    }
    request.chain_id = Some(own_id);
    Ok(request)
}

async fn estimate<S: Send + Sync + 'static>(context: &Context<S>, request: &CallRequest) -> Result<u64, Failure> {
    let request = CallRequest { nonce: None, chain_id: None, ..request.clone() };
    let block_overrides = BlockOverrides::default();
    // Computed from the merged payload: here it does not matter whether the caller gave it as `data` or as `input`.
    let has_no_data = request.input.is_empty();
    let block = BlockId::LATEST;
    context
        .call(EstimateGas { request, block, state_overrides: Vec::new(), block_overrides, has_no_data })
        .await
        .or_failure()
}

async fn fill_prices<S: Send + Sync + 'static>(context: &Context<S>, request: &mut CallRequest) -> Result<(), Failure> {
    if let (Some(max_fee), Some(tip)) = (request.max_fee_per_gas, request.max_priority_fee_per_gas) {
        if max_fee.is_zero() {
            return Err(Failure::server("maxFeePerGas must be non-zero"));
        }
        return check_caps(max_fee, tip);
    }
    // After London the head has a base fee.
    let base_fee = context.call(GetHead).await?.header.base_fee_per_gas;
    match (request.gas_price, base_fee) {
        (Some(price), Some(_)) if price.is_zero() => {
            Err(Failure::server("gasPrice must be non-zero after EIP-1559 fork"))
        }
        (Some(_), _) => Ok(()),
        (None, Some(base_fee)) if signs_type_0_alone(context, request).await => {
            // The same price as `eth_gasPrice`.
            let tip = context.call(SuggestTip).await?;
            request.gas_price = Some(tip.saturating_add(U256::from(base_fee)));
            Ok(())
        }
        (None, Some(base_fee)) => fill_caps(context, request, U256::from(base_fee)).await,
        (None, None) if request.max_fee_per_gas.is_some() || request.max_priority_fee_per_gas.is_some() => {
            let message = "maxFeePerGas and maxPriorityFeePerGas are not valid before EIP-1559 is active";
            Err(Failure::server(message))
        }
        (None, None) => {
            request.gas_price = Some(context.call(SuggestTip).await?);
            Ok(())
        }
    }
}

/// Whether the caller left the type open and the sender is a device whose firmware supports no other type.
async fn signs_type_0_alone<S: Send + Sync + 'static>(context: &Context<S>, request: &CallRequest) -> bool {
    let is_open = request.max_fee_per_gas.is_none()
        && request.max_priority_fee_per_gas.is_none()
        && request.access_list.is_none()
        && request.authorization_list.is_none();
    match request.from.filter(|_| is_open) {
        // A node that does not describe signers cannot sign; complete the transaction nevertheless.
        Some(address) => {
            let described = context.call(DescribeSigner { address }).await;
            described.is_ok_and(|abilities| !abilities.signs_fee_market)
        }
        None => false,
    }
}

/// A missing tip becomes the suggested one; a missing fee cap allows the base fee to double.
async fn fill_caps<S: Send + Sync + 'static>(
    context: &Context<S>,
    request: &mut CallRequest,
    base_fee: U256,
) -> Result<(), Failure> {
    let tip = match request.max_priority_fee_per_gas {
        Some(tip) => tip,
        None => context.call(SuggestTip).await?,
    };
    let max_fee = request.max_fee_per_gas.unwrap_or_else(|| tip.saturating_add(base_fee.saturating_mul(U256::from(2))));
    check_caps(max_fee, tip)?;
    request.max_priority_fee_per_gas = Some(tip);
    request.max_fee_per_gas = Some(max_fee);
    Ok(())
}

fn check_caps(max_fee: U256, tip: U256) -> Result<(), Failure> {
    if max_fee < tip {
        return Err(Failure::server(format!("maxFeePerGas ({max_fee:#x}) < maxPriorityFeePerGas ({tip:#x})")));
    }
    Ok(())
}

//! Running the EVM: `docs/spec/rpc-eth.md` 10.

use tenon_sdk::{
    api::UnresolvedBlock,
    error_texts::{call_failure_text, unresolved_block_text},
    prelude::*,
    shapes::{BlockOverridesArgument, CallArguments, JsonWriter, StateOverridesArgument, write_access_list},
    transactions::fill_for_access_list,
};

use crate::{Answer, EthContext, block_or_latest, chain_info, deferred::Deferred};

/// Overrides of the block, which native chains do not have.
type BlockOverridesParam = Deferred<Option<BlockOverridesArgument>>;
/// Overrides of accounts.
type StateOverridesParam = Deferred<Option<StateOverridesArgument>>;

pub(crate) async fn call_contract(
    context: EthContext,
    mut arguments: CallArguments,
    block: Option<BlockParam>,
    state_overrides: StateOverridesParam,
    block_overrides: BlockOverridesParam,
) -> Answer {
    let block = block_or_latest(&context, block, 1).await?;
    let state_overrides = state_overrides.at(2)?.map(StateOverridesArgument::as_written).unwrap_or_default();
    let block_overrides = block_overrides_of(&context, block_overrides).await?;
    choose_sender(&context, &mut arguments).await?;
    let returned = context
        .call(Call { request: arguments.into_unchecked_request(), block, state_overrides, block_overrides })
        .await
        .or_failure()?;
    let mut json = JsonWriter::with_capacity(returned.len() * 2 + 4);
    json.data(&returned);
    Ok(json)
}

pub(crate) async fn estimate_gas(
    context: EthContext,
    mut arguments: CallArguments,
    block: Option<BlockParam>,
    state_overrides: StateOverridesParam,
    block_overrides: BlockOverridesParam,
) -> Result<Quantity, Failure> {
    let block = block_or_latest(&context, block, 1).await?;
    let state_overrides = state_overrides.at(2)?.map(StateOverridesArgument::as_written).unwrap_or_default();
    let block_overrides = block_overrides_of(&context, block_overrides).await?;
    choose_sender(&context, &mut arguments).await?;
    let has_no_data = arguments.has_no_data();
    let gas = context
        .call(EstimateGas {
            request: arguments.into_unchecked_request(),
            block,
            state_overrides,
            block_overrides,
            has_no_data,
        })
        .await
        .or_failure()?;
    Ok(Quantity(gas))
}

pub(crate) async fn create_access_list(
    context: EthContext,
    mut arguments: CallArguments,
    block: Option<BlockParam>,
    state_overrides: StateOverridesParam,
) -> Answer {
    let dialect = crate::dialect(&context).await?;
    if !dialect.accepts_new_override_parameters && state_overrides.was_given() {
        return Err(Failure::too_many_arguments(2));
    }
    let block = block_or_latest(&context, block, 1).await?;
    let request = if dialect.completes_access_list_call {
        require_block(&context, block).await?;
        choose_sender(&context, &mut arguments).await?;
        fill_for_access_list(&context, arguments, chain_info(&context).await?.chain_id).await?
    } else {
        arguments.into_unchecked_request()
    };
    let state_overrides = state_overrides.at(2)?.map(StateOverridesArgument::as_written).unwrap_or_default();
    let reply = context.call(CreateAccessList { request, block, state_overrides }).await.or_failure()?;
    let slots: usize = reply.access_list.iter().map(|item| item.storage_keys.len()).sum();
    let mut json = JsonWriter::with_capacity(slots * 70 + reply.access_list.len() * 90 + 120);
    json.begin_object();
    json.key("accessList");
    write_access_list(&mut json, &reply.access_list);
    if let Some(failure) = &reply.failure {
        json.key("error").string(&call_failure_text(failure));
    }
    json.key("gasUsed").quantity(reply.gas_used);
    json.end_object();
    Ok(json)
}

async fn block_overrides_of(context: &EthContext, given: BlockOverridesParam) -> Result<BlockOverrides, Failure> {
    if given.was_given() && !crate::dialect(context).await?.accepts_new_override_parameters {
        return Err(Failure::too_many_arguments(3));
    }
    Ok(given.at(3)?.map(|overrides| overrides.0).unwrap_or_default())
}

/// Makes the node's first account, if there is one, the sender of a call without sender, on chains where the reference
/// does so.
async fn choose_sender(context: &EthContext, arguments: &mut CallArguments) -> Result<(), Failure> {
    let has_no_sender = arguments.from.is_none_or(|from| from.is_zero());
    if has_no_sender && crate::dialect(context).await?.calls_from_first_account {
        arguments.from = context.call(ListAccounts).await?.first().copied();
    }
    Ok(())
}

/// Refuses a block that does not exist, which the reference checks before the call.
async fn require_block(context: &EthContext, block: BlockId) -> Result<(), Failure> {
    let missing = match block {
        BlockId::Hash { .. } => UnresolvedBlock::UnknownHash,
        BlockId::Tag(_) | BlockId::Number(_) => UnresolvedBlock::UnknownNumber,
    };
    let found = context.call(GetHeader { block }).await?;
    found.map(drop).ok_or_else(|| Failure::server(unresolved_block_text(missing)))
}

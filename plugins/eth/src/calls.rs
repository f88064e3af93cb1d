//! Running the EVM: `spec/rpc-eth.md` 10.

use tenon_sdk::{
    prelude::*,
    shapes::{BlockOverridesArgument, CallArguments, JsonWriter, StateOverridesArgument, write_access_list},
};

use crate::{Answer, EthContext, block_or_latest};

pub(crate) async fn call(
    context: EthContext,
    arguments: CallArguments,
    block: Option<BlockParam>,
    state_overrides: Option<StateOverridesArgument>,
    block_overrides: Option<BlockOverridesArgument>,
) -> Answer {
    let returned = context
        .call(Call {
            request: arguments.into_request()?,
            block: block_or_latest(block)?,
            state_overrides: state_overrides
                .map(StateOverridesArgument::into_overrides)
                .transpose()?
                .unwrap_or_default(),
            block_overrides: block_overrides.map(|overrides| overrides.0).unwrap_or_default(),
        })
        .await?;
    let mut json = JsonWriter::with_capacity(returned.len() * 2 + 4);
    json.data(&returned);
    Ok(json)
}

pub(crate) async fn estimate_gas(
    context: EthContext,
    arguments: CallArguments,
    block: Option<BlockParam>,
    state_overrides: Option<StateOverridesArgument>,
    block_overrides: Option<BlockOverridesArgument>,
) -> Result<Quantity, Failure> {
    let gas = context
        .call(EstimateGas {
            request: arguments.into_request()?,
            block: block_or_latest(block)?,
            state_overrides: state_overrides
                .map(StateOverridesArgument::into_overrides)
                .transpose()?
                .unwrap_or_default(),
            block_overrides: block_overrides.map(|overrides| overrides.0).unwrap_or_default(),
        })
        .await?;
    Ok(Quantity(gas))
}

pub(crate) async fn create_access_list(
    context: EthContext,
    arguments: CallArguments,
    block: Option<BlockParam>,
    state_overrides: Option<StateOverridesArgument>,
) -> Answer {
    let reply = context
        .call(CreateAccessList {
            request: arguments.into_request()?,
            block: block_or_latest(block)?,
            state_overrides: state_overrides
                .map(StateOverridesArgument::into_overrides)
                .transpose()?
                .unwrap_or_default(),
        })
        .await?;
    let slots: usize = reply.access_list.iter().map(|item| item.storage_keys.len()).sum();
    let mut json = JsonWriter::with_capacity(slots * 70 + reply.access_list.len() * 90 + 120);
    json.begin_object();
    json.key("accessList");
    write_access_list(&mut json, &reply.access_list);
    if let Some(error) = &reply.error {
        json.key("error").string(error);
    }
    json.key("gasUsed").quantity(reply.gas_used);
    json.end_object();
    Ok(json)
}

//! State and block overrides of calls.

use alloy_primitives::{Address, U256};
use revm::{context::BlockEnv, context_interface::block::BlobExcessGasAndPrice};
use tenon_api::messages::{AccountOverride, BlockOverrides, CallContradiction};
use tenon_execution_interface::{BlockState, MovedPrecompiles, PrecompileSet};
use tenon_simulation_interface::{CallError, write_override};

/// Applies state overrides, and returns the addresses of precompiled contracts.
///
/// # Errors
/// Contradictory overrides; the database failed, or the caller's memory is used up.
pub(crate) fn apply_account_overrides(
    overrides: &[(Address, AccountOverride)],
    precompiles: PrecompileSet,
    state: &mut BlockState,
) -> Result<MovedPrecompiles, CallError> {
    let mut moved = MovedPrecompiles::new(precompiles);
    // Decoded, they are larger than the message that they came in.
    state.hold(size_of_val(overrides))?;
    for (address, account) in overrides {
        if let Some(target) = account.move_precompile_to {
            if !moved.is_precompile(*address) {
                return Err(CallContradiction::NotPrecompile { address: *address }.into());
            }
            if overrides.iter().any(|(other, _)| *other == target) {
                return Err(CallContradiction::AlreadyOverridden { target }.into());
            }
            moved.relocate(*address, target);
        } else {
            moved.remove(*address);
        }
        apply_account_override(*address, account, state)?;
    }
    Ok(moved)
}

fn apply_account_override(
    address: Address,
    account: &AccountOverride,
    state: &mut BlockState,
) -> Result<(), CallError> {
    if account.state.is_some() && account.state_diff.is_some() {
        return Err(CallContradiction::BothStates { address }.into());
    }
    if account.state.is_some() {
        state.clear_storage(address)?;
    }
    Ok(write_override(address, account, state)?)
}

/// Applies block overrides.
pub(crate) fn apply_block_overrides(overrides: &BlockOverrides, block: &mut BlockEnv) {
    if let Some(number) = overrides.number {
        block.number = number;
    }
    if let Some(difficulty) = overrides.difficulty {
        block.difficulty = difficulty;
    }
    if let Some(time) = overrides.time {
        block.timestamp = U256::from(time);
    }
    if let Some(gas_limit) = overrides.gas_limit {
        block.gas_limit = gas_limit;
    }
    if let Some(fee_recipient) = overrides.fee_recipient {
        block.beneficiary = fee_recipient;
    }
    if let Some(prev_randao) = overrides.prev_randao {
        block.prevrandao = Some(prev_randao);
    }
    if let Some(base_fee) = overrides.base_fee_per_gas {
        block.basefee = base_fee.saturating_to();
    }
    if let Some(blob_base_fee) = overrides.blob_base_fee {
        let excess_blob_gas = block.blob_excess_gas_and_price.map_or(0, |blob| blob.excess_blob_gas);
        let blob_gasprice = blob_base_fee.saturating_to();
        block.blob_excess_gas_and_price = Some(BlobExcessGasAndPrice { excess_blob_gas, blob_gasprice });
    }
}

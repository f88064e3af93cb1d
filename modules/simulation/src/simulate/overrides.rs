//! Overrides of accounts in a simulation. Unlike the overrides of a call, they must be included in the state root.

use alloy_primitives::{Address, U256};
use tenon_api::messages::{AccountOverride, CallContradiction};
use tenon_execution_interface::{BlockState, MovedPrecompiles, PrecompileSet, widen};
use tenon_simulation_interface::CallError;

/// Applies overrides, ascending by address, and returns the resulting addresses of precompiled contracts.
///
/// # Errors
/// Contradictory overrides; the database failed, or the caller's memory is used up.
pub(super) fn apply(
    mut overrides: Vec<(Address, AccountOverride)>,
    precompiles: PrecompileSet,
    state: &mut BlockState,
) -> Result<MovedPrecompiles, CallError> {
    let mut moved = MovedPrecompiles::new(precompiles);
    // If there are several overrides of one account, the last one applies.
    overrides.reverse();
    overrides.sort_by_key(|(address, _)| *address);
    overrides.dedup_by_key(|(address, _)| *address);
    let addresses: Vec<Address> = overrides.iter().map(|(address, _)| *address).collect();
    for (address, account) in overrides {
        match account.move_precompile_to {
            Some(_) if !moved.is_precompile(address) => {
                return Err(CallContradiction::NotPrecompile { address }.into());
            }
            Some(target) if addresses.binary_search(&target).is_ok() => {
                return Err(CallContradiction::AlreadyOverridden { target }.into());
            }
            Some(target) => moved.relocate(address, target),
            None => moved.remove(address),
        }
        apply_to_account(address, &account, state)?;
    }
    Ok(moved)
}

/// Applies an override. An empty override does not create the account.
fn apply_to_account(address: Address, account: &AccountOverride, state: &mut BlockState) -> Result<(), CallError> {
    if account.state.is_some() && account.state_diff.is_some() {
        return Err(CallContradiction::BothStates { address }.into());
    }
    if let Some(code) = &account.code {
        state.set_code(address, code.clone())?;
    }
    let has_slots = account.state_diff.as_ref().is_some_and(|slots| !slots.is_empty());
    if account.nonce.is_some() || account.balance.is_some() || account.state.is_some() || has_slots {
        state.update(address, |info| {
            info.nonce = account.nonce.unwrap_or(info.nonce);
        })?;
        if let Some(balance) = account.balance {
            state.write_balance(address, widen(balance))?;
        }
    }
    if account.state.is_some() {
        state.clear_storage(address)?;
    }
    for (slot, value) in account.state.iter().chain(&account.state_diff).flatten() {
        state.write_slot(address, U256::from_be_bytes(slot.0), U256::from_be_bytes(value.0))?;
    }
    Ok(())
}

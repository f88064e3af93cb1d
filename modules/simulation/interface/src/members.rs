//! Members of call objects and overrides that families treat alike.

use alloy_primitives::{Address, U256};
use revm::context::transaction::{AccessList, AccessListItem as EvmAccessListItem};
use tenon_api::{
    AccessListItem, StoreError,
    messages::{AccountOverride, CallContradiction, CallRequest},
};
use tenon_execution_interface::{BlockState, widen};

/// A gas limit that means unlimited: half of the number space, so that sums do not overflow.
pub const UNBOUNDED_GAS: u64 = i64::MAX.unsigned_abs();

/// The gas limit of a call that requests this much, limited by `cap`; a cap of zero means none.
pub fn bounded_gas(asked: Option<u64>, cap: u64) -> u64 {
    let cap = if cap == 0 { UNBOUNDED_GAS } else { cap };
    asked.unwrap_or(cap).min(cap)
}

/// Refuses a call that gives both kinds of prices.
///
/// # Errors
/// [`CallContradiction::BothPrices`].
pub fn check_prices(request: &CallRequest) -> Result<(), CallContradiction> {
    let has_fee_caps = request.max_fee_per_gas.is_some() || request.max_priority_fee_per_gas.is_some();
    if request.gas_price.is_some() && has_fee_caps {
        return Err(CallContradiction::BothPrices);
    }
    Ok(())
}

/// Applies an override to an account.
///
/// # Errors
/// The database failed, or the caller's memory is used up.
pub fn write_override(address: Address, account: &AccountOverride, state: &mut BlockState) -> Result<(), StoreError> {
    if let Some(code) = &account.code {
        state.set_code(address, code.clone())?;
    }
    state.update(address, |info| {
        info.nonce = account.nonce.unwrap_or(info.nonce);
    })?;
    if let Some(balance) = account.balance {
        state.write_balance(address, widen(balance))?;
    }
    for (slot, value) in account.state.iter().chain(&account.state_diff).flatten() {
        state.set_storage(address, U256::from_be_bytes(slot.0), U256::from_be_bytes(value.0))?;
    }
    Ok(())
}

/// Converts an access list for messages.
pub fn access_list_items(list: &AccessList) -> Vec<AccessListItem> {
    let item =
        |item: &EvmAccessListItem| AccessListItem { address: item.address, storage_keys: item.storage_keys.clone() };
    list.0.iter().map(item).collect()
}

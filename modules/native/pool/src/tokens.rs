//! Tokens whose deposits pay for transactions to them (`docs/spec/chain.md` 3.5, 9.2 rule 11, 10.4).

use std::collections::BTreeMap;

use tenon_api::{Address, B256, StateReader, StoreError, U256};
use tenon_chain::{element_slot, mapping_slot, variable_slot as slot};

/// `tokens` and `tokensState` of the issuer contract.
const TOKENS: u64 = 1;
const TOKENS_STATE: u64 = 2;
/// `balances` and `minFee` of a token.
const BALANCES: u64 = 0;
const MIN_FEE: u64 = 1;
/// Maximum number of tokens that are read; each costs its issuer a deposit.
const MAX_TOKENS: u64 = 1 << 20;

/// The amount that every registered token can pay, wei.
pub(super) fn capacities(issuer: Address, state: &dyn StateReader) -> Result<BTreeMap<Address, U256>, StoreError> {
    let count = state.storage(issuer, slot(TOKENS))?;
    let count = u64::try_from(count).unwrap_or(MAX_TOKENS).min(MAX_TOKENS);
    let mut capacities = BTreeMap::new();
    for index in 0..count {
        let element = state.storage(issuer, element_slot(slot(TOKENS), index))?;
        if !element.is_zero() {
            let token = Address::from_word(B256::from(element));
            capacities.insert(token, state.storage(issuer, mapping_slot(token.into_word(), U256::from(TOKENS_STATE)))?);
        }
    }
    Ok(capacities)
}

/// Returns whether the sender's balance of the token covers the token's fee. A sender without any of the token passes:
/// the call will fail and cost it nothing.
///
/// The amount that the call transfers is ignored, contrary to the specification: the reference compares selectors with
/// empty constants (recorded pool of the chain `local`, submission 38).
pub(super) fn can_pay_fee(sender: Address, token: Address, state: &dyn StateReader) -> Result<bool, StoreError> {
    let balance = state.storage(token, mapping_slot(sender.into_word(), U256::from(BALANCES)))?;
    Ok(balance.is_zero() || balance >= state.storage(token, slot(MIN_FEE))?)
}

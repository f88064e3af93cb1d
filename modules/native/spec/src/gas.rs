//! Fees of native chains: the base fee, and gas that a transaction costs before execution.

use tenon_api::{Transaction, TransactionPayload};
use tenon_chain::spec::{
    ACCESS_LIST_ADDRESS_GAS, ACCESS_LIST_KEY_GAS, AUTHORIZATION_GAS, CREATION_GAS, NONZERO_BYTE_GAS, TRANSACTION_GAS,
    ZERO_BYTE_GAS, initcode_gas,
};

/// Base fee of every native block with a base fee, wei (`docs/spec/chain.md` 1.6).
pub const NATIVE_BASE_FEE: u64 = 12_500_000_000;

/// Intrinsic gas of a transaction on a native chain (`docs/spec/chain.md` 2.4 step 8). A nonzero data byte costs 68 on
/// every fork. Init code costs gas from `eip1559` on; before that fork no transaction has an access list. Saturates.
pub fn native_intrinsic_gas(transaction: &Transaction, has_eip1559: bool) -> u64 {
    let nonzero = transaction.input.iter().filter(|byte| **byte != 0).count() as u64;
    let zero = transaction.input.len() as u64 - nonzero;
    let mut gas = TRANSACTION_GAS + zero * ZERO_BYTE_GAS + nonzero * NONZERO_BYTE_GAS;
    if transaction.to.is_none() {
        gas += CREATION_GAS;
        if has_eip1559 {
            gas += initcode_gas(transaction.input.len());
        }
    }
    for item in transaction.access_list() {
        let keys = item.storage_keys.len() as u64;
        gas = gas.saturating_add(ACCESS_LIST_ADDRESS_GAS + ACCESS_LIST_KEY_GAS.saturating_mul(keys));
    }
    if let TransactionPayload::SetCode { authorization_list, .. } = &transaction.payload {
        gas = gas.saturating_add(AUTHORIZATION_GAS.saturating_mul(authorization_list.len() as u64));
    }
    gas
}

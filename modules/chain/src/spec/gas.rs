//! Gas that a transaction costs before execution, and the gas limits that a block may have.

use tenon_api::{Header, Transaction, TransactionPayload};

use super::{ChainSpec, Fork};

/// A block's gas limit differs from its parent's by less than `parent / 1024` (Yellow Paper 4.3.4).
pub const GAS_LIMIT_BOUND_DIVISOR: u64 = 1024;
/// Minimum gas limit of a block.
pub const MIN_GAS_LIMIT: u64 = 5000;
/// Maximum gas limit of a block: it must fit a signed 64-bit integer.
pub const MAX_GAS_LIMIT: u64 = i64::MAX as u64;

impl ChainSpec {
    /// The gas limit nearest to `wanted` that a child of `parent` may have.
    pub fn nearest_gas_limit(&self, parent: &Header, wanted: u64) -> u64 {
        stepped_gas_limit(self.gas_limit_baseline(parent), wanted)
    }
}

/// A step from the parent's gas limit towards `wanted`: at most a 1024th of the parent's limit minus one, and never
/// below 5000 (`docs/spec/upgrades.md` 6).
pub fn stepped_gas_limit(parent_limit: u64, wanted: u64) -> u64 {
    let step = (parent_limit / GAS_LIMIT_BOUND_DIVISOR).saturating_sub(1);
    let lowest = parent_limit.saturating_sub(step).max(MIN_GAS_LIMIT);
    let highest = parent_limit.saturating_add(step).min(MAX_GAS_LIMIT).max(lowest);
    wanted.clamp(lowest, highest)
}

/// Maximum length of init code from Shanghai on, bytes (EIP-3860).
pub const MAX_INITCODE_SIZE: usize = 49_152;
/// Maximum gas of one transaction from Osaka on (EIP-7825).
pub const TRANSACTION_GAS_CAP: u64 = 1 << 24;

/// Gas of every transaction.
pub const TRANSACTION_GAS: u64 = 21_000;
/// Additional gas of a transaction that creates a contract (EIP-2).
pub const CREATION_GAS: u64 = 32_000;
/// Gas of a zero byte of data.
pub const ZERO_BYTE_GAS: u64 = 4;
/// Gas of a nonzero byte of data before Istanbul.
pub const NONZERO_BYTE_GAS: u64 = 68;
const NONZERO_BYTE_GAS_ISTANBUL: u64 = 16;
/// Gas of an address in an access list (EIP-2930).
pub const ACCESS_LIST_ADDRESS_GAS: u64 = 2_400;
/// Gas of a slot in an access list.
pub const ACCESS_LIST_KEY_GAS: u64 = 1_900;
/// Gas of an authorization (EIP-7702).
pub const AUTHORIZATION_GAS: u64 = 25_000;
const INITCODE_WORD_GAS: u64 = 2;
const FLOOR_TOKEN_GAS: u64 = 10;
const TOKENS_PER_NONZERO_BYTE: u64 = 4;

/// Intrinsic gas of a transaction under the Ethereum rules of a fork: base, data (EIP-2028), creation (EIP-2,
/// EIP-3860), access list (EIP-2930), authorizations (EIP-7702). Saturates.
pub fn intrinsic_gas(transaction: &Transaction, fork: Fork) -> u64 {
    let nonzero = transaction.input.iter().filter(|byte| **byte != 0).count() as u64;
    let zero = transaction.input.len() as u64 - nonzero;
    let nonzero_gas = if fork >= Fork::Istanbul { NONZERO_BYTE_GAS_ISTANBUL } else { NONZERO_BYTE_GAS };
    let mut gas = TRANSACTION_GAS + zero * ZERO_BYTE_GAS + nonzero * nonzero_gas;
    if transaction.to.is_none() {
        if fork >= Fork::Homestead {
            gas += CREATION_GAS;
        }
        if fork >= Fork::Shanghai {
            gas += initcode_gas(transaction.input.len());
        }
    }
    for item in transaction.access_list() {
        gas += ACCESS_LIST_ADDRESS_GAS + ACCESS_LIST_KEY_GAS * item.storage_keys.len() as u64;
    }
    if let TransactionPayload::SetCode { authorization_list, .. } = &transaction.payload {
        gas += AUTHORIZATION_GAS * authorization_list.len() as u64;
    }
    gas
}

/// Gas of init code of this length (EIP-3860).
pub const fn initcode_gas(bytes: usize) -> u64 {
    INITCODE_WORD_GAS * (bytes as u64).div_ceil(32)
}

/// Tokens as counted by EIP-7623: one per zero byte, four per other byte.
pub fn calldata_tokens(input: &[u8]) -> u64 {
    let nonzero = input.iter().filter(|byte| **byte != 0).count() as u64;
    let zero = input.len() as u64 - nonzero;
    zero + nonzero * TOKENS_PER_NONZERO_BYTE
}

/// Minimum gas of the transaction due to its data (EIP-7623); zero before Prague.
pub fn floor_data_gas(transaction: &Transaction, fork: Fork) -> u64 {
    if fork < Fork::Prague {
        return 0;
    }
    floor_gas(&transaction.input)
}

/// Minimum gas of a transaction with this data (EIP-7623), the same on native chains (`docs/spec/upgrades.md` 7.4).
pub fn floor_gas(input: &[u8]) -> u64 {
    TRANSACTION_GAS + FLOOR_TOKEN_GAS * calldata_tokens(input)
}

#[cfg(test)]
mod tests {
    use super::{floor_gas, stepped_gas_limit};

    // `docs/spec/upgrades.md` 7.4, 13.
    #[test]
    fn the_floor_counts_ten_gas_for_a_zero_byte_and_forty_for_another() {
        assert_eq!(floor_gas(&[]), 21_000);
        assert_eq!(floor_gas(&[0; 100]), 22_000);
        assert_eq!(floor_gas(&[1; 100]), 25_000);
        assert_eq!(floor_gas(&[0, 9, 0]), 21_060);
    }

    // `docs/spec/upgrades.md` 6: floor(parent / 1024) - 1 a block, never below 5000.
    #[test]
    fn a_gas_limit_moves_in_steps_and_never_below_its_minimum() {
        let cases = [
            (50_000_000, 420_000_000, 50_048_827),
            (50_000_000, 42_000_000, 49_951_173),
            (50_000_000, 50_000_001, 50_000_001),
            (4_700_000, 50_000_000, 4_704_588),
            (5_001, 1, 5_000),
            (1_023, 1, 5_000),
        ];
        for (parent, wanted, next) in cases {
            assert_eq!(stepped_gas_limit(parent, wanted), next, "{parent} {wanted}");
        }
    }
}

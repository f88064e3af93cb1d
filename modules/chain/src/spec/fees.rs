//! The base fee (EIP-1559).

use tenon_api::Header;

use super::ChainSpec;

/// Base fee of the first London block, wei.
pub const INITIAL_BASE_FEE: u64 = 1_000_000_000;
/// Gas limit divided by gas target.
pub const ELASTICITY_MULTIPLIER: u64 = 2;
/// The base fee changes by at most 1 / this number per block.
pub const BASE_FEE_CHANGE_DENOMINATOR: u64 = 8;

impl ChainSpec {
    /// Base fee of the child of `parent`, wei; `None` if it has no base fee.
    pub fn next_base_fee(&self, parent: &Header) -> Option<u64> {
        if !self.has_base_fee(parent.number.saturating_add(1)) {
            return None;
        }
        if let Some(fixed) = self.family.fixed_base_fee() {
            return Some(fixed);
        }
        let Some(base_fee) = parent.base_fee_per_gas else { return Some(INITIAL_BASE_FEE) };
        if !self.has_base_fee(parent.number) {
            return Some(INITIAL_BASE_FEE);
        }
        Some(following_base_fee(base_fee, parent.gas_used, parent.gas_limit / ELASTICITY_MULTIPLIER))
    }

    /// The gas limit from which the child of `parent` may step up or down: the parent's, multiplied by the elasticity
    /// if the child is the first block with a base fee.
    pub fn gas_limit_baseline(&self, parent: &Header) -> u64 {
        let begins = self.family.fixed_base_fee().is_none()
            && self.has_base_fee(parent.number.saturating_add(1))
            && !self.has_base_fee(parent.number);
        if begins { parent.gas_limit.saturating_mul(ELASTICITY_MULTIPLIER) } else { parent.gas_limit }
    }
}

fn following_base_fee(base_fee: u64, gas_used: u64, target: u64) -> u64 {
    if gas_used == target || target == 0 {
        return base_fee;
    }
    let change = |distance: u64| {
        let product = u128::from(base_fee) * u128::from(distance) / u128::from(target);
        u64::try_from(product / u128::from(BASE_FEE_CHANGE_DENOMINATOR)).unwrap_or(u64::MAX)
    };
    if gas_used > target {
        base_fee.saturating_add(change(gas_used - target).max(1))
    } else {
        base_fee.saturating_sub(change(target - gas_used))
    }
}

//! Blob gas: limits and price (EIP-4844, EIP-7691, EIP-7892, EIP-7918).

use alloy_primitives::{U256, U512};
use tenon_api::{Header, Transaction};

use super::{ChainSpec, Fork};

/// Blob gas of one blob.
pub const BLOB_GAS_PER_BLOB: u64 = 131_072;
/// Minimum price per blob gas, wei.
pub const MIN_BLOB_BASE_FEE: u64 = 1;
/// From Osaka on a blob costs at least as much as this amount of execution gas (EIP-7918).
const BLOB_BASE_COST: u64 = 8192;

/// Blob limits and pricing of one fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobParameters {
    /// Number of blobs per block at which the price stays constant.
    pub target: u64,
    /// Maximum number of blobs in a block.
    pub max: u64,
    /// Divisor that controls how slowly the price changes with the excess.
    pub update_fraction: u64,
}

impl BlobParameters {
    /// Parameters of chains without a `blobSchedule` in their configuration.
    pub(super) const MAINNET_SCHEDULE: [(Fork, Self); 3] = [
        (Fork::Cancun, Self { target: 3, max: 6, update_fraction: 3_338_477 }),
        (Fork::Prague, Self { target: 6, max: 9, update_fraction: 5_007_716 }),
        (Fork::Osaka, Self { target: 6, max: 9, update_fraction: 5_007_716 }),
    ];

    /// Blob gas per block at which the price stays constant.
    pub const fn target_gas(&self) -> u64 {
        self.target.saturating_mul(BLOB_GAS_PER_BLOB)
    }

    /// Maximum blob gas in a block.
    pub const fn max_gas(&self) -> u64 {
        self.max.saturating_mul(BLOB_GAS_PER_BLOB)
    }

    /// Price per blob gas for this excess, wei. Saturates at 256 bits.
    pub fn base_fee(&self, excess_blob_gas: u64) -> U256 {
        fake_exponential(U256::from(MIN_BLOB_BASE_FEE), U256::from(excess_blob_gas), U256::from(self.update_fraction))
    }
}

/// Blob gas of a transaction: zero except for type 3.
pub fn blob_gas_used(transaction: &Transaction) -> u64 {
    transaction.blob_versioned_hashes().len() as u64 * BLOB_GAS_PER_BLOB
}

/// `factor * e^(numerator / denominator)`, approximated by the Taylor series that EIP-4844 defines. Saturates if the
/// result or a term of the series overflows; zero for a zero denominator.
pub fn fake_exponential(factor: U256, numerator: U256, denominator: U256) -> U256 {
    if denominator.is_zero() {
        return U256::ZERO;
    }
    // Most blocks: the series would take as long as a short call.
    if numerator.is_zero() {
        return factor;
    }
    let wide = |value: U256| U512::from(value);
    let (numerator, denominator) = (wide(numerator), wide(denominator));
    let Some(mut term) = wide(factor).checked_mul(denominator) else { return U256::MAX };
    let mut sum = U512::ZERO;
    let mut step = U512::from(1);
    while !term.is_zero() {
        let Some(next_sum) = sum.checked_add(term) else { return U256::MAX };
        sum = next_sum;
        let Some(product) = term.checked_mul(numerator) else { return U256::MAX };
        term = product / (denominator * step);
        step += U512::from(1);
    }
    let result = sum / denominator;
    if result > wide(U256::MAX) { U256::MAX } else { U256::from(result) }
}

impl ChainSpec {
    /// Blob parameters at a time; `None` before Cancun. A fork without an entry keeps the previous ones.
    pub fn blob_parameters(&self, timestamp: u64) -> Option<BlobParameters> {
        self.blob_schedule
            .iter()
            .rev()
            .find(|(fork, _)| self.is_time_reached(*fork, timestamp))
            .map(|(_, parameters)| *parameters)
    }

    /// The blob parameters of one fork, `None` if it does not change them.
    pub fn blob_parameters_of(&self, fork: Fork) -> Option<BlobParameters> {
        self.blob_schedule.iter().find(|(each, _)| *each == fork).map(|(_, parameters)| *parameters)
    }

    fn is_time_reached(&self, fork: Fork, timestamp: u64) -> bool {
        matches!(self.activation(fork), Some(super::Activation::Time(time)) if timestamp >= time)
    }

    /// Price per blob gas in the block of this header, wei; `None` before Cancun.
    pub fn blob_base_fee(&self, header: &Header) -> Option<U256> {
        let excess = header.excess_blob_gas?;
        Some(self.blob_parameters(header.timestamp)?.base_fee(excess))
    }

    /// Excess blob gas of the child of `parent` with this timestamp; `None` before Cancun.
    pub fn next_excess_blob_gas(&self, parent: &Header, timestamp: u64) -> Option<u64> {
        let parameters = self.blob_parameters(timestamp)?;
        let excess = parent.excess_blob_gas.unwrap_or_default();
        let used = parent.blob_gas_used.unwrap_or_default();
        let sum = excess.saturating_add(used);
        if sum < parameters.target_gas() {
            return Some(0);
        }
        if self.is_time_reached(Fork::Osaka, timestamp) {
            // EIP-7918: while execution gas dominates a blob's cost, the price of blob gas does not fall.
            let reserve = U256::from(BLOB_BASE_COST) * U256::from(parent.base_fee_per_gas.unwrap_or_default());
            let price = parameters.base_fee(excess).saturating_mul(U256::from(BLOB_GAS_PER_BLOB));
            if reserve > price {
                let room = parameters.max.saturating_sub(parameters.target);
                let scaled = u128::from(used) * u128::from(room) / u128::from(parameters.max.max(1));
                return Some(excess.saturating_add(u64::try_from(scaled).unwrap_or(u64::MAX)));
            }
        }
        Some(sum - parameters.target_gas())
    }
}

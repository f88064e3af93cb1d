//! Options of the pool.

use std::{path::PathBuf, time::Duration};

use tenon_api::U256;

/// Limits and rules of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// Minimum tip, wei per gas, for every source. Native chains have a minimum price instead.
    pub min_tip: U256,
    /// Percent by which both price caps of a replacement without blobs must exceed the old ones.
    pub price_bump: u64,
    /// Slots of 32 KiB in the whole pool; this bounds its memory.
    pub global_slots: u64,
    /// Slots of one sender, pending and queued together. Local transactions do not count.
    pub account_slots: u64,
    /// Slots of all local transactions together. Transactions beyond them are treated like remote ones.
    pub local_slots: u64,
    /// How long a transaction may stay queued, or pending at prices too low for any block.
    pub lifetime: Duration,
    /// Maximum gas cost of a transaction submitted here, wei; zero means no limit.
    pub fee_cap: U256,
    /// Whether transactions without a chain id (before EIP-155) are accepted.
    pub allows_unprotected: bool,
    /// File that keeps local transactions across restarts; `None` keeps them in memory only.
    pub journal: Option<PathBuf>,
}

#[cfg(test)]
impl PoolOptions {
    pub(crate) fn for_tests() -> Self {
        Self {
            min_tip: U256::from(1),
            price_bump: 10,
            global_slots: 10_240,
            account_slots: 80,
            local_slots: 2_560,
            lifetime: Duration::from_secs(3 * 60 * 60),
            fee_cap: U256::from(1_000_000_000_000_000_000_u64),
            allows_unprotected: true,
            journal: None,
        }
    }
}

use std::{path::PathBuf, time::Duration};

use tenon_api::U256;

/// Bounds and rules of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// Least tip, wei per gas, whoever sends the transaction. Native chains have a least price instead.
    pub min_tip: U256,
    /// Percent by which both price caps of a replacement must exceed the old ones.
    pub price_bump: u64,
    /// The same when one of the two carries blobs.
    pub blob_price_bump: u64,
    /// Slots of 32 KiB in the whole pool; this bounds its memory.
    pub global_slots: u64,
    /// Slots of one sender, pending and queued together. Local transactions do not count.
    pub account_slots: u64,
    /// Slots of all local transactions together. What is local beyond them is treated like everything else.
    pub local_slots: u64,
    /// How long a transaction may stay queued, or pending at prices that no block takes.
    pub lifetime: Duration,
    /// Most that a transaction submitted here may pay for its gas, wei; zero is no limit.
    pub fee_cap: U256,
    /// Whether transactions that are valid on every chain (before EIP-155) are taken.
    pub allows_unprotected: bool,
    /// Where local transactions are kept for the next start; none keeps them in memory only.
    pub journal: Option<PathBuf>,
    /// How many of the newest pending hashes pollers can still get.
    pub recent_hashes: usize,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            min_tip: U256::from(1),
            price_bump: 10,
            blob_price_bump: 100,
            global_slots: 10_240,
            account_slots: 80,
            local_slots: 2_560,
            lifetime: Duration::from_secs(3 * 60 * 60),
            fee_cap: U256::from(1_000_000_000_000_000_000_u64),
            allows_unprotected: true,
            journal: None,
            recent_hashes: 8192,
        }
    }
}

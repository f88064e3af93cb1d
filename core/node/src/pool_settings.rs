//! Converts settings to the pool's own types.

use tenon_api::U256;
use tenon_config::Settings;
use tenon_txpool::{JournalError, PoolOptions};

use crate::exit::Stop;
use crate::own_paths;

/// Checks that the journal has a file of its own.
///
/// # Errors
/// [`Stop::Usage`] naming the owner of the file.
pub(crate) fn check(settings: &Settings) -> Result<(), Stop> {
    own_paths::check(settings, "txpool.journal", &settings.pool.journal)
}

/// Why the pool does not start.
pub(crate) fn refusal(error: JournalError) -> Stop {
    match error {
        JournalError::NoFile { .. } | JournalError::NoJournal { .. } => Stop::Usage(error.to_string()),
        JournalError::Io { .. } | JournalError::Replaced { .. } => Stop::failure(error),
    }
}

/// Options of the pool.
pub(crate) fn options(settings: &Settings) -> PoolOptions {
    let pool = &settings.pool;
    PoolOptions {
        min_tip: U256::from(pool.price_limit),
        price_bump: pool.price_bump,
        global_slots: pool.global_slots,
        account_slots: pool.account_slots,
        local_slots: pool.local_share.of(pool.global_slots),
        lifetime: pool.lifetime,
        fee_cap: fee_cap(settings),
        allows_unprotected: settings.rpc.allow_unprotected,
        journal: Some(settings.in_data_folder(&pool.journal)),
    }
}

/// Maximum fee of a transaction in wei; 0 for no limit.
pub(crate) fn fee_cap(settings: &Settings) -> U256 {
    wei(settings.rpc.transaction_fee_cap)
}

/// A number of ether in wei, exact to a gwei.
fn wei(ether: f64) -> U256 {
    // A float that is too large for the integer becomes the integer's maximum, which has the same effect.
    let gwei = (ether * 1e9).round() as u128;
    U256::from(gwei).saturating_mul(U256::from(1_000_000_000_u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_ether_into_wei() {
        assert_eq!(wei(1.0), U256::from(1_000_000_000_000_000_000_u64));
        assert_eq!(wei(0.1), U256::from(100_000_000_000_000_000_u64));
        assert_eq!(wei(0.0), U256::ZERO);
    }
}

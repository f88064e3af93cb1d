//! Development networks (`tenon dev`). The setting `dev.profile` chooses the family of a new one; that of an existing one
//! follows from its genesis file ([`super::NodeFamily::development`]).

use tenon_accounts::Accounts;
use tenon_api::U256;
use tenon_config::{DevGenesis, DevProfile, Resolved, Settings};

use super::native::development as native;
use crate::exit::Stop;

/// Wei in one ether.
const ETHER: u64 = 1_000_000_000_000_000_000;

/// Checks the settings that have another meaning, or none, on a network of this family.
///
/// # Errors
/// [`Stop::Usage`] naming the setting.
pub(crate) fn check(resolved: &Resolved) -> Result<(), Stop> {
    match resolved.settings.dev.profile {
        DevProfile::Ethereum => Ok(()),
        DevProfile::Native | DevProfile::NativeV1 => native::check(resolved),
    }
}

/// The genesis that the settings describe, with coins for these accounts.
///
/// # Errors
/// [`Stop`] if the settings cannot be used.
pub(crate) fn genesis(settings: &Settings, accounts: &Accounts) -> Result<Vec<u8>, Stop> {
    let dev = &settings.dev;
    let balance = U256::from(dev.balance).saturating_mul(U256::from(ETHER));
    match dev.profile {
        DevProfile::Ethereum => {
            let (chain_id, gas_limit, accounts) = (dev.chain_id, dev.gas_limit, accounts.addresses());
            Ok(DevGenesis { chain_id, gas_limit, accounts, balance }.to_json())
        }
        DevProfile::Native | DevProfile::NativeV1 => native::genesis(settings, accounts, balance),
    }
}

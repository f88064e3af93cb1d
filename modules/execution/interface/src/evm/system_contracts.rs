//! Addresses of the system contracts.

use alloy_primitives::{Address, address};

/// Stores roots of beacon blocks (EIP-4788).
pub(crate) const BEACON_ROOTS_ADDRESS: Address = address!("000f3df6d732807ef1319fb7b8bb8522d0beac02");
/// Stores hashes of past blocks (EIP-2935).
pub const HISTORY_STORAGE_ADDRESS: Address = address!("0000f90827f1c53a10cb7a02335b175320002935");
/// Queue of withdrawal requests (EIP-7002).
pub(crate) const WITHDRAWAL_REQUESTS_ADDRESS: Address = address!("00000961ef480eb55e80d19ad83579a64c007002");
/// Queue of consolidation requests (EIP-7251).
pub(crate) const CONSOLIDATION_REQUESTS_ADDRESS: Address = address!("0000bbddc7ce488642fb579f8b00f3a590007251");

//! Hardware wallets as a backend of the node's accounts (`docs/spec/device.md 10`).
//!
//! It owns the adapter between [`tenon_accounts::WalletBackend`] and the hub of connected devices: the URLs and texts
//! that clients see, the opening of devices on arrival, the discovery of used accounts, and the events for a person
//! ([`DeviceWallets`]). It also converts typed data into the form that devices query ([`read_typed_data`]).
//!
//! Invariants:
//!
//! - Listing reads snapshots and never waits.
//! - A request is cancelled, also on the device, when its caller drops it, its device departs or the devices are
//!   stopped.
//! - Nothing is derived, opened or asked unless devices are started.
//! - No PIN, passphrase or label is logged.
//! - The crate knows no packet or message of a device.

#![forbid(unsafe_code)]

mod backend;
mod discovery;
mod person;
mod running;
mod signer;
mod typed_data;

pub use backend::DeviceWallets;
pub use typed_data::{TypedDataError, read_typed_data};

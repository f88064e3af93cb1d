//! Hardware wallets behind the port of the node's accounts (`docs/spec/device.md 10`).
//!
//! It owns what stands between [`tenon_accounts::WalletBackend`] and the hub of connected devices: URLs and texts as clients know
//! them, the opening of devices that arrive, the discovery of used accounts, and what a person is told ([`DeviceWallets`]). It
//! also reads typed data into the form that devices ask for ([`read_typed_data`]).
//!
//! What must always hold: listing reads snapshots and waits for nobody. A request ends with its caller, with its device, or when the
//! devices are switched off, and the device is told. Nothing is derived, opened or asked unless devices are switched on. No
//! PIN, passphrase or label is logged. It knows no packet and no message of a device.

#![forbid(unsafe_code)]

mod backend;
mod discovery;
mod person;
mod running;
mod signer;
mod typed_data;

pub use backend::DeviceWallets;
pub use typed_data::{TypedDataError, read_typed_data};

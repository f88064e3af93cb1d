//! The keys that this node signs with: encrypted key files ([`keystore`]) and the accounts of a development network, which are
//! derived from a mnemonic ([`Accounts`]). Hardware wallets and external signers join behind the same requests.
//!
//! It owns the secret keys, the list of wallets and who may use which ([`WalletDirectory`]), and answers the requests of the bus
//! about them ([`register`]). It also lets one transaction of a sender at a time choose its nonce.
//!
//! What must always hold: a secret is wiped when it is dropped, never printed by `Debug`, never part of an error and never
//! logged. Listing reads a snapshot and waits for nothing. Whatever derives a key from a password draws on one budget of memory
//! and runs at the lowest priority. The crate knows no pool and no chain state: whoever asks fills in gas and prices, and the
//! pool tells the nonce.

#![forbid(unsafe_code)]

mod accounts;
mod attempts;
mod derivation;
mod directory;
mod error;
mod handlers;
mod key;
mod key_text;
mod key_work;
pub mod keystore;
mod keystore_wallets;
mod port;
mod reservations;
#[cfg(test)]
mod tests;
mod transaction;
mod unlocked;

pub use accounts::{Accounts, DEV_MNEMONIC, MAX_ACCOUNTS, RevealedAccount};
pub use directory::WalletDirectory;
pub use error::{AccountsError, KeyTextError};
pub use handlers::register;
pub use key::address_of_secret;
pub use key_text::parse_key_text;
pub use keystore_wallets::KeystoreOptions;

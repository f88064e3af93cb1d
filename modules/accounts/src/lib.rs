//! The keys of this node: encrypted key files ([`keystore`]) and the accounts of a development network, which are
//! derived from a mnemonic ([`Accounts`]). Hardware wallets and external signers implement the same port
//! ([`WalletBackend`]), in crates of their own.
//!
//! It owns the secret keys, the list of wallets and the rules on which caller may use which account
//! ([`WalletDirectory`]), and answers the bus requests about them ([`register`]). It also serialises the choice of
//! nonces: one transaction per sender at a time. A supervised actor ([`spawn_accounts`]) removes expired keys and
//! follows the folder of key files.
//!
//! Invariants:
//!
//! - A secret is wiped on drop, never printed by `Debug`, never part of an error and never logged.
//! - Listing reads a snapshot and never waits.
//! - Key derivation from a password draws on one budget of memory and runs at the lowest priority.
//! - The crate knows no pool and no chain state: the caller supplies gas and prices, and the pool the nonce.

#![forbid(unsafe_code)]

mod accounts;
mod actor;
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

pub use accounts::{Accounts, MAX_ACCOUNTS, RevealedAccount};
pub use actor::{ACTOR, AccountsFeed, spawn_accounts};
pub use directory::WalletDirectory;
pub use error::AccountsError;
pub use handlers::register;
pub use key::{HashSignature, address_of_secret};
pub use key_text::parse_key_text;
pub use keystore_wallets::KeystoreOptions;
pub use port::{Authority, KeyPlace, Signable, Signer, WalletBackend};
pub use transaction::{attach as attach_signature, unsigned as unsigned_transaction};

//! The keys that this node signs with. Today: the accounts of a development network, derived from a mnemonic. Encrypted key
//! files are read and written here ([`keystore`]) and join behind the same requests, as hardware wallets will.
//!
//! It owns the secret keys ([`Accounts`]) and answers the signing requests of the bus ([`register`]).
//!
//! What must always hold: a secret is wiped when it is dropped, never printed by `Debug`, never part of an
//! error and never logged; the one way to see a secret is [`Accounts::reveal`], which the development banner
//! calls. The crate knows no pool and no chain state: whoever asks fills in nonce, gas and prices.

#![forbid(unsafe_code)]

mod accounts;
mod derivation;
mod error;
mod handlers;
mod key;
pub mod keystore;
mod transaction;

pub use accounts::{Accounts, DEV_MNEMONIC, MAX_ACCOUNTS, RevealedAccount};
pub use error::AccountsError;
pub use handlers::register;
pub use key::address_of_secret;

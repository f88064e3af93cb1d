//! Presents the accounts of a signing service as a wallet of the node (`docs/signer.md`).
//!
//! It owns the connection to the service ([`Endpoint`]), a snapshot of its accounts, and signing through it
//! ([`ServiceWallet`]). It works with any service that has the `account` methods.
//!
//! Invariants:
//!
//! - Listing reads the snapshot and never waits.
//! - While the service is unavailable, listing continues to work and signing returns an error.
//! - A signature is returned only if it is the account's own over the requested hash.
//! - Dropping a request also cancels it at the service.
#![forbid(unsafe_code)]

mod endpoint;
mod masternode;
mod wallet;

pub use endpoint::{Endpoint, EndpointError};
pub use masternode::ServiceMasternode;
pub use wallet::ServiceWallet;

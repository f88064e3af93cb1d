//! The accounts of a signing service as a wallet of the node (`docs/signer.md`).
//!
//! It owns the connection to the service ([`Endpoint`]), a snapshot of its accounts, and signing through it
//! ([`ServiceWallet`]). Any service that speaks the `account` methods will do. [`ServiceMasternode`] is the key of a
//! masternode there, behind the port of the voting: it needs the `consensus` methods of `tenon signer`.
//!
//! What must always hold: listing reads the snapshot and waits for nothing; without the service it goes on, and signing
//! says so. A signature that is not the account's over the asked hash never leaves. A caller that leaves ends its
//! request at the service, too.
#![forbid(unsafe_code)]

mod endpoint;
mod masternode;
mod wallet;

pub use endpoint::{Endpoint, EndpointError};
pub use masternode::ServiceMasternode;
pub use wallet::ServiceWallet;

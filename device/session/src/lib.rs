//! The session with a hardware wallet.
//!
//! It owns the flows of one exchange as a state machine without I/O ([`Exchange`], with an [`Operation`] in it), the
//! driver that runs one over a link ([`Driver`]), the states of a wallet from closed to open ([`Wallet`]), the actor
//! that gives one wallet to many callers ([`WalletActor`], [`WalletHandle`]), and the hub that has a wallet for each device
//! that is connected ([`Hub`]).
//!
//! What must always hold: one exchange at a time. Every answer is checked: the hash that a signature is over is computed
//! here, its s is in the lower half, and the address that it recovers to is the account's. What a firmware can't sign is
//! refused before the device is touched. After anything unexpected the two sides are brought into step again before the
//! next request (`docs/spec/device.md 8.4`). PINs are never sent twice. PIN, passphrase and session state are wiped and
//! shown nowhere. No message of the groups bootloader, debug, load, reset, recovery and wipe can be sent: there is no
//! operation for them.

#![forbid(unsafe_code)]

mod actor;
mod check;
mod driver;
mod error;
mod exchange;
mod hub;
mod info;
mod operation;
mod operations;
mod path;
mod prompt;
mod transaction;
mod typed_data;
mod wallet;

pub use actor::{Request, WalletActor, WalletHandle};
pub use check::Signature;
pub use driver::{Driver, Timeouts};
pub use error::{DeviceError, Unsupported};
pub use exchange::{Exchange, Outgoing, Step, Wait};
pub use hub::{Hub, HubEvent};
pub use info::{DeviceInfo, Version};
pub use operation::{Operation, Progress};
pub use operations::{
    GetAddress, GetFeatures, Initialize, Ping, SignMessage, SignTransaction, SignTypedData, SignTypedHash,
};
pub use path::{DerivationPath, PathError};
pub use prompt::{Answer, Given, NoPerson, Person, PinKind, Prompt, Question};
pub use transaction::{AccessListItem, Fees, Transaction};
pub use typed_data::{Member, MemberType, TypedData, Value};
pub use wallet::{OpenState, Wallet, WalletStatus};

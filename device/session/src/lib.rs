//! The session with a hardware wallet.
//!
//! It owns:
//!
//! - the flow of one exchange as a state machine without I/O ([`Exchange`], with an [`Operation`] in it);
//! - the driver that runs an exchange over a link ([`Driver`]);
//! - the states of a wallet from closed to open ([`Wallet`]);
//! - the actor that shares one wallet between many callers ([`WalletActor`], [`WalletHandle`]);
//! - the hub that has a wallet for each connected device ([`Hub`]).
//!
//! Invariants:
//!
//! - One exchange runs at a time.
//! - Every response is checked: the signed hash is computed here, s is in the lower half, and the recovered address is
//!   that of the account.
//! - A request that the firmware can't fulfil is refused before the device is contacted.
//! - After anything unexpected, host and device are resynchronised before the next request (`docs/spec/device.md 8.4`).
//! - A PIN is never sent twice.
//! - PIN, passphrase and session state are wiped and never shown.
//! - Messages of the groups bootloader, debug, load, reset, recovery and wipe can't be sent, because there are no
//!   operations for them.

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
pub use hub::{ACTORS, Hub, HubEvent};
pub use info::{DeviceInfo, Version};
pub use operation::{Operation, Progress};
pub use operations::{
    GetAddress, GetFeatures, Initialize, Ping, SignMessage, SignTransaction, SignTypedData, SignTypedHash,
};
pub use path::DerivationPath;
pub use prompt::{Answer, NoPerson, NumberedPrompt, Person, PinKind, Prompt, PromptReply};
pub use transaction::{AccessListItem, Fees, Transaction};
pub use typed_data::{Member, MemberType, TypedData, Value};
pub use wallet::{OpenState, Wallet, WalletStatus};

//! Messages of the `eth` protocol of native chains (`docs/spec/p2p.md` 12 to 15, `docs/spec/upgrades.md` 12):
//! their encodings in every version, and the exchange of Status messages that begins a session.
//!
//! It owns the table of versions ([`VERSIONS`]): a further version is a further row, plus a codec if its layout is new.
//! Types of blocks and consensus come from `tenon-chain`.
//!
//! Invariants:
//!
//! - no input from a peer causes a panic;
//! - the memory allocated for a message is bounded by its bytes and by the limits of [`limits`], which are checked
//!   before memory is allocated;
//! - a decoded message encodes to the same bytes, except for bytes after the first value, which are ignored;
//! - orders and lendings are decoded and never encoded for sending.
//!
//! ```
//! use tenon_network_wire::{Message, version};
//!
//! # fn read(payload: &[u8]) -> Result<(), tenon_network_wire::WireError> {
//! let newest = version(100).expect("a row of the table");
//! let message = Message::decode(newest, 0x03, payload)?;
//! assert!(matches!(message, Message::GetBlockHeaders(_)));
//! # Ok(())
//! # }
//! # read(&[0xc4, 1, 1, 0x80, 0x80]).unwrap();
//! ```

#![forbid(unsafe_code)]

mod blocks;
mod error;
mod exchange;
pub mod limits;
mod message;
mod read;
mod request;
mod session;
mod status;
mod version;

pub use blocks::{BlockBody, NewBlock, encode_block_receipts, encode_body, has_own_body};
pub use error::{StatusMismatch, WireError};
pub use exchange::{Integer, Lending, Order};
pub use message::{Announced, Message, encode_list};
pub use request::{HeaderOrigin, HeaderRequest};
pub use session::{AcceptedMessages, Checked, EthSession, Received, SessionFault};
pub use status::{Status, StatusForm};
pub use version::{Kind, VERSIONS, Version, version};

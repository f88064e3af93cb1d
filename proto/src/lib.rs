//! The messages of hardware wallets: their bodies, and the registry that assigns an id to each type.
//!
//! It owns the definitions (`definitions/*.proto`), the code generated from them (`src/generated`), and the names of
//! chain families in the registry's document ([`Entry::document_name`]). The definitions are the only source of ids,
//! names, flags and fields; the test `generated` creates the code and checks that it is up to date.
//!
//! Invariants:
//!
//! - A body from a device is decoded regardless of unknown fields, unknown enum values, and packed or unpacked numbers.
//! - A message with a secret is wiped on drop, and `Debug` shows only its name.
//! - Direction flags are not used to route or reject messages, because some of the registry's are wrong and are kept so
//!   (`docs/spec/device.md 2.3`).
//! - The crate does no I/O and knows no flow.
//!
//! ```
//! use tenon_proto::{MessageType, decode, encode, ethereum::EthereumGetAddress, registry};
//!
//! let question = EthereumGetAddress { address_n: vec![0x8000_002c, 0x8000_003c], show_display: None };
//! let (id, body) = encode(&question);
//!
//! let entry = registry::by_id(id).ok_or("unknown")?;
//! assert_eq!(entry.name, "MessageType_EthereumGetAddress");
//! assert_eq!(decode::<EthereumGetAddress>(id, &body)?, question);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod body;
mod generated;
mod labels;
pub mod registry;
mod text;

pub use body::{BodyError, WireMessage, decode, encode};
pub use generated::*;
pub use registry::{Entry, Limit, LimitKind};
pub use text::{MAX_SHOWN_TEXT, shown_text};

//! The messages of hardware wallets: the registry that gives each type its number on the wire, and the bodies.
//!
//! It owns the definitions (`definitions/*.proto`), what is generated from them (`src/generated`), and the names by
//! which the registry's document knows the chain families ([`Entry::document_name`]). The definitions are the one place
//! where a number, a name, a flag or a field stands; the test `generated` makes the rest and proves it fresh.
//!
//! What must always hold: a body that a device may send is read whatever else stands in it (unknown fields, unknown
//! values of enumerations, packed or unpacked numbers). A message with a secret is wiped when it is dropped and shows
//! nothing but its name. Nothing is routed or refused by a flag of direction: the registry has wrong ones, and keeps
//! them (`docs/spec/device.md 2.3`). It does no I/O and knows no flow.
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

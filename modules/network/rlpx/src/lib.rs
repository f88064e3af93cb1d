//! The encrypted transport between two nodes (`docs/spec/p2p.md` 6 to 9): handshake, frames, compression, and the base
//! protocol of Hello, Disconnect, Ping and Pong.
//!
//! It owns the keys of a connection and everything up to the payload of a sub-protocol's message. [`Session`] is a
//! state machine without I/O: its inputs are bytes, decisions and a clock, its outputs are [`Output`]s. The owner of
//! the socket moves the bytes.
//!
//! Invariants:
//!
//! - no input from a peer causes a panic, or an allocation larger than a small multiple of the bytes received or of
//!   [`SessionSettings::max_message_bytes`];
//! - nothing is read after the first error;
//! - secrets are wiped on drop.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use tenon_network_identity::NodeKey;
//! use tenon_network_rlpx::{HandshakeRandom, OfferedProtocol, Output, Session, SessionSettings};
//!
//! # fn connect() -> Result<(), Box<dyn std::error::Error>> {
//! let (ours, theirs) = (Arc::new(NodeKey::random()?), NodeKey::random()?);
//! let settings = SessionSettings::new("example", vec![OfferedProtocol::new("eth", 100, 227)]);
//! let random = HandshakeRandom::generate()?;
//! let mut session = Session::dial(settings, &ours, theirs.id(), random, Duration::ZERO)?;
//! let Some(Output::Write(auth)) = session.next_output(Duration::ZERO) else { panic!("the first packet") };
//! assert!(auth.len() > 307);
//! # Ok(())
//! # }
//! # connect().unwrap();
//! ```

#![forbid(unsafe_code)]

mod base;
mod capability;
mod compression;
mod ecies;
mod error;
mod frame;
mod handshake;
mod secrets;
mod session;

#[cfg(test)]
mod cases;
#[cfg(test)]
mod recorded;

pub use base::{BASE_PROTOCOL_VERSION, DisconnectReason, Hello, MAX_HELLO_BYTES};
pub use capability::{AgreedProtocol, BASE_PROTOCOL_LENGTH, Capability, OfferedProtocol, agree_on_protocols};
pub use error::{CloseReason, FrameError, HandshakeError, HelloError, SendError};
pub use handshake::HandshakeRandom;
pub use session::{Output, Session, SessionSettings};

/// Decoders of single parts, for fuzzing.
pub mod parts {
    pub use crate::base::read_disconnect;
    pub use crate::compression::{compress, decompress};
    pub use crate::handshake::{decode_ack_content, decode_auth_content};
}

//! The shims of the C boundary (`tenon_api::abi`), for both sides: buffers, wakers, futures and streams are made and
//! consumed here, so that the rest of the SDK and of the host is safe code.
//!
//! Invariants: nothing unwinds through a function of this module; a foreign future is polled by one thread at a time,
//! never after it was ready, and dropped exactly once; a buffer is freed exactly once, by the function that it carries.
//! These are the rules of the ABI that each `SAFETY` comment refers to.

mod bytes;
mod exported;
mod foreign;
mod plugin;
mod waker;

pub use bytes::{OutgoingBytes, OwnedBytes, borrow, buffer, reply, reply_into_result, slice};
pub use exported::{ExportedFuture, ExportedStream};
pub use foreign::{ForeignFuture, ForeignStream};
pub use plugin::{CallToken, Descriptor, descriptor};

use tenon_api::Failure;

/// Error that a caller receives for a panic (`docs/spec/rpc-eth.md` 3.3).
pub fn crashed() -> Failure {
    Failure::server("method handler crashed")
}

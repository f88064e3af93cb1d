//! The shims of the C boundary (`tenon_api::abi`), for both sides: buffers, wakers, futures and streams are made and
//! consumed here, so that the rest of the SDK and of the host is safe code.
//!
//! Invariants:
//!
//! - nothing unwinds through a function of this module;
//! - a foreign future is polled by one thread at a time, never after it was ready, and dropped exactly once;
//! - a buffer is freed exactly once, by the function that it carries.
//!
//! These are the rules of the ABI that each `SAFETY` comment refers to.

mod bytes;
mod exported;
mod foreign;
mod plugin;
mod waker;

pub use bytes::{OutgoingBytes, OutgoingItem, OwnedBytes, StreamItem, borrow, buffer, reply, reply_into_result, slice};
pub use exported::{ExportedFuture, ExportedStream};
pub use foreign::{ForeignFuture, ForeignStream};
pub use plugin::{CallToken, Descriptor, descriptor};

use std::sync::atomic::{AtomicU8, Ordering};

use crate::{Failure, FailureCode};

/// Which side of the boundary this copy of the SDK is on: every plugin has a copy of its own, and the host one.
static SIDE: AtomicU8 = AtomicU8::new(HOST);

/// This copy is the host's: no plugin was started through it.
const HOST: u8 = 0;
/// In a plugin whose host recognises panics by their code.
const PLUGIN: u8 = 1;
/// In a plugin whose host is older and expects a JSON-RPC code.
const PLUGIN_OF_OLDER_HOST: u8 = 2;

/// Records that this copy is in a plugin. `host_knows_panic_codes` says whether the host knows the codes of panics.
pub(crate) fn mark_as_plugin(host_knows_panic_codes: bool) {
    SIDE.store(if host_knows_panic_codes { PLUGIN } else { PLUGIN_OF_OLDER_HOST }, Ordering::Relaxed);
}

/// The error for a panic on this side; its code says whose code panicked (`docs/spec/rpc-eth.md` 3.3).
pub fn crashed() -> Failure {
    Failure::crashed(match SIDE.load(Ordering::Relaxed) {
        PLUGIN => FailureCode::CRASHED,
        HOST => FailureCode::CALLEE_CRASHED,
        _ => FailureCode::SERVER,
    })
}

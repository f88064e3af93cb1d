//! The slot that an inbound connection holds during its handshake.

use std::future::pending;

use tokio::sync::oneshot;

use crate::sockets::SharedLimiter;

/// A handshake slot, released on drop.
#[derive(Debug)]
pub(crate) struct HandshakeSlot {
    limiter: SharedLimiter,
    handshake: u64,
    /// Signals that the slot was given to another connection; dropped at the end of the handshake.
    pub(crate) displacement: Option<oneshot::Receiver<()>>,
}

impl HandshakeSlot {
    pub(crate) const fn new(limiter: SharedLimiter, handshake: u64, displacement: oneshot::Receiver<()>) -> Self {
        Self { limiter, handshake, displacement: Some(displacement) }
    }
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        self.limiter.leave(self.handshake);
    }
}

/// Waits until a slot is given to another connection; forever if that does not happen.
pub(crate) async fn displaced(displacement: Option<oneshot::Receiver<()>>) {
    let signal = match displacement {
        Some(displacement) => displacement.await.ok(),
        None => None,
    };
    if signal.is_none() {
        pending::<()>().await;
    }
}

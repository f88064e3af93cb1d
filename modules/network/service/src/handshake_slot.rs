//! The slot that an inbound connection holds during its handshake, and the limiter that gives it out.

use std::collections::HashMap;
use std::future::pending;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::connection_limiter::{ConnectionLimiter, RefusedConnection};

/// The shared connection limiter. A connection reports the end of its handshake to it. Locked for a few look-ups; never
/// held across an await.
#[derive(Clone, Debug)]
pub(crate) struct SharedLimiter(Arc<Mutex<Handshakes>>);

#[derive(Debug)]
struct Handshakes {
    limiter: ConnectionLimiter,
    /// Ends the connection of a handshake that is displaced, by its number.
    displacements: HashMap<u64, oneshot::Sender<()>>,
}

impl SharedLimiter {
    pub(crate) fn new(limiter: ConnectionLimiter) -> Self {
        Self(Arc::new(Mutex::new(Handshakes { limiter, displacements: HashMap::new() })))
    }

    /// Takes a slot for a new connection.
    ///
    /// # Errors
    /// [`RefusedConnection`].
    pub(crate) fn enter(&self, ip: IpAddr, now: Duration) -> Result<HandshakeSlot, RefusedConnection> {
        let mut handshakes = self.0.lock();
        let admission = handshakes.limiter.enter(ip, now)?;
        let displaced = admission.displaced.and_then(|handshake| handshakes.displacements.remove(&handshake));
        if let Some(displaced) = displaced {
            // A connection that has ended needs no signal.
            let _ = displaced.send(());
        }
        let (displace, displacement) = oneshot::channel();
        handshakes.displacements.insert(admission.handshake, displace);
        drop(handshakes);
        Ok(HandshakeSlot { limiter: self.clone(), handshake: admission.handshake, displacement: Some(displacement) })
    }

    fn leave(&self, handshake: u64) {
        let mut handshakes = self.0.lock();
        handshakes.displacements.remove(&handshake);
        handshakes.limiter.leave(handshake);
    }
}

/// A handshake slot, released on drop.
#[derive(Debug)]
pub(crate) struct HandshakeSlot {
    limiter: SharedLimiter,
    handshake: u64,
    /// Signals that the slot was given to another connection; dropped at the end of the handshake.
    pub(crate) displacement: Option<oneshot::Receiver<()>>,
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

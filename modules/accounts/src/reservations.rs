//! Nonce reservations: one transaction of a sender at a time chooses its nonce and reaches the pool, regardless of
//! the plugin that requests it.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tenon_api::Address;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// The current reservations. Different senders do not wait for each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reservations {
    /// Nothing awaits under the lock.
    senders: Arc<Mutex<HashMap<Address, Arc<AsyncMutex<()>>>>>,
}

/// The right to choose a sender's next nonce, released on drop.
pub(crate) struct Reservation {
    sender: Address,
    lock: Arc<AsyncMutex<()>>,
    /// `None` during release.
    held: Option<OwnedMutexGuard<()>>,
    of: Reservations,
}

impl Reservations {
    /// Waits for its turn, in order of arrival.
    pub(crate) async fn reserve(&self, sender: Address) -> Reservation {
        let lock = Arc::clone(self.senders.lock().entry(sender).or_default());
        let mut reservation = Reservation { sender, lock, held: None, of: self.clone() };
        reservation.held = Some(Arc::clone(&reservation.lock).lock_owned().await);
        reservation
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        drop(self.held.take());
        let mut senders = self.of.senders.lock();
        // Only the table and this reservation refer to it: no other caller waits.
        if Arc::strong_count(&self.lock) <= 2 {
            senders.remove(&self.sender);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const SENDER: Address = Address::repeat_byte(1);

    #[tokio::test]
    async fn one_sender_takes_turns_and_others_do_not_wait() {
        let reservations = Reservations::default();
        let first = reservations.reserve(SENDER).await;
        let mut second = Box::pin(reservations.reserve(SENDER));

        assert!(second.as_mut().now_or_never().is_none());
        assert!(reservations.reserve(Address::repeat_byte(2)).now_or_never().is_some());
        drop(first);
        let second = second.now_or_never();

        assert!(second.is_some());
        drop(second);
        assert!(reservations.senders.lock().is_empty());
    }

    #[tokio::test]
    async fn a_waiter_that_leaves_blocks_no_other() {
        let reservations = Reservations::default();
        let first = reservations.reserve(SENDER).await;
        let mut leaving = Box::pin(reservations.reserve(SENDER));
        assert!(leaving.as_mut().now_or_never().is_none());

        drop(leaving);
        drop(first);

        assert!(reservations.senders.lock().is_empty());
        assert!(reservations.reserve(SENDER).now_or_never().is_some());
    }
}

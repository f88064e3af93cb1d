//! Waits for the block of a transaction, on nodes that make blocks for transactions.
//!
//! The sealer works in rounds: a round begins by reading the pool and ends when no sealable transaction is left. A
//! waiting sender requests a round and returns when the round ends, or earlier once a block contains its transaction.
//! Nothing is polled, and many senders can wait for one block. A transaction that fits no block (because of a nonce gap
//! or a price below the base fee) costs its sender only an empty round.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tenon_api::{B256, ChainReader, messages::AwaitSealing};
use tenon_bus::{Bus, RegisterError};
use tenon_supervisor::Mailbox;
use tokio::sync::watch;

use super::SealRequest;

/// Maximum wait of a sender. Rounds take milliseconds, or a second on an overloaded machine; a longer round has stalled
/// or has too many transactions.
const MAX_WAIT: Duration = Duration::from_secs(3);

/// Progress of the sealer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Rounds begun, including those that ended in a panic.
    begun: u64,
    /// The last round that ended.
    ended: u64,
    /// Whether that one failed.
    has_failed: bool,
}

impl Progress {
    /// Returns `false` so that no waiter is woken: waiters need only blocks and ends of rounds.
    pub(super) const fn begin_round(&mut self) -> bool {
        self.begun += 1;
        false
    }

    /// Changes nothing, but wakes the waiters, which then check for their transactions.
    pub(super) const fn note_block(&mut self) {}

    pub(super) const fn end_round(&mut self, has_failed: bool) {
        self.ended = self.begun;
        self.has_failed = has_failed;
    }
}

/// Requests a round of the sealer. Clones share the sealer.
#[derive(Clone, Debug)]
pub(super) struct SealTrigger {
    mailbox: Mailbox<SealRequest>,
    /// Whether a request is in the mailbox; shared with the sealer.
    is_woken: Arc<AtomicBool>,
    progress: watch::Receiver<Progress>,
}

impl SealTrigger {
    pub(super) const fn new(
        mailbox: Mailbox<SealRequest>,
        is_woken: Arc<AtomicBool>,
        progress: watch::Receiver<Progress>,
    ) -> Self {
        Self { mailbox, is_woken, progress }
    }

    /// Ensures that a round begins after this call. Returns false if none will.
    pub(super) fn request_round(&self) -> bool {
        if self.is_woken.swap(true, Ordering::SeqCst) {
            return true;
        }
        if let Err(error) = self.mailbox.try_send(SealRequest) {
            self.is_woken.store(false, Ordering::SeqCst);
            tracing::warn!(%error, "could not request a block from the sealer");
            return false;
        }
        true
    }

    /// Waits until the last round is a failed one, and then for `interval`.
    pub(super) async fn failed_for(&self, interval: Duration) {
        if self.progress.clone().wait_for(|progress| progress.has_failed).await.is_err() {
            // The sealer is gone, and makes no further round.
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(interval).await;
    }

    /// Waits until a round that begins after this call ends, or until `is_sealed` returns true after a block. Returns
    /// early if the sealer is gone.
    async fn round(mut self, is_sealed: impl Fn() -> bool) {
        // Read before the request. The requested round is this one or a later one, and both begin after everything that
        // the caller has done before.
        let round = self.progress.borrow_and_update().begun + 1;
        if !self.request_round() {
            return;
        }
        while !is_sealed() && self.progress.changed().await.is_ok() {
            if self.progress.borrow_and_update().ended >= round {
                return;
            }
        }
    }
}

/// Lets senders of transactions wait for sealing on demand. Inactive while the module is stopped and with blocks on a
/// timer. Clones share the state.
#[derive(Clone, Debug, Default)]
pub struct SealingOnDemand {
    /// The running sealer. Locked for a copy; nothing awaits under it.
    trigger: Arc<Mutex<Option<SealTrigger>>>,
}

impl SealingOnDemand {
    /// Registers the handler of [`AwaitSealing`].
    ///
    /// # Errors
    /// [`RegisterError`] if it already has a handler.
    pub fn register(&self, bus: &Bus, chain: Arc<dyn ChainReader>) -> Result<(), RegisterError> {
        let own = self.clone();
        bus.handle(move |AwaitSealing { hash }, _| {
            let (own, chain) = (own.clone(), Arc::clone(&chain));
            async move {
                own.sealed(hash, &*chain).await;
                Ok(())
            }
        })
    }

    async fn sealed(&self, hash: B256, chain: &dyn ChainReader) {
        let Some(trigger) = self.trigger.lock().clone() else { return };
        // A failed read counts as "not found": the wait then ends with the round.
        let is_sealed = || matches!(chain.transaction_location(hash), Ok(Some(_)));
        if tokio::time::timeout(MAX_WAIT, trigger.round(is_sealed)).await.is_err() {
            tracing::debug!(%hash, "answered before the transaction was in a block");
        }
    }

    pub(super) fn begin(&self, trigger: SealTrigger) {
        *self.trigger.lock() = Some(trigger);
    }

    pub(super) fn end(&self) {
        *self.trigger.lock() = None;
    }
}

//! Waiting for the block of a transaction, where blocks are made for transactions.
//!
//! The sealer works in rounds: one begins with a look at the pool and ends when nothing that can be sealed is left. Whoever
//! waits rings for a round and is done with it, whatever it has brought; in most cases a block before its end has the
//! transaction already. So nothing is polled, any number wait for one block, and a transaction that fits no block (a gap below
//! its nonce, a price under the base fee) costs its sender a round that has nothing to do.

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

/// How long a sender waits at most. Rounds take milliseconds, on an overloaded machine a second; what takes longer has come to
/// a stop, or has more to do than the sender has patience.
const LONGEST_WAIT: Duration = Duration::from_secs(3);

/// How far the sealer has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Rounds begun, also those that ended in a panic.
    begun: u64,
    /// The last round that came to its end.
    ended: u64,
}

impl Progress {
    /// Tells nobody (`false`): nobody waits for a beginning.
    pub(super) const fn begin_round(&mut self) -> bool {
        self.begun += 1;
        false
    }

    /// Changes nothing but wakes those who wait, who look for their transactions.
    pub(super) const fn note_block(&mut self) {}

    pub(super) const fn end_round(&mut self) {
        self.ended = self.begun;
    }
}

/// Rings for a round of the sealer. Cloning it gives another handle to the same one.
#[derive(Clone, Debug)]
pub(super) struct Bell {
    mailbox: Mailbox<SealRequest>,
    /// Whether a request waits in the mailbox; shared with the sealer.
    is_woken: Arc<AtomicBool>,
    progress: watch::Receiver<Progress>,
}

impl Bell {
    pub(super) const fn new(
        mailbox: Mailbox<SealRequest>,
        is_woken: Arc<AtomicBool>,
        progress: watch::Receiver<Progress>,
    ) -> Self {
        Self { mailbox, is_woken, progress }
    }

    /// Sees to it that a round begins after this call. Gives whether one will.
    pub(super) fn ring(&self) -> bool {
        if self.is_woken.swap(true, Ordering::SeqCst) {
            return true;
        }
        if let Err(error) = self.mailbox.try_send(SealRequest) {
            self.is_woken.store(false, Ordering::SeqCst);
            tracing::warn!(%error, "the sealer was not woken");
            return false;
        }
        true
    }

    /// Waits for a round that begins after this call to end, or for `is_sealed` to hold after a block. Ends too when the
    /// sealer is gone.
    async fn round(mut self, is_sealed: impl Fn() -> bool) {
        // Read before the ringing: the round that the ringing brings is this one or a later one, and this one, too,
        // begins after whatever the caller has done before.
        let round = self.progress.borrow_and_update().begun + 1;
        if !self.ring() {
            return;
        }
        while !is_sealed() && self.progress.changed().await.is_ok() {
            if self.progress.borrow_and_update().ended >= round {
                return;
            }
        }
    }
}

/// The sealing that makes blocks for transactions, as those who send them see it. There is none while the module is stopped
/// and where blocks come at intervals. Cloning it gives another handle to the same one.
#[derive(Clone, Debug, Default)]
pub struct SealingOnDemand {
    /// The sealer that runs. Held for a copy; nobody awaits under it.
    bell: Arc<Mutex<Option<Bell>>>,
}

impl SealingOnDemand {
    /// Answers [`AwaitSealing`].
    ///
    /// # Errors
    /// [`RegisterError`] when another module answers it already.
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
        let Some(bell) = self.bell.lock().clone() else { return };
        // What can not be read is not there: the end of the round counts then.
        let is_sealed = || matches!(chain.transaction_location(hash), Ok(Some(_)));
        if tokio::time::timeout(LONGEST_WAIT, bell.round(is_sealed)).await.is_err() {
            tracing::debug!(%hash, "answered before the transaction had a block");
        }
    }

    pub(super) fn begin(&self, bell: Bell) {
        *self.bell.lock() = Some(bell);
    }

    pub(super) fn end(&self) {
        *self.bell.lock() = None;
    }
}

//! The account of what is in flight in one plugin.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The bit that says that nobody may enter any more; the others count who is inside.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// Counts calls and streams, can be closed, and tells when the last one has left.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: AtomicUsize,
    emptied: Notify,
}

impl Gate {
    /// Counts one in; false when the gate is closed. Whoever entered must [`Gate::leave`].
    pub(crate) fn enter(&self) -> bool {
        // Acquire/release on one word: whoever closes sees every entry before, and every entry after sees it.
        if self.state.fetch_add(1, Ordering::AcqRel) & CLOSED == 0 {
            return true;
        }
        self.leave();
        false
    }

    pub(crate) fn leave(&self) {
        if self.state.fetch_sub(1, Ordering::AcqRel) == CLOSED + 1 {
            self.emptied.notify_waiters();
        }
    }

    /// Lets nobody in any more.
    pub(crate) fn close(&self) {
        self.state.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// How many are inside.
    pub(crate) fn inside(&self) -> usize {
        self.state.load(Ordering::Acquire) & !CLOSED
    }

    /// Waits until nobody is inside. Means something after [`Gate::close`] only.
    pub(crate) async fn drained(&self) {
        loop {
            let emptied = self.emptied.notified();
            tokio::pin!(emptied);
            // Listen before looking, or the last one could leave in between.
            emptied.as_mut().enable();
            if self.inside() == 0 {
                return;
            }
            emptied.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_closed_gate_lets_nobody_in_and_drains_when_the_last_one_leaves() {
        let gate = Gate::default();
        assert!(gate.enter());
        assert!(gate.enter());

        gate.close();

        assert!(!gate.enter());
        assert_eq!(gate.inside(), 2);
        let mut drained = Box::pin(gate.drained());
        assert!(drained.as_mut().now_or_never().is_none());
        gate.leave();
        assert!(drained.as_mut().now_or_never().is_none());
        gate.leave();
        assert!(drained.as_mut().now_or_never().is_some());
    }
}

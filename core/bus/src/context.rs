//! Who waits for an answer, for whom, and for how long.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crate::Origin;

/// A call's deadline, its origin, and the flag that says whether its caller has gone. Cloning shares the flag.
#[derive(Clone, Debug, Default)]
pub struct CallContext {
    deadline: Option<Instant>,
    origin: Origin,
    cancelled: Arc<AtomicBool>,
}

impl CallContext {
    /// Without deadline, not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends at `deadline`.
    pub fn with_deadline(deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..Self::default() }
    }

    /// Ends `timeout` from now.
    pub fn with_timeout(timeout: Duration) -> Self {
        Self { deadline: Instant::now().checked_add(timeout), ..Self::default() }
    }

    /// The same call with a deadline that is not later than `deadline`.
    #[must_use]
    pub fn no_later_than(&self, deadline: Instant) -> Self {
        let deadline = self.deadline.map_or(deadline, |own| own.min(deadline));
        Self { deadline: Some(deadline), ..self.clone() }
    }

    /// The same call with this origin.
    #[must_use]
    pub fn from_origin(self, origin: Origin) -> Self {
        Self { origin, ..self }
    }

    /// Who asks.
    pub const fn origin(&self) -> Origin {
        self.origin
    }

    /// When the call ends, if ever.
    pub const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether nobody waits for the answer any more: the caller has gone, or the deadline has passed.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed) || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Says that the caller has gone.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// A guard that cancels this call when it is dropped: put it, with the context, into the future that waits for the
    /// answer. It borrows, because every small request has one and counting a share up and down would be a part of its cost.
    #[must_use]
    pub fn cancel_on_drop(&self) -> CancelOnDrop<'_> {
        CancelOnDrop { cancelled: Some(&self.cancelled) }
    }
}

/// Cancels a call when it is dropped. See [`CallContext::cancel_on_drop`].
#[derive(Debug)]
pub struct CancelOnDrop<'a> {
    cancelled: Option<&'a AtomicBool>,
}

impl CancelOnDrop<'_> {
    /// The answer has arrived: nothing is cancelled any more.
    pub fn disarm(mut self) {
        self.cancelled = None;
    }
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(cancelled) = self.cancelled {
            cancelled.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_the_guard_cancels_every_clone() {
        let context = CallContext::new();
        let seen_by_the_work = context.clone();

        drop(context.cancel_on_drop());

        assert!(seen_by_the_work.is_cancelled());
    }

    #[test]
    fn a_disarmed_guard_cancels_nothing() {
        let context = CallContext::new();

        context.cancel_on_drop().disarm();

        assert!(!context.is_cancelled());
    }

    #[test]
    fn a_deadline_in_the_past_counts_as_cancelled() {
        assert!(CallContext::with_deadline(Instant::now()).is_cancelled());
    }

    #[test]
    fn the_earlier_deadline_wins() {
        let early = Instant::now();
        let late = early + Duration::from_secs(60);

        assert_eq!(CallContext::with_deadline(early).no_later_than(late).deadline(), Some(early));
        assert_eq!(CallContext::with_deadline(late).no_later_than(early).deadline(), Some(early));
    }
}

//! Counts the calls and subscriptions in flight in one plugin.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Entry is refused.
const CLOSED: u64 = 1 << 63;
/// Callers wait until it is released.
const HELD: u64 = 1 << 62;
/// One entry of each kind, as added to the state. Each count has at least 20 bits.
const CALL: u64 = 1;
const SLOW_CALL: u64 = 1 << 20;
const STREAM: u64 = 1 << 40;
/// The bits of each kind's count.
const CALLS: u64 = SLOW_CALL - CALL;
const SLOW_CALLS: u64 = STREAM - SLOW_CALL;
const STREAMS: u64 = HELD - STREAM;

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A cheap call.
    Call,
    /// A call that runs the EVM or scans.
    SlowCall,
    /// A subscription.
    Stream,
}

impl Kind {
    const fn one(self) -> u64 {
        match self {
            Self::Call => CALL,
            Self::SlowCall => SLOW_CALL,
            Self::Stream => STREAM,
        }
    }
}

/// Result of [`Gate::enter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Entered; the caller must [`Gate::leave`].
    Inside,
    /// Wait with [`Gate::released`] and try again.
    Held,
    /// Closed for good.
    Closed,
    /// The maximum number of calls is inside.
    Full,
}

/// Counts calls and streams, can be held and closed, and notifies when the last one has left.
#[derive(Debug, Default)]
pub struct Gate {
    state: AtomicU64,
    /// Maximum number of calls inside; 0 means no limit.
    max_calls: u64,
    /// Notified when a call leaves a held or closed gate, and when the gate is released.
    changed: Notify,
}

impl Gate {
    /// Creates a gate with a maximum number of concurrent calls.
    pub(crate) fn for_calls(max: Option<u32>) -> Self {
        Self { max_calls: max.map_or(0, |max| u64::from(max.max(1))), ..Self::default() }
    }

    /// Counts an entry, if the gate is open.
    pub(crate) fn enter(&self, kind: Kind) -> Entry {
        // Acquire/release on one word: closing sees every earlier entry, and every later entry sees the closing.
        let before = self.state.fetch_add(kind.one(), Ordering::AcqRel);
        if before & (CLOSED | HELD) == 0 {
            let is_full = self.max_calls != 0 && kind != Kind::Stream && calls_in(before) >= self.max_calls;
            if !is_full {
                return Entry::Inside;
            }
            self.leave(kind);
            return Entry::Full;
        }
        self.leave(kind);
        if before & CLOSED != 0 { Entry::Closed } else { Entry::Held }
    }

    pub(crate) fn leave(&self, kind: Kind) {
        let before = self.state.fetch_sub(kind.one(), Ordering::AcqRel);
        if before & (CLOSED | HELD) != 0 {
            self.changed.notify_waiters();
        }
    }

    /// Makes callers wait until [`Gate::release`].
    pub fn hold(&self) {
        self.state.fetch_or(HELD, Ordering::AcqRel);
    }

    /// Ends [`Gate::hold`].
    pub fn release(&self) {
        self.state.fetch_and(!HELD, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    /// Refuses all later callers.
    pub fn close(&self) {
        self.state.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// Number of calls inside.
    pub fn calls(&self) -> u64 {
        calls_in(self.state.load(Ordering::Acquire))
    }

    /// Number of streams inside.
    pub fn streams(&self) -> u64 {
        (self.state.load(Ordering::Acquire) & STREAMS) / STREAM
    }

    /// Waits until it is empty. Only useful after [`Gate::close`].
    pub(crate) async fn drained(&self) {
        self.wait(|state| state & (CALLS | SLOW_CALLS | STREAMS) == 0).await;
    }

    /// Waits until no cheap call is inside. Only useful after [`Gate::hold`] or [`Gate::close`].
    pub async fn without_cheap_calls(&self) {
        self.wait(|state| state & CALLS == 0).await;
    }

    /// Waits until the gate is not held.
    pub(crate) async fn released(&self) {
        self.wait(|state| state & HELD == 0).await;
    }

    async fn wait(&self, is_reached: impl Fn(u64) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Register before checking the state, so that no change in between is missed.
            changed.as_mut().enable();
            if is_reached(self.state.load(Ordering::Acquire)) {
                return;
            }
            changed.await;
        }
    }
}

const fn calls_in(state: u64) -> u64 {
    (state & CALLS) / CALL + (state & SLOW_CALLS) / SLOW_CALL
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_closed_gate_lets_no_call_in_and_drains_when_the_last_one_leaves() {
        let gate = Gate::default();
        assert_eq!(gate.enter(Kind::Call), Entry::Inside);
        assert_eq!(gate.enter(Kind::Stream), Entry::Inside);

        gate.close();

        assert_eq!(gate.enter(Kind::Call), Entry::Closed);
        assert_eq!((gate.calls(), gate.streams()), (1, 1));
        let mut drained = Box::pin(gate.drained());
        assert!(drained.as_mut().now_or_never().is_none());
        gate.leave(Kind::Stream);
        assert!(drained.as_mut().now_or_never().is_none());
        gate.leave(Kind::Call);
        assert!(drained.as_mut().now_or_never().is_some());
    }

    #[test]
    fn a_full_gate_lets_the_next_call_in_when_one_has_left() {
        let gate = Gate::for_calls(Some(2));
        assert_eq!(gate.enter(Kind::Call), Entry::Inside);
        assert_eq!(gate.enter(Kind::SlowCall), Entry::Inside);

        assert_eq!(gate.enter(Kind::Call), Entry::Full);
        assert_eq!(gate.enter(Kind::Stream), Entry::Inside, "subscriptions are not counted");
        assert_eq!(gate.calls(), 2);
        gate.leave(Kind::SlowCall);
        assert_eq!(gate.enter(Kind::Call), Entry::Inside);
    }

    #[test]
    fn a_held_gate_keeps_callers_waiting_and_lets_those_inside_finish() {
        let gate = Gate::default();
        assert_eq!(gate.enter(Kind::Call), Entry::Inside);
        assert_eq!(gate.enter(Kind::Stream), Entry::Inside);
        assert_eq!(gate.enter(Kind::SlowCall), Entry::Inside);

        gate.hold();

        assert_eq!(gate.enter(Kind::Call), Entry::Held);
        let mut released = Box::pin(gate.released());
        let mut without_cheap_calls = Box::pin(gate.without_cheap_calls());
        assert!(released.as_mut().now_or_never().is_none());
        assert!(without_cheap_calls.as_mut().now_or_never().is_none());
        gate.leave(Kind::Call);
        assert!(without_cheap_calls.as_mut().now_or_never().is_some(), "neither a stream nor a slow call counts");
        assert_eq!(gate.calls(), 1);
        gate.release();
        assert!(released.as_mut().now_or_never().is_some());
        assert_eq!(gate.enter(Kind::Call), Entry::Inside);
    }
}

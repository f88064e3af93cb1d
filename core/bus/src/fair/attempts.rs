//! Time used by clients' attempts: jobs that run on the request's own task before anything is queued.
//!
//! Attempts run on the threads that serve connections, so a client with many connections could occupy all of them. Each
//! client has an allowance per time window; once it is used up, its requests are queued like other work.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use crate::ClientId;

/// Length of a window, after which the sum restarts at zero. Another client's request waits behind the attempts of at
/// most one window.
const WINDOW: Duration = Duration::from_millis(5);
/// Number of sums. Two clients whose hashes collide share an allowance.
const PLACES: usize = 256;

/// Sums of attempts, by client.
#[derive(Debug)]
pub(super) struct Attempts {
    epoch: Instant,
    /// Nanoseconds that one client's attempts may take per window.
    allowed: u64,
    /// The window's number in the upper 32 bits, nanoseconds in the lower 32. Atomic words without a lock, because
    /// every attempt reads and writes one.
    places: Box<[AtomicU64]>,
}

impl Attempts {
    /// Allows each client half of the time of `threads` threads.
    pub(super) fn new(threads: usize) -> Self {
        let threads = u32::try_from(threads.clamp(1, 1_024)).unwrap_or(1);
        let allowed = nanos(WINDOW.saturating_mul(threads) / 2).min(u64::from(u32::MAX));
        Self { epoch: Instant::now(), allowed, places: (0..PLACES).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Returns whether the client has some of its allowance left.
    pub(super) fn has_time(&self, client: ClientId, now: Instant) -> bool {
        let used = self.place(client).map_or(0, |place| self.used(place.load(Ordering::Relaxed), now));
        used < self.allowed
    }

    /// Adds an attempt that ended `now` to its client's sum.
    pub(super) fn add(&self, client: ClientId, time: Duration, now: Instant) {
        let Some(place) = self.place(client) else { return };
        let sum = |word| {
            let used = self.used(word, now).saturating_add(nanos(time)).min(u64::from(u32::MAX));
            Some(self.window(now) << 32 | used)
        };
        // The closure always returns a value, so this cannot fail.
        let _ = place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
    }

    /// Nanoseconds that `word` records for the current window.
    fn used(&self, word: u64, now: Instant) -> u64 {
        if word >> 32 == self.window(now) { word & u64::from(u32::MAX) } else { 0 }
    }

    /// Number of the window that contains an instant. It wraps after half a year, which is harmless.
    fn window(&self, now: Instant) -> u64 {
        let elapsed = now.saturating_duration_since(self.epoch);
        (nanos(elapsed) / nanos(WINDOW)) & u64::from(u32::MAX)
    }

    fn place(&self, client: ClientId) -> Option<&AtomicU64> {
        // Fibonacci hashing: addresses differ in their low bits.
        let hash = client.as_number().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.places.get((hash >> 56) as usize % PLACES)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_half_of_the_threads_time_in_each_window() {
        let attempts = Attempts::new(2);
        let (greedy, modest) = (ClientId::from_number(1), ClientId::from_number(2));
        let now = attempts.epoch;

        attempts.add(greedy, WINDOW - Duration::from_nanos(1), now);
        assert!(attempts.has_time(greedy, now));
        attempts.add(greedy, Duration::from_nanos(1), now);

        assert!(!attempts.has_time(greedy, now));
        assert!(attempts.has_time(modest, now));
        assert!(attempts.has_time(greedy, now + WINDOW), "the next window");
    }

    #[test]
    fn a_sum_does_not_overflow_into_the_number_of_its_window() {
        let attempts = Attempts::new(1);
        let (client, now) = (ClientId::from_number(1), attempts.epoch);

        attempts.add(client, Duration::MAX, now);
        attempts.add(client, Duration::MAX, now);

        assert!(!attempts.has_time(client, now));
        assert!(attempts.has_time(client, now + WINDOW));
    }
}

//! Rate limit per client: each request adds lines to the log, which is never shortened.

use std::{collections::HashMap, time::Instant};

use parking_lot::Mutex;

/// Token buckets, one per client, whose capacity is the number of requests per minute.
#[derive(Debug)]
pub(crate) struct Rate {
    per_minute: f64,
    /// Remaining requests of each client, and the time of that count. Not held across an await.
    left: Mutex<HashMap<String, (f64, Instant)>>,
}

impl Rate {
    pub(crate) fn new(per_minute: u32) -> Self {
        Self { per_minute: f64::from(per_minute), left: Mutex::default() }
    }

    /// Takes one request from the client's bucket; `false` if it is empty. Only names from the settings occur, so the
    /// map stays small.
    pub(crate) fn take(&self, client: &str, now: Instant) -> bool {
        let mut left = self.left.lock();
        let (count, counted) = left.entry(client.to_owned()).or_insert((self.per_minute, now));
        let earned = now.saturating_duration_since(*counted).as_secs_f64() * self.per_minute / 60.0;
        (*count, *counted) = ((*count + earned).min(self.per_minute), now);
        let is_free = *count >= 1.0;
        if is_free {
            *count -= 1.0;
        }
        is_free
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clients_requests_per_minute_are_its_own_and_are_restored_after_a_minute() {
        let (rate, start) = (Rate::new(60), Instant::now());
        let taken = |client: &str, count: usize, now: Instant| (0..count).filter(|_| rate.take(client, now)).count();

        assert_eq!(taken("a", 100, start), 60);
        assert_eq!(taken("b", 100, start), 60);
        assert_eq!(taken("a", 100, start + Duration::from_secs(10)), 10);
        assert_eq!(taken("a", 100, start + Duration::from_secs(1_000)), 60);
    }
}

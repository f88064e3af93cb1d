//! How many requests a client may make in a time: each one makes lines in the log, which nothing shortens.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// Requests that each client may make: so many at once, and so many a minute.
#[derive(Debug)]
pub(crate) struct Rate {
    per_minute: f64,
    /// What is left of each client, and when it was counted. Nothing awaits under the lock.
    left: Mutex<HashMap<String, (f64, Instant)>>,
}

impl Rate {
    pub(crate) fn new(per_minute: u32) -> Self {
        Self { per_minute: f64::from(per_minute), left: Mutex::default() }
    }

    /// Takes one request of a client; false if none is left. Names are those of the settings, so that there are few.
    pub(crate) fn take(&self, client: &str, now: Instant) -> bool {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
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
    fn a_client_has_its_requests_back_after_a_minute_and_takes_none_of_others() {
        let (rate, start) = (Rate::new(60), Instant::now());
        let taken = |client: &str, count: usize, now: Instant| (0..count).filter(|_| rate.take(client, now)).count();

        assert_eq!(taken("a", 100, start), 60);
        assert_eq!(taken("b", 100, start), 60);
        assert_eq!(taken("a", 100, start + Duration::from_secs(10)), 10);
        assert_eq!(taken("a", 100, start + Duration::from_secs(1_000)), 60);
    }
}

//! Outcomes of the database's writes.
//!
//! The engine counts failed flushes and compactions, but not failed writes of its log, where a full disk shows first.
//! [`WriteRecord`] therefore records the outcome of each write.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use tenon_api::{WriteFailure, WriteOutcomes};

use crate::full_disk::{SPACE_TO_WRITE, is_full_disk, with_advice};

/// Number of panics in a row after which the writer counts as broken. A single panic is not enough: the database is
/// read from the disk again after it, and is sound. A development node makes blocks on demand, so the successful change
/// that would prove this may come much later.
const BROKEN_AFTER: u32 = 2;

/// Outcomes of a database's writes. Recording a success costs reading the clock and two atomics.
#[derive(Debug, Default)]
pub(crate) struct WriteRecord {
    /// Unix seconds; 0 before the first success.
    last_success: AtomicU64,
    /// Unix seconds of the first failure since the last success; 0 if there is none.
    failing_since: AtomicU64,
    /// Unix seconds of the first panic in a change of the chain since the last successful one; 0 if there is none.
    panicking_since: AtomicU64,
    /// Panics in changes of the chain since the last successful one.
    panics: AtomicU32,
    /// The engine's error of the latest failure. Locked when a write fails and on queries.
    reason: Mutex<String>,
}

impl WriteRecord {
    /// Records the outcome of a write.
    pub(crate) fn note(&self, outcome: &Result<(), rocksdb::Error>) {
        self.note_at(outcome.as_ref().err().map(|error| error.as_ref()), unix_time());
    }

    fn note_at(&self, failure: Option<&str>, now: u64) {
        let Some(reason) = failure else {
            self.last_success.store(now, Ordering::Relaxed);
            // A shared read is cheaper than a write, and there is rarely a failure to clear.
            if self.failing_since.load(Ordering::Relaxed) != 0 {
                self.failing_since.store(0, Ordering::Relaxed);
            }
            return;
        };
        *self.reason.lock() = with_advice(reason);
        // Keeps the time of the first failure.
        let _ = self.failing_since.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Records that a change of the chain panicked.
    pub(crate) fn note_panic(&self) {
        // Keeps the time of the first panic.
        let _ = self.panicking_since.compare_exchange(0, unix_time(), Ordering::Relaxed, Ordering::Relaxed);
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that a change of the chain was made.
    pub(crate) fn note_chain_write(&self) {
        if self.panicking_since.load(Ordering::Relaxed) != 0 {
            self.panicking_since.store(0, Ordering::Relaxed);
            self.panics.store(0, Ordering::Relaxed);
        }
    }

    fn failure(&self, since: u64) -> WriteFailure {
        let reason = self.reason.lock().clone();
        let space_needed = is_full_disk(&reason).then_some(SPACE_TO_WRITE as u64);
        WriteFailure { since, reason, space_needed }
    }

    /// `needs_reload`: whether reading the store from the disk again failed after the last panic.
    pub(crate) fn outcomes(&self, needs_reload: bool) -> WriteOutcomes {
        let is_broken = needs_reload || self.panics.load(Ordering::Relaxed) >= BROKEN_AFTER;
        let time = |of: &AtomicU64| Some(of.load(Ordering::Relaxed)).filter(|time| *time > 0);
        WriteOutcomes {
            last_success: time(&self.last_success),
            failure: time(&self.failing_since).map(|since| self.failure(since)),
            panicking_since: time(&self.panicking_since).filter(|_| is_broken),
        }
    }
}

/// At least 1, even if the clock is before 1970, so that 0 can mean "never".
pub(crate) fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |elapsed| elapsed.as_secs().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_time_of_the_first_failure_and_the_error_of_the_latest_until_a_write_succeeds() {
        let record = WriteRecord::default();
        assert_eq!(record.outcomes(false), WriteOutcomes::default());

        record.note_at(None, 5);
        record.note_at(Some("no space"), 7);
        record.note_at(Some("still none"), 9);
        let failure = Some(WriteFailure { since: 7, reason: "still none".to_owned(), space_needed: None });
        let expected = WriteOutcomes { last_success: Some(5), failure, panicking_since: None };
        assert_eq!(record.outcomes(false), expected);

        record.note_at(None, 11);
        let expected = WriteOutcomes { last_success: Some(11), failure: None, panicking_since: None };
        assert_eq!(record.outcomes(false), expected);
    }

    #[test]
    fn a_full_disk_is_reported_with_the_space_that_is_needed() {
        let record = WriteRecord::default();

        record.note_at(Some("IO error: No space left on device: While appending to file: /db/000004.log"), 7);

        let failure = record.outcomes(false).failure.unwrap();
        assert!(
            failure.reason.ends_with("/db/000004.log; free at least 64 MiB on the disk of the database"),
            "{failure:?}"
        );
        assert_eq!(failure.space_needed, Some(64 << 20));
    }

    #[test]
    fn panics_count_from_the_second_in_a_row_until_the_chain_is_changed_again() {
        let record = WriteRecord::default();
        let is_broken = || record.outcomes(false).panicking_since.is_some();

        record.note_panic();
        assert!(!is_broken());
        // Not a change of the chain.
        record.note_at(None, 5);
        record.note_panic();
        assert!(is_broken());

        record.note_chain_write();
        assert!(!is_broken());
        record.note_panic();
        assert!(!is_broken());
    }

    #[test]
    fn a_single_panic_counts_while_the_database_cannot_be_read_again() {
        let record = WriteRecord::default();
        assert_eq!(record.outcomes(true).panicking_since, None);

        record.note_panic();

        assert!(record.outcomes(true).panicking_since.is_some());
        assert_eq!(record.outcomes(false).panicking_since, None);
    }
}

//! Computes some results twice, to detect a processor or a build that computes wrongly.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::RecoveryError;

/// Builds with debug assertions compute one result in 16 again.
const DEBUG_CHECK_INTERVAL: u32 = 16;

/// The checks of this process.
pub(crate) static CHECKS: Checks = Checks::new(if cfg!(debug_assertions) { DEBUG_CHECK_INTERVAL } else { 0 });

/// Results of the checks since the program began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckStatus {
    /// Signatures recovered in vectors.
    pub results: u64,
    /// How many of these the C library computed again.
    pub checked: u64,
    /// How many of these differed. After the first difference, the C library recovers all signatures, including those
    /// of batches in progress.
    pub wrong: u64,
}

/// Makes the C library compute one result in `count` a second time; 0 turns the checks off. Builds with debug
/// assertions start with 16, others with 0.
///
/// If the results differ, the C library's result is used, an error is logged, and the process stops using vectors.
pub fn check_one_in(count: u32) {
    CHECKS.one_in.store(count, Ordering::Relaxed);
}

/// Results of the checks since the program began.
pub fn check_status() -> CheckStatus {
    CHECKS.status()
}

/// Which results are recomputed, and the outcome.
pub(crate) struct Checks {
    /// One result in this number is recomputed; 0 means none.
    one_in: AtomicU32,
    results: AtomicU64,
    checked: AtomicU64,
    wrong: AtomicU64,
}

impl Checks {
    pub(crate) const fn new(one_in: u32) -> Self {
        Self {
            one_in: AtomicU32::new(one_in),
            results: AtomicU64::new(0),
            checked: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
        }
    }

    fn status(&self) -> CheckStatus {
        CheckStatus {
            results: self.results.load(Ordering::Relaxed),
            checked: self.checked.load(Ordering::Relaxed),
            wrong: self.wrong.load(Ordering::Relaxed),
        }
    }

    /// Returns whether a result was wrong.
    pub(crate) fn have_failed(&self) -> bool {
        self.wrong.load(Ordering::Relaxed) > 0
    }

    /// Returns a vector result. If it is selected for a check, the C library computes it again, and its result is
    /// returned.
    ///
    /// # Errors
    /// The C library's, if it finds no key.
    pub(crate) fn confirmed<T: PartialEq>(
        &self,
        found: T,
        again: impl FnOnce() -> Result<T, RecoveryError>,
    ) -> Result<T, RecoveryError> {
        let number = self.results.fetch_add(1, Ordering::Relaxed);
        let one_in = u64::from(self.one_in.load(Ordering::Relaxed));
        // Shifts by one in each round, so that every lane is checked.
        if one_in == 0 || number % one_in != number / one_in % one_in {
            return Ok(found);
        }
        self.checked.fetch_add(1, Ordering::Relaxed);
        let expected = again();
        if expected.as_ref() != Ok(&found) && self.wrong.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::error!(
                "a signer was recovered wrongly: this processor or this build of the program is faulty; signatures are recovered one by one from now on"
            );
        }
        expected
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failure fails the test")]
mod tests {
    use super::*;

    #[test]
    fn every_lane_is_checked() {
        let checks = Checks::new(DEBUG_CHECK_INTERVAL);
        let mut lanes = [0; 8];
        for number in 0..256_usize {
            checks
                .confirmed(number, || {
                    lanes[number % 8] += 1;
                    Ok(number)
                })
                .unwrap();
        }
        assert_eq!(lanes, [2; 8]);
    }

    #[test]
    fn one_result_in_n_is_computed_again_and_a_wrong_one_is_replaced() {
        let checks = Checks::new(3);
        let found: Vec<_> =
            (0..9).map(|number| checks.confirmed(number, || Ok(if number == 4 { 40 } else { number }))).collect();
        assert_eq!(found, [0, 1, 2, 3, 40, 5, 6, 7, 8].map(Ok));
        assert_eq!(checks.status(), CheckStatus { results: 9, checked: 3, wrong: 1 });

        checks.one_in.store(0, Ordering::Relaxed);
        assert_eq!(checks.confirmed(1, || Err(RecoveryError::NoPublicKey)), Ok(1));
        checks.one_in.store(1, Ordering::Relaxed);
        assert_eq!(checks.confirmed(1, || Err(RecoveryError::NoPublicKey)), Err(RecoveryError::NoPublicKey));
        assert_eq!(checks.status(), CheckStatus { results: 11, checked: 4, wrong: 2 });
    }
}

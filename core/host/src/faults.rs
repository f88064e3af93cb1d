//! The account of what goes wrong in one plugin.

use std::sync::atomic::{AtomicU64, Ordering};

use tenon_api::{Failure, FailureCode};

/// The words for an answer that is none.
pub(crate) const NO_RESULT: &str = "the plugin gave no result";
/// The words for an answer that cannot go into a response.
pub(crate) const NOT_JSON: &str = "the plugin gave a result that is not JSON";
/// The words of a panic, which the plugin's own side of the boundary catches.
const CRASHED: &str = "method handler crashed";
/// What stands in every failure of a plugin whose process has ended.
pub(crate) const PROCESS: &str = ": its process has ended";

/// Whether a failure tells of a panic.
pub(crate) fn is_crash(failure: &Failure) -> bool {
    failure.code == FailureCode::SERVER && failure.message == CRASHED
}

/// Counts faults since the plugin was started.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    failed: AtomicU64,
    panics: AtomicU64,
    refused: AtomicU64,
}

impl Faults {
    /// Counts a failure if it is the plugin's fault, not an answer of it.
    pub(crate) fn note(&self, failure: &Failure) {
        let Failure { code, message, .. } = failure;
        let is_fault = *code == FailureCode::SERVER
            && ([NO_RESULT, NOT_JSON, CRASHED].contains(&message.as_str())
                || message.starts_with("plugin ") && message.contains(PROCESS));
        if is_fault {
            self.failed.fetch_add(1, Ordering::Relaxed);
            if is_crash(failure) {
                self.panics.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Counts a call that was refused because too many ran.
    pub(crate) fn note_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// How many of the failed ones ended in a panic.
    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_no_faults() {
        let faults = Faults::default();
        let cases = [
            (Failure::server(CRASHED), 1),
            (Failure::server(NOT_JSON), 2),
            (Failure::server("plugin bad: its process has ended: signal 9, killed"), 3),
            (Failure::server("insufficient funds"), 3),
            (Failure::invalid_params(CRASHED), 3),
        ];
        for (failure, count) in cases {
            faults.note(&failure);

            assert_eq!(faults.failed(), count, "{failure}");
        }
        assert_eq!(faults.panics(), 1);
    }
}

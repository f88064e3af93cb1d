//! The account of what goes wrong in one plugin.

use std::sync::atomic::{AtomicU64, Ordering};

use tenon_api::{Failure, FailureCode};

/// The words for an answer that is none.
pub(crate) const NO_RESULT: &str = "the plugin gave no result";
/// The words for an answer that cannot go into a response.
pub(crate) const NOT_JSON: &str = "the plugin gave a result that is not JSON";
/// The words of a panic, which the plugin's own side of the boundary catches.
const CRASHED: &str = "method handler crashed";
/// The words of a call that was not answered in time.
const LATE: &str = "request timed out";
/// What stands in every failure of a plugin whose process has ended.
pub(crate) const PROCESS: &str = ": its process has ended";

/// Whether a failure tells of a panic.
pub(crate) fn is_crash(failure: &Failure) -> bool {
    failure.code == FailureCode::SERVER && failure.message == CRASHED
}

/// What a failure says about the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing: it is an answer.
    None,
    /// Its code panicked.
    Panic,
    /// It did not answer in time.
    Late,
    /// Its process ended, or its answer was none.
    Other,
}

impl Fault {
    fn of(failure: &Failure) -> Self {
        let Failure { code, message, .. } = failure;
        let is_none = [NO_RESULT, NOT_JSON].contains(&message.as_str());
        let has_ended = message.starts_with("plugin ") && message.contains(PROCESS);
        match *code {
            FailureCode::SERVER if is_crash(failure) => Self::Panic,
            FailureCode::SERVER if is_none || has_ended => Self::Other,
            FailureCode::LIMIT_EXCEEDED if message == LATE => Self::Late,
            _ => Self::None,
        }
    }
}

/// Counts faults since the plugin was started.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    failed: AtomicU64,
    late: AtomicU64,
    panics: AtomicU64,
    refused: AtomicU64,
}

impl Faults {
    /// Counts a failure if it is the plugin's fault, not an answer of it.
    pub(crate) fn note(&self, failure: &Failure) -> Fault {
        let fault = Fault::of(failure);
        if fault != Fault::None {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        match fault {
            Fault::Panic => self.panics.fetch_add(1, Ordering::Relaxed),
            Fault::Late => self.late.fetch_add(1, Ordering::Relaxed),
            Fault::None | Fault::Other => 0,
        };
        fault
    }

    /// How many of the failed ones were not answered in time.
    pub(crate) fn late(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
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
            (Failure::limit("query returned more than 10000 results"), 3),
            (Failure::limit(LATE), 4),
        ];
        for (failure, count) in cases {
            faults.note(&failure);

            assert_eq!(faults.failed(), count, "{failure}");
        }
        assert_eq!((faults.panics(), faults.late()), (1, 1));
    }
}

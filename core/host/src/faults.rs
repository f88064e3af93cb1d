//! Fault counts of one plugin.

use std::sync::atomic::{AtomicU64, Ordering};

use tenon_sdk::{Failure, FailureCode};

/// Message for a missing result.
pub(crate) const NO_RESULT: &str = "the plugin gave no result";
/// Message for a result that cannot go into a response.
pub const NOT_JSON: &str = "the plugin gave a result that is not JSON";
/// Message of a call that timed out.
const TIMED_OUT: &str = "request timed out";
/// Text in every failure of a plugin whose process has ended.
pub const PROCESS_ENDED: &str = ": its process has ended";

/// Classifies a failure as a plugin's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No fault: an ordinary error response.
    None,
    /// Its code panicked.
    Panic,
    /// It timed out.
    TimedOut,
    /// Its process ended, its result was missing or not JSON, or it passed on the panic of a method that it had called.
    Other,
}

impl Fault {
    fn of(failure: &Failure) -> Self {
        let Failure { code, message, .. } = failure;
        let is_none = [NO_RESULT, NOT_JSON].contains(&message.as_str());
        let has_ended = message.starts_with("plugin ") && message.contains(PROCESS_ENDED);
        match *code {
            FailureCode::CRASHED => Self::Panic,
            FailureCode::CALLEE_CRASHED => Self::Other,
            FailureCode::SERVER if is_none || has_ended => Self::Other,
            FailureCode::LIMIT_EXCEEDED if message == TIMED_OUT => Self::TimedOut,
            _ => Self::None,
        }
    }
}

/// Counts faults since the plugin was started.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    failed: AtomicU64,
    timed_out: AtomicU64,
    panics: AtomicU64,
    refused: AtomicU64,
}

impl Faults {
    /// Counts a failure if it is the plugin's fault rather than an ordinary error response.
    pub(crate) fn note(&self, failure: &Failure) -> Fault {
        let fault = Fault::of(failure);
        if fault != Fault::None {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        match fault {
            Fault::Panic => self.panics.fetch_add(1, Ordering::Relaxed),
            Fault::TimedOut => self.timed_out.fetch_add(1, Ordering::Relaxed),
            Fault::None | Fault::Other => 0,
        };
        fault
    }

    /// Number of failed calls that timed out.
    pub(crate) fn timed_out(&self) -> u64 {
        self.timed_out.load(Ordering::Relaxed)
    }

    /// Counts a call that was refused because too many were running.
    pub(crate) fn note_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Number of failed calls that panicked.
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
            (Failure::crashed(FailureCode::CRASHED), 1),
            (Failure::server(NOT_JSON), 2),
            (Failure::server("plugin bad: its process has ended: signal 9, killed"), 3),
            (Failure::server("insufficient funds"), 3),
            // A plugin may use the text of a panic for something else.
            (Failure::server("method handler crashed"), 3),
            (Failure::limit("query returned more than 10000 results"), 3),
            (Failure::limit(TIMED_OUT), 4),
            (Failure::crashed(FailureCode::CALLEE_CRASHED), 5),
        ];
        for (failure, count) in cases {
            faults.note(&failure);

            assert_eq!(faults.failed(), count, "{failure}");
        }
        assert_eq!((faults.panics(), faults.timed_out()), (1, 1));
    }
}

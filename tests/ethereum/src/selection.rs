//! Selects and runs cases.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};

use crate::{
    CaseReport, Difference, Outcome, Skips, Suite,
    outcome::{Check, Unmet},
};

/// The selected cases.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only these suites; all if empty.
    pub suites: Vec<Suite>,
    /// Only cases whose name contains this.
    pub filter: Option<String>,
    /// Only files whose path contains one of these; all if empty.
    pub files: Vec<String>,
    /// Cases to skip.
    pub skips: Skips,
    /// Whether to run cases that would be skipped.
    pub with_skipped: bool,
}

impl Selection {
    /// Returns whether nothing is excluded by suite, name or file.
    pub(crate) fn is_of_everything(&self) -> bool {
        self.suites.is_empty() && self.filter.is_none() && self.files.is_empty()
    }

    /// Returns whether cases of this file may run.
    pub(crate) fn wants_file(&self, suite: Suite, path: &str) -> bool {
        let is_suite = self.suites.is_empty() || self.suites.contains(&suite);
        is_suite && (self.files.is_empty() || self.files.iter().any(|part| path.contains(part.as_str())))
    }

    /// Runs a case if it is selected. A panic is a failure of the case.
    pub(crate) fn run(&self, suite: Suite, name: String, case: impl FnOnce() -> Check) -> Option<CaseReport> {
        self.report(suite, name, || {
            let check = catch_unwind(AssertUnwindSafe(case))
                .unwrap_or_else(|panic| Err(Difference::new("panic", panic_text(&*panic), "none").into()));
            check.into()
        })
    }

    /// Counts a case that cannot be run.
    pub(crate) fn unmet(&self, suite: Suite, name: String, unmet: Unmet) -> Option<CaseReport> {
        self.report(suite, name, || Err(unmet).into())
    }

    fn report(&self, suite: Suite, name: String, outcome: impl FnOnce() -> Outcome) -> Option<CaseReport> {
        if self.filter.as_ref().is_some_and(|part| !name.contains(part.as_str())) {
            return None;
        }
        let skip = if self.with_skipped { None } else { self.skips.find(&name) };
        let start = Instant::now();
        let outcome = match skip {
            Some(skip) => Outcome::Skipped { reason: skip.reason.clone() },
            None => outcome(),
        };
        let milliseconds = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        Some(CaseReport { suite, name, outcome, milliseconds })
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_else(|| "panic".to_owned())
}

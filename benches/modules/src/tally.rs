//! Counts and checks every answer.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tenon_latencies::Latencies;

use crate::modules::{OperationKind, SUBJECTS};

/// Number of wrong answers kept for the report.
const MAX_SHOWN: usize = 20;

/// Answers of one module.
#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) right: u64,
    /// Errors allowed by the operations of the moment.
    pub(crate) allowed: u64,
    pub(crate) wrong: u64,
    pub(crate) quiet: Latencies,
    pub(crate) busy: Latencies,
}

/// The results of all connections.
#[derive(Default)]
pub(crate) struct Tally {
    /// By module. Nothing awaits under the lock.
    answers: Mutex<[Answers; SUBJECTS.len()]>,
    /// By module: odd while it may be disabled. Changed by the operator only.
    unavailable: [AtomicU64; SUBJECTS.len()],
    shown: Mutex<Vec<String>>,
    /// How often the counter returned each number.
    numbers: Mutex<BTreeMap<u64, u32>>,
    /// Number of blocks announced by the subscription.
    pub(crate) heads: AtomicU64,
    is_busy: AtomicBool,
}

/// State of a module, and of the run, when a request was sent.
pub(crate) struct RequestState {
    unavailable: u64,
    is_busy: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tally {
    /// Starts counting latencies as those under operations.
    pub(crate) fn begin_operations(&self) {
        self.is_busy.store(true, Ordering::SeqCst);
    }

    /// Records that the module may be disabled from now on.
    pub(crate) fn mark_unavailable(&self, module: usize) {
        let before = self.unavailable[module].load(Ordering::SeqCst);
        self.unavailable[module].store(before | 1, Ordering::SeqCst);
    }

    /// Records that the module serves again: later requests must succeed.
    pub(crate) fn mark_available(&self, module: usize) {
        let before = self.unavailable[module].load(Ordering::SeqCst);
        if before % 2 == 1 {
            self.unavailable[module].store(before + 1, Ordering::SeqCst);
        }
    }

    pub(crate) fn request_state(&self, module: usize) -> RequestState {
        RequestState {
            unavailable: self.unavailable[module].load(Ordering::SeqCst),
            is_busy: self.is_busy.load(Ordering::SeqCst),
        }
    }

    pub(crate) fn record_correct(&self, module: usize, asked: &RequestState, latency: Duration) {
        let answers = &mut lock(&self.answers)[module];
        answers.right += 1;
        let latencies = if asked.is_busy { &mut answers.busy } else { &mut answers.quiet };
        latencies.add(latency);
    }

    /// Counts an error, as allowed if the module was disabled at some time since the request.
    pub(crate) fn error(&self, module: usize, asked: &RequestState, method: &str, code: i64, message: &str) {
        let subject = SUBJECTS[module];
        let was_unavailable =
            asked.unavailable % 2 == 1 || self.unavailable[module].load(Ordering::SeqCst) != asked.unavailable;
        let is_known = match subject.operation_kind {
            OperationKind::Untouched | OperationKind::Replaced => false,
            OperationKind::Switched => is_gone(code, message),
            OperationKind::Killed => is_gone(code, message) || is_ended(code, message),
        };
        if was_unavailable && is_known {
            lock(&self.answers)[module].allowed += 1;
        } else {
            let state = if was_unavailable { "while it was unavailable" } else { "although it was available" };
            self.wrong(module, format!("{method} {state}: error {code}: {message}"));
        }
    }

    pub(crate) fn wrong(&self, module: usize, what: String) {
        lock(&self.answers)[module].wrong += 1;
        let mut shown = lock(&self.shown);
        if shown.len() < MAX_SHOWN {
            println!("  WRONG  {}: {what}", SUBJECTS[module].name);
            shown.push(format!("{}: {what}", SUBJECTS[module].name));
        }
    }

    pub(crate) fn number(&self, number: u64) {
        *lock(&self.numbers).entry(number).or_default() += 1;
    }

    /// How many numbers the counter returned, repeated, and skipped.
    pub(crate) fn numbers(&self) -> (u64, u64, u64) {
        let numbers = lock(&self.numbers);
        let given = numbers.values().map(|count| u64::from(*count)).sum();
        let twice = numbers.values().filter(|count| **count > 1).count() as u64;
        let highest = numbers.keys().next_back().copied().unwrap_or_default();
        (given, twice, highest - numbers.len() as u64)
    }

    pub(crate) fn answers(&self) -> [Answers; SUBJECTS.len()] {
        std::mem::take(&mut *lock(&self.answers))
    }
}

/// The documented error of a missing namespace.
fn is_gone(code: i64, message: &str) -> bool {
    code == -32601 && message.ends_with("does not exist/is not available")
        // Calls still running at the end of the grace period.
        || code == -32000 && message.starts_with("call cancelled: namespace ")
}

/// The documented errors of a plugin whose process has ended.
fn is_ended(code: i64, message: &str) -> bool {
    let is_plugin = message.starts_with("plugin ") || message.starts_with("the plugin's process");
    code == -32000 && is_plugin && ["its process", "has failed", "has gone"].iter().any(|words| message.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong_answers(tally: &Tally) -> u64 {
        tally.answers().iter().map(|answers| answers.wrong).sum()
    }

    #[test]
    fn an_error_is_allowed_only_while_the_module_is_disabled_and_only_with_the_documented_texts() {
        let gone = (-32601, "the method net_version does not exist/is not available");
        let net = crate::modules::index("net").unwrap_or_default();
        let tally = Tally::default();

        let before = tally.request_state(net);
        tally.mark_unavailable(net);
        tally.error(net, &before, "net_version", gone.0, gone.1);
        let during = tally.request_state(net);
        tally.mark_available(net);
        tally.error(net, &during, "net_version", gone.0, gone.1);
        assert_eq!(wrong_answers(&tally), 0);

        tally.error(net, &tally.request_state(net), "net_version", gone.0, gone.1);
        tally.error(net, &before, "net_version", -32000, "method handler crashed");
        assert_eq!(wrong_answers(&tally), 2);
    }

    #[test]
    fn repeated_and_skipped_numbers_are_detected() {
        let tally = Tally::default();
        for number in [1, 2, 2, 5] {
            tally.number(number);
        }

        assert_eq!(tally.numbers(), (4, 1, 2));
    }
}

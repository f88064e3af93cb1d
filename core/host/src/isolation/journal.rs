//! What a plugin's process writes to the node's log, in bounded amounts.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::LONGEST_LINE;
use crate::boundary::Backend;

/// Lines a second that are written on average.
const LINES_A_SECOND: u32 = 50;
/// Lines that may come at once.
const BURST: u32 = 200;
/// How often it is said that lines are left out.
const NOTICE: Duration = Duration::from_secs(5);

/// The account of one plugin's lines.
#[derive(Debug)]
pub(super) struct Journal {
    /// Touched by the readers of one process; nothing awaits under the lock.
    account: Mutex<Account>,
}

#[derive(Debug)]
struct Account {
    /// Lines that may be written now.
    left: f64,
    counted: Instant,
    left_out: u64,
    noticed: Option<Instant>,
}

impl Journal {
    pub(super) fn new() -> Self {
        let account = Account { left: f64::from(BURST), counted: Instant::now(), left_out: 0, noticed: None };
        Self { account: Mutex::new(account) }
    }

    /// Writes a line, or counts it.
    pub(super) fn write(&self, backend: &dyn Backend, level: u32, line: &str) {
        let (is_written, left_out) = self.account.lock().unwrap_or_else(PoisonError::into_inner).count(Instant::now());
        if let Some(left_out) = left_out {
            backend.log(2, &format!("{left_out} lines of the plugin were left out: it writes too many"));
        }
        if is_written {
            let end = line.floor_char_boundary(LONGEST_LINE);
            // A line that holds control characters could pass for another line, or drive a terminal.
            let clean: String = line
                .get(..end)
                .unwrap_or_default()
                .chars()
                .map(|character| if character.is_control() && character != '\n' { '\u{fffd}' } else { character })
                .collect();
            backend.log(level, clean.trim_end().replace('\n', "\n  ").as_str());
        }
    }
}

impl Account {
    /// Whether a line may be written now, and how many lines to confess to.
    fn count(&mut self, now: Instant) -> (bool, Option<u64>) {
        let passed = now.saturating_duration_since(self.counted).as_secs_f64();
        self.counted = now;
        self.left = (passed.mul_add(f64::from(LINES_A_SECOND), self.left)).min(f64::from(BURST));
        let is_written = self.left >= 1.0;
        if is_written {
            self.left -= 1.0;
        } else {
            self.left_out += 1;
        }
        let is_time = self.noticed.is_none_or(|noticed| now.saturating_duration_since(noticed) >= NOTICE);
        if self.left_out == 0 || !is_time {
            return (is_written, None);
        }
        self.noticed = Some(now);
        (is_written, Some(std::mem::take(&mut self.left_out)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_confessed_to() {
        let begin = Instant::now();
        let mut account = Account { left: f64::from(BURST), counted: begin, left_out: 0, noticed: None };

        let written = (0..10_000).filter(|_| account.count(begin).0).count();
        let later = account.count(begin + NOTICE);

        assert_eq!(written, BURST as usize);
        // The first line that was left out was confessed to at once, the others when the time came.
        assert_eq!(later, (true, Some(10_000 - u64::from(BURST) - 1)));
        assert_eq!(account.count(begin + NOTICE), (true, None));
    }
}

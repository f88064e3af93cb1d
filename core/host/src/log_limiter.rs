//! A plugin's rate-limited output to the node's log.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tenon_api::{EventPosition, Topic};
use tenon_bus::CallContext;
use tenon_sdk::boundary::{ExportedFuture, ExportedStream};

use crate::boundary::Backend;

/// Maximum length of a plugin's log line, in bytes.
pub const MAX_LINE: usize = 4096;
/// Maximum burst, in seconds of the average rate.
const BURST: u32 = 4;
/// Interval of the notices about dropped lines.
const NOTICE: Duration = Duration::from_secs(5);

/// The rate limiter of one plugin's lines.
#[derive(Debug)]
pub struct LogLimiter {
    /// Locked for each line of the plugin; nothing awaits under the lock.
    rate: Mutex<LineRate>,
    omitted: AtomicU64,
}

#[derive(Debug)]
struct LineRate {
    /// Average lines per second.
    rate: f64,
    /// Lines that may be written now.
    left: f64,
    counted: Instant,
    left_out: u64,
    noticed: Option<Instant>,
}

impl LogLimiter {
    /// Creates a limiter with this average number of lines per second.
    pub fn new(lines: u32) -> Self {
        Self { rate: Mutex::new(LineRate::new(lines, Instant::now())), omitted: AtomicU64::new(0) }
    }

    /// Number of dropped lines.
    pub fn omitted(&self) -> u64 {
        self.omitted.load(Ordering::Relaxed)
    }

    /// Writes a line, or counts it as dropped.
    pub fn write(&self, backend: &dyn Backend, level: u32, line: &str) {
        let (is_written, left_out) = self.rate.lock().count(Instant::now());
        if let Some(left_out) = left_out {
            backend.log(2, &format!("{left_out} log lines of the plugin were dropped: it exceeds its limit of lines"));
        }
        if !is_written {
            self.omitted.fetch_add(1, Ordering::Relaxed);
        } else {
            let end = line.floor_char_boundary(MAX_LINE);
            // A line with control characters could imitate another line, or control a terminal.
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

impl LineRate {
    fn new(lines: u32, now: Instant) -> Self {
        let rate = f64::from(lines);
        Self { rate, left: rate * f64::from(BURST), counted: now, left_out: 0, noticed: None }
    }

    /// Whether a line may be written now, and how many dropped lines to report.
    fn count(&mut self, now: Instant) -> (bool, Option<u64>) {
        let passed = now.saturating_duration_since(self.counted).as_secs_f64();
        self.counted = now;
        self.left = passed.mul_add(self.rate, self.left).min(self.rate * f64::from(BURST));
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

/// The services of a plugin whose lines are limited.
pub(crate) struct RateLimitedLog<B> {
    pub(crate) backend: B,
    pub(crate) log_limiter: Arc<LogLimiter>,
}

impl<B: Backend> Backend for RateLimitedLog<B> {
    fn call_bus(&self, context: Option<&CallContext>, topic: Topic, schema: u32, frame: &[u8]) -> ExportedFuture {
        self.backend.call_bus(context, topic, schema, frame)
    }

    fn subscribe(&self, topic: Topic, schema: u32) -> ExportedStream {
        self.backend.subscribe(topic, schema)
    }

    fn call_json(&self, context: Option<&CallContext>, method: &[u8], params: &[u8]) -> ExportedFuture {
        self.backend.call_json(context, method, params)
    }

    fn hold(&self, client: u64, bytes: i64) -> bool {
        self.backend.hold(client, bytes)
    }

    fn log(&self, level: u32, message: &str) {
        self.log_limiter.write(&self.backend, level, message);
    }

    fn end_events(&self) -> EventPosition {
        self.backend.end_events()
    }

    fn stop(&self) {
        self.backend.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_over_the_limit_are_dropped_and_counted() {
        let begin = Instant::now();
        let mut rate = LineRate::new(50, begin);

        let written = (0..10_000).filter(|_| rate.count(begin).0).count();
        let later = rate.count(begin + NOTICE);

        assert_eq!(written, 200);
        // The first dropped line was reported at once, the others when the time came.
        assert_eq!(later, (true, Some(10_000 - 200 - 1)));
        assert_eq!(rate.count(begin + NOTICE), (true, None));
    }
}

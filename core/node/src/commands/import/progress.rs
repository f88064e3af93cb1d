//! Progress of an import: a bar on a terminal, a line every few seconds elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tenon_execution::ImportedBlock;

use crate::log_output;

/// Interval of the rate computation.
const PERIOD: Duration = Duration::from_millis(500);
/// Interval of the lines if there is no terminal.
const LINE_PERIOD: Duration = Duration::from_secs(5);

/// Counts blocks and reports progress.
pub(super) struct Progress {
    total_bytes: Option<u64>,
    bar: Option<ProgressBar>,
    started: Instant,
    last_rate: Instant,
    last_line: Instant,
    /// Counters at the last rate.
    before: Counters,
    now: Counters,
    rates: String,
}

#[derive(Clone, Copy, Default)]
struct Counters {
    blocks: u64,
    transactions: u64,
    gas: u64,
    head: u64,
}

impl Progress {
    /// Starts. `total_bytes` is the size of all files together, `None` if unknown.
    pub(super) fn start(total_bytes: Option<u64>) -> Self {
        let started = Instant::now();
        Self {
            total_bytes,
            bar: std::io::stderr().is_terminal().then(|| bar(total_bytes)),
            started,
            last_rate: started,
            last_line: started,
            before: Counters::default(),
            now: Counters::default(),
            rates: String::new(),
        }
    }

    /// Counts a committed or skipped block; `read` is the number of bytes read from the files.
    pub(super) fn passed(&mut self, block: &ImportedBlock, read: u64) {
        self.now.head = block.number.0;
        if !block.was_known {
            self.now.blocks += 1;
            self.now.transactions += block.transactions;
            self.now.gas += block.gas_used;
        }
        let since = self.last_rate.elapsed();
        if since >= PERIOD {
            let blocks = self.now.blocks - self.before.blocks;
            self.rates = rates(blocks, self.now.gas - self.before.gas, since);
            self.last_rate = Instant::now();
            self.before = self.now;
            self.show(read);
        }
    }

    fn show(&mut self, read: u64) {
        let text = format!("block {}, {}", self.now.head, self.rates);
        if let Some(bar) = &self.bar {
            bar.set_position(read);
            bar.set_message(text);
        } else if self.last_line.elapsed() >= LINE_PERIOD {
            self.last_line = Instant::now();
            log_output::eprint_line(&format!("{text}{}", self.time_left(read)));
        }
    }

    /// Estimated from the share of bytes read. The reader is a few hundred blocks ahead, which evens out.
    fn time_left(&self, read: u64) -> String {
        let Some(total) = self.total_bytes.filter(|total| read > 0 && *total >= read) else { return String::new() };
        let left = self.started.elapsed().as_secs_f64() * ((total - read) as f64 / read as f64);
        format!(", {}% done, {left:.0} s left", read * 100 / total.max(1))
    }

    /// Removes the bar; the error that follows explains the end.
    pub(super) fn abandon(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Removes the bar and returns a summary.
    pub(super) fn finish(&self) -> String {
        self.abandon();
        let elapsed = self.started.elapsed();
        format!(
            "imported {} blocks with {} transactions in {:.2} s ({})",
            self.now.blocks,
            self.now.transactions,
            elapsed.as_secs_f64(),
            rates(self.now.blocks, self.now.gas, elapsed),
        )
    }
}

fn rates(blocks: u64, gas: u64, time: Duration) -> String {
    let seconds = time.as_secs_f64().max(1e-6);
    format!("{:.0} blocks/s, {:.1} Mgas/s", blocks as f64 / seconds, gas as f64 / seconds / 1e6)
}

fn bar(total_bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match total_bytes {
        Some(total) => (ProgressBar::new(total), "{elapsed_precise} [{bar:32}] {percent}% {msg}, {eta} left"),
        None => (ProgressBar::new_spinner(), "{elapsed_precise} {spinner} {bytes} {msg}"),
    };
    // The template is fixed; if the library refused it, its own default would do.
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_rates_in_blocks_and_millions_of_gas() {
        assert_eq!(rates(10, 30_000_000, Duration::from_secs(2)), "5 blocks/s, 15.0 Mgas/s");
        assert_eq!(rates(0, 0, Duration::ZERO), "0 blocks/s, 0.0 Mgas/s");
    }
}

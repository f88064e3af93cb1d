//! Lines of the log about the progress of a synchronisation.

use std::time::Duration;

use tenon_network_sync::Progress;

/// Time between two lines.
const INTERVAL: Duration = Duration::from_secs(8);

/// The last line.
#[derive(Clone, Copy, Debug)]
struct Line {
    at: Duration,
    head: u64,
}

/// Writes a line every eight seconds of a cycle, and one at its end.
#[derive(Debug, Default)]
pub(crate) struct ProgressLog {
    last: Option<Line>,
    /// Whether a line of the running cycle was written. If so, the end of the cycle is logged as well.
    is_logged: bool,
}

impl ProgressLog {
    /// Writes a line if one is due. `head` is the height of the stored chain.
    pub(crate) fn update(&mut self, progress: Option<Progress>, head: u64, peers: usize, now: Duration) {
        let Some(progress) = progress else {
            if std::mem::take(&mut self.is_logged) {
                tracing::info!(head, peers, "imported blocks from peers");
            }
            self.last = None;
            return;
        };
        let Some(last) = self.last else {
            self.last = Some(Line { at: now, head });
            return;
        };
        let passed = now.saturating_sub(last.at);
        if passed < INTERVAL {
            return;
        }
        let rate = head.saturating_sub(last.head) as f64 / passed.as_secs_f64();
        let left = progress.highest.saturating_sub(head);
        let done = head.saturating_sub(progress.starting) as f64;
        let share = 100.0 * done / (done + left as f64).max(1.0);
        tracing::info!(
            head,
            highest = progress.highest,
            blocks_per_second = format_args!("{rate:.1}"),
            share = format_args!("{share:.1} %"),
            left = %time_left(left, rate),
            peers,
            "importing blocks from peers"
        );
        self.last = Some(Line { at: now, head });
        self.is_logged = true;
    }

    /// When the next line is due.
    pub(crate) fn wakes_at(&self) -> Option<Duration> {
        self.last.map(|last| last.at + INTERVAL)
    }
}

/// `4 h 10 min`, `12 min`, `40 s`; `unknown` while nothing moves.
fn time_left(blocks: u64, rate: f64) -> String {
    if rate <= 0.0 {
        return "unknown".to_owned();
    }
    let seconds = (blocks as f64 / rate).ceil() as u64;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_said_in_units_that_fit() {
        let cases = [(0, 5.0, "0 s"), (50, 0.0, "unknown"), (595, 5.0, "119 s"), (6_000, 10.0, "10 min")];
        for (blocks, rate, wanted) in cases {
            assert_eq!(time_left(blocks, rate), wanted);
        }
        assert_eq!(time_left(100_000, 10.0), "2 h 46 min");
    }

    #[test]
    fn a_line_comes_every_eight_seconds_of_a_cycle_only() {
        let mut log = ProgressLog::default();
        let progress = Some(Progress { starting: 0, highest: 100 });
        log.update(progress, 0, 1, Duration::from_secs(1));
        assert_eq!(log.wakes_at(), Some(Duration::from_secs(9)));
        log.update(progress, 10, 1, Duration::from_secs(8));
        assert!(!log.is_logged);
        log.update(progress, 20, 1, Duration::from_secs(9));
        assert!(log.is_logged && log.wakes_at() == Some(Duration::from_secs(17)));
        log.update(None, 100, 1, Duration::from_secs(10));
        assert!(!log.is_logged && log.wakes_at().is_none());
    }
}

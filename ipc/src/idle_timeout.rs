//! A time limit that is restarted often.
//!
//! Implemented here, because tokio's `timeout` makes a timer for each wait.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};

/// Ends after a period without activity.
///
/// A timer for every wait would cost more than a small answer's whole envelope. Here one timer lives as long as its
/// owner, and is reset only when it fires too early.
#[derive(Debug)]
pub(crate) struct IdleTimeout {
    limit: Duration,
    since: Instant,
    timer: Pin<Box<Sleep>>,
    /// Whether the timer will wake a task.
    is_awaited: bool,
}

impl IdleTimeout {
    /// Starts now.
    pub(crate) fn new(limit: Duration) -> Self {
        let since = Instant::now();
        Self { limit, since, timer: Box::pin(sleep_until(since + limit)), is_awaited: false }
    }

    /// Restarts the period; returns its start.
    pub(crate) fn restart(&mut self) -> std::time::Instant {
        self.since = Instant::now();
        self.since.into_std()
    }

    /// Whether the timer is running and will wake the task that polled last. It may end before the period does.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_awaited && !self.timer.is_elapsed()
    }

    /// Ready after a whole period without activity.
    pub(crate) fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.timer.as_mut().poll(context).is_ready() {
            let end = self.since + self.limit;
            if Instant::now() >= end {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(end);
        }
        self.is_awaited = true;
        Poll::Pending
    }
}

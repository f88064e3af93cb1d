//! A time limit that is put off all the time.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};

/// Ends when nothing has happened for a while.
///
/// A timer made and destroyed for every wait costs more than a small answer's whole envelope; here one timer
/// lives as long as its owner and is set anew only when it fires too early.
#[derive(Debug)]
pub(crate) struct Patience {
    limit: Duration,
    since: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Patience {
    /// Begins now.
    pub(crate) fn new(limit: Duration) -> Self {
        let since = Instant::now();
        Self { limit, since, timer: Box::pin(sleep_until(since + limit)) }
    }

    /// Something has happened; when that was.
    pub(crate) fn begin_anew(&mut self) -> std::time::Instant {
        self.since = Instant::now();
        self.since.into_std()
    }

    /// Ready when nothing has happened for the whole limit.
    pub(crate) fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.timer.as_mut().poll(context).is_ready() {
            let end = self.since + self.limit;
            if Instant::now() >= end {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(end);
        }
        Poll::Pending
    }
}

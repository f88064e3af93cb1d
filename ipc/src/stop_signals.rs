//! Stops a front-end while the node keeps running.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use tokio_util::sync::CancellationToken;

/// Time for which connections may still write after the second signal: the errors of their running calls, and a
/// WebSocket's close frame.
pub(crate) const LAST_WRITES: Duration = Duration::from_millis(250);

/// Time within which running calls fail after the second signal. A call that does not gets no answer. Shorter than
/// [`LAST_WRITES`], so that a WebSocket gets its close frame even then.
pub(crate) const LAST_ANSWERS: Duration = Duration::from_millis(125);

/// Time for which the rest of a request is read after its refusal at the first signal. The front-end waits for that.
pub(crate) const LINGER: Duration = Duration::from_millis(500);

/// The two stop signals of a front-end, which its connections observe.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopSignals {
    /// No new requests are accepted; accepted ones are still answered.
    pub(crate) stopping: CancellationToken,
    /// Running calls fail too. Cancelled by [`StopSignals::cut_calls`].
    pub(crate) cut: CancellationToken,
    /// Set before `cut` is cancelled.
    pub(crate) cut_flag: CutFlag,
}

impl StopSignals {
    /// Begins the first stage now, and the second one after `grace`, in the background.
    pub(crate) fn begin_stop(&self, grace: Duration) {
        self.stopping.cancel();
        let signals = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(grace).await;
            signals.cut_calls();
        });
    }

    /// Begins the second stage.
    pub(crate) fn cut_calls(&self) {
        self.cut_flag.0.store(true, Ordering::Relaxed);
        self.cut.cancel();
    }
}

/// Whether running calls fail. They check it whenever they are polled, and a token would take a lock for that.
#[derive(Clone, Debug, Default)]
pub(crate) struct CutFlag(Arc<AtomicBool>);

impl CutFlag {
    /// The output of `work`; `None` if the flag is set and a poll finds the work not done. The setter wakes the task.
    pub(crate) async fn until_set<F: Future>(&self, work: F) -> Option<F::Output> {
        let mut work = pin!(work);
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if self.0.load(Ordering::Relaxed) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }
}

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

use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

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
    pub(crate) stopping: StopSignal,
    /// Running calls fail too.
    pub(crate) cut: StopSignal,
}

impl StopSignals {
    /// Begins the first stage now, and the second one after `grace`, in the background.
    pub(crate) fn begin_stop(&self, grace: Duration) {
        self.stopping.set();
        let cut = self.cut.clone();
        tokio::spawn(async move {
            tokio::time::sleep(grace).await;
            cut.set();
        });
    }
}

/// A signal that is set once. Clones are the same signal.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopSignal {
    token: CancellationToken,
    /// Set before the token is cancelled. Checking the token would take a lock that all connections share.
    is_set: Arc<AtomicBool>,
}

impl StopSignal {
    /// Sets it, and wakes all who wait for it.
    pub(crate) fn set(&self) {
        self.is_set.store(true, Ordering::Relaxed);
        self.token.cancel();
    }

    /// Whether it is set.
    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    /// Waits until it is set.
    pub(crate) fn wait(&self) -> WaitForCancellationFuture<'_> {
        self.token.cancelled()
    }

    /// The output of `work`; `None` if the signal is set and a poll finds the work not done. Does not wait for the
    /// signal: what sets it also wakes the task.
    pub(crate) async fn until_set<F: Future>(&self, work: F) -> Option<F::Output> {
        let mut work = pin!(work);
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if self.is_set() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }
}

//! Stops a front-end while the node keeps running.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Time for which connections may still write after the second signal, such as a WebSocket's close frame.
pub(crate) const LAST_WRITES: Duration = Duration::from_millis(250);

/// The two stop signals of a front-end, which its connections observe.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopSignals {
    /// No new requests are accepted; accepted ones are still answered.
    pub(crate) stopping: CancellationToken,
    /// Accepted requests are dropped too.
    pub(crate) cut: CancellationToken,
}

impl StopSignals {
    /// Begins the first stage now, and the second one after `grace`, in the background.
    pub(crate) fn begin_stop(&self, grace: Duration) {
        self.stopping.cancel();
        let cut = self.cut.clone();
        tokio::spawn(async move {
            tokio::time::sleep(grace).await;
            cut.cancel();
        });
    }
}

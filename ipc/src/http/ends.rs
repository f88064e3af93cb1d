//! How a front-end ends while the node goes on.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// The two ends of a front-end. Its connections follow both.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ends {
    /// Nothing more is taken; what was asked for is answered.
    pub(crate) stopping: CancellationToken,
    /// Nobody waits any longer for what was asked for.
    pub(crate) cut: CancellationToken,
}

impl Ends {
    /// Begins the first end now, and the second one after `grace`, in the background.
    pub(crate) fn begin(&self, grace: Duration) {
        self.stopping.cancel();
        let cut = self.cut.clone();
        tokio::spawn(async move {
            tokio::time::sleep(grace).await;
            cut.cancel();
        });
    }
}

//! The actor's clock and what it tells itself later. Behind a trait, so that a simulated network runs the same actor in a time of
//! its own.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenon_supervisor::Mailbox;
use tokio::runtime::Handle;

use crate::actor::Input;

/// A clock that can be set to tell the actor something.
pub(crate) trait Timing: Send {
    /// Unix time.
    fn unix(&self) -> Duration;
    /// Whether what [`Timing::later`] was told arrives.
    fn is_ready(&self) -> bool;
    /// Tells the actor something after this wait.
    fn later(&self, wait: Duration, input: Input);
}

/// The system's clock.
pub(crate) struct SystemTiming {
    pub(crate) runtime: Handle,
    /// Set once the actor runs.
    pub(crate) mailbox: Arc<OnceLock<Mailbox<Input>>>,
}

impl Timing for SystemTiming {
    fn unix(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn is_ready(&self) -> bool {
        self.mailbox.get().is_some()
    }

    fn later(&self, wait: Duration, input: Input) {
        let Some(mailbox) = self.mailbox.get().cloned() else { return };
        self.runtime.spawn(async move {
            tokio::time::sleep(wait).await;
            // A full mailbox has many other reasons to look at the round.
            drop(mailbox.try_send(input));
        });
    }
}

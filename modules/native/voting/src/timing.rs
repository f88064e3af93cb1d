//! The actor's clock and timer. They are behind a trait so that a simulated network can run the same actor with a
//! virtual clock.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenon_supervisor::Mailbox;
use tokio::runtime::Handle;

use crate::actor::Input;

/// A clock with timers that send inputs to the actor.
pub(crate) trait Timing: Send {
    /// Unix time.
    fn unix(&self) -> Duration;
    /// Returns whether inputs passed to [`Timing::later`] will be delivered.
    fn is_ready(&self) -> bool;
    /// Sends this input to the actor after `wait`.
    fn later(&self, wait: Duration, input: Input);
}

/// The system's clock.
pub(crate) struct SystemTiming {
    pub(crate) runtime: Handle,
    /// Set once the actor is running.
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
            // Fails only when the actor has ended. A lost countdown would cost the rest of its round.
            drop(mailbox.send(input).await);
        });
    }
}

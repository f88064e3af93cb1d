//! Notifies the service manager (systemd with `Type=notify`) when the node serves, reloads and stops, and of its
//! status.
//!
//! Without `NOTIFY_SOCKET` in the environment nothing is sent.

use sd_notify::NotifyState;

/// The node serves.
pub(crate) fn ready(status: &str) {
    send(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The settings are being read again; [`ready`] follows.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!(%error, "could not notify the service manager of the reload"),
    }
}

/// The node stops.
pub(crate) fn stopping() {
    send(&[NotifyState::Stopping]);
}

/// Reports the node's status line, and that it is alive, for `WatchdogSec=`.
pub(crate) fn alive(status: &str) {
    send(&[NotifyState::Watchdog, NotifyState::Status(status)]);
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "could not notify the service manager");
    }
}

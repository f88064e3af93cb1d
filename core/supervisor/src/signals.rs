//! Signals of the operating system.

use std::io;

use tokio::signal::unix::{Signal as Listener, SignalKind, signal};

/// A signal of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT, Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP: read the settings again.
    Reload,
}

/// Listens to signals.
#[derive(Debug)]
pub struct Signals {
    interrupt: Listener,
    terminate: Listener,
    hangup: Listener,
}

impl Signals {
    /// Starts listening. Must be called inside a tokio runtime; afterwards the signals no longer end the process.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next signal.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
            _ = self.hangup.recv() => Signal::Reload,
        }
    }
}

//! Why an actor was not started.

use std::{error::Error, io};

/// Why an actor could not be built.
pub type MakeError = Box<dyn Error + Send + Sync>;

/// Why an actor, or the system for all of them, was not started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The operating system refused the thread of the actor system.
    #[error("cannot start the actor system: {0}")]
    System(io::Error),
    /// The actor system ended at once.
    #[error("the actor system ended while it was starting")]
    SystemEnded,
    /// The actor could not be built.
    #[error("{0}")]
    NotBuilt(MakeError),
    /// It panicked while it was being built.
    #[error("{actor} panicked while it was being built")]
    Panicked {
        /// Its name.
        actor: &'static str,
    },
    /// The operating system refused its thread.
    #[error("cannot start a thread for {actor}: {error}")]
    NoThread {
        /// Its name.
        actor: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// The actor system has ended.
    #[error("cannot start {actor}: the actor system has ended")]
    NoSystem {
        /// Its name.
        actor: &'static str,
    },
}

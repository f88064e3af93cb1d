//! Background work of operations, for which only the operator waits: reading, hashing, copying and mapping libraries,
//! starting processes, tidying up.
//!
//! Invariant: it never delays other callers' work. It runs on its own thread, which yields to every other one and ends
//! with the work, so that no thread-local of a library outlives it. Low priority alone is not enough: a thread that
//! computes without a break keeps its processor until the system's next tick, milliseconds later.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

use tenon_host::Steps;
use tokio::{runtime::Handle, sync::oneshot};

use crate::ModuleError;

/// Niceness of the thread: it gets a quarter of a processor that it shares with one busy thread.
const NICE: i32 = 5;

/// Reads files in pieces, and yields after each: a caller waits for it at most one piece. It does not sleep, because a
/// thread that wakes every tenth of a millisecond makes the system migrate the node's own threads.
pub(crate) struct YieldBetweenPieces;

impl Steps for YieldBetweenPieces {
    fn piece(&self) {
        thread::yield_now();
    }
}

/// Runs blocking work at low priority.
///
/// # Errors
/// The work's error; [`ModuleError::Crashed`] if it panicked or no thread could be started.
pub(crate) async fn run_at_low_priority<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ModuleError> + Send + 'static,
) -> Result<T, ModuleError> {
    let (sender, receiver) = oneshot::channel();
    let runtime = Handle::current();
    let run = move || {
        let _runtime = runtime.enter();
        // On Linux this affects only this thread. If it fails, the work is done regardless.
        let _ = rustix::process::nice(NICE);
        let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(ModuleError::Crashed));
        // An error means that the caller has gone and does not need the outcome.
        let _ = sender.send(outcome);
    };
    if let Err(error) = thread::Builder::new().name("modules".to_owned()).spawn(run) {
        tracing::error!(%error, "no thread could be started for an operation on modules");
        return Err(ModuleError::Crashed);
    }
    receiver.await.unwrap_or(Err(ModuleError::Crashed))
}

/// Runs blocking work at normal priority: a plugin's own code, and processes, which inherit the priority.
///
/// # Errors
/// The work's error; [`ModuleError::Crashed`] if it panicked.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ModuleError> + Send + 'static,
) -> Result<T, ModuleError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(ModuleError::Crashed))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    /// Niceness of the current thread.
    fn nice() -> i32 {
        rustix::process::getpriority_process(None).unwrap()
    }

    #[tokio::test]
    async fn the_work_gives_way_its_callers_thread_does_not_and_a_panic_is_an_error() {
        let before = nice();

        let inside = run_at_low_priority(|| Ok((nice(), Handle::try_current().is_ok()))).await.unwrap();
        let crashed = run_at_low_priority::<()>(|| panic!("on purpose")).await;

        assert_eq!(inside, ((before + NICE).min(19), true));
        assert_eq!(nice(), before);
        assert!(matches!(crashed, Err(ModuleError::Crashed)));
    }
}

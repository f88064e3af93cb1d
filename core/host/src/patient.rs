//! Work of operations that nobody waits for but the operator: reading, hashing, copying and mapping libraries, starting
//! processes, tidying up.
//!
//! What must always hold: it runs beside the calls of others, never instead of them: on a thread of its own that yields to
//! every other one, and that ends with the work, so that nothing of a library stays behind in it. Priority alone does not do
//! that: a thread that computes without a break keeps its processor until the system's next tick, milliseconds later.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

use tokio::{runtime::Handle, sync::oneshot};

use crate::{HostError, library_file::Steps};

/// How much the thread gives way to others: it has a quarter of a processor that it shares with one busy thread.
const NICE: i32 = 5;

/// Reads files in pieces, and lets others run after each: the longest that a caller waits for it is a piece. It does not
/// sleep, because a thread that wakes every tenth of a millisecond has the system move the node's own threads about.
pub(crate) struct InPieces;

impl Steps for InPieces {
    fn piece(&self) {
        thread::yield_now();
    }
}

/// Runs work that blocks, at low priority.
///
/// # Errors
/// What the work says; [`HostError::Crashed`] when it panicked or there is no thread.
pub(crate) async fn patiently<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, HostError> + Send + 'static,
) -> Result<T, HostError> {
    let (sender, receiver) = oneshot::channel();
    let runtime = Handle::current();
    let run = move || {
        let _runtime = runtime.enter();
        // On Linux of this thread alone. Without it the work is done all the same.
        let _ = rustix::process::nice(NICE);
        let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(HostError::Crashed));
        // An error says that nobody waits, and then nobody needs it.
        let _ = sender.send(outcome);
    };
    if let Err(error) = thread::Builder::new().name("modules".to_owned()).spawn(run) {
        tracing::error!(%error, "no thread for an operation on modules");
        return Err(HostError::Crashed);
    }
    receiver.await.unwrap_or(Err(HostError::Crashed))
}

/// Runs what blocks at the priority of everybody else: a plugin's own code, and what is to keep that priority.
///
/// # Errors
/// What the work says; [`HostError::Crashed`] when it panicked.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, HostError> + Send + 'static,
) -> Result<T, HostError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(HostError::Crashed))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    /// How nice the thread is that asks.
    fn nice() -> i32 {
        rustix::process::getpriority_process(None).unwrap()
    }

    #[tokio::test]
    async fn the_work_gives_way_its_callers_thread_does_not_and_a_panic_is_an_error() {
        let before = nice();

        let inside = patiently(|| Ok((nice(), Handle::try_current().is_ok()))).await.unwrap();
        let crashed = patiently::<()>(|| panic!("on purpose")).await;

        assert_eq!(inside, ((before + NICE).min(19), true));
        assert_eq!(nice(), before);
        assert!(matches!(crashed, Err(HostError::Crashed)));
    }
}

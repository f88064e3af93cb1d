//! Derivation of keys from passwords. It is slow by design, so its time, memory and number are bounded.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

use tenon_api::BusError;
use tenon_bus::{CallContext, WorkPool};

use crate::{AccountsError, key::scrub_stack};

/// Maximum number of concurrent derivations. Each takes a core for about a second.
const PLACES: usize = 2;
/// Maximum number of waiting derivations; one client may have at most half of them.
const QUEUE: usize = 64;
/// How often a waiting derivation checks whether its caller has gone.
const CHECK_PERIOD: Duration = Duration::from_millis(50);
/// The highest nice value, which is the lowest thread priority.
const MAX_NICE: i32 = 19;

/// The budget of key derivation. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct KeyWork {
    /// Shares the budget fairly among clients, and refuses work when it is full.
    pool: WorkPool,
    gate: Arc<Gate>,
}

/// Free places and memory. The pool grants an extra thread to clients that wait long; this limit is never exceeded.
#[derive(Debug)]
struct Gate {
    memory: u64,
    /// Nothing awaits under the lock.
    free: Mutex<Free>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug)]
struct Free {
    places: usize,
    /// Bytes.
    memory: u64,
}

/// A place and memory, released on drop.
struct Permit<'a> {
    gate: &'a Gate,
    memory: u64,
}

impl KeyWork {
    /// A budget of `memory` bytes.
    pub(crate) fn new(memory: u64) -> Self {
        let gate = Gate { memory, free: Mutex::new(Free { places: PLACES, memory }), changed: Condvar::new() };
        Self { pool: WorkPool::new("key derivation", PLACES, QUEUE), gate: Arc::new(gate) }
    }

    /// Runs a job that allocates `memory` bytes on a thread of the lowest priority. A job that has not started when its
    /// caller leaves is not run.
    ///
    /// # Errors
    /// [`AccountsError::NotCompleted`] if too many jobs wait, the caller's deadline has passed, no thread could be
    /// started, or the job panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        context: &CallContext,
        memory: u64,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, AccountsError> {
        let gate = Arc::clone(&self.gate);
        let guarded = move |context: &CallContext| {
            let _taken = gate.take(memory, context)?;
            at_lowest_priority(job).map_err(BusError::failed)
        };
        self.pool.run(context, guarded).await.map_err(AccountsError::NotCompleted)
    }
}

impl Gate {
    fn take(&self, memory: u64, context: &CallContext) -> Result<Permit<'_>, BusError> {
        // Lowers nothing in practice: a key file that needs more than the budget is refused when it is read.
        let memory = memory.min(self.memory);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while free.places == 0 || free.memory < memory {
            if context.is_cancelled() {
                return Err(BusError::TimedOut);
            }
            free = self.changed.wait_timeout(free, CHECK_PERIOD).unwrap_or_else(PoisonError::into_inner).0;
        }
        free.places -= 1;
        free.memory -= memory;
        Ok(Permit { gate: self, memory })
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut free = self.gate.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.places += 1;
        free.memory += self.memory;
        self.gate.changed.notify_all();
    }
}

/// Why a job has no result.
#[derive(Debug, thiserror::Error)]
enum JobError {
    /// The system has no thread for it.
    #[error("no thread could be started to derive a key: {0}")]
    NoThread(#[from] std::io::Error),
    /// It panicked.
    #[error("the key derivation panicked")]
    Panicked,
}

/// Runs a job on a new thread, because a thread needs privileges to raise its lowered priority again.
fn at_lowest_priority<T: Send>(job: impl FnOnce() -> T + Send) -> Result<T, JobError> {
    thread::scope(|scope| {
        let run = move || {
            // Fails only on systems without thread priorities.
            let _ = rustix::process::nice(MAX_NICE);
            let done = job();
            // Removes secrets from the stack, which the system reuses for later threads.
            scrub_stack();
            done
        };
        let thread = thread::Builder::new().name("key derivation".to_owned()).spawn_scoped(scope, run)?;
        thread.join().map_err(|_| JobError::Panicked)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn concurrency_is_bounded_by_places_and_memory() {
        let work = KeyWork::new(100);
        let (running, max) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let job = |memory| {
            let (work, running, max) = (work.clone(), Arc::clone(&running), Arc::clone(&max));
            async move {
                let counted = move || {
                    max.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(60));
                    running.fetch_sub(1, Ordering::SeqCst);
                };
                work.run(&CallContext::new(), memory, counted).await
            }
        };

        let small: Vec<_> = (0..6).map(|_| tokio::spawn(job(10))).collect();
        for task in small {
            task.await.unwrap().unwrap();
        }
        let of_small = max.swap(0, Ordering::SeqCst);
        let large: Vec<_> = (0..3).map(|_| tokio::spawn(job(80))).collect();
        for task in large {
            task.await.unwrap().unwrap();
        }

        assert!(of_small <= PLACES, "{of_small}");
        assert_eq!(max.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_job_runs_at_the_lowest_priority_without_changing_that_of_others() {
        let work = KeyWork::new(0);

        let priority = work.run(&CallContext::new(), 0, || rustix::process::nice(0).unwrap()).await.unwrap();

        assert_eq!(priority, MAX_NICE);
        assert!(rustix::process::nice(0).unwrap() < MAX_NICE);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_panic_is_an_error() {
        let answer = KeyWork::new(0).run(&CallContext::new(), 0, || panic!("on purpose")).await;

        let answer: Result<(), AccountsError> = answer;
        assert_eq!(answer.unwrap_err().to_string(), "the key derivation panicked");
    }
}

//! The bounded pool for long work: calls into the EVM, traces, scans.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tenon_api::Failure;
use tokio::sync::Semaphore;

use crate::{CallContext, call::crashed};

/// A pool that runs at most `threads` jobs at a time and lets at most `queue` more wait.
///
/// Jobs run on tokio's blocking threads: one job a request, so that the wake-up (15 to 80 µs,
/// `docs/performance.md`) is paid once. Must be used from inside a tokio runtime.
#[derive(Clone, Debug)]
pub struct WorkPool {
    name: &'static str,
    running: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    threads: usize,
    queue: usize,
}

impl WorkPool {
    /// A pool named `name` (for errors) with room for `threads` running jobs (at least one) and `queue` waiting ones.
    pub fn new(name: &'static str, threads: usize, queue: usize) -> Self {
        let threads = threads.clamp(1, Semaphore::MAX_PERMITS);
        let running = Arc::new(Semaphore::new(threads));
        Self { name, running, waiting: Arc::new(AtomicUsize::new(0)), threads, queue }
    }

    /// How many jobs run, and how many wait for a thread.
    pub fn jobs(&self) -> (usize, usize) {
        let running = self.threads.saturating_sub(self.running.available_permits());
        (running, self.waiting.load(Ordering::Relaxed))
    }

    /// Runs a job and waits for its answer. The job sees through its context when nobody waits any more.
    ///
    /// # Errors
    /// Code `-32005` at once when the queue is full or the deadline passes before the job has begun; otherwise
    /// what the job answers. A panic in the job is `-32000`.
    pub async fn run<T: Send + 'static>(
        &self,
        context: &CallContext,
        job: impl FnOnce(&CallContext) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let permit = self.wait_for_a_thread(context).await?;
        let guard = context.cancel_on_drop();
        let context = context.clone();
        let worker = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            if context.is_cancelled() {
                return Err(Failure::limit("request timed out"));
            }
            catch_unwind(AssertUnwindSafe(|| job(&context))).unwrap_or_else(|panic| Err(crashed("work", &*panic)))
        });
        let answer = worker.await.unwrap_or_else(|_| Err(Failure::server("the node is shutting down")));
        guard.disarm();
        answer
    }

    async fn wait_for_a_thread(&self, context: &CallContext) -> Result<tokio::sync::OwnedSemaphorePermit, Failure> {
        if let Ok(permit) = Arc::clone(&self.running).try_acquire_owned() {
            return Ok(permit);
        }
        let _place = self.take_a_place()?;
        let acquire = Arc::clone(&self.running).acquire_owned();
        let permit = match context.deadline() {
            Some(deadline) => tokio::time::timeout_at(deadline.into(), acquire)
                .await
                .map_err(|_| Failure::limit(format!("no thread of the {} pool was free in time", self.name)))?,
            None => acquire.await,
        };
        permit.map_err(|_| Failure::server("the node is shutting down"))
    }

    fn take_a_place(&self) -> Result<Place<'_>, Failure> {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.queue {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Failure::limit(format!(
                "the {} pool is busy: {} requests wait already",
                self.name, self.queue
            )));
        }
        Ok(Place(&self.waiting))
    }
}

/// A place in the queue, given back however the wait ends.
struct Place<'a>(&'a AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_full_queue_is_refused_at_once() {
        let pool = WorkPool::new("test", 1, 0);
        let (release, wait) = mpsc::channel::<()>();
        let busy = tokio::spawn({
            let pool = pool.clone();
            async move { pool.run(&CallContext::new(), move |_| Ok(wait.recv().is_ok())).await }
        });
        while pool.running.available_permits() == 1 {
            tokio::task::yield_now().await;
        }

        let refused = pool.run(&CallContext::new(), |_| Ok(())).await;
        let jobs = pool.jobs();

        assert_eq!(refused, Err(Failure::limit("the test pool is busy: 0 requests wait already")));
        assert_eq!(jobs, (1, 0));
        release.send(()).unwrap();
        assert_eq!(busy.await.unwrap(), Ok(true));
    }

    #[tokio::test]
    async fn a_job_sees_that_its_caller_has_gone() {
        let pool = WorkPool::new("test", 1, 0);
        let (started, has_started) = tokio::sync::oneshot::channel();
        let (report, reported) = tokio::sync::oneshot::channel();
        let caller = tokio::spawn({
            let pool = pool.clone();
            async move {
                pool.run(&CallContext::new(), move |context| {
                    started.send(()).unwrap();
                    while !context.is_cancelled() {
                        std::thread::yield_now();
                    }
                    report.send("stopped").unwrap();
                    Ok(())
                })
                .await
            }
        });
        has_started.await.unwrap();

        caller.abort();

        assert_eq!(reported.await, Ok("stopped"));
    }

    #[tokio::test]
    async fn a_panic_costs_its_caller_one_error() {
        let pool = WorkPool::new("test", 1, 0);

        let answer: Result<(), Failure> = pool.run(&CallContext::new(), |_| panic!("on purpose")).await;

        assert_eq!(answer, Err(Failure::server("method handler crashed")));
        assert_eq!(pool.run(&CallContext::new(), |_| Ok(1)).await, Ok(1));
    }
}

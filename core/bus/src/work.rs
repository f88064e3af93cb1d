//! The bounded pool for long work: calls into the EVM, traces, scans.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};

use tenon_api::{BusError, PoolBusy};

use crate::{
    CallContext,
    call::crashed,
    fair::{EnterError, FairLimits, FairQueue, JobPermit, Share},
    recent_clients,
};

/// Parked jobs per thread. Each keeps a system thread and the memory of its run.
const PARKED_PER_THREAD: usize = 8;

/// Maximum number of parked jobs, so that they and the running ones fit into tokio's 512 blocking threads.
const MAX_PARKED: usize = 256;

/// A pool that runs `threads` jobs at a time and queues at most `queue` more, at most half of them of one client.
///
/// Clients and plugins share it fairly, as described in [`FairQueue`]. Long work calls [`CallContext::should_stop`]
/// from time to time, which also yields its thread to a client whose turn it is.
///
/// Jobs run on tokio's blocking threads: one job per request, so that the wake-up (15 to 80 µs, `docs/performance.md`)
/// is paid once. Must be used from inside a tokio runtime.
#[derive(Clone, Debug)]
pub struct WorkPool {
    name: &'static str,
    queue: FairQueue,
}

impl WorkPool {
    /// A pool named `name` (for errors) with `threads` running jobs (at least one) and `queue` waiting ones.
    pub fn new(name: &'static str, threads: usize, queue: usize) -> Self {
        let threads = threads.max(1);
        let queue = FairQueue::new(FairLimits {
            places: threads,
            client_places: threads,
            queue,
            client_queue: queue.div_ceil(2),
            parked: threads.saturating_mul(PARKED_PER_THREAD).min(MAX_PARKED),
        });
        Self { name, queue }
    }

    /// Number of running, parked and waiting jobs.
    pub fn jobs(&self) -> (usize, usize, usize) {
        self.queue.counts()
    }

    /// Runs a job and waits for its answer. Its context is cancelled when the caller has gone.
    ///
    /// # Errors
    /// - [`BusError::Busy`]: the queue is full (immediately), or the deadline passed before the job began.
    /// - [`BusError::OutOfTime`]: the computing time of its message is used up.
    /// - [`BusError::HandlerCrashed`]: it panicked.
    /// - Otherwise the job's own error.
    pub async fn run<T: Send + 'static>(
        &self,
        context: &CallContext,
        job: impl FnOnce(&CallContext) -> Result<T, BusError> + Send + 'static,
    ) -> Result<T, BusError> {
        context.require_time()?;
        let permit = self.enter(context).await?;
        let guard = context.cancel_on_drop();
        let context = context.for_job(permit.yield_handle());
        let worker = tokio::task::spawn_blocking(move || run_job(permit, &context, job));
        let answer = worker.await.unwrap_or_else(|_| Err(BusError::ShuttingDown));
        guard.disarm();
        answer
    }

    /// Runs work that is usually short on the caller's task; `None` if it gave up, if the call is cancelled, or if the
    /// client's allowance is used up. Its time is charged to the client and to its message.
    pub(crate) fn attempt<T>(&self, context: &CallContext, attempt: impl FnOnce() -> Option<T>) -> Option<T> {
        let (client, began) = (context.origin().client, Instant::now());
        if context.is_cancelled_at(began) {
            return None;
        }
        // A client that is alone takes nothing from others, and queueing costs more than most calls.
        if recent_clients::has_several(began) && !self.queue.may_attempt(client, began) {
            return None;
        }
        let answer = attempt();
        let ended = Instant::now();
        self.queue.charge_attempt(client, began, ended);
        context.spend(ended.saturating_duration_since(began));
        answer
    }

    async fn enter(&self, context: &CallContext) -> Result<JobPermit, BusError> {
        let entered = self.queue.enter(Share::from(context.origin()), context.deadline()).await;
        entered.map_err(|reason| {
            let (pool, FairLimits { queue, client_queue, .. }) = (self.name, self.queue.limits());
            BusError::Busy(match reason {
                EnterError::QueueFull => PoolBusy::QueueFull { pool, waiting: queue },
                EnterError::ClientFull => PoolBusy::ClientFull { pool, waiting: client_queue },
                EnterError::Displaced => PoolBusy::Displaced { pool },
                EnterError::DeadlinePassed => PoolBusy::DeadlinePassed { pool },
            })
        })
    }
}

/// Runs a job on this thread. Its place is released and its time charged before its answer is delivered.
fn run_job<T>(
    permit: JobPermit,
    context: &CallContext,
    job: impl FnOnce(&CallContext) -> Result<T, BusError>,
) -> Result<T, BusError> {
    context.require_time()?;
    if context.is_cancelled() {
        return Err(BusError::TimedOut);
    }
    let answer = catch_unwind(AssertUnwindSafe(|| job(context))).unwrap_or_else(|panic| Err(crashed("work", &*panic)));
    context.end_turn();
    drop(permit);
    // A job that was stopped for lack of time may return any error; the lack of time is the cause to report.
    answer.or_else(|error| context.require_time().and(Err(error)))
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
        while pool.jobs().0 == 0 {
            tokio::task::yield_now().await;
        }

        let refused = pool.run(&CallContext::new(), |_| Ok(())).await;
        let jobs = pool.jobs();

        assert_eq!(refused, Err(BusError::Busy(PoolBusy::QueueFull { pool: "test", waiting: 0 })));
        assert_eq!(jobs, (1, 0, 0));
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
    async fn a_panic_returns_an_error_to_its_caller() {
        let pool = WorkPool::new("test", 1, 0);

        let answer: Result<(), BusError> = pool.run(&CallContext::new(), |_| panic!("on purpose")).await;

        assert_eq!(answer, Err(BusError::HandlerCrashed));
        assert_eq!(pool.run(&CallContext::new(), |_| Ok(1)).await, Ok(1));
    }
}

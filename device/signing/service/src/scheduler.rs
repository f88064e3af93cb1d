//! Scheduling of work that takes processor time: one task per client and two in total, on threads other than the one
//! that serves all clients.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{ServiceError, shares::Shares};

/// Maximum number of tasks that run at the same time.
const MAX_RUNNING: usize = 2;

/// One permit per client: a client's requests wait for one another, and do not delay those of other clients.
///
/// Only names from the settings occur, so the map stays small.
#[derive(Debug, Default)]
pub(crate) struct ClientPermits {
    /// Not held across an await.
    of_clients: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl ClientPermits {
    /// Waits until no other task of this client holds the permit.
    ///
    /// # Errors
    /// [`ServiceError::Stopping`].
    pub(crate) async fn take(&self, client: &str) -> Result<OwnedSemaphorePermit, ServiceError> {
        let own =
            Arc::clone(self.of_clients.lock().entry(client.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(1))));
        own.acquire_owned().await.map_err(|_| ServiceError::Stopping)
    }
}

/// The scheduler. A client with many tasks delays its own, not those of others.
#[derive(Debug)]
pub(crate) struct WorkScheduler {
    of_clients: ClientPermits,
    of_all: Arc<Semaphore>,
    waiting: Arc<Shares>,
}

impl Default for WorkScheduler {
    fn default() -> Self {
        Self {
            of_clients: ClientPermits::default(),
            of_all: Arc::new(Semaphore::new(MAX_RUNNING)),
            waiting: Arc::default(),
        }
    }
}

impl WorkScheduler {
    /// Runs a function on a blocking thread when it is the client's turn. Once started it runs to completion and keeps
    /// its permits until then, even if the future is dropped.
    ///
    /// # Errors
    /// [`ServiceError::TooMany`], [`ServiceError::Stopping`].
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        client: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ServiceError> {
        let waiting = self.waiting.take(client);
        let _waiting = waiting.ok_or(ServiceError::TooMany("the maximum number of requests is waiting to be read"))?;
        let own = self.of_clients.take(client).await?;
        let shared = Arc::clone(&self.of_all).acquire_owned().await.map_err(|_| ServiceError::Stopping)?;
        let running = tokio::task::spawn_blocking(move || {
            let _permits = (own, shared);
            work()
        });
        running.await.map_err(|_| ServiceError::Stopping)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_client_waits_for_its_own_permit_and_not_for_those_of_others() {
        let permits = ClientPermits::default();
        let first = permits.take("a").await.unwrap();
        let second = permits.take("a");
        tokio::pin!(second);

        assert!(second.as_mut().now_or_never().is_none());
        drop(permits.take("b").await.unwrap());
        drop(first);
        assert!(second.as_mut().now_or_never().is_some());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_client_runs_one_task_at_a_time_and_others_run_theirs_meanwhile() {
        let scheduler = Arc::new(WorkScheduler::default());
        let (end, ended) = mpsc::channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        let held = || {
            let (scheduler, ended) = (Arc::clone(&scheduler), Arc::clone(&ended));
            tokio::spawn(async move { scheduler.run("a", move || ended.lock().recv()).await })
        };
        let first: Vec<_> = (0..20).map(|_| held()).collect();
        let refused = || first.iter().filter(|call| call.is_finished()).count();
        while scheduler.of_all.available_permits() == MAX_RUNNING || refused() < 4 {
            tokio::task::yield_now().await;
        }

        for number in 0..10 {
            assert_eq!(scheduler.run("b", move || number).await.unwrap(), number);
        }
        assert_eq!(scheduler.of_all.available_permits(), MAX_RUNNING - 1);
        drop(end);
        let mut refused = 0;
        for call in first {
            refused += usize::from(matches!(call.await.unwrap(), Err(ServiceError::TooMany(_))));
        }
        assert_eq!(refused, 4);
        assert_eq!(scheduler.of_all.available_permits(), MAX_RUNNING);
    }
}

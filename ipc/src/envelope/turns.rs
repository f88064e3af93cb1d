//! Turns of batches on the threads that serve connections.
//!
//! A batch decodes, answers and writes its entries on the task of its message. Tokio runs tasks in the order in which they became
//! ready, so without a bound a client with many connections would put that many long tasks before every other client's request. A
//! client's batches therefore hold a place while they work: there are as many as threads, and a batch gives its place up after
//! [`SLICE`] and whenever it waits. Alone, a client uses every thread; another client's request waits for one slice at most.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tenon_bus::ClientId;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
};

/// How long a batch works before other tasks have their turn.
const SLICE: Duration = Duration::from_micros(250);
/// Small entries between two looks at the clock, which costs as much as a part of one.
const ENTRIES_A_LOOK: u32 = 8;
/// A result of this many bytes is looked at the clock for: copying it takes as long as several entries.
const LARGE: usize = 64 << 10;

/// Places of the clients that have batches at work. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct BatchTurns {
    /// Locked when a batch begins or ends; nothing awaits under the lock.
    clients: Arc<Mutex<HashMap<ClientId, Arc<Semaphore>>>>,
}

impl BatchTurns {
    /// The first turn of a batch, as soon as its client has a place.
    pub(super) async fn begin(&self, client: ClientId) -> BatchTurn {
        // Without a runtime there are no other tasks.
        let places = Handle::try_current().ok().map(|runtime| self.places(client, &runtime));
        let mut turn = BatchTurn { turns: self.clone(), client, places, held: None, began: Instant::now(), entries: 0 };
        turn.take().await;
        turn
    }

    fn places(&self, client: ClientId, runtime: &Handle) -> Arc<Semaphore> {
        let new = || Arc::new(Semaphore::new(runtime.metrics().num_workers().max(1)));
        Arc::clone(self.clients().entry(client).or_insert_with(new))
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<ClientId, Arc<Semaphore>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A batch at work.
#[derive(Debug)]
pub(super) struct BatchTurn {
    turns: BatchTurns,
    client: ClientId,
    /// None without a runtime.
    places: Option<Arc<Semaphore>>,
    held: Option<OwnedSemaphorePermit>,
    began: Instant,
    /// Entries since the last look at the clock.
    entries: u32,
}

impl BatchTurn {
    /// An entry was worked on that came to `bytes`: lets other tasks run if the slice is over.
    pub(super) async fn step(&mut self, bytes: usize) {
        self.entries += 1;
        if self.entries < ENTRIES_A_LOOK && bytes < LARGE {
            return;
        }
        self.entries = 0;
        if self.places.is_none() || self.began.elapsed() < SLICE {
            return;
        }
        self.held = None;
        tokio::task::yield_now().await;
        self.take().await;
    }

    /// Waits for something else without a place.
    pub(super) async fn wait<T>(&mut self, work: impl Future<Output = T>) -> T {
        self.held = None;
        let outcome = work.await;
        self.take().await;
        outcome
    }

    async fn take(&mut self) {
        if let Some(places) = &self.places {
            // An error would say that the semaphore is closed, and it never is.
            self.held = Arc::clone(places).acquire_owned().await.ok();
        }
        self.began = Instant::now();
        self.entries = 0;
    }
}

impl Drop for BatchTurn {
    fn drop(&mut self) {
        self.held = None;
        let Some(places) = self.places.take() else { return };
        let mut clients = self.turns.clients();
        // The table's share, and this one.
        if Arc::strong_count(&places) == 2 {
            clients.remove(&self.client);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;

    fn work_for(time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    /// The state of a future after one poll.
    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn a_client_has_as_many_batches_at_work_as_there_are_threads_and_others_have_theirs() {
        let (turns, greedy, modest) = (BatchTurns::default(), ClientId::from_number(1), ClientId::from_number(2));
        let mut first = turns.begin(greedy).await;

        let mut second = pin!(turns.begin(greedy));
        assert!(poll(second.as_mut()).is_pending(), "this runtime has one thread");
        assert!(poll(pin!(turns.begin(modest))).is_ready());

        // While the first waits, the second has its turn.
        let mut waiting = pin!(first.wait(std::future::pending::<()>()));
        assert!(poll(waiting.as_mut()).is_pending());
        assert!(poll(second.as_mut()).is_ready());
    }

    #[tokio::test]
    async fn a_slice_ends_after_its_time_and_not_before() {
        let turns = BatchTurns::default();
        let mut turn = turns.begin(ClientId::from_number(1)).await;
        turn.began = Instant::now() + Duration::from_secs(1);
        for _ in 0..100 {
            assert!(poll(pin!(turn.step(0))).is_ready());
        }

        turn.began = Instant::now();
        work_for(SLICE);

        assert!(poll(pin!(turn.step(LARGE))).is_pending());
    }

    #[tokio::test]
    async fn a_client_is_forgotten_with_its_last_batch() {
        let turns = BatchTurns::default();
        let first = turns.begin(ClientId::from_number(1)).await;
        drop(first);

        assert!(turns.clients().is_empty());
    }
}

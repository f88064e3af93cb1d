//! Turns of long tasks on the threads that serve connections.
//!
//! A batch decodes, answers and writes its entries on the task of its message, and a connection answers messages that
//! arrived together on its own. Tokio runs tasks in the order in which they became ready. Without a bound, a client
//! with many connections would put that many long tasks before every other client's request. Therefore a client has as
//! many places as there are threads. Its tasks hold a place while they work, and release it after [`SLICE`] and
//! whenever they wait. So a client that is alone uses every thread, and another client's request waits for at most one
//! slice on each thread. Single calls need a place only to begin, and only if their client has had large answers recently
//! ([`LargeAnswers`]).

use std::{
    collections::HashMap,
    future::poll_fn,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use tenon_bus::ClientId;
use tenon_host::until_woken;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::{OwnedSemaphorePermit, Semaphore},
};

use super::{large_answers::LargeAnswers, poll_once};

/// Working time of a task before other tasks have their turn.
const SLICE: Duration = Duration::from_micros(250);
/// Maximum number of small entries between two clock reads: a read costs as much as part of an entry.
const MAX_ENTRIES_PER_CHECK: u32 = 8;
/// Parameters or results of this many bytes cause a clock read: they take as long as several entries.
const LARGE: usize = 64 << 10;
/// A message of this many bytes takes about a millisecond to scan and decode.
const LONG_MESSAGE: usize = 128 << 10;

/// Works on a message of `bytes`. A long one does not block the other tasks of this thread: the runtime moves them to
/// another thread, and the system shares the processor among threads.
pub(crate) fn work_on_message<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let is_long = bytes >= LONG_MESSAGE;
    if is_long && Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread) {
        return tokio::task::block_in_place(work);
    }
    work()
}

/// Polls the answer to a message of `bytes` for the first time, which scans the message and decodes its parameters.
pub(crate) async fn first_poll_of_message<F: Future>(bytes: usize, mut answer: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(work_on_message(bytes, || answer.as_mut().poll(context)))).await
}

/// Places of the clients with running long tasks. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskTurns {
    /// Locked when a batch begins or ends, and when a connection has worked for a slice; nothing awaits under the lock.
    clients: Arc<Mutex<HashMap<ClientId, Arc<Semaphore>>>>,
    /// Clients whose single calls take turns too.
    pub(super) large_answers: LargeAnswers,
}

impl TaskTurns {
    /// A turn without a place. A batch takes one before it works, a connection after it has worked for a slice.
    pub(crate) fn at_rest(&self, client: ClientId) -> TaskTurn {
        TaskTurn { turns: self.clone(), client, places: None, held: None, began: None, entries: 1, checked: 0 }
    }

    fn places(&self, client: ClientId, runtime: &Handle) -> Arc<Semaphore> {
        let new = || Arc::new(Semaphore::new(runtime.metrics().num_workers().max(1)));
        Arc::clone(self.clients.lock().entry(client).or_insert_with(new))
    }
}

/// A task's turn: the place that it holds, and the work of its current slice.
#[derive(Debug)]
pub(crate) struct TaskTurn {
    turns: TaskTurns,
    client: ClientId,
    /// `None` until the first place is taken, and without a runtime.
    places: Option<Arc<Semaphore>>,
    held: Option<OwnedSemaphorePermit>,
    /// Start of this slice; `None` until the clock is first read.
    began: Option<Instant>,
    /// Entries left before the next clock read. Starts at 1, because the first entry may take long.
    entries: u32,
    /// Entries of this slice up to the next clock read.
    checked: u32,
}

impl TaskTurn {
    /// Counts an entry whose parameters or result have `bytes` in total. Returns whether the slice is over, after which
    /// [`TaskTurn::pass`] must be called. The two are separate because a future for every entry costs as much as the
    /// count.
    pub(crate) fn is_over(&mut self, bytes: usize) -> bool {
        self.entries = self.entries.saturating_sub(1);
        if self.entries > 0 && bytes < LARGE {
            return false;
        }
        let now = Instant::now();
        let elapsed = now.saturating_duration_since(*self.began.get_or_insert(now));
        if elapsed < SLICE {
            // Reads the clock again within the slice, even if the entries are expensive.
            let checked = self.checked.max(1);
            let (left, elapsed) = (u64::from((SLICE - elapsed).subsec_nanos()), u64::from(elapsed.subsec_nanos()));
            let affordable = left * u64::from(checked) / elapsed.max(1);
            self.entries = u32::try_from(affordable).unwrap_or(u32::MAX).clamp(1, MAX_ENTRIES_PER_CHECK);
            self.checked = checked.saturating_add(self.entries);
            return false;
        }
        Handle::try_current().is_ok()
    }

    /// Lets other tasks run, releases the place, and takes one again.
    pub(crate) async fn pass(&mut self) {
        // The place is kept while the task yields, and exchanged afterwards. If another task of this client got it at
        // once, some task would always be ready, and the runtime reads other clients' input only when no task is ready.
        tokio::task::yield_now().await;
        self.take().await;
    }

    /// Releases the place before the task waits. A new slice begins when it works again.
    pub(crate) fn rest(&mut self) {
        (self.held, self.began, self.entries, self.checked) = (None, None, 1, 0);
    }

    /// Waits for another future, and releases the place if that takes any time.
    pub(crate) async fn rest_while<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        if let Poll::Ready(outcome) = poll_once(work.as_mut()).await {
            return outcome;
        }
        self.rest();
        work.await
    }

    /// Polls `work` only while the task holds a place. For work that one event starts for thousands of tasks. Releases
    /// the place whenever the work waits. Keeps it when the work is done; the caller then calls [`TaskTurn::is_over`].
    pub(crate) async fn work<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            self.take_unless_held().await;
            if let Poll::Ready(outcome) = poll_once(work.as_mut()).await {
                return outcome;
            }
            self.rest();
            until_woken().await;
        }
    }

    /// Begins `work` with a place, after the tasks that are ready now. Without this, calls of hundreds of connections
    /// that arrived together would run one after the other before those of other clients, each with a free place. `bytes`
    /// is the length of the parameters that the work decodes first.
    ///
    /// The rest of the work needs no place. Waiting for one, it could hold what others need: a permit of a plugin, or
    /// for reading a large reply.
    pub(super) async fn begin_after_others<F: Future>(&mut self, bytes: usize, work: F) -> F::Output {
        self.take().await;
        // The place is kept meanwhile, so that no other task of this client becomes ready.
        yield_to_ready_tasks().await;
        let mut work = pin!(work);
        if let Poll::Ready(output) = first_poll_of_message(bytes, work.as_mut()).await {
            return output;
        }
        self.rest();
        until_woken().await;
        work.await
    }

    /// Takes a place if one is free and no other task of this client waits for one. Returns whether it has one, or needs
    /// none.
    pub(super) fn try_take(&mut self) -> bool {
        self.rest();
        let Some(places) = self.own_places() else { return true };
        self.held = places.try_acquire_owned().ok();
        self.began = Some(Instant::now());
        self.held.is_some()
    }

    /// Waits for another future without a place, then takes one again.
    pub(super) async fn wait<T>(&mut self, work: impl Future<Output = T>) -> T {
        self.rest();
        let outcome = work.await;
        self.take().await;
        outcome
    }

    /// Takes a place, once the client has a free one.
    pub(super) async fn take(&mut self) {
        self.rest();
        if let Some(places) = self.own_places() {
            // An error would mean that the semaphore is closed, which never happens.
            self.held = places.acquire_owned().await.ok();
        }
        self.began = Some(Instant::now());
    }

    /// Takes a place unless the task has one.
    pub(super) async fn take_unless_held(&mut self) {
        if self.held.is_none() {
            self.take().await;
        }
    }

    /// The places of this client; `None` without a runtime, where there are no other tasks.
    fn own_places(&mut self) -> Option<Arc<Semaphore>> {
        if self.places.is_none() {
            self.places = Handle::try_current().ok().map(|runtime| self.turns.places(self.client, &runtime));
        }
        self.places.clone()
    }
}

/// Waits until the tasks that are ready now have run. Unlike [`tokio::task::yield_now`], also if it is polled again before:
/// the future of a call is polled once by itself and once more in its connection's list.
async fn yield_to_ready_tasks() {
    let others = Arc::new(ReadyTasks::default());
    let mut is_registered = false;
    poll_fn(|context| {
        others.task.register(context.waker());
        if others.have_run.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        if !std::mem::replace(&mut is_registered, true) {
            // The runtime wakes this waker when it has run the others and looked for new input.
            let waker = Waker::from(Arc::clone(&others));
            let _ = pin!(tokio::task::yield_now()).poll(&mut Context::from_waker(&waker));
        }
        Poll::Pending
    })
    .await;
}

/// Whether the tasks that were ready have run, and the task that waits for it.
#[derive(Default)]
struct ReadyTasks {
    have_run: AtomicBool,
    task: AtomicWaker,
}

impl Wake for ReadyTasks {
    fn wake(self: Arc<Self>) {
        self.have_run.store(true, Ordering::Release);
        self.task.wake();
    }
}

impl Drop for TaskTurn {
    fn drop(&mut self) {
        self.held = None;
        let Some(places) = self.places.take() else { return };
        let mut clients = self.turns.clients.lock();
        // The remaining references are the table's and this one.
        if Arc::strong_count(&places) == 2 {
            clients.remove(&self.client);
        }
        // Dropped before the lock is released, because the next task of this client counts the remaining owners.
        drop(places);
        drop(clients);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl TaskTurns {
        /// The turn of a batch.
        async fn begin(&self, client: ClientId) -> TaskTurn {
            let mut turn = self.at_rest(client);
            turn.take().await;
            turn
        }
    }

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
    async fn a_client_has_as_many_tasks_at_work_as_there_are_threads_and_others_have_theirs() {
        let (turns, greedy, modest) = (TaskTurns::default(), ClientId::from_number(1), ClientId::from_number(2));
        let mut first = turns.begin(greedy).await;

        let mut second = pin!(turns.begin(greedy));
        assert!(poll(second.as_mut()).is_pending(), "this runtime has one thread");
        assert!(poll(pin!(turns.begin(modest))).is_ready());

        // While the first one waits, the second one takes its turn.
        let mut waiting = pin!(first.wait(std::future::pending::<()>()));
        assert!(poll(waiting.as_mut()).is_pending());
        assert!(poll(second.as_mut()).is_ready());
    }

    #[tokio::test]
    async fn a_slice_ends_after_its_time_and_not_before() {
        let turns = TaskTurns::default();
        let mut turn = turns.begin(ClientId::from_number(1)).await;
        turn.began = Some(Instant::now() + Duration::from_secs(1));
        for _ in 0..100 {
            assert!(!turn.is_over(0));
        }

        turn.began = Some(Instant::now());
        work_for(SLICE);

        assert!(turn.is_over(LARGE));
    }

    #[tokio::test]
    async fn the_clock_is_read_after_each_expensive_entry_and_every_eighth_cheap_one() {
        let mut expensive = TaskTurns::default().begin(ClientId::from_number(1)).await;
        expensive.began = Instant::now().checked_sub(SLICE * 3 / 4);
        assert!(!expensive.is_over(0));
        assert_eq!(expensive.entries, 1, "the first took three quarters of the slice");

        let mut cheap = TaskTurns::default().begin(ClientId::from_number(1)).await;
        cheap.began = Some(Instant::now() + SLICE);
        assert!(!cheap.is_over(0));
        assert_eq!(cheap.entries, MAX_ENTRIES_PER_CHECK);
    }

    #[tokio::test]
    async fn a_task_whose_slice_is_over_keeps_its_place_until_other_tasks_have_run() {
        let (turns, client) = (TaskTurns::default(), ClientId::from_number(1));
        let mut first = turns.begin(client).await;
        let mut second = pin!(turns.begin(client));
        assert!(poll(second.as_mut()).is_pending(), "this runtime has one thread");

        let mut passing = pin!(first.pass());
        assert!(poll(passing.as_mut()).is_pending());
        assert!(poll(second.as_mut()).is_pending(), "it yields first");
        tokio::task::yield_now().await;
        assert!(poll(passing.as_mut()).is_pending());
        assert!(poll(second.as_mut()).is_ready(), "then the next in the queue has the place");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn work_on_a_long_message_leaves_the_thread_to_other_tasks() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let working = tokio::spawn(async move { work_on_message(LONG_MESSAGE, || receiver.recv().is_ok()) });

        // Needs the only worker, which would otherwise be blocked forever.
        tokio::spawn(async move { sender.send(()) }).await.unwrap().unwrap();

        assert!(working.await.unwrap());
    }

    #[tokio::test]
    async fn a_connection_needs_a_place_only_after_a_slice_and_gives_it_up_when_it_waits() {
        let (turns, client) = (TaskTurns::default(), ClientId::from_number(1));
        let _batch = turns.begin(client).await;
        let mut connection = turns.at_rest(client);
        for _ in 0..100 {
            assert!(!connection.is_over(0));
            connection.rest();
        }

        connection.began = Instant::now().checked_sub(SLICE);

        assert!(connection.is_over(LARGE));
        let mut passing = pin!(connection.pass());
        assert!(poll(passing.as_mut()).is_pending(), "it yields");
        tokio::task::yield_now().await;
        assert!(poll(passing.as_mut()).is_pending(), "the batch has the place");
    }

    #[tokio::test]
    async fn work_is_polled_with_a_place_only_and_waits_without_one() {
        let (turns, client) = (TaskTurns::default(), ClientId::from_number(1));
        let batch = turns.begin(client).await;
        let (mut first, mut second) = (turns.at_rest(client), turns.at_rest(client));
        let polls = std::cell::Cell::new(0);
        let mut working = pin!(first.work(poll_fn(|_| {
            polls.set(polls.get() + 1);
            if polls.get() > 1 { Poll::Ready(()) } else { Poll::Pending }
        })));

        assert!(poll(working.as_mut()).is_pending());
        assert_eq!(polls.get(), 0, "the batch has the only place");
        drop(batch);
        assert!(poll(working.as_mut()).is_pending());
        assert_eq!(polls.get(), 1);
        assert!(poll(pin!(second.work(async {}))).is_ready(), "what waits has no place");
        second.rest();

        assert!(poll(working.as_mut()).is_ready());
    }

    #[tokio::test]
    async fn a_client_is_forgotten_with_its_last_task() {
        let turns = TaskTurns::default();
        let first = turns.begin(ClientId::from_number(1)).await;
        drop(first);

        assert!(turns.clients.lock().is_empty());
    }
}

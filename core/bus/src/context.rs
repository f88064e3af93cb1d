//! A call's deadline, origin, cancellation and budget of computing time.

use std::{
    cell::Cell,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tenon_api::BusError;

use crate::{Origin, Reservation, fair::YieldHandle, recent_clients};

/// A call's deadline, origin, cancellation flag, and the computing time left to its message. Clones share the last two.
#[derive(Clone, Debug, Default)]
pub struct CallContext {
    deadline: Option<Instant>,
    origin: Origin,
    state: Arc<State>,
}

/// State shared by the clones of a context. Each job of a message has a state of its own, whose parent is the
/// message's.
#[derive(Debug)]
struct State {
    is_cancelled: AtomicBool,
    /// Nanoseconds of computing time left to the message; unused if there is a parent.
    time_left: AtomicI64,
    parent: Option<Arc<Self>>,
    /// `None` outside the work pool. Boxed, so that the state of a read, which has none, stays small.
    job: Option<Box<RunningJob>>,
    /// Whether a large reply to one of the caller's requests is about to be read.
    has_large_reply: AtomicBool,
    /// Memory of the data from which the message's answer is made. Locked to add to it.
    kept: Mutex<Vec<Reservation>>,
}

/// A job of the work pool, on its thread.
#[derive(Debug)]
struct RunningJob {
    yield_handle: YieldHandle,
    began: Instant,
    /// Nanoseconds from `began` up to which time has been charged.
    accounted: AtomicU64,
    /// Nanoseconds during which the job was parked.
    parked: AtomicU64,
    /// Set when the job has ended and its time is no longer charged.
    has_ended: AtomicBool,
}

/// How long a job runs before it checks again whether to yield to another client.
const CHECK_PERIOD: Duration = Duration::from_micros(500);
/// How long a thread computes before it yields, if several clients are present. A yield loses the contents of processor
/// caches, and makes the kernel prefer every thread that wakes up. With a yield every half millisecond, a trace of one
/// millisecond took an eighth longer.
const YIELD_EVERY: Duration = Duration::from_millis(2);

impl Default for State {
    fn default() -> Self {
        let (is_cancelled, time_left) = (AtomicBool::new(false), AtomicI64::new(i64::MAX));
        Self {
            is_cancelled,
            time_left,
            parent: None,
            job: None,
            has_large_reply: AtomicBool::new(false),
            kept: Mutex::default(),
        }
    }
}

impl State {
    fn of(parent: &Arc<Self>, job: Option<Box<RunningJob>>) -> Self {
        Self { parent: Some(Arc::clone(parent)), job, ..Self::default() }
    }

    /// The message's state.
    fn message(&self) -> &Self {
        let mut state = self;
        while let Some(parent) = &state.parent {
            state = parent;
        }
        state
    }

    /// Subtracts from the time left; called on a message's state.
    fn spend(&self, nanos: u64) {
        // Cannot overflow: a budget fits in nanoseconds, and a process does not run long enough to reach i64::MIN.
        self.time_left.fetch_sub(i64::try_from(nanos).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        let mut state = self;
        loop {
            if state.is_cancelled.load(Ordering::Relaxed) {
                return true;
            }
            match &state.parent {
                Some(parent) => state = parent,
                None => return state.time_left.load(Ordering::Relaxed) <= 0,
            }
        }
    }
}

impl RunningJob {
    /// Charges the time since the last check to the message.
    fn account(&self, state: &State, now: Instant) {
        let elapsed = nanos(now.saturating_duration_since(self.began));
        let before = self.accounted.swap(elapsed, Ordering::Relaxed);
        state.message().spend(elapsed.saturating_sub(before));
    }

    fn is_due(&self, now: Instant) -> bool {
        let accounted = Duration::from_nanos(self.accounted.load(Ordering::Relaxed));
        now.saturating_duration_since(self.began) >= accounted + CHECK_PERIOD
    }
}

/// Yields the thread if it has computed for long, in this job or in earlier ones, and another client may be waiting.
/// Threads that serve cheap requests need microseconds; without this yield they wait for the end of a computing
/// thread's time slice, several milliseconds.
fn yield_thread(now: Instant) {
    thread_local! {
        static YIELDED: Cell<Option<Instant>> = const { Cell::new(None) };
    }
    YIELDED.with(|yielded| {
        if yielded.get().is_none_or(|last| now.saturating_duration_since(last) >= YIELD_EVERY) {
            if recent_clients::has_several(now) {
                std::thread::yield_now();
            }
            yielded.set(Some(Instant::now()));
        }
    });
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl CallContext {
    /// Without deadline, not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// A context that ends at `deadline`.
    pub fn with_deadline(deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..Self::default() }
    }

    /// A context that ends `timeout` from now.
    pub fn with_timeout(timeout: Duration) -> Self {
        Self { deadline: Instant::now().checked_add(timeout), ..Self::default() }
    }

    /// The same call with a deadline no later than `deadline`.
    #[must_use]
    pub fn no_later_than(&self, deadline: Instant) -> Self {
        let deadline = self.deadline.map_or(deadline, |own| own.min(deadline));
        Self { deadline: Some(deadline), ..self.clone() }
    }

    /// The same call with this origin.
    #[must_use]
    pub fn with_origin(self, origin: Origin) -> Self {
        recent_clients::note(origin.client);
        Self { origin, ..self }
    }

    /// The same call, with `time` as its budget of computing time. All of the call's work counts, in the work pool and
    /// on the request's own task.
    #[must_use]
    pub fn within_computing_time(self, time: Duration) -> Self {
        let time = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        self.state.time_left.store(time, Ordering::Relaxed);
        self
    }

    /// A context for a nested call: it shares the deadline and the computing time, is cancelled with this call, and can
    /// be cancelled on its own.
    #[must_use]
    pub fn nested(&self) -> Self {
        Self { state: Arc::new(State::of(&self.state, None)), ..self.clone() }
    }

    /// Keeps memory reserved until the message is answered.
    pub fn keep(&self, memory: Reservation) {
        self.state.message().kept.lock().unwrap_or_else(PoisonError::into_inner).push(memory);
    }

    /// Announces that the next reply to this request is large: reading it will take its caller some time.
    pub fn announce_large_reply(&self) {
        let caller = self.state.parent.as_ref().unwrap_or(&self.state);
        caller.has_large_reply.store(true, Ordering::Release);
    }

    /// Returns and clears the announcement of a large reply to one of this caller's requests.
    pub fn take_large_reply_announcement(&self) -> bool {
        self.state.has_large_reply.swap(false, Ordering::AcqRel)
    }

    /// Returns the context of a job that runs on the work pool.
    pub(crate) fn for_job(&self, yield_handle: YieldHandle) -> Self {
        let (accounted, parked, has_ended) = Default::default();
        let job = RunningJob { yield_handle, began: Instant::now(), accounted, parked, has_ended };
        Self { state: Arc::new(State::of(&self.state, Some(Box::new(job)))), ..self.clone() }
    }

    /// Origin of the call.
    pub const fn origin(&self) -> Origin {
        self.origin
    }

    /// Deadline of the call, if it has one.
    pub const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns whether to stop: the caller has gone, the deadline has passed, or the computing time is used up.
    pub fn is_cancelled(&self) -> bool {
        self.state.is_cancelled() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// [`CallContext::is_cancelled`] for a caller that has just read the clock.
    pub(crate) fn is_cancelled_at(&self, now: Instant) -> bool {
        self.state.is_cancelled() || self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// For long work, to be called every few milliseconds: yields the thread to another client's job if it is that
    /// client's turn, then returns whether to stop. The caller must hold no lock that others need.
    pub fn should_stop(&self) -> bool {
        let now = Instant::now();
        // The job may have waited long for its next turn.
        if self.state.job.is_some() && self.try_yield_turn(now) {
            self.is_cancelled()
        } else {
            self.is_cancelled_at(now)
        }
    }

    /// Yields the thread to another client's job if it is that client's turn, and returns when this job may continue.
    /// The caller has just read `now`. Does nothing outside the work pool.
    pub fn yield_turn(&self, now: Instant) {
        self.try_yield_turn(now);
    }

    /// [`CallContext::yield_turn`]; returns whether it may have taken time.
    fn try_yield_turn(&self, now: Instant) -> bool {
        let Some(job) = self.state.job.as_ref().filter(|job| job.is_due(now)) else { return false };
        if job.has_ended.load(Ordering::Relaxed) {
            return false;
        }
        job.account(&self.state, now);
        if job.yield_handle.is_contended() && job.yield_handle.yield_turn(|| self.is_cancelled()) {
            let back = Instant::now();
            job.parked.fetch_add(nanos(back.saturating_duration_since(now)), Ordering::Relaxed);
            job.accounted.store(nanos(back.saturating_duration_since(job.began)), Ordering::Relaxed);
        }
        yield_thread(now);
        true
    }

    /// [`CallContext::yield_turn`] for code that runs too often to read the clock each time. Reads it only while several
    /// clients have work.
    pub fn yield_turn_if_contended(&self) {
        if self.state.job.as_ref().is_some_and(|job| job.yield_handle.is_contended()) {
            self.yield_turn(Instant::now());
        }
    }

    /// Total time for which this job was parked. Callers with time limits of their own subtract it.
    pub fn parked(&self) -> Duration {
        let job = self.state.job.as_ref();
        job.map_or(Duration::ZERO, |job| Duration::from_nanos(job.parked.load(Ordering::Relaxed)))
    }

    /// Ends the job and charges the rest of its time.
    pub(crate) fn end_turn(&self) {
        if let Some(job) = &self.state.job
            && !job.has_ended.swap(true, Ordering::Relaxed)
        {
            job.account(&self.state, Instant::now());
        }
    }

    /// Subtracts from the computing time left to the message.
    pub(crate) fn spend(&self, time: Duration) {
        self.state.message().spend(nanos(time));
    }

    /// # Errors
    /// [`BusError::OutOfTime`] when the computing time of the message is used up.
    pub(crate) fn require_time(&self) -> Result<(), BusError> {
        if self.state.message().time_left.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        Err(BusError::OutOfTime)
    }

    /// Marks the caller as gone.
    pub fn cancel(&self) {
        self.state.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// A guard that cancels this call when it is dropped. Move it, with the context, into the future that waits for the
    /// answer. It borrows, because every small request has one and reference counting would be a measurable part of its
    /// cost.
    #[must_use]
    pub fn cancel_on_drop(&self) -> CancelOnDrop<'_> {
        CancelOnDrop { cancelled: Some(&self.state.is_cancelled) }
    }
}

/// Cancels a call when it is dropped. See [`CallContext::cancel_on_drop`].
#[derive(Debug)]
pub struct CancelOnDrop<'a> {
    cancelled: Option<&'a AtomicBool>,
}

impl CancelOnDrop<'_> {
    /// Keeps the call alive: its answer has arrived.
    pub fn disarm(mut self) {
        self.cancelled = None;
    }
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(cancelled) = self.cancelled {
            cancelled.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_the_guard_cancels_every_clone() {
        let context = CallContext::new();
        let seen_by_the_work = context.clone();

        drop(context.cancel_on_drop());

        assert!(seen_by_the_work.is_cancelled());
    }

    #[test]
    fn a_disarmed_guard_cancels_nothing() {
        let context = CallContext::new();

        context.cancel_on_drop().disarm();

        assert!(!context.is_cancelled());
    }

    #[test]
    fn a_deadline_in_the_past_counts_as_cancelled() {
        assert!(CallContext::with_deadline(Instant::now()).is_cancelled());
    }

    #[test]
    fn the_earlier_deadline_wins() {
        let early = Instant::now();
        let late = early + Duration::from_secs(60);

        assert_eq!(CallContext::with_deadline(early).no_later_than(late).deadline(), Some(early));
        assert_eq!(CallContext::with_deadline(late).no_later_than(early).deadline(), Some(early));
    }
}

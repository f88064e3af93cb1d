//! A call's deadline, origin, cancellation and budget of computing time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tenon_api::Failure;

use crate::{Origin, fair::Turn};

/// A call's deadline, its origin, the flag that says whether its caller has gone, and what is left of the computing time of its
/// message. Cloning shares the last two.
#[derive(Clone, Debug, Default)]
pub struct CallContext {
    deadline: Option<Instant>,
    origin: Origin,
    state: Arc<State>,
}

/// What the clones of a context share. The work of a message has states of its own, which lead to the message's.
#[derive(Debug)]
struct State {
    is_cancelled: AtomicBool,
    /// Nanoseconds of computing time that are left to the message; not used where there is a parent.
    time_left: AtomicI64,
    parent: Option<Arc<Self>>,
    /// Boxed: a read allocates a state too, and has none.
    turn: Option<Box<OnTurn>>,
}

/// A job of the work pool, on its thread.
#[derive(Debug)]
struct OnTurn {
    turn: Turn,
    began: Instant,
    /// Nanoseconds from `began` to the moment up to which time is accounted for.
    accounted: AtomicU64,
    /// Nanoseconds in which the job had given way.
    parked: AtomicU64,
    /// Whether the job's time still counts.
    has_ended: AtomicBool,
}

/// How long a job runs between two looks at whose turn it is, and between two offers of its core to threads that are ready.
const LOOK_EVERY: Duration = Duration::from_micros(500);

impl Default for State {
    fn default() -> Self {
        let (is_cancelled, time_left) = (AtomicBool::new(false), AtomicI64::new(i64::MAX));
        Self { is_cancelled, time_left, parent: None, turn: None }
    }
}

impl State {
    fn of(parent: &Arc<Self>, turn: Option<Box<OnTurn>>) -> Self {
        Self { parent: Some(Arc::clone(parent)), turn, ..Self::default() }
    }

    /// The message's own state.
    fn message(&self) -> &Self {
        let mut state = self;
        while let Some(parent) = &state.parent {
            state = parent;
        }
        state
    }

    /// Takes time off what is left; for a message's own state.
    fn spend(&self, nanos: u64) {
        // No overflow: a bound is given in nanoseconds that fit, and the time of a process does not reach i64::MIN.
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

impl OnTurn {
    /// Takes the time since the last look off what is left to the message.
    fn account(&self, state: &State, now: Instant) {
        let elapsed = nanos(now.saturating_duration_since(self.began));
        let before = self.accounted.swap(elapsed, Ordering::Relaxed);
        state.message().spend(elapsed.saturating_sub(before));
    }

    fn is_due(&self, now: Instant) -> bool {
        let accounted = Duration::from_nanos(self.accounted.load(Ordering::Relaxed));
        now.saturating_duration_since(self.began) >= accounted + LOOK_EVERY
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl CallContext {
    /// Without deadline, not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends at `deadline`.
    pub fn with_deadline(deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..Self::default() }
    }

    /// Ends `timeout` from now.
    pub fn with_timeout(timeout: Duration) -> Self {
        Self { deadline: Instant::now().checked_add(timeout), ..Self::default() }
    }

    /// The same call with a deadline that is not later than `deadline`.
    #[must_use]
    pub fn no_later_than(&self, deadline: Instant) -> Self {
        let deadline = self.deadline.map_or(deadline, |own| own.min(deadline));
        Self { deadline: Some(deadline), ..self.clone() }
    }

    /// The same call with this origin.
    #[must_use]
    pub fn from_origin(self, origin: Origin) -> Self {
        Self { origin, ..self }
    }

    /// The same call, whose jobs may compute for `time` in all. The time of all jobs is added up, in the work pool and on the
    /// request's own task.
    #[must_use]
    pub fn within_computing_time(self, time: Duration) -> Self {
        let time = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        self.state.time_left.store(time, Ordering::Relaxed);
        self
    }

    /// A question that is asked for this call: it ends by itself, at the same deadline, draws on the same computing time, and is
    /// cancelled with this call.
    #[must_use]
    pub fn question(&self) -> Self {
        Self { state: Arc::new(State::of(&self.state, None)), ..self.clone() }
    }

    /// A job for this call, which has a place in the work pool.
    pub(crate) fn on_turn(&self, turn: Turn) -> Self {
        let (accounted, parked, has_ended) = Default::default();
        let turn = OnTurn { turn, began: Instant::now(), accounted, parked, has_ended };
        Self { state: Arc::new(State::of(&self.state, Some(Box::new(turn)))), ..self.clone() }
    }

    /// Who asks.
    pub const fn origin(&self) -> Origin {
        self.origin
    }

    /// When the call ends, if ever.
    pub const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether there is no use in going on: the caller has gone, the deadline has passed, or the computing time is used up.
    pub fn is_cancelled(&self) -> bool {
        self.state.is_cancelled() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// For long work, every few milliseconds at most: gives the thread to another client's work if that is its turn, and then
    /// tells whether there is no use in going on. Nothing may be locked meanwhile that others need.
    pub fn should_stop(&self) -> bool {
        if self.state.turn.is_some() {
            self.give_way(Instant::now());
        }
        self.is_cancelled()
    }

    /// Gives the thread to another client's work if that is its turn, and comes back when it is this one's again. `now` was read
    /// just before. Nothing outside a job of the work pool.
    pub fn give_way(&self, now: Instant) {
        let Some(turn) = self.state.turn.as_ref().filter(|turn| turn.is_due(now)) else { return };
        if turn.has_ended.load(Ordering::Relaxed) {
            return;
        }
        turn.account(&self.state, now);
        if turn.turn.is_contended() && turn.turn.give_way(|| self.is_cancelled()) {
            let back = Instant::now();
            turn.parked.fetch_add(nanos(back.saturating_duration_since(now)), Ordering::Relaxed);
            turn.accounted.store(nanos(back.saturating_duration_since(turn.began)), Ordering::Relaxed);
        }
        // Threads that serve cheap requests have work for microseconds. Without this they wait for the end of the time slice
        // that the system gives a computing thread, which is several milliseconds.
        std::thread::yield_now();
    }

    /// [`CallContext::give_way`] for places that are passed so often that a look at the clock would show. Costs that look only
    /// while several clients have work.
    pub fn give_way_if_contended(&self) {
        if self.state.turn.as_ref().is_some_and(|turn| turn.turn.is_contended()) {
            self.give_way(Instant::now());
        }
    }

    /// How long this job had given way to others so far. Time limits of its own do not count that.
    pub fn parked(&self) -> Duration {
        let turn = self.state.turn.as_ref();
        turn.map_or(Duration::ZERO, |turn| Duration::from_nanos(turn.parked.load(Ordering::Relaxed)))
    }

    /// The job has ended: accounts for the rest of its time.
    pub(crate) fn end_turn(&self) {
        if let Some(turn) = &self.state.turn
            && !turn.has_ended.swap(true, Ordering::Relaxed)
        {
            turn.account(&self.state, Instant::now());
        }
    }

    /// Takes time off what is left to the message.
    pub(crate) fn spend(&self, time: Duration) {
        self.state.message().spend(nanos(time));
    }

    /// # Errors
    /// `-32005` when the computing time of the message is used up.
    pub(crate) fn require_time(&self) -> Result<(), Failure> {
        if self.state.message().time_left.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        Err(Failure::limit("the computing time of this message is used up; ask for less in one message"))
    }

    /// Says that the caller has gone.
    pub fn cancel(&self) {
        self.state.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// A guard that cancels this call when it is dropped: put it, with the context, into the future that waits for the
    /// answer. It borrows, because every small request has one and counting a share up and down would be a part of its cost.
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
    /// The answer has arrived: nothing is cancelled any more.
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

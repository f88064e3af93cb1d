//! Fair sharing of places among clients.
//!
//! A place is a thread of the work pool, or one of the slow calls that a plugin may run at a time. Free places are
//! given in order of arrival: a single client can have all of them. When all are taken, jobs are queued by client and
//! plugin, and the next place goes to the client that has used the least measured time (start-time fair queueing), and
//! within it to the plugin that has used the least. A job that can pause gives its place to another client's job
//! ([`YieldHandle::yield_turn`]) and continues on its next turn. A client that has waited [`EXTRA_PLACE_AFTER`] without
//! a place gets an extra one, so that jobs which cannot pause do not block others.
//!
//! Everything is bounded: waiting jobs, in total and per client, parked jobs, and extra places.

mod attempts;
mod state;

use std::{
    fmt,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use attempts::Attempts;
use state::{Arrival, Granted, JobId, Refusal, State};

use crate::{
    ClientId, Origin, PluginId,
    waits::{self, WaitPlace},
};

/// How long a client waits without a place before it gets an extra one.
const EXTRA_PLACE_AFTER: Duration = Duration::from_millis(40);
/// Maximum interval between two checks by a waiting job of whether its client still has no place.
const MAX_EXTRA_PLACE_CHECK_INTERVAL: Duration = Duration::from_millis(640);

/// How often a parked job checks whether its caller is still there.
const CHECK_PERIOD: Duration = Duration::from_millis(50);

/// The client of a job, and the plugin through which it comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// The client.
    pub client: ClientId,
    /// The plugin that made the call, if any.
    pub plugin: Option<PluginId>,
}

impl From<Origin> for Share {
    fn from(origin: Origin) -> Self {
        Self { client: origin.client, plugin: origin.plugin }
    }
}

/// Limits of a [`FairQueue`].
#[derive(Clone, Copy, Debug)]
pub struct FairLimits {
    /// Number of places, at least one.
    pub places: usize,
    /// Maximum number of places of one client.
    pub client_places: usize,
    /// Maximum number of waiting jobs.
    pub queue: usize,
    /// Maximum number of waiting jobs of one client.
    pub client_queue: usize,
    /// Maximum number of parked jobs. Each keeps its thread and its memory; at the maximum, a job keeps running even
    /// when its client is over its share.
    pub parked: usize,
}

/// Why a job was not given a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnterError {
    /// The queue is full.
    QueueFull,
    /// The client's share of the queue is full.
    ClientFull,
    /// The job was dropped from the queue in favour of a client with fewer jobs.
    Displaced,
    /// The deadline has passed.
    DeadlinePassed,
}

/// Places and the queue for them. Clones share both.
#[derive(Clone, Debug)]
pub struct FairQueue {
    inner: Arc<Inner>,
}

type Waiter = oneshot::Sender<JobPermit>;

struct Inner {
    limits: FairLimits,
    /// Locked when a job arrives, ends, or may have to yield; nothing waits under it.
    state: Mutex<State<Waiter, Arc<Parked>>>,
    /// Whether another client waits, so that a running job might have to yield. Read often, without the lock.
    is_contended: AtomicBool,
    /// Time of clients' attempts, which run before anything is queued here.
    attempts: Attempts,
}

/// Wakes a parked job.
#[derive(Default)]
struct Parked {
    is_resumed: Mutex<bool>,
    changed: Condvar,
}

impl FairQueue {
    /// Creates a queue with these limits.
    pub fn new(limits: FairLimits) -> Self {
        let limits = FairLimits { places: limits.places.max(1), client_places: limits.client_places.max(1), ..limits };
        let state = Mutex::new(State::new(limits));
        let attempts = Attempts::new(limits.places);
        Self { inner: Arc::new(Inner { limits, state, is_contended: AtomicBool::new(false), attempts }) }
    }

    /// Returns whether a client may run short work on its request's own task, ahead of the queue. It may not once its
    /// allowance is used up, or while a client that has used less is waiting.
    pub(crate) fn may_attempt(&self, client: ClientId, now: Instant) -> bool {
        let is_contended = || self.inner.is_contended.load(Ordering::Relaxed);
        self.inner.attempts.has_time(client, now) && (!is_contended() || self.inner.lock().may_skip_queue(client, now))
    }

    /// Charges a client for work on its request's own task.
    pub(crate) fn charge_attempt(&self, client: ClientId, began: Instant, ended: Instant) {
        let time = ended.saturating_duration_since(began);
        self.inner.attempts.add(client, time, ended);
        if self.inner.is_contended.load(Ordering::Relaxed) {
            self.inner.lock().charge(client, time, ended);
        }
    }

    /// Number of running, parked and waiting jobs.
    pub fn counts(&self) -> (usize, usize, usize) {
        self.inner.lock().counts()
    }

    /// The limits.
    pub fn limits(&self) -> FairLimits {
        self.inner.limits
    }

    /// Takes a place if the job need not wait for one: without a future, for callers with short jobs.
    pub fn try_enter(&self, share: Share) -> Option<JobPermit> {
        let mut state = self.inner.lock();
        let job = state.new_job();
        let begins = state.try_begin(job, share, Instant::now());
        self.inner.note_contention(&state);
        drop(state);
        begins.then(|| JobPermit::new(&self.inner, job, share))
    }

    /// Waits for a place until `deadline`. Dropping the future leaves the queue.
    ///
    /// # Errors
    /// [`EnterError`].
    pub async fn enter(&self, share: Share, deadline: Option<Instant>) -> Result<JobPermit, EnterError> {
        let mut granted = None;
        let waiter = || {
            let (sender, receiver) = oneshot::channel();
            granted = Some(receiver);
            sender
        };
        let (job, arrival) = {
            let mut state = self.inner.lock();
            let job = state.new_job();
            let arrival = state.arrive(job, share, Instant::now(), waiter);
            self.inner.note_contention(&state);
            (job, arrival)
        };
        match arrival {
            Arrival::Runs => Ok(JobPermit::new(&self.inner, job, share)),
            Arrival::Refused(Refusal::QueueFull) => Err(EnterError::QueueFull),
            Arrival::Refused(Refusal::ClientFull) => Err(EnterError::ClientFull),
            Arrival::Waits { displaced } => {
                // Its receiver finds the channel closed.
                drop(displaced);
                let _leaves = LeavesQueue { inner: &self.inner, job, share };
                // Set, because `waiter` was called for the waiting job.
                let Some(receiver) = granted else { return Err(EnterError::Displaced) };
                let began = waits::wait_began();
                let permit = self.wait(share, receiver, deadline).await;
                waits::record_wait(began, wait_place("tenon_bus::FairQueue::enter", "a place of the pool", line!()));
                permit
            }
        }
    }

    async fn wait(
        &self,
        share: Share,
        mut receiver: oneshot::Receiver<JobPermit>,
        deadline: Option<Instant>,
    ) -> Result<JobPermit, EnterError> {
        let mut check_pause = EXTRA_PLACE_AFTER;
        loop {
            let soon = Instant::now() + check_pause;
            // Jobs of a client that already has places check less and less often.
            check_pause = (check_pause * 2).min(MAX_EXTRA_PLACE_CHECK_INTERVAL);
            let until = deadline.map_or(soon, |deadline| deadline.min(soon));
            match tokio::time::timeout_at(until.into(), &mut receiver).await {
                Ok(Ok(permit)) => return Ok(permit),
                Ok(Err(_)) => return Err(EnterError::Displaced),
                Err(_) if deadline.is_some_and(|deadline| deadline <= Instant::now()) => {
                    return Err(EnterError::DeadlinePassed);
                }
                Err(_) => self.inner.grant_extra(share.client),
            }
        }
    }
}

/// Removes a job from the queue on drop, if it is still there.
struct LeavesQueue<'a> {
    inner: &'a Inner,
    job: JobId,
    share: Share,
}

impl Drop for LeavesQueue<'_> {
    fn drop(&mut self) {
        let mut state = self.inner.lock();
        state.leave_queue(self.job, self.share);
        self.inner.note_contention(&state);
    }
}

/// The wait place for a line of this file.
const fn wait_place(function: &'static str, subject: &'static str, line: u32) -> WaitPlace {
    WaitPlace { function, subject, file: file!(), line }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State<Waiter, Arc<Parked>>> {
        let attempt = || match self.state.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        let wait = || self.state.lock().unwrap_or_else(PoisonError::into_inner);
        waits::lock(wait_place("tenon_bus::FairQueue", "its lock", line!()), attempt, wait)
    }

    fn note_contention(&self, state: &State<Waiter, Arc<Parked>>) {
        self.is_contended.store(state.is_contended(), Ordering::Relaxed);
    }

    /// Gives free places to waiting jobs.
    fn grant_all(self: &Arc<Self>) {
        let mut unclaimed = None;
        loop {
            let granted = {
                let mut state = self.lock();
                let now = Instant::now();
                if let Some(job) = unclaimed.take() {
                    state.end(job, now);
                }
                let granted = state.grant_next(now);
                self.note_contention(&state);
                granted
            };
            match granted {
                Some(granted) => unclaimed = self.hand_over(granted),
                None => return,
            }
        }
    }

    /// Grants an extra place to a client that has none, if it is next and the maximum is not reached.
    fn grant_extra(self: &Arc<Self>, client: ClientId) {
        let granted = {
            let mut state = self.lock();
            let granted = state.grant_extra(client, Instant::now());
            self.note_contention(&state);
            granted
        };
        if let Some(job) = granted.and_then(|granted| self.hand_over(granted)) {
            self.end(job);
        }
    }

    /// Gives a job its place. Returns the job if its caller has gone.
    fn hand_over(self: &Arc<Self>, granted: Granted<Waiter, Arc<Parked>>) -> Option<JobId> {
        match granted {
            Granted::Continues(parked) => {
                parked.resume();
                None
            }
            // Not dropped here: the drop would give out the next place, recursively.
            Granted::Begins(job, share, waiter) => match waiter.send(JobPermit::new(self, job, share)) {
                Ok(()) => None,
                Err(mut permit) => {
                    permit.is_held = false;
                    Some(job)
                }
            },
        }
    }

    /// Ends a job and gives its place to others.
    fn end(self: &Arc<Self>, job: JobId) {
        {
            let mut state = self.lock();
            state.end(job, Instant::now());
            if state.is_empty() {
                return self.note_contention(&state);
            }
        }
        self.grant_all();
    }
}

/// The permit of a running job. It holds one place, which its drop releases.
#[derive(Debug)]
pub struct JobPermit {
    inner: Arc<Inner>,
    job: JobId,
    share: Share,
    is_held: bool,
}

impl JobPermit {
    fn new(inner: &Arc<Inner>, job: JobId, share: Share) -> Self {
        Self { inner: Arc::clone(inner), job, share, is_held: true }
    }

    /// Returns the handle with which the running job yields. It does nothing once the permit is dropped.
    pub(crate) fn yield_handle(&self) -> YieldHandle {
        YieldHandle { inner: Arc::clone(&self.inner), job: self.job, share: self.share }
    }
}

impl Drop for JobPermit {
    fn drop(&mut self) {
        if self.is_held {
            self.inner.end(self.job);
        }
    }
}

/// Lets a running job check whether another client's job is next, and yield to it.
#[derive(Debug)]
pub(crate) struct YieldHandle {
    inner: Arc<Inner>,
    job: JobId,
    share: Share,
}

impl YieldHandle {
    /// Returns whether a job of another client waits that might be next.
    pub(crate) fn is_contended(&self) -> bool {
        self.inner.is_contended.load(Ordering::Relaxed)
    }

    /// Gives the place to another client's job if that is next, and blocks this thread until the job may continue, or
    /// until `is_unwanted`. Returns whether it waited.
    pub(crate) fn yield_turn(&self, is_unwanted: impl Fn() -> bool) -> bool {
        let parked = Arc::<Parked>::default();
        {
            let mut state = self.inner.lock();
            let is_parked = state.park(self.job, Instant::now(), || Arc::clone(&parked));
            self.inner.note_contention(&state);
            if !is_parked {
                return false;
            }
        }
        self.inner.grant_all();
        let began = waits::wait_began();
        let is_resumed = parked.wait(is_unwanted);
        waits::record_wait(began, wait_place("tenon_bus::YieldHandle::yield_turn", "its turn", line!()));
        if !is_resumed {
            let mut state = self.inner.lock();
            // The caller has gone: the job runs to its end without a place.
            state.leave_parking(self.job, self.share);
            self.inner.note_contention(&state);
        }
        true
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FairQueue").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Parked {
    fn resume(&self) {
        *self.is_resumed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }

    /// Waits until it is woken; false if `is_unwanted` came first.
    fn wait(&self, is_unwanted: impl Fn() -> bool) -> bool {
        let mut is_resumed = self.is_resumed.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_resumed && !is_unwanted() {
            let waited = self.changed.wait_timeout(is_resumed, CHECK_PERIOD);
            is_resumed = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *is_resumed
    }
}

#[cfg(test)]
mod tests;

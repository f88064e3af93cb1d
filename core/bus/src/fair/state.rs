//! Which jobs run, which wait, and which is next. Plain data: the caller supplies the time and the lock.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    time::{Duration, Instant},
};

use foldhash::fast::RandomState;

use super::{FairLimits, Share};
use crate::{ClientId, PluginId};

/// How much more time than a waiting client a client may have used before it must yield. A client that computes on
/// two threads uses that much more within half the time. Six clients each get a turn well within 50 ms.
const QUANTUM: Duration = Duration::from_millis(5);

/// Idle clients whose used time is remembered, besides those that run or wait.
const MAX_IDLE_CLIENTS: usize = 1_024;

/// Number of clients that stay in the table while no client has a job, so that their next job allocates nothing.
const MAX_RETAINED_CLIENTS: usize = 16;

/// A job from its arrival to its end.
pub(super) type JobId = u64;

/// A running job.
struct Running {
    share: Share,
    /// Instant up to which its time has been charged.
    since: Instant,
}

/// The jobs of a client that come through one plugin.
struct Flow<W, P> {
    used: Duration,
    running: usize,
    /// Paused jobs. They continue before others begin.
    parked: VecDeque<(JobId, P)>,
    waiting: VecDeque<(JobId, W)>,
}

/// The jobs of a client.
struct Client<W, P> {
    /// Time used by its jobs. A new client starts with the lowest value of all active clients, which makes the values
    /// comparable.
    used: Duration,
    running: usize,
    parked: usize,
    waiting: usize,
    flows: BTreeMap<Option<PluginId>, Flow<W, P>>,
}

impl<W, P> Flow<W, P> {
    const fn new(used: Duration) -> Self {
        Self { used, running: 0, parked: VecDeque::new(), waiting: VecDeque::new() }
    }

    fn is_active(&self) -> bool {
        self.running > 0 || self.wants_a_place()
    }

    fn wants_a_place(&self) -> bool {
        !self.parked.is_empty() || !self.waiting.is_empty()
    }
}

impl<W, P> Client<W, P> {
    const fn new(used: Duration) -> Self {
        Self { used, running: 0, parked: 0, waiting: 0, flows: BTreeMap::new() }
    }

    const fn is_active(&self) -> bool {
        self.running > 0 || self.wants_a_place()
    }

    const fn wants_a_place(&self) -> bool {
        self.parked > 0 || self.waiting > 0
    }

    /// Returns the plugin's flow. A new flow starts with the lowest value of all active flows.
    fn flow(&mut self, plugin: Option<PluginId>) -> &mut Flow<W, P> {
        let lowest = self.flows.values().filter(|flow| flow.is_active()).map(|flow| flow.used).min();
        let lowest = lowest.unwrap_or_default();
        let flow = self.flows.entry(plugin).or_insert_with(|| Flow::new(lowest));
        if !flow.is_active() {
            flow.used = flow.used.max(lowest);
        }
        flow
    }
}

/// The job that was given a place.
pub(super) enum Granted<W, P> {
    /// A waiting job begins.
    Begins(JobId, Share, W),
    /// A parked job continues.
    Continues(P),
}

/// Why a job cannot be queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The queue is full, and no other client has more jobs in it.
    QueueFull,
    /// The client's share of the queue is full.
    ClientFull,
}

/// Result of [`State::arrive`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival<W> {
    /// The job runs.
    Runs,
    /// It waits; `displaced` is the job that was dropped for it, of the client with the most waiting jobs.
    Waits { displaced: Option<W> },
    /// It is refused.
    Refused(Refusal),
}

/// `W` starts a waiting job, `P` wakes a parked one.
pub(super) struct State<W, P> {
    limits: FairLimits,
    clients: HashMap<ClientId, Client<W, P>, RandomState>,
    running: HashMap<JobId, Running, RandomState>,
    parked: usize,
    waiting: usize,
    next_job: JobId,
}

impl<W, P> State<W, P> {
    pub(super) fn new(limits: FairLimits) -> Self {
        let (clients, running) = Default::default();
        Self { limits, clients, running, parked: 0, waiting: 0, next_job: 0 }
    }

    /// Number of running, parked and waiting jobs.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        (self.running.len(), self.parked, self.waiting)
    }

    /// Returns whether a running job might have to yield: jobs wait or are parked, and not all jobs are of one
    /// client.
    pub(super) fn is_contended(&self) -> bool {
        let clients = || self.clients.values().filter(|client| client.is_active());
        self.running.len() > self.limits.places
            || ((self.waiting > 0 || self.parked > 0) && clients().take(2).count() > 1)
    }

    pub(super) fn new_job(&mut self) -> JobId {
        self.next_job += 1;
        self.next_job
    }

    /// Whether no job waits for a place, parked or not.
    pub(super) const fn is_empty(&self) -> bool {
        self.waiting == 0 && self.parked == 0
    }

    /// Starts a job if it need not wait; returns whether it did.
    pub(super) fn try_begin(&mut self, job: JobId, share: Share, now: Instant) -> bool {
        self.account(now);
        // If jobs wait although a place is free, their clients already have their maximum number of places.
        let has_free_place = self.running.len() < self.limits.places && self.next_share().is_none();
        let may_run = has_free_place && self.client(share.client).running < self.limits.client_places;
        if may_run {
            self.begin(job, share, now);
        }
        may_run
    }

    /// Adds a job. `waiter` is called only if the job has to wait.
    pub(super) fn arrive(&mut self, job: JobId, share: Share, now: Instant, waiter: impl FnOnce() -> W) -> Arrival<W> {
        if self.try_begin(job, share, now) {
            return Arrival::Runs;
        }
        let waits = self.client(share.client).waiting;
        let is_full = self.waiting >= self.limits.queue;
        if let Some(refusal) = self.refusal(is_full, waits) {
            self.forget_idle();
            return Arrival::Refused(refusal);
        }
        let displaced = if is_full { self.displace() } else { None };
        let client = self.client(share.client);
        client.flow(share.plugin).waiting.push_back((job, waiter()));
        client.waiting += 1;
        self.waiting += 1;
        Arrival::Waits { displaced }
    }

    /// Why a client with `waits` waiting jobs cannot queue another.
    fn refusal(&self, is_full: bool, waits: usize) -> Option<Refusal> {
        let busiest = || self.clients.values().map(|client| client.waiting).max().unwrap_or_default();
        if is_full && busiest() <= waits + 1 {
            return Some(Refusal::QueueFull);
        }
        (waits >= self.limits.client_queue).then_some(Refusal::ClientFull)
    }

    /// Removes the youngest waiting job of the client that has the most.
    fn displace(&mut self) -> Option<W> {
        let busiest = self.clients.values_mut().max_by_key(|client| client.waiting)?;
        let youngest = |flow: &&mut Flow<W, P>| flow.waiting.back().map_or(0, |(job, _)| *job);
        let (_, waiter) = busiest.flows.values_mut().max_by_key(youngest)?.waiting.pop_back()?;
        busiest.waiting -= 1;
        self.waiting -= 1;
        Some(waiter)
    }

    /// Gives a free place to the next job, if both exist.
    pub(super) fn grant_next(&mut self, now: Instant) -> Option<Granted<W, P>> {
        if self.running.len() >= self.limits.places {
            return None;
        }
        let share = self.next_share()?;
        self.grant(share, now)
    }

    /// Gives a waiting job an extra place, for which running jobs yield. Only for a client without a place, when it is
    /// next, and at most as many times as there are places.
    pub(super) fn grant_extra(&mut self, client: ClientId, now: Instant) -> Option<Granted<W, P>> {
        self.account(now);
        let share = self.next_share().filter(|share| share.client == client)?;
        let has_none = self.clients.get(&client).is_some_and(|client| client.running == 0);
        if !has_none || self.running.len() >= self.limits.places.saturating_mul(2) {
            return None;
        }
        self.grant(share, now)
    }

    fn grant(&mut self, share: Share, now: Instant) -> Option<Granted<W, P>> {
        let client = self.clients.get_mut(&share.client)?;
        let flow = client.flows.get_mut(&share.plugin)?;
        if let Some((job, parked)) = flow.parked.pop_front() {
            client.parked -= 1;
            self.parked -= 1;
            self.begin(job, share, now);
            return Some(Granted::Continues(parked));
        }
        let (job, waiter) = flow.waiting.pop_front()?;
        client.waiting -= 1;
        self.waiting -= 1;
        self.begin(job, share, now);
        Some(Granted::Begins(job, share, waiter))
    }

    /// The client and plugin whose job is next. Of the clients below their maximum of places, the one that has used the
    /// least time is next; of its plugins, likewise. With equal times, the job that has waited longest is next.
    ///
    /// Scans all clients: there are no more clients than waiting jobs, and a queued job costs far more than the scan.
    fn next_share(&self) -> Option<Share> {
        if self.is_empty() {
            return None;
        }
        let may_run = |client: &Client<W, P>| client.wants_a_place() && client.running < self.limits.client_places;
        let eligible = self.clients.iter().filter(|(_, client)| may_run(client));
        let (name, client) = eligible.min_by_key(|(_, client)| (client.used, oldest_of(client)))?;
        let flows = client.flows.iter().filter(|(_, flow)| flow.wants_a_place());
        let (plugin, _) = flows.min_by_key(|(_, flow)| (flow.used, oldest(flow)))?;
        Some(Share { client: *name, plugin: *plugin })
    }

    /// Starts a job of a client that is in the table.
    fn begin(&mut self, job: JobId, share: Share, now: Instant) {
        let Some(client) = self.clients.get_mut(&share.client) else { return };
        client.flow(share.plugin).running += 1;
        client.running += 1;
        self.running.insert(job, Running { share, since: now });
    }

    /// Removes a job that ended or left its place.
    pub(super) fn end(&mut self, job: JobId, now: Instant) {
        self.account(now);
        self.leave_place(job);
        self.forget_idle();
    }

    fn leave_place(&mut self, job: JobId) -> Option<Share> {
        let Running { share, .. } = self.running.remove(&job)?;
        if let Some(client) = self.clients.get_mut(&share.client) {
            client.running -= 1;
            if let Some(flow) = client.flows.get_mut(&share.plugin) {
                flow.running -= 1;
            }
        }
        Some(share)
    }

    /// Removes a waiting job.
    pub(super) fn leave_queue(&mut self, job: JobId, share: Share) {
        let Some(client) = self.clients.get_mut(&share.client) else { return };
        let Some(flow) = client.flows.get_mut(&share.plugin) else { return };
        let before = flow.waiting.len();
        flow.waiting.retain(|(waiting, _)| *waiting != job);
        if flow.waiting.len() < before {
            client.waiting -= 1;
            self.waiting -= 1;
            self.forget_idle();
        }
    }

    /// Removes a parked job; false if it already continues.
    pub(super) fn leave_parking(&mut self, job: JobId, share: Share) -> bool {
        let Some(client) = self.clients.get_mut(&share.client) else { return false };
        let Some(flow) = client.flows.get_mut(&share.plugin) else { return false };
        let before = flow.parked.len();
        flow.parked.retain(|(parked, _)| *parked != job);
        let has_left = flow.parked.len() < before;
        if has_left {
            client.parked -= 1;
            self.parked -= 1;
            self.forget_idle();
        }
        has_left
    }

    /// Parks a running job if another client is next, and returns whether it did; `parked` makes the handle that wakes
    /// it. At the maximum of parked jobs the job keeps running.
    pub(super) fn park(&mut self, job: JobId, now: Instant, parked: impl FnOnce() -> P) -> bool {
        self.account(now);
        if self.parked >= self.limits.parked || !self.must_yield(job) {
            return false;
        }
        let Some(share) = self.leave_place(job) else { return false };
        let client = self.client(share.client);
        client.flow(share.plugin).parked.push_back((job, parked()));
        client.parked += 1;
        self.parked += 1;
        true
    }

    fn must_yield(&self, job: JobId) -> bool {
        let Some(Running { share, .. }) = self.running.get(&job) else { return false };
        let Some(own) = self.clients.get(&share.client).map(|client| client.used) else { return false };
        if self.running.len() > self.limits.places {
            // An extra place was granted: the running client that has used most yields for it.
            let of = |running: &Running| self.clients.get(&running.share.client).map(|client| client.used);
            return self.running.values().filter_map(of).max() == Some(own);
        }
        let next = self.next_share().filter(|next| next.client != share.client);
        let next = next.and_then(|next| self.clients.get(&next.client));
        next.is_some_and(|next| next.used.saturating_add(QUANTUM) < own)
    }

    /// Returns whether a client may work without a place, ahead of the queue: no other client that has used less is
    /// waiting.
    pub(super) fn may_skip_queue(&mut self, client: ClientId, now: Instant) -> bool {
        self.account(now);
        let Some(own) = self.clients.get(&client).map(|client| client.used) else { return true };
        let waits = |(name, other): (&ClientId, &Client<W, P>)| *name != client && other.wants_a_place();
        !self.clients.iter().any(|entry| waits(entry) && entry.1.used.saturating_add(QUANTUM) < own)
    }

    /// Charges a client for time without a place.
    pub(super) fn charge(&mut self, client: ClientId, time: Duration, now: Instant) {
        self.account(now);
        let client = self.client(client);
        client.used = client.used.saturating_add(time);
        self.forget_idle();
    }

    /// Charges running jobs for the time since the last check.
    fn account(&mut self, now: Instant) {
        for running in self.running.values_mut() {
            let time = now.saturating_duration_since(running.since);
            running.since = running.since.max(now);
            let Some(client) = self.clients.get_mut(&running.share.client) else { continue };
            client.used = client.used.saturating_add(time);
            if let Some(flow) = client.flows.get_mut(&running.share.plugin) {
                flow.used = flow.used.saturating_add(time);
            }
        }
    }

    fn lowest_used_time(&self) -> Option<Duration> {
        self.clients.values().filter(|client| client.is_active()).map(|client| client.used).min()
    }

    /// Returns the client's entry. A new client starts with the lowest value of all active clients.
    fn client(&mut self, name: ClientId) -> &mut Client<W, P> {
        let is_active = self.clients.get(&name).is_some_and(Client::is_active);
        let lowest = if is_active { Duration::ZERO } else { self.lowest_used_time().unwrap_or_default() };
        let client = self.clients.entry(name).or_insert_with(|| Client::new(lowest));
        client.used = client.used.max(lowest);
        client
    }

    /// Forgets clients without jobs whose used time no longer exceeds the others'.
    fn forget_idle(&mut self) {
        let Some(lowest) = self.lowest_used_time() else { return self.reset_used_times() };
        let remembers = self.clients.len() <= MAX_IDLE_CLIENTS;
        self.clients.retain(|_, client| client.is_active() || (remembers && client.used > lowest));
    }

    /// No client is active: all start again.
    fn reset_used_times(&mut self) {
        if self.clients.len() > MAX_RETAINED_CLIENTS {
            return self.clients.clear();
        }
        for client in self.clients.values_mut() {
            client.used = Duration::ZERO;
            client.flows.values_mut().for_each(|flow| flow.used = Duration::ZERO);
        }
    }
}

fn oldest<W, P>(flow: &Flow<W, P>) -> JobId {
    let waiting = flow.waiting.front().map(|(job, _)| *job);
    let parked = flow.parked.front().map(|(job, _)| *job);
    waiting.into_iter().chain(parked).min().unwrap_or(JobId::MAX)
}

fn oldest_of<W, P>(client: &Client<W, P>) -> JobId {
    client.flows.values().map(oldest).min().unwrap_or(JobId::MAX)
}

#[cfg(test)]
mod tests;

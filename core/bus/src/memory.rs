//! One budget for the memory of requests.
//!
//! A request takes memory in many places: its text, its parameters, its answer, a filter, a trace. Each takes a
//! [`Reservation`] for what it allocates and releases it on drop. The budget bounds the sum and the share of each
//! client, so that a client that asks for too much is refused and others are not affected.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use tenon_api::BusError;

use crate::ClientId;

/// The purpose of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryUse {
    /// Buffers of open connections.
    Connections,
    /// Text of messages that are being received or parsed.
    Messages,
    /// Waiting and running calls, with their parameters.
    Calls,
    /// Answers and notifications until they are written as a whole.
    Answers,
    /// Data that plugins keep for clients, such as filters.
    PluginState,
    /// Open subscriptions with their parameters.
    Subscriptions,
    /// Recordings and texts of traces.
    Traces,
    /// Frames between the node and plugin processes.
    PluginFrames,
}

impl MemoryUse {
    /// All variants, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Connections,
        Self::Messages,
        Self::Calls,
        Self::Answers,
        Self::PluginState,
        Self::Subscriptions,
        Self::Traces,
        Self::PluginFrames,
    ];

    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Messages => "messages",
            Self::Calls => "calls",
            Self::Answers => "answers",
            Self::PluginState => "plugin_state",
            Self::Subscriptions => "subscriptions",
            Self::Traces => "traces",
            Self::PluginFrames => "plugin_frames",
        }
    }
}

/// Limits of a [`MemoryBudget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Bytes for all clients together.
    pub total: usize,
    /// Bytes for one client.
    pub client: usize,
}

/// Why memory was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutOfMemory {
    /// The client would exceed its share.
    #[error(
        "out of memory: {asked} bytes do not fit, as this client holds {held} of its {share}; read or close what is \
         open, or request less"
    )]
    Client {
        /// Bytes requested.
        asked: usize,
        /// Bytes that the client holds.
        held: usize,
        /// Bytes that the client may hold.
        share: usize,
    },
    /// All clients together would exceed the budget.
    #[error("out of memory: {asked} bytes do not fit into the memory that all clients share; try again later")]
    Node {
        /// Bytes requested.
        asked: usize,
    },
}

impl From<OutOfMemory> for BusError {
    fn from(error: OutOfMemory) -> Self {
        Self::limit_reached(error)
    }
}

/// Use of a budget at an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryUsage {
    /// Bytes held, by [`MemoryUse::ALL`].
    pub held: [usize; MemoryUse::ALL.len()],
    /// Refusals since the start, by [`MemoryUse::ALL`].
    pub refused: [u64; MemoryUse::ALL.len()],
    /// Clients that hold something, or are connected.
    pub clients: usize,
    /// The client that holds the most, and its bytes.
    pub largest_client: Option<(ClientId, usize)>,
}

/// The memory of all requests. Clones share it.
#[derive(Clone)]
pub struct MemoryBudget {
    pool: Arc<Pool>,
}

struct Pool {
    limits: MemoryLimits,
    held: AtomicUsize,
    held_by_use: [AtomicUsize; MemoryUse::ALL.len()],
    refused: [AtomicU64; MemoryUse::ALL.len()],
    /// Accounts of clients that hold memory or are connected. Locked when a connection or a large request begins or
    /// ends; nothing awaits under the lock.
    clients: Mutex<HashMap<ClientId, Weak<Account>>>,
}

/// Memory of one client. Dropped with its last owner.
struct Account {
    pool: Arc<Pool>,
    client: ClientId,
    held: AtomicUsize,
    /// Its open subscriptions.
    subscriptions: AtomicUsize,
    /// Its open connections.
    connections: AtomicUsize,
}

impl MemoryBudget {
    /// A budget with these limits.
    pub fn new(limits: MemoryLimits) -> Self {
        Self {
            pool: Arc::new(Pool {
                limits,
                held: AtomicUsize::new(0),
                held_by_use: Default::default(),
                refused: Default::default(),
                clients: Mutex::default(),
            }),
        }
    }

    /// A budget that counts and never refuses.
    pub fn unbounded() -> Self {
        Self::new(MemoryLimits { total: usize::MAX, client: usize::MAX })
    }

    /// The limits.
    pub fn limits(&self) -> MemoryLimits {
        self.pool.limits
    }

    /// The account of a client. Takes a lock: a connection calls it once and keeps the result.
    pub fn client(&self, client: ClientId) -> ClientMemory {
        let mut clients = self.pool.clients();
        let known = clients.get(&client).and_then(Weak::upgrade);
        let account = known.unwrap_or_else(|| {
            let [held, subscriptions, connections] = [0; 3].map(AtomicUsize::new);
            let pool = Arc::clone(&self.pool);
            let account = Arc::new(Account { pool, client, held, subscriptions, connections });
            clients.insert(client, Arc::downgrade(&account));
            account
        });
        // Released before `account` can be dropped: its `Drop` takes the same lock.
        drop(clients);
        ClientMemory { account }
    }

    /// The memory held now.
    pub fn usage(&self) -> MemoryUsage {
        let accounts: Vec<Arc<Account>> = self.pool.clients().values().filter_map(Weak::upgrade).collect();
        let held = |account: &Arc<Account>| (account.client, account.held.load(Ordering::Relaxed));
        MemoryUsage {
            held: self.pool.held_by_use.each_ref().map(|held| held.load(Ordering::Relaxed)),
            refused: self.pool.refused.each_ref().map(|refused| refused.load(Ordering::Relaxed)),
            clients: accounts.len(),
            largest_client: accounts.iter().map(held).max_by_key(|(_, held)| *held),
        }
    }
}

impl Default for MemoryBudget {
    /// A budget that counts and never refuses.
    fn default() -> Self {
        Self::unbounded()
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.pool.held.load(Ordering::Relaxed);
        formatter.debug_struct("MemoryBudget").field("limits", &self.pool.limits).field("held", &held).finish()
    }
}

impl Pool {
    fn clients(&self) -> MutexGuard<'_, HashMap<ClientId, Weak<Account>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much all clients may hold together once a client has grown to `client` bytes. The last eighth is reserved
    /// for clients that hold little, so that a few large clients cannot shut out small requests.
    const fn bound_for(&self, client: usize) -> usize {
        let total = self.limits.total;
        if client > total / 64 { total - total / 8 } else { total }
    }
}

impl Account {
    fn take(&self, kind: MemoryUse, bytes: usize) -> Result<(), OutOfMemory> {
        let share = self.pool.limits.client;
        let grown = |held: usize| held.checked_add(bytes).filter(|held| *held <= share);
        let held = match self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown) {
            Ok(before) => before + bytes,
            Err(held) => {
                self.refuse(kind);
                return Err(OutOfMemory::Client { asked: bytes, held, share });
            }
        };
        let bound = self.pool.bound_for(held);
        let grown = |held: usize| held.checked_add(bytes).filter(|held| *held <= bound);
        if self.pool.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_err() {
            self.held.fetch_sub(bytes, Ordering::Relaxed);
            self.refuse(kind);
            return Err(OutOfMemory::Node { asked: bytes });
        }
        self.pool.held_by_use[kind as usize].fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn take_always(&self, kind: MemoryUse, bytes: usize) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        self.pool.held.fetch_add(bytes, Ordering::Relaxed);
        self.pool.held_by_use[kind as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    fn give_back(&self, kind: MemoryUse, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
        self.pool.held.fetch_sub(bytes, Ordering::Relaxed);
        self.pool.held_by_use[kind as usize].fetch_sub(bytes, Ordering::Relaxed);
    }

    fn refuse(&self, kind: MemoryUse) {
        self.pool.refused[kind as usize].fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let mut clients = self.pool.clients();
        // The client may have a new account by now.
        let is_own = |account: &Weak<Self>| std::ptr::eq(account.as_ptr(), self);
        if clients.get(&self.client).is_some_and(is_own) {
            clients.remove(&self.client);
        }
    }
}

/// The share of one client. Clones share it.
#[derive(Clone)]
pub struct ClientMemory {
    account: Arc<Account>,
}

impl ClientMemory {
    /// Reserves `bytes` until the reservation is dropped.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the client or all clients together would exceed their limit; nothing is reserved then.
    pub fn reserve(&self, kind: MemoryUse, bytes: usize) -> Result<Reservation, OutOfMemory> {
        self.account.take(kind, bytes)?;
        Ok(Reservation { account: Arc::clone(&self.account), kind, bytes })
    }

    /// Reserves `bytes` even beyond the limits: for small amounts that are bounded elsewhere, such as the buffers of a
    /// connection.
    pub fn reserve_always(&self, kind: MemoryUse, bytes: usize) -> Reservation {
        self.account.take_always(kind, bytes);
        Reservation { account: Arc::clone(&self.account), kind, bytes }
    }

    /// Counts an open connection with buffers of `bytes`, until the result is dropped.
    pub fn open_connection(&self, bytes: usize) -> ConnectionPlace {
        self.account.connections.fetch_add(1, Ordering::Relaxed);
        let memory = self.reserve_always(MemoryUse::Connections, bytes);
        ConnectionPlace { memory }
    }

    /// Number of the client's open connections.
    pub fn connections(&self) -> usize {
        self.account.connections.load(Ordering::Relaxed)
    }

    /// Takes one of the client's `max` subscriptions; `None` if all are taken.
    pub fn take_subscription(&self, max: usize) -> Option<SubscriptionPlace> {
        let grown = |taken: usize| (taken < max).then_some(taken + 1);
        let subscriptions = &self.account.subscriptions;
        subscriptions.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).ok()?;
        Some(SubscriptionPlace { account: Arc::clone(&self.account) })
    }

    /// Bytes that the client holds.
    pub fn held(&self) -> usize {
        self.account.held.load(Ordering::Relaxed)
    }

    /// Returns whether both are of the same client.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.account, &other.account)
    }
}

impl fmt::Debug for ClientMemory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClientMemory").field("held", &self.held()).finish_non_exhaustive()
    }
}

/// One of a client's subscriptions, released on drop.
pub struct SubscriptionPlace {
    account: Arc<Account>,
}

impl Drop for SubscriptionPlace {
    fn drop(&mut self) {
        self.account.subscriptions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One of a client's connections, with the memory of its buffers. Both are released on drop.
#[derive(Debug)]
pub struct ConnectionPlace {
    memory: Reservation,
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.memory.account.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Reserved memory, released on drop.
pub struct Reservation {
    account: Arc<Account>,
    kind: MemoryUse,
    bytes: usize,
}

impl Reservation {
    /// Size in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Grows or shrinks the reservation to `bytes`.
    ///
    /// # Errors
    /// [`OutOfMemory`] if it cannot grow; its size is unchanged then.
    pub fn resize(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        if bytes > self.bytes {
            self.account.take(self.kind, bytes - self.bytes)?;
        } else {
            self.account.give_back(self.kind, self.bytes - bytes);
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Shrinks to `bytes` if the reservation is larger.
    pub fn shrink(&mut self, bytes: usize) {
        let surplus = self.bytes.saturating_sub(bytes);
        self.account.give_back(self.kind, surplus);
        self.bytes -= surplus;
    }

    /// Merges another reservation into this one, with this one's use.
    pub fn absorb(&mut self, mut other: Self) {
        let bytes = std::mem::take(&mut other.bytes);
        if Arc::ptr_eq(&self.account, &other.account) && self.kind == other.kind {
            self.bytes += bytes;
            return;
        }
        other.account.give_back(other.kind, bytes);
        self.account.take_always(self.kind, bytes);
        self.bytes += bytes;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.account.give_back(self.kind, self.bytes);
        }
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Reservation").field("kind", &self.kind).field("bytes", &self.bytes).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: MemoryUse = MemoryUse::Messages;

    fn budget(total: usize, client: usize) -> MemoryBudget {
        MemoryBudget::new(MemoryLimits { total, client })
    }

    fn client(budget: &MemoryBudget, number: u64) -> ClientMemory {
        budget.client(ClientId::from_number(number))
    }

    #[test]
    fn a_client_is_refused_beyond_its_share_and_others_are_not() {
        let budget = budget(1_000, 100);
        let (greedy, modest) = (client(&budget, 1), client(&budget, 2));
        let held = greedy.reserve(MESSAGES, 90).unwrap();

        let refused = greedy.reserve(MESSAGES, 11).unwrap_err();

        assert_eq!(refused, OutOfMemory::Client { asked: 11, held: 90, share: 100 });
        assert!(modest.reserve(MESSAGES, 100).is_ok());
        drop(held);
        assert!(greedy.reserve(MESSAGES, 100).is_ok(), "what was held came back");
    }

    #[test]
    fn large_clients_leave_memory_for_small_ones() {
        let budget = budget(6_400, 6_400);
        let large = client(&budget, 1);
        let _held = large.reserve(MESSAGES, 5_600).unwrap();

        assert_eq!(large.reserve(MESSAGES, 1).unwrap_err(), OutOfMemory::Node { asked: 1 });
        assert_eq!(client(&budget, 2).reserve(MESSAGES, 101).unwrap_err(), OutOfMemory::Node { asked: 101 });
        assert!(client(&budget, 2).reserve(MESSAGES, 100).is_ok());
    }

    #[test]
    fn reservations_grow_shrink_and_are_counted_by_use() {
        let budget = budget(1_000, 1_000);
        let client = client(&budget, 1);
        let mut trace = client.reserve(MemoryUse::Traces, 10).unwrap();
        let mut answer = client.reserve(MemoryUse::Answers, 5).unwrap();

        trace.resize(300).unwrap();
        trace.resize(200).unwrap();
        assert_eq!(trace.resize(2_000).unwrap_err(), OutOfMemory::Client { asked: 1_800, held: 205, share: 1_000 });
        assert_eq!(trace.bytes(), 200, "what it was");
        answer.absorb(client.reserve(MemoryUse::Answers, 20).unwrap());
        answer.absorb(client.reserve(MESSAGES, 3).unwrap());
        answer.shrink(27);
        answer.shrink(1_000);

        let usage = budget.usage();
        assert_eq!(usage.held, [0, 0, 0, 27, 0, 0, 200, 0]);
        assert_eq!(usage.refused, [0, 0, 0, 0, 0, 0, 1, 0]);
        assert_eq!((usage.clients, usage.largest_client), (1, Some((ClientId::from_number(1), 227))));
        drop((trace, answer, client));
        assert_eq!(budget.usage().held, [0; 8]);
        assert_eq!(budget.usage().clients, 0, "an account goes with its last owner");
    }

    #[test]
    fn a_client_that_reconnects_has_one_account() {
        let budget = budget(1_000, 10);
        let first = client(&budget, 7);
        let _held = first.reserve(MESSAGES, 10).unwrap();

        let again = client(&budget, 7);

        assert!(first.is_same(&again) && !first.is_same(&client(&budget, 8)));
        assert!(again.reserve(MESSAGES, 1).is_err());
    }

    #[test]
    fn connections_are_counted_by_client_until_they_end() {
        let budget = budget(1_000, 1_000);
        let open = [10, 20].map(|bytes| client(&budget, 7).open_connection(bytes));

        assert_eq!((client(&budget, 7).connections(), client(&budget, 8).connections()), (2, 0));
        assert_eq!(client(&budget, 7).held(), 30);

        drop(open);
        assert_eq!((client(&budget, 7).connections(), client(&budget, 7).held()), (0, 0));
    }

    #[test]
    fn subscriptions_are_counted_over_all_connections_of_a_client() {
        let budget = budget(1_000, 10);
        let taken: Vec<_> = (0..3).filter_map(|_| client(&budget, 7).take_subscription(3)).collect();

        assert_eq!(taken.len(), 3);
        assert!(client(&budget, 7).take_subscription(3).is_none());
        assert!(client(&budget, 8).take_subscription(3).is_some());
        drop(taken);
        assert!(client(&budget, 7).take_subscription(3).is_some());
    }

    #[test]
    fn nothing_is_lost_or_held_twice_when_threads_take_and_give_back() {
        let budget = budget(10_000, 4_000);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let budget = &budget;
                scope.spawn(move || {
                    for round in 0..2_000 {
                        let client = client(budget, (thread + round) % 3);
                        let Ok(mut held) = client.reserve(MESSAGES, 1_500) else { continue };
                        let _grown = held.resize(3_000);
                        let held = budget.pool.held.load(Ordering::Relaxed);
                        assert!(held <= 10_000, "{held}");
                    }
                });
            }
        });

        assert_eq!(budget.usage().held, [0; 8]);
        assert_eq!(budget.pool.held.load(Ordering::Relaxed), 0);
    }
}

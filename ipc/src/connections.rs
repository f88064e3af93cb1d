//! The open connections of a listener, and which of them is closed when there are too many.
//!
//! One address may use all free places. When none is free, a connection of the address with the most connections is
//! closed for the new one:
//!
//! - If that address has HTTP connections between two requests, the one that has been idle longest is closed.
//! - Otherwise another connection of that address is closed, if the address of the new connection has at least two
//!   fewer.
//! - Otherwise the new connection is refused.

use std::{
    collections::HashMap,
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncRead, ReadBuf},
    task::{AbortHandle, Id, JoinSet},
};

use crate::service::ClientId;

/// Interval of a listener's checks for idle connections.
pub(crate) const CHECK_PERIOD: Duration = Duration::from_secs(1);
/// Number of open connections from which a listener tracks idle times. With fewer, no connection is closed for another,
/// unless the settings limit connections to fewer than this.
pub(crate) const FEW_CONNECTIONS: usize = 16;

/// A connection's activity, as polled by the table. Connections do not notify the table, so that a request costs
/// nothing here.
pub(crate) trait Activity: Send + Sync {
    /// A number that changes with every activity on the connection.
    fn activity_count(&self) -> u32;
    /// Whether it can be closed without harm to its client: it is an HTTP connection between two requests, and the
    /// client makes its next request on another connection.
    fn is_disposable(&self) -> bool;
}

/// Counts reads of a connection on which both sides may send at any time. The count shows whether the connection is
/// used.
pub(crate) struct CountedReader<'a, R, F> {
    pub(crate) reader: R,
    pub(crate) on_read: &'a F,
}

impl<R: AsyncRead + Unpin, F: Fn()> AsyncRead for CountedReader<'_, R, F> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { reader, on_read } = self.get_mut();
        let read = Pin::new(reader).poll_read(context, buffer);
        if read.is_ready() {
            on_read();
        }
        read
    }
}

/// Number of reads of such a connection.
#[derive(Default)]
pub(crate) struct Reads(AtomicU32);

impl Reads {
    pub(crate) fn count_read(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Activity for Reads {
    fn activity_count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn is_disposable(&self) -> bool {
        false
    }
}

/// The connections.
pub(crate) struct Connections {
    tasks: JoinSet<()>,
    open: HashMap<Id, Open>,
}

struct Open {
    address: ClientId,
    activity: Arc<dyn Activity>,
    task: AbortHandle,
    /// The activity count at the last check, and the time since which it has been the same.
    activity_count: u32,
    since: Instant,
}

/// Result of [`Connections::admit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// There is a free place.
    Free,
    /// There is a place now: a connection of this address was closed.
    GaveWay(ClientId),
    /// There is no place.
    Refused,
}

impl Connections {
    pub(crate) fn new() -> Self {
        Self { tasks: JoinSet::new(), open: HashMap::new() }
    }

    /// Number of open connections.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Waits for the end of a connection; `None` if there are no connections.
    pub(crate) async fn ended(&mut self) -> Option<()> {
        let ended = self.tasks.join_next_with_id().await?;
        self.forget(ended.map(|(id, ())| id).unwrap_or_else(|error| error.id()));
        Some(())
    }

    /// Removes the connections that have ended.
    pub(crate) fn remove_ended(&mut self) {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.forget(ended.map(|(id, ())| id).unwrap_or_else(|error| error.id()));
        }
    }

    fn forget(&mut self, id: Id) {
        self.open.remove(&id);
    }

    /// Makes a place for a connection from an address. There are at most `max` places.
    pub(crate) fn admit(&mut self, address: ClientId, max: usize) -> Admission {
        self.remove_ended();
        if self.open.len() < max {
            return Admission::Free;
        }
        let Some((id, holder)) = self.choose_to_evict(address) else { return Admission::Refused };
        // Its task ends immediately or, if it is being polled, at the end of that poll.
        if let Some(open) = self.open.remove(&id) {
            open.task.abort();
        }
        Admission::GaveWay(holder)
    }

    /// Serves a connection.
    pub(crate) fn add(
        &mut self,
        address: ClientId,
        activity: Arc<dyn Activity>,
        serving: impl Future<Output = ()> + Send + 'static,
    ) {
        let task = self.tasks.spawn(serving);
        let open = Open {
            address,
            activity_count: activity.activity_count(),
            activity,
            since: Instant::now(),
            task: task.clone(),
        };
        self.open.insert(task.id(), open);
    }

    /// Checks which connections have been active since the last check. The interval of these calls is the precision of
    /// the idle times.
    pub(crate) fn check(&mut self) {
        let now = Instant::now();
        for open in self.open.values_mut() {
            let activity_count = open.activity.activity_count();
            if activity_count != open.activity_count {
                (open.activity_count, open.since) = (activity_count, now);
            }
        }
    }

    /// Scans all connections, which takes microseconds, and only when there is no place left.
    fn choose_to_evict(&mut self, newcomer: ClientId) -> Option<(Id, ClientId)> {
        self.check();
        let mut held = HashMap::<ClientId, usize>::new();
        for open in self.open.values() {
            *held.entry(open.address).or_default() += 1;
        }
        let (own, max) = (held.get(&newcomer).copied().unwrap_or_default(), held.values().copied().max()?);
        let holds_most = |address: ClientId| held.get(&address) == Some(&max);
        let of_holder = || self.open.iter().filter(|(_, open)| holds_most(open.address));
        let idle = of_holder().filter(|(_, open)| open.activity.is_disposable()).min_by_key(|(_, open)| open.since);
        let other = || {
            let others = of_holder().filter(|(_, open)| open.address != newcomer && max > own + 1);
            others.min_by_key(|(_, open)| open.since)
        };
        idle.or_else(other).map(|(id, open)| (*id, open.address))
    }

    /// Waits for the end of all connections.
    pub(crate) async fn all_ended(mut self) {
        while self.ended().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, sync::atomic::AtomicBool};

    use super::*;

    struct Watched {
        activity_count: AtomicU32,
        is_disposable: AtomicBool,
        /// Its reference count tells whether the connection is served.
        served: Arc<()>,
    }

    impl Activity for Watched {
        fn activity_count(&self) -> u32 {
            self.activity_count.load(Ordering::Relaxed)
        }

        fn is_disposable(&self) -> bool {
            self.is_disposable.load(Ordering::Relaxed)
        }
    }

    impl Watched {
        fn acts(&self) {
            self.activity_count.fetch_add(1, Ordering::Relaxed);
        }

        fn is_busy(&self) {
            self.is_disposable.store(false, Ordering::Relaxed);
        }

        async fn has_ended(&self) {
            while Arc::strong_count(&self.served) > 1 {
                tokio::task::yield_now().await;
            }
        }
    }

    fn add(connections: &mut Connections, address: u64) -> Arc<Watched> {
        let watched =
            Watched { activity_count: AtomicU32::new(0), is_disposable: AtomicBool::new(true), served: Arc::default() };
        let watched = Arc::new(watched);
        let served = Arc::clone(&watched.served);
        connections.add(ClientId::from_number(address), watched.clone(), async move {
            let _served = served;
            pending::<()>().await;
        });
        watched
    }

    fn admit(connections: &mut Connections, address: u64) -> Admission {
        connections.admit(ClientId::from_number(address), 3)
    }

    const GAVE_WAY: fn(u64) -> Admission = |address| Admission::GaveWay(ClientId::from_number(address));

    #[tokio::test]
    async fn an_address_may_have_all_free_places_and_gives_up_the_longest_idle_one_to_another() {
        let mut connections = Connections::new();
        let held: Vec<_> = (0..3)
            .map(|_| {
                assert_eq!(admit(&mut connections, 1), Admission::Free);
                add(&mut connections, 1)
            })
            .collect();
        held[0].acts();

        assert_eq!(admit(&mut connections, 2), GAVE_WAY(1));

        held[1].has_ended().await;
        assert_eq!((Arc::strong_count(&held[0].served), Arc::strong_count(&held[2].served)), (2, 2));
        assert_eq!(connections.len(), 2);
    }

    #[tokio::test]
    async fn the_longest_idle_connection_is_the_one_whose_last_request_is_longest_ago() {
        let mut connections = Connections::new();
        let held = [(); 3].map(|()| add(&mut connections, 1));
        for used in [1, 0, 2] {
            held[used].acts();
            connections.check();
        }

        for longest_idle in [1, 0, 2] {
            assert_eq!(connections.admit(ClientId::from_number(2), connections.len()), GAVE_WAY(1));
            held[longest_idle].has_ended().await;
        }
    }

    #[tokio::test]
    async fn the_address_with_most_connections_loses_one_even_if_all_of_them_are_busy() {
        let mut connections = Connections::new();
        let busy = [1, 1, 2].map(|address| add(&mut connections, address));
        busy.iter().for_each(|watched| watched.is_busy());

        assert_eq!(admit(&mut connections, 3), GAVE_WAY(1));

        busy[0].has_ended().await;
    }

    #[tokio::test]
    async fn no_busy_connection_is_closed_for_an_address_that_would_then_have_as_many() {
        let mut connections = Connections::new();
        let busy = [1, 1, 2].map(|address| add(&mut connections, address));
        busy.iter().for_each(|watched| watched.is_busy());

        assert_eq!(admit(&mut connections, 1), Admission::Refused);
        assert_eq!(admit(&mut connections, 2), Admission::Refused);
    }

    #[tokio::test]
    async fn a_new_connection_replaces_an_idle_one_of_its_own_address() {
        let mut connections = Connections::new();
        let own = [(); 3].map(|()| add(&mut connections, 1));

        assert_eq!(admit(&mut connections, 1), GAVE_WAY(1));
        own[0].has_ended().await;
        add(&mut connections, 1);
        assert_eq!(admit(&mut connections, 1), GAVE_WAY(1));
    }

    #[tokio::test]
    async fn connections_that_end_leave_their_places() {
        let mut connections = Connections::new();
        connections.add(
            ClientId::from_number(1),
            Arc::new(Watched {
                activity_count: AtomicU32::new(0),
                is_disposable: AtomicBool::new(false),
                served: Arc::default(),
            }),
            async {},
        );

        assert_eq!(connections.ended().await, Some(()));

        assert_eq!((connections.len(), connections.ended().await), (0, None));
    }
}

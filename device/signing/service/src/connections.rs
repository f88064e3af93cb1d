//! Limits on HTTP connections: unauthenticated peers cannot lock others out, and no client can take all connections.

use std::{
    collections::{BTreeMap, HashMap},
    future::pending,
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use tenon_accept::Acceptor;
use tokio::{
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};

use crate::{ClientSocket, Settings};

/// Maximum number of connections that are not authenticated yet. Above it, the oldest connection of the address with
/// the most of them is closed. A client that shares its address with a flood must authenticate before this number of
/// newer connections arrive.
const MAX_UNPROVED: usize = 256;
/// Maximum number of authenticated connections of a client.
const MAX_OF_CLIENT: usize = 32;

/// Maximum number of connections that a service with these settings has open at the same time.
pub fn max_connections(settings: &Settings) -> u64 {
    let of_socket = ClientSocket::limits(settings.approval_time()).connections;
    let sockets = settings.clients.values().filter(|client| client.socket.is_some()).count() + settings.approvers.len();
    let over_http = settings.http.as_ref().map_or(0, |_| MAX_UNPROVED + MAX_OF_CLIENT * settings.clients.len());
    let of_page = settings.page.as_ref().map_or(0, |_| MAX_UNPROVED + MAX_OF_CLIENT);
    (sockets * of_socket + over_http + of_page) as u64
}

/// The connections of one port. The lock is not held across an await.
#[derive(Debug, Default)]
pub(crate) struct Connections(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    unproved: BTreeMap<u64, (IpAddr, Option<AbortHandle>)>,
    proved: HashMap<Arc<str>, usize>,
}

/// Registration of a connection, removed on drop.
#[derive(Debug)]
pub(crate) struct ConnectionGuard {
    connections: Arc<Connections>,
    number: u64,
    client: OnceLock<Arc<str>>,
}

impl Connections {
    /// Accepts connections, and serves each in its own task, which outlives the loop. Stops when the future is dropped;
    /// logs `failure` if a connection could not be accepted.
    pub(crate) async fn accept_all<F>(
        self: &Arc<Self>,
        listener: TcpListener,
        failure: &'static str,
        serve: impl Fn(TcpStream, Arc<ConnectionGuard>) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let take = move |(stream, from): (TcpStream, SocketAddr)| self.spawn(from.ip(), |guard| serve(stream, guard));
        let failed = |error| tracing::warn!(%error, "{failure}");
        Acceptor::new(|| listener.accept()).run_until(pending(), failed, take).await;
    }

    /// Serves a connection in its own task.
    fn spawn<F>(self: &Arc<Self>, ip: IpAddr, serve: impl FnOnce(Arc<ConnectionGuard>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let number = {
            let mut inner = self.0.lock();
            inner.next += 1;
            let number = inner.next;
            inner.unproved.insert(number, (ip, None));
            if inner.unproved.len() > MAX_UNPROVED {
                inner.close_one();
            }
            number
        };
        let guard = Arc::new(ConnectionGuard { connections: Arc::clone(self), number, client: OnceLock::new() });
        let task = tokio::spawn(serve(guard));
        if let Some((_, handle)) = self.0.lock().unproved.get_mut(&number) {
            *handle = Some(task.abort_handle());
        }
    }
}

impl Inner {
    /// Closes the oldest connection of the address that has the most.
    fn close_one(&mut self) {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for (ip, _) in self.unproved.values() {
            *counts.entry(*ip).or_default() += 1;
        }
        let max = counts.values().copied().max().unwrap_or_default();
        let oldest = self.unproved.iter().find(|(_, (ip, _))| counts.get(ip) == Some(&max)).map(|(number, _)| *number);
        if let Some((_, Some(task))) = oldest.and_then(|number| self.unproved.remove(&number)) {
            task.abort();
        }
    }
}

impl ConnectionGuard {
    /// Registers the connection as authenticated for `client`. Returns `false` if that client has too many connections,
    /// or if the connection belongs to another client.
    pub(crate) fn prove(&self, client: &str) -> bool {
        if let Some(before) = self.client.get() {
            return **before == *client;
        }
        let name: Arc<str> = client.into();
        let mut inner = self.connections.0.lock();
        let count = inner.proved.entry(Arc::clone(&name)).or_default();
        if *count >= MAX_OF_CLIENT || self.client.set(name).is_err() {
            return false;
        }
        *count += 1;
        inner.unproved.remove(&self.number);
        true
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let mut inner = self.connections.0.lock();
        inner.unproved.remove(&self.number);
        let Some(client) = self.client.get() else { return };
        if let Some(count) = inner.proved.get_mut(client) {
            *count -= 1;
            if *count == 0 {
                inner.proved.remove(client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    async fn settle() {
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_flood_of_one_address_closes_its_own_connections_and_not_those_that_have_proved_something() {
        let connections = Arc::<Connections>::default();
        let (flood, other) = (IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), IpAddr::V4(Ipv4Addr::LOCALHOST));
        let proved: Arc<OnceLock<Arc<ConnectionGuard>>> = Arc::default();
        let keeping = Arc::clone(&proved);
        connections.spawn(flood, move |guard| async move {
            drop(keeping.set(guard));
            pending().await
        });
        settle().await;
        let name: Arc<str> = "shop".into();
        assert!(proved.get().unwrap().prove(&name) && proved.get().unwrap().prove(&name));
        assert!(!proved.get().unwrap().prove("another"), "a connection has one client");
        connections.spawn(other, |guard| async move {
            let _guard = guard;
            pending().await
        });
        for _ in 0..2 * MAX_UNPROVED {
            connections.spawn(flood, |guard| async move {
                let _guard = guard;
                pending().await
            });
        }
        settle().await;

        let inner = connections.0.lock();
        assert_eq!(inner.unproved.len(), MAX_UNPROVED);
        assert_eq!(inner.unproved.values().filter(|(ip, _)| *ip == other).count(), 1);
        assert_eq!(inner.proved.get(&name), Some(&1));
    }

    #[tokio::test]
    async fn a_client_has_limited_connections_and_closed_ones_free_their_places() {
        let connections = Arc::<Connections>::default();
        let name: Arc<str> = "shop".into();
        let guards: Arc<Mutex<Vec<Arc<ConnectionGuard>>>> = Arc::default();
        for _ in 0..=MAX_OF_CLIENT {
            let guards = Arc::clone(&guards);
            connections.spawn(IpAddr::V4(Ipv4Addr::LOCALHOST), move |guard| async move {
                guards.lock().push(guard);
            });
        }
        settle().await;
        let mut guards = guards.lock();
        let proved = guards.iter().filter(|guard| guard.prove(&name)).count();
        assert_eq!((proved, guards.len()), (MAX_OF_CLIENT, MAX_OF_CLIENT + 1));
        guards.clear();
        assert!(connections.0.lock().proved.is_empty() && connections.0.lock().unproved.is_empty());
    }
}

//! Traffic counts of the front-ends since the node started.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Number of bytes that a connection counts locally before it adds them to its transport's sum. All connections share
/// that sum, and a small answer should not cost an access to its cache line.
const FLUSH_AT: u64 = 4 << 10;

/// The sums of all transports. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// JSON-RPC over HTTP.
    pub http: Arc<TransportTraffic>,
    /// JSON-RPC over WebSocket, from the handshake on.
    pub websocket: Arc<TransportTraffic>,
    /// The local socket.
    pub socket: Arc<TransportTraffic>,
}

/// The sums of one transport.
#[derive(Debug, Default)]
pub struct TransportTraffic {
    open: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
    received: AtomicU64,
    sent: AtomicU64,
    notifications: AtomicU64,
}

/// A snapshot of [`TransportTraffic`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficCounts {
    /// Open connections.
    pub open: u64,
    /// Accepted connections.
    pub accepted: u64,
    /// Connections that were closed at once because the maximum number was open.
    pub refused: u64,
    /// Received bytes. An open connection adds its own every 4 KiB and at its end.
    pub received: u64,
    /// Sent bytes; counted like received ones.
    pub sent: u64,
    /// Subscription notifications that were queued for their clients.
    pub notifications: u64,
}

impl TransportTraffic {
    /// The current counts.
    pub fn counted(&self) -> TrafficCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TrafficCounts {
            open: read(&self.open),
            accepted: read(&self.accepted),
            refused: read(&self.refused),
            received: read(&self.received),
            sent: read(&self.sent),
            notifications: read(&self.notifications),
        }
    }

    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn notify(&self) {
        self.notifications.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection until the returned value is dropped.
    pub(crate) fn connect(self: &Arc<Self>) -> OpenConnection {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::clone(self))
    }
}

/// A counted connection.
#[derive(Debug)]
pub(crate) struct OpenConnection(Arc<TransportTraffic>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One connection's bytes that are not in the sums yet.
#[derive(Debug)]
pub(crate) struct Meter {
    traffic: Arc<TransportTraffic>,
    received: u64,
    sent: u64,
}

impl Meter {
    pub(crate) fn new(traffic: &Arc<TransportTraffic>) -> Self {
        Self { traffic: Arc::clone(traffic), received: 0, sent: 0 }
    }

    pub(crate) fn receive(&mut self, bytes: usize) {
        self.received += bytes as u64;
        if self.received >= FLUSH_AT {
            self.traffic.received.fetch_add(std::mem::take(&mut self.received), Ordering::Relaxed);
        }
    }

    pub(crate) fn send(&mut self, bytes: usize) {
        self.sent += bytes as u64;
        if self.sent >= FLUSH_AT {
            self.traffic.sent.fetch_add(std::mem::take(&mut self.sent), Ordering::Relaxed);
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.traffic.received.fetch_add(self.received, Ordering::Relaxed);
        self.traffic.sent.fetch_add(self.sent, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_the_bytes_of_a_connection_to_the_sum_in_pieces_and_at_its_end() {
        let traffic = Arc::new(TransportTraffic::default());
        let mut meter = Meter::new(&traffic);

        meter.receive(100);
        meter.send(4096);
        let early = traffic.counted();
        meter.receive(4000);
        meter.send(7);
        drop(meter);

        assert_eq!((early.received, early.sent), (0, 4096));
        assert_eq!((traffic.counted().received, traffic.counted().sent), (4100, 4103));
    }

    #[test]
    fn a_connection_is_open_until_it_is_dropped() {
        let traffic = Arc::new(TransportTraffic::default());

        let first = traffic.connect();
        let second = traffic.connect();
        drop(first);

        assert_eq!((traffic.counted().open, traffic.counted().accepted), (1, 2));
        drop(second);
        assert_eq!(traffic.counted().open, 0);
    }
}

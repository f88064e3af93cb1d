//! Tasks that listen: for connections, for datagrams, and the timer. Each sends events to the actor, and decides nothing.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tenon_accept::Acceptor;
use tenon_network_discovery::{Clock, MAX_PACKET_BYTES};
use tenon_supervisor::Mailbox;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use crate::handshake_slot::SharedLimiter;
use crate::input::Input;
use crate::system::{TcpListener, TcpStream, UdpSocket, unix_now};

/// Maximum number of datagrams that wait for the actor; more are dropped, as on a busy network.
const MAX_WAITING_DATAGRAMS: usize = 256;
/// Minimum time between two ticks.
const MIN_TICK: Duration = Duration::from_millis(5);

/// The clock of a running network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    started: Instant,
}

impl Timer {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now() }
    }

    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn clock(&self) -> Clock {
        Clock { now: self.now(), unix: unix_now() }
    }
}

/// Accepts connections until it is aborted, and passes them to the actor.
pub(crate) async fn accept(listener: TcpListener, limiter: SharedLimiter, timer: Timer, mailbox: Mailbox<Input>) {
    let take = move |(stream, remote)| arrive(stream, remote, &limiter, timer, &mailbox);
    let failed = |error| tracing::debug!(%error, "a connection could not be accepted");
    Acceptor::new(|| listener.accept()).run_until(pending(), failed, take).await;
}

fn arrive(stream: TcpStream, remote: SocketAddr, limiter: &SharedLimiter, timer: Timer, mailbox: &Mailbox<Input>) {
    match limiter.enter(remote.ip(), timer.now()) {
        // A full mailbox closes the connection.
        Ok(place) => drop(mailbox.try_send(Input::Arrived { stream, remote, place })),
        Err(cause) => tracing::trace!(%remote, %cause, "a connection was refused"),
    }
}

/// Receives datagrams until it is aborted.
pub(crate) async fn receive(socket: Arc<UdpSocket>, mailbox: Mailbox<Input>) {
    let places = Arc::new(Semaphore::new(MAX_WAITING_DATAGRAMS));
    // One byte more, so that a datagram beyond the maximum is recognised.
    let mut buffer = [0; MAX_PACKET_BYTES + 1];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((count, from)) => {
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
                drop(mailbox.try_send(Input::Datagram { from, bytes: buffer[..count].to_vec(), _place: place }));
            }
            // On some systems a datagram to a closed port is an error of the next receive.
            Err(error) => {
                tracing::trace!(%error, "no datagram");
                tokio::time::sleep(MIN_TICK).await;
            }
        }
    }
}

/// Sends ticks to the actor until it is aborted.
pub(crate) async fn tick(timer: Timer, mut wakes_at: watch::Receiver<Duration>, mailbox: Mailbox<Input>) {
    loop {
        let wait = wakes_at.borrow_and_update().saturating_sub(timer.now()).max(MIN_TICK);
        tokio::select! {
            biased;
            () = tokio::time::sleep(wait) => {
                // If the mailbox is full, the actor reads the clock with its next message.
                drop(mailbox.try_send(Input::Tick));
            }
            changed = wakes_at.changed() => if changed.is_err() { return },
        }
    }
}

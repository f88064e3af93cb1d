//! The local socket (`docs/spec/rpc-eth.md` 2.4): a stream of JSON values both ways, every namespace.

use std::{
    io,
    os::unix::fs::{DirBuilderExt as _, FileTypeExt as _},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use interprocess::local_socket::{
    GenericFilePath, ListenerOptions, ToFsName as _,
    tokio::{Listener, Stream},
    traits::tokio::Listener as _,
};
use interprocess::os::unix::local_socket::ListenerOptionsExt as _;
use tokio::net::UnixStream;

use crate::{
    StartError,
    accept::accept_until,
    connections::{Admission, Connections, CountedReader, Reads},
    duplex::{Connection, DuplexLimits, Encode, Framing, Half, Incoming, encode_plain, wait_until_read_closed},
    envelope::{Dispatcher, EnvelopeLimits, Progress, Reply, Scanner, failures},
    exposure::ConnectionExposure,
    refusals::Refusals,
    service::{ClientId, Exposure, Origin, RpcService, Transport},
    stop_signals::StopSignals,
    traffic::{OpenConnection, TransportTraffic},
};

/// Limits of the local socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketLimits {
    /// Limits of each message.
    pub envelope: EnvelopeLimits,
    /// Concurrent connections. When all places are taken, a connection of the process with the most is closed for
    /// another process.
    pub connections: usize,
    /// Bytes of one incoming message. A larger one is answered with `-32005 message too large` and the
    /// connection closed.
    pub message_bytes: usize,
    /// Concurrent calls of one connection; further messages wait unread.
    pub calls_in_flight: usize,
    /// Bytes that may wait for a connection that does not read. Beyond them no further call is started, and a
    /// notification closes the connection.
    pub queued_bytes: usize,
    /// Time limit for the client to read one write.
    pub write_timeout: Duration,
}

impl SocketLimits {
    /// `envelope`, `connections` and `message_bytes` as given; the other limits are fixed.
    pub const fn new(envelope: EnvelopeLimits, connections: usize, message_bytes: usize) -> Self {
        Self {
            envelope,
            connections,
            message_bytes,
            calls_in_flight: 256,
            queued_bytes: 64 << 20,
            write_timeout: Duration::from_secs(30),
        }
    }

    fn duplex(&self) -> DuplexLimits {
        DuplexLimits {
            calls_in_flight: self.calls_in_flight,
            queued_bytes: self.queued_bytes,
            write_timeout: self.write_timeout,
            silence: None,
            ping_interval: None,
            subscriptions: self.envelope.subscriptions,
        }
    }
}

/// Opens the socket at `path` with mode 0600, in a folder that is created with mode 0700 if it is missing. Replaces the file
/// of a process that no longer runs, but not one at which a process listens.
pub(crate) fn listen(path: &Path) -> Result<Listener, StartError> {
    let failed = |source| StartError::Socket { path: path.to_owned(), source };
    remove_stale(path)?;
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        // A user who can write to the folder can replace the socket.
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(failed)?;
    }
    let name = path.to_fs_name::<GenericFilePath>().map_err(failed)?;
    ListenerOptions::new().name(name).mode(0o600).create_tokio().map_err(failed)
}

fn remove_stale(path: &Path) -> Result<(), StartError> {
    let failed = |source| StartError::Socket { path: path.to_owned(), source };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(StartError::NotASocket { path: path.to_owned() });
        }
        Ok(_) => {}
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(StartError::SocketInUse { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path).map_err(failed),
        Err(error) => Err(failed(error)),
    }
}

/// The listening socket.
pub(crate) struct SocketServer<S> {
    pub(crate) listener: Listener,
    pub(crate) dispatcher: Dispatcher<S>,
    pub(crate) limits: SocketLimits,
    pub(crate) traffic: Arc<TransportTraffic>,
}

impl<S: RpcService> SocketServer<S> {
    /// Serves until it is stopped, then waits for the connections to end.
    pub(crate) async fn run(self, stop_signals: StopSignals) {
        let take = |Stream::UdSocket(stream): Stream, connections: &mut _, refusals: &mut _| {
            self.take(UnixStream::from(stream), &stop_signals, connections, refusals);
        };
        let connections = accept_until("socket", || self.listener.accept(), stop_signals.stopping.wait(), take).await;
        drop(self.listener);
        connections.all_ended().await;
    }

    /// Serves a connection if there is a place for it.
    fn take(
        &self,
        stream: UnixStream,
        stop_signals: &StopSignals,
        connections: &mut Connections,
        refusals: &mut Refusals,
    ) {
        let origin = origin_of(&stream);
        match connections.admit(origin.client, self.limits.connections) {
            Admission::Free => {}
            Admission::GaveWay(holder) => refusals.give_way(holder, Instant::now()),
            Admission::Refused => {
                self.traffic.refuse();
                refusals.refuse(origin.client, Instant::now());
                return;
            }
        }
        let reads = Arc::<Reads>::default();
        let serving =
            serve(self.connection(origin, stop_signals.clone()), stream, Arc::clone(&reads), self.traffic.connect());
        connections.add(origin.client, reads, serving);
    }

    fn connection(&self, origin: Origin, stop_signals: StopSignals) -> Connection<S, Values<S>> {
        Connection {
            dispatcher: self.dispatcher.clone(),
            exposure: ConnectionExposure::Fixed(Exposure::all()),
            origin,
            expiry: None,
            limits: self.limits.duplex(),
            framing: Values::new(self.dispatcher.clone(), self.limits.message_bytes),
            buffer: BytesMut::with_capacity(8 << 10),
            stop_signals,
            traffic: Arc::clone(&self.traffic),
        }
    }
}

/// The process at the other end. All processes whose id the system does not report count as one client.
fn origin_of(stream: &UnixStream) -> Origin {
    let process = stream.peer_cred().ok().and_then(|peer| peer.pid()).and_then(|pid| u32::try_from(pid).ok());
    Origin::new(Transport::Socket, ClientId::of_process(process.unwrap_or_default()))
}

async fn serve<S: RpcService>(
    connection: Connection<S, Values<S>>,
    stream: UnixStream,
    reads: Arc<Reads>,
    _open: OpenConnection,
) {
    let on_read = || reads.count_read();
    let reader = CountedReader { reader: Half(&stream), on_read: &on_read };
    let result = connection.run(reader, Half(&stream), || wait_until_read_closed(&stream)).await;
    if let Err(error) = result {
        tracing::debug!(%error, "socket connection ended");
    }
}

/// Successive JSON values, however they are split into reads.
struct Values<S> {
    dispatcher: Dispatcher<S>,
    scanner: Scanner,
    max: usize,
}

impl<S: RpcService> Values<S> {
    fn new(dispatcher: Dispatcher<S>, max: usize) -> Self {
        let scanner = dispatcher.scanner();
        Self { dispatcher, scanner, max }
    }
}

impl<S: RpcService> Framing for Values<S> {
    fn next(&mut self, buffer: &mut BytesMut) -> Incoming {
        match self.scanner.advance(buffer) {
            Progress::Complete(message) => {
                let text = buffer.split_to(message.end.min(buffer.len()));
                let text = self.dispatcher.sealed_text(text, &message);
                self.scanner = self.dispatcher.scanner();
                // Usually only the end of the line follows.
                if buffer[..] == *b"\n" {
                    buffer.clear();
                }
                Incoming::Message(text, message)
            }
            Progress::Invalid(error) => {
                let reply = Reply::failure_without_request(&failures::syntax(error.0));
                Incoming::Finish { reply: Some(reply), goodbye: None }
            }
            Progress::More if buffer.len() > self.max => {
                let reply = Reply::failure_without_request(&failures::message_too_large(self.max));
                Incoming::Finish { reply: Some(reply), goodbye: None }
            }
            Progress::More => {
                // White space between values must not accumulate.
                if self.scanner.has_not_begun() {
                    buffer.clear();
                    self.scanner = self.dispatcher.scanner();
                }
                Incoming::More
            }
        }
    }

    fn encode() -> Encode {
        encode_plain
    }

    fn keep_alive() -> Option<Bytes> {
        None
    }

    fn goodbye() -> Option<Bytes> {
        None
    }

    fn expired() -> Option<Bytes> {
        None
    }

    fn may_half_close() -> bool {
        true
    }
}

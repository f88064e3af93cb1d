//! A TCP port and its connections.

use std::{
    convert::Infallible,
    future::poll_fn,
    net::{IpAddr, SocketAddr},
    pin::{Pin, pin},
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use bytes::BytesMut;
use hyper::{
    body::Incoming,
    server::conn::http1::{self, UpgradeableConnection},
    service::{HttpService, service_fn},
};
use hyper_util::rt::TokioIo;
use tenon_bus::MemoryBudget;
use tokio::{
    net::{TcpListener, TcpStream},
    time::error::Elapsed,
};
use tokio_util::sync::CancellationToken;

use super::{
    Port, Step, WebSocketSide,
    body::AnswerBody,
    conversation::{Conversation, Upgrade},
    stream::{TimeLimits, TimedStream, reset},
};
use crate::{
    accept::accept_until,
    connections::{Activity, Admission, Connections, CountedReader},
    duplex::{Connection, Half, linger, wait_until_write_closed},
    exposure::ConnectionExposure,
    rarely_ready::RarelyReady,
    refusals::Refusals,
    service::{ClientId, RpcService},
    stop_signals::{LAST_WRITES, LINGER, StopSignals},
    traffic::{Meter, TransportTraffic},
    websocket::Messages,
};

/// Memory of an open connection: its task, its state, and hyper's buffers.
const CONNECTION_BYTES: usize = 40 << 10;

/// Time limit of each part of a handshake on a port that serves only WebSocket.
const HANDSHAKE: Duration = Duration::from_secs(30);

/// One listening TCP port.
pub(crate) struct HttpServer<S> {
    pub(crate) listener: TcpListener,
    /// The services of the port; read for every connection.
    pub(crate) sides: Arc<ArcSwap<Port<S>>>,
    /// Ends listening.
    pub(crate) closing: CancellationToken,
    /// Cancelled once the port is free.
    pub(crate) closed: CancellationToken,
}

/// Limits of a connection before its first request.
#[derive(Clone, Copy)]
struct ConnectionLimits {
    connections: usize,
    /// From a request's head to its answer.
    request: Duration,
    time_limits: TimeLimits,
}

impl<S: RpcService> HttpServer<S> {
    /// Serves until it is closed, then waits for the connections to end.
    pub(crate) async fn run(self) {
        let take = |(stream, address): (TcpStream, SocketAddr), connections: &mut _, refusals: &mut _| {
            self.take(stream, address.ip(), connections, refusals);
        };
        let connections = accept_until("TCP", || self.listener.accept(), self.closing.cancelled(), take).await;
        drop(self.listener);
        self.closed.cancel();
        connections.all_ended().await;
    }

    /// Serves a connection if there is a place for it.
    fn take(&self, stream: TcpStream, peer: IpAddr, connections: &mut Connections, refusals: &mut Refusals) {
        let port = self.sides.load_full();
        let Some(limits) = ConnectionLimits::of(&port) else { return };
        let address = ClientId::of_address(peer);
        match connections.admit(address, limits.connections) {
            Admission::Free => {}
            Admission::GaveWay(holder) => refusals.give_way(holder, Instant::now()),
            Admission::Refused => {
                port.first_traffic().inspect(|traffic| traffic.refuse());
                refusals.refuse(address, Instant::now());
                return;
            }
        }
        let conversation = Arc::new(Conversation::new(peer, limits.request));
        let activity = Arc::clone(&conversation) as Arc<dyn Activity>;
        connections.add(address, activity, serve(port, stream, conversation, limits));
    }
}

impl ConnectionLimits {
    /// The limits of a new connection on this port; `None` if the port serves nothing.
    fn of<S>(port: &Port<S>) -> Option<Self> {
        let http = port.http.as_ref().map(|side| Self {
            connections: side.limits.connections,
            request: side.limits.request_timeout,
            time_limits: TimeLimits {
                idle: side.limits.idle_timeout,
                head: side.limits.request_timeout,
                write: side.limits.write_timeout,
            },
        });
        http.or_else(|| {
            port.websocket.as_ref().map(|side| Self {
                connections: side.limits.connections,
                // Applies only to the handshake.
                request: HANDSHAKE,
                time_limits: TimeLimits { idle: HANDSHAKE, head: HANDSHAKE, write: HANDSHAKE },
            })
        })
    }
}

impl<S: RpcService> Port<S> {
    /// The memory budget of its requests.
    fn memory(&self) -> MemoryBudget {
        let http = self.http.as_ref().map(|side| side.dispatcher.memory());
        let memory = http.or_else(|| self.websocket.as_ref().map(|side| side.dispatcher.memory()));
        memory.cloned().unwrap_or_default()
    }
}

impl<S> Port<S> {
    /// The traffic counter of a connection that has not sent a request yet.
    fn first_traffic(&self) -> Option<&Arc<TransportTraffic>> {
        let http = self.http.as_ref().map(|side| &side.traffic);
        http.or_else(|| self.websocket.as_ref().map(|side| &side.traffic))
    }
}

async fn serve<S: RpcService>(
    port: Arc<Port<S>>,
    stream: TcpStream,
    conversation: Arc<Conversation>,
    limits: ConnectionLimits,
) {
    let (Some(signals), Some(traffic)) = (port.stop_signals().next(), port.first_traffic()) else { return };
    // Counted as HTTP until it becomes a WebSocket, which is counted separately.
    let as_http = port.http.as_ref().map(|side| side.traffic.connect());
    let place = port.memory().client(conversation.client).open_connection(CONNECTION_BYTES);
    // Answers are written as a whole, so waiting for more data would only delay them.
    let _ = stream.set_nodelay(true);
    let stream = Arc::new(stream);
    let (sides, talk, socket) = (&*port, &conversation, &*stream);
    let service = service_fn(move |request| {
        // Begun here, not when the answer is first polled. Before that poll hyper reads on, and the stream would take
        // those bytes for the rest of an incomplete head. That would cost a timer and two system calls for each
        // request.
        let guard = talk.begin_request();
        let unwritten = talk.begin_answer();
        let mut step = sides.begin(request, talk);
        async move {
            let _guard = guard;
            // Borrowed: each async function would keep a copy of what it takes by value, and hyper moves this future.
            let mut answer = match &mut step {
                Step::Done(answer) => std::mem::take(answer),
                Step::Refuse(refused) => refused.wiped(&talk.used_buffers).await,
                Step::Call(call) => sides.finish(call, talk, socket).await,
            };
            answer.body_mut().hold_until_written(unwritten);
            Ok::<_, Infallible>(answer)
        }
    });
    let timed =
        TimedStream::new(Arc::clone(&stream), limits.time_limits, Arc::clone(&conversation), Meter::new(traffic));
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_buf_size(64 << 10)
        // `HttpSide::finish` detects that a client has left.
        .half_close(true)
        .serve_connection(TokioIo::new(timed), service)
        .with_upgrades();
    let has_ended_well = run_until_stopped(pin!(connection), signals, &conversation).await;
    conversation.pipeline.rest();
    if !has_ended_well {
        return;
    }
    if conversation.is_cut_short() {
        tokio::select! {
            () = linger(Half(&*stream), BytesMut::new(), LINGER) => {}
            () = signals.cut.wait() => {}
        }
        return;
    }
    if let (Some(upgrade), Some(side)) = (conversation.take_upgrade(), &port.websocket) {
        drop((as_http, place));
        conversation.set_websocket();
        serve_websocket(side, upgrade, &conversation, &stream).await;
    }
}

/// Runs a connection to its end, which a stop announces to its client. Returns whether it has ended well.
async fn run_until_stopped<H: HttpService<Incoming, ResBody = AnswerBody, Error = Infallible>>(
    mut connection: Pin<&mut UpgradeableConnection<TokioIo<TimedStream>, H>>,
    signals: &StopSignals,
    conversation: &Conversation,
) -> bool {
    let mut stopping = RarelyReady::new(signals.stopping.wait());
    let ended: Result<_, Elapsed> = tokio::select! {
        biased;
        result = connection.as_mut() => Ok(result),
        () = poll_fn(|context| stopping.poll(context, |_| signals.stopping.is_set())) => {
            conversation.set_stopping();
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                result = connection.as_mut() => Ok(result),
                // hyper polls the running call, which fails then.
                () = signals.cut.wait() => tokio::time::timeout(LAST_WRITES, connection).await,
            }
        }
    };
    match ended {
        Ok(Ok(())) => return true,
        Ok(Err(error)) => tracing::debug!(%error, "HTTP connection ended"),
        Err(_) => tracing::debug!("HTTP connection closed: its client did not read its last answer"),
    }
    false
}

async fn serve_websocket<S: RpcService>(
    side: &WebSocketSide<S>,
    upgrade: Upgrade,
    conversation: &Conversation,
    stream: &TcpStream,
) {
    let Ok(upgraded) = upgrade.on_upgrade.await else { return };
    // It is the stream that `serve` passed to hyper, so it has this type.
    let Ok(parts) = upgraded.downcast::<TokioIo<TimedStream>>() else { return };
    let read = parts.read_buf;
    // As in `serve`. The connection also observes the stop signals itself, and sends its goodbye.
    let cut = &side.stop_signals.cut;
    let mut last_writes = RarelyReady::new(async {
        cut.wait().await;
        tokio::time::sleep(LAST_WRITES).await;
    });
    let _open = side.traffic.connect();
    let connection = Connection {
        dispatcher: side.dispatcher.clone(),
        exposure: ConnectionExposure::of_port(&side.access, upgrade.admission.origin.has_token),
        origin: upgrade.admission.origin,
        expiry: upgrade.admission.ends,
        limits: side.limits.duplex(),
        framing: Messages::new(side.dispatcher.clone(), side.limits.message_bytes),
        buffer: BytesMut::from(&read[..]),
        stop_signals: side.stop_signals.clone(),
        traffic: Arc::clone(&side.traffic),
    };
    drop(parts.io);
    // Messages that arrived with the request may contain secrets. The buffer has no other owner.
    conversation.used_buffers.wipe_later(read);
    let on_read = || conversation.count_read();
    let reader = CountedReader { reader: Half(stream), on_read: &on_read };
    let serving = connection.run(reader, Half(stream), || wait_until_write_closed(stream));
    tokio::select! {
        biased;
        result = serving => {
            if let Err(error) = result {
                tracing::debug!(%error, "WebSocket connection ended");
                reset(stream);
            }
        }
        () = poll_fn(|context| last_writes.poll(context, |_| cut.is_set())) => {
            tracing::debug!("WebSocket connection closed: its client did not read its last messages");
        }
    }
}

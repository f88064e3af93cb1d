//! Connections on which both sides may send at any time: WebSocket and the local socket.
//!
//! One task owns a connection: it reads, starts calls and writes. A call that is not done on its first poll becomes a
//! task of its own: the next message need not wait for it, and another thread may run it. When the connection ends, its
//! calls and subscriptions are dropped, which cancels their work.

mod half;
mod limits;
mod outgoing;
mod writer;

use std::{
    collections::VecDeque,
    future::poll_fn,
    io,
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tenon_bus::{ClientMemory, MemoryUse, OutOfMemory, Reservation};
use tenon_sdk::Failure;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite},
    sync::{Notify, Semaphore},
    task::JoinSet,
    time::Sleep,
};
use zeroize::Zeroize as _;

pub(crate) use half::{Half, wait_until_read_closed, wait_until_write_closed};
pub(crate) use limits::DuplexLimits;
pub(crate) use outgoing::{Encode, Outgoing};

use writer::Writer;

use crate::{
    envelope::{
        Answer, Dispatcher, MessageText, Opened, RawMessage, Reply, SpareFuture, Subscriptions, TaskTurn, failures,
        first_poll_of_message, grow_message, move_message, work_on_message,
    },
    exposure::ConnectionExposure,
    idle_timeout::IdleTimeout,
    rarely_ready::RarelyReady,
    service::{Notifications as _, Origin, RpcService},
    stop_signals::{LAST_ANSWERS, StopSignals},
    traffic::{Meter, TransportTraffic},
};

/// Minimum free space for a read.
const MIN_READ: usize = 8 << 10;

/// Memory of an open connection: its task, its state, that of its last call, and buffers of this size for reading and
/// writing.
const CONNECTION_BYTES: usize = 2 * UNCOUNTED_BUFFER + (8 << 10);

/// Read buffers up to this size belong to the connection; beyond it, they are counted with the message that they hold.
const UNCOUNTED_BUFFER: usize = 16 << 10;

/// Time for which a refused connection is still read.
const LINGER: Duration = Duration::from_secs(2);

/// Maximum number of bytes that [`linger`] reads.
const LINGER_BYTES: usize = 64 << 20;

/// Result of decoding received bytes.
pub(crate) enum Incoming {
    /// The bytes of one message, and its parsed form. Spans are positions in these bytes.
    Message(Bytes, RawMessage),
    /// A reply of the transport itself.
    Control(Bytes),
    /// Incomplete.
    More,
    /// Send `reply` and `goodbye`, finish the running calls, and close.
    Finish { reply: Option<Reply>, goodbye: Option<Bytes> },
    /// Close at once, after sending queued data and `goodbye`: the other side has announced its end.
    Leave { goodbye: Option<Bytes> },
    /// Close at once with `goodbye`, even if the other side is still sending: it has violated the protocol.
    Refuse { goodbye: Bytes },
}

/// A transport's division of bytes into messages.
pub(crate) trait Framing: Send + 'static {
    /// Takes the next message from `buffer`.
    fn next(&mut self, buffer: &mut BytesMut) -> Incoming;
    /// Encodes a reply.
    fn encode() -> Encode;
    /// The message that keeps an idle connection alive.
    fn keep_alive() -> Option<Bytes>;
    /// The message sent when the node stops.
    fn goodbye() -> Option<Bytes>;
    /// The message sent when the client's token has expired.
    fn expired() -> Option<Bytes>;
    /// Whether the client may still want answers after the end of its bytes.
    fn may_half_close() -> bool;
    /// Bytes of a message kept outside the buffer.
    fn kept_bytes(&self) -> usize {
        0
    }
    /// Drops the message that is being received, with its remaining bytes; false if that is impossible.
    fn drop_message(&mut self, _buffer: &mut BytesMut) -> bool {
        false
    }
}

/// State shared by a connection's tasks.
struct Shared<S: RpcService> {
    dispatcher: Dispatcher<S>,
    exposure: ConnectionExposure,
    origin: Origin,
    outgoing: Outgoing,
    /// The share of its client.
    memory: ClientMemory,
    traffic: Arc<TransportTraffic>,
    subscriptions: Subscriptions,
    /// One permit per running call.
    places: Arc<Semaphore>,
    /// Wakes the running calls at the end of a stop's grace period: they fail then.
    cut: Notify,
    /// Calls and subscriptions of the connection; `None` once it has ended.
    tasks: Mutex<Option<JoinSet<()>>>,
}

/// An accepted connection, after its handshake if the transport has one.
pub(crate) struct Connection<S: RpcService, F> {
    pub(crate) dispatcher: Dispatcher<S>,
    pub(crate) exposure: ConnectionExposure,
    /// The client.
    pub(crate) origin: Origin,
    /// Expiry of the client's token, at which the connection ends.
    pub(crate) expiry: Option<Instant>,
    pub(crate) limits: DuplexLimits,
    pub(crate) framing: F,
    /// Bytes that arrived together with the handshake.
    pub(crate) buffer: BytesMut,
    pub(crate) stop_signals: StopSignals,
    pub(crate) traffic: Arc<TransportTraffic>,
}

/// Why reading has ended.
enum End {
    /// The client may still want its answers.
    Finish(Option<Bytes>),
    /// The client wants no answers.
    Leave(Option<Bytes>),
    /// The client gets no answers, and may still be sending.
    Refuse(Bytes),
    Gone,
}

impl<S: RpcService, F: Framing> Connection<S, F> {
    /// Serves the connection to its end. `gone` makes a future that completes when the other side no longer wants
    /// answers. It is awaited only while nothing is read, because a read reports the end itself. Every wait needs a new
    /// future: only the first poll checks at once, later checks follow at intervals.
    pub(crate) async fn run<R, W, G>(mut self, mut reader: R, writer: W, gone: impl Fn() -> G) -> io::Result<()>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
        G: Future<Output = ()>,
    {
        let shared = Arc::new(self.shared());
        let _place = shared.memory.open_connection(CONNECTION_BYTES);
        let ending = EndTasks(Arc::clone(&shared));
        let limits = self.limits;
        let mut writer = Writer::new(&shared.outgoing, writer, limits, F::keep_alive(), Meter::new(&self.traffic));
        let end = self.converse(&shared, &mut reader, &mut writer, &gone).await?;
        let mut writing = pin!(poll_fn(|context| {
            shared.outgoing.writer_is_awake();
            writer.poll(context)
        }));
        let is_refused = matches!(end, End::Refuse(_));
        let goodbye = match end {
            End::Gone => return Ok(()),
            End::Leave(goodbye) => goodbye,
            End::Refuse(goodbye) => Some(goodbye),
            End::Finish(goodbye) => {
                shared.subscriptions.clear();
                tokio::select! {
                    biased;
                    error = &mut writing => return Err(error),
                    () = self.all_done(&shared) => {}
                    () = gone() => return Ok(()),
                }
                goodbye
            }
        };
        drop(ending);
        if let Some(goodbye) = goodbye {
            shared.outgoing.push_raw(goodbye);
        }
        tokio::select! {
            biased;
            error = &mut writing => return Err(error),
            () = shared.outgoing.is_empty() => {}
        }
        if is_refused {
            self.buffer.as_mut().zeroize();
            linger(&mut reader, std::mem::take(&mut self.buffer), LINGER).await;
        }
        Ok(())
    }

    /// Returns once no call is running, or at the end of the grace period: then running calls have failed.
    async fn all_done(&self, shared: &Shared<S>) {
        let all = u32::try_from(self.limits.places()).unwrap_or(u32::MAX);
        tokio::select! {
            biased;
            _ = shared.places.acquire_many(all) => return,
            () = self.stop_signals.cut.wait() => {}
        }
        tracing::debug!("calls failed: the grace period of the stop is over");
        shared.cut.notify_waiters();
        let _ = tokio::time::timeout(LAST_ANSWERS, shared.places.acquire_many(all)).await;
    }

    fn shared(&self) -> Shared<S> {
        let memory = self.dispatcher.memory_of(self.origin);
        Shared {
            dispatcher: self.dispatcher.clone(),
            exposure: self.exposure.clone(),
            origin: self.origin,
            outgoing: Outgoing::new(F::encode(), self.limits.queued_bytes, memory.clone()),
            memory,
            traffic: Arc::clone(&self.traffic),
            subscriptions: Subscriptions::new(self.limits.subscriptions),
            places: Arc::new(Semaphore::new(self.limits.places())),
            cut: Notify::new(),
            tasks: Mutex::new(Some(JoinSet::new())),
        }
    }

    /// Reads, answers and writes until reading has to end.
    async fn converse<R: AsyncRead + Unpin, W: AsyncWrite + Unpin, G: Future<Output = ()>>(
        &mut self,
        shared: &Arc<Shared<S>>,
        reader: &mut R,
        writer: &mut Writer<'_, W>,
        gone: &impl Fn() -> G,
    ) -> io::Result<End> {
        let stopping = self.stop_signals.stopping.clone();
        let mut stop = RarelyReady::new(stopping.wait());
        let mut expiry = self.expiry.map(|expiry| RarelyReady::new(tokio::time::sleep_until(expiry.into())));
        let mut reading = pin!(self.read_all(shared, reader, gone));
        poll_fn(|context| {
            shared.outgoing.writer_is_awake();
            if let Poll::Ready(end) = reading.as_mut().poll(context) {
                return Poll::Ready(Ok(end));
            }
            // After reading, so that answers of that read are written at once.
            if let Poll::Ready(error) = writer.poll(context) {
                return Poll::Ready(Err(error));
            }
            if stop.poll(context, |_| stopping.is_set()).is_ready() {
                return Poll::Ready(Ok(End::Finish(F::goodbye())));
            }
            match &mut expiry {
                Some(expiry) => expiry.poll(context, Sleep::is_elapsed).map(|()| Ok(End::Finish(F::expired()))),
                None => Poll::Pending,
            }
        })
        .await
    }

    async fn read_all<R: AsyncRead + Unpin, G: Future<Output = ()>>(
        &mut self,
        shared: &Arc<Shared<S>>,
        reader: &mut R,
        gone: &impl Fn() -> G,
    ) -> End {
        let mut silence = self.limits.silence.map(IdleTimeout::new);
        let mut meter = Meter::new(&self.traffic);
        // Reservation for the buffer beyond the connection's own size.
        let mut memory: Option<Reservation> = None;
        let mut turn = shared.dispatcher.turn_of(shared.origin);
        let mut spare = SpareFuture::none();
        loop {
            let arrived = self.buffer.len() + self.framing.kept_bytes();
            match work_on_message(arrived, || self.framing.next(&mut self.buffer)) {
                Incoming::Message(bytes, message) => {
                    let length = bytes.len();
                    let text = MessageText { bytes, memory: self.part_with(&shared.memory, &mut memory) };
                    tokio::select! {
                        biased;
                        () = start_call(shared, &mut self.exposure, text, message, &mut turn, &mut spare) => {}
                        () = gone() => return End::Gone,
                    }
                    // Messages that arrived together are answered sequentially on this task.
                    if !self.buffer.is_empty() && turn.is_over(length) {
                        turn.pass().await;
                    }
                }
                Incoming::Control(bytes) => {
                    shared.outgoing.push_raw(bytes);
                    tokio::task::coop::consume_budget().await;
                }
                Incoming::Leave { goodbye } => return End::Leave(goodbye),
                Incoming::Refuse { goodbye } => return End::Refuse(goodbye),
                Incoming::Finish { reply, goodbye } => return shared.finish(reply, goodbye),
                Incoming::More => {
                    turn.rest();
                    tokio::select! {
                        biased;
                        () = shared.outgoing.has_room() => {}
                        () = gone() => return End::Gone,
                    }
                    if let Err(refused) = self.hold_buffer(&shared.memory, &mut memory) {
                        if !self.drop_message(shared, refused) {
                            return End::Finish(None);
                        }
                        memory = None;
                        continue;
                    }
                    self.make_room();
                    match read_before(silence.as_mut(), reader, &mut self.buffer).await {
                        Ok(0) if F::may_half_close() => return End::Finish(None),
                        Ok(0) | Err(_) => return End::Gone,
                        Ok(count) => meter.receive(count),
                    }
                }
            }
        }
    }
}

impl<S: RpcService, F: Framing> Connection<S, F> {
    /// Capacity of the buffer for the next read. A growing buffer doubles.
    fn next_capacity(&self) -> usize {
        let (length, capacity) = (self.buffer.len(), self.buffer.capacity());
        if capacity - length < MIN_READ { (2 * capacity).max(length + MIN_READ) } else { capacity }
    }

    /// Makes room in the buffer for the next read.
    fn make_room(&mut self) {
        if self.buffer.is_empty() {
            return self.buffer.reserve(MIN_READ);
        }
        let capacity = self.next_capacity();
        if capacity > self.buffer.capacity() {
            grow_message(&mut self.buffer, capacity);
        }
    }

    /// Counts the buffer's size, including that of the next read.
    fn hold_buffer(&self, client: &ClientMemory, memory: &mut Option<Reservation>) -> Result<(), OutOfMemory> {
        let bytes = self.next_capacity() + self.framing.kept_bytes();
        match memory {
            _ if bytes <= UNCOUNTED_BUFFER => *memory = None,
            Some(memory) => memory.resize(bytes)?,
            None => *memory = Some(client.reserve(MemoryUse::Messages, bytes)?),
        }
        Ok(())
    }

    /// Drops the message that is being received, because there is no memory for it; false if that is impossible.
    #[cold]
    fn drop_message(&mut self, shared: &Shared<S>, refused: OutOfMemory) -> bool {
        // The client gets an error without an id, which may not have been received.
        shared.outgoing.push_answer(Reply::failure_without_request(&failures::out_of_memory(refused)));
        let is_dropped = self.framing.drop_message(&mut self.buffer);
        if is_dropped {
            move_message(&mut self.buffer, 0);
        }
        is_dropped
    }

    /// Gives up a large buffer from which a message was just taken: it is freed with the message.
    fn part_with(&mut self, client: &ClientMemory, memory: &mut Option<Reservation>) -> Option<Reservation> {
        let parted = memory.take()?;
        move_message(&mut self.buffer, 0);
        if self.buffer.capacity() > UNCOUNTED_BUFFER {
            // It has been received already.
            *memory = Some(client.reserve_always(MemoryUse::Messages, self.buffer.capacity()));
        }
        Some(parted)
    }
}

/// Reads once, with a time limit for silence.
async fn read_before<R: AsyncRead + Unpin>(
    silence: Option<&mut IdleTimeout>,
    reader: &mut R,
    buffer: &mut BytesMut,
) -> io::Result<usize> {
    let Some(silence) = silence else { return reader.read_buf(buffer).await };
    // Time spent on calls or on waiting for free space is not the client's silence.
    silence.restart();
    let mut read = pin!(reader.read_buf(buffer));
    poll_fn(|context| match read.as_mut().poll(context) {
        Poll::Pending => silence.poll_end(context).map(|()| Err(io::ErrorKind::TimedOut.into())),
        done => done,
    })
    .await
}

/// Reads for up to `time` and wipes the bytes. If the connection were closed while the other side sends, the system
/// would drop the last message before it is read.
pub(crate) async fn linger(mut reader: impl AsyncRead + Unpin, mut buffer: BytesMut, time: Duration) {
    let reading = async {
        let mut left = LINGER_BYTES;
        while left > 0 {
            buffer.clear();
            buffer.reserve(MIN_READ);
            match reader.read_buf(&mut buffer).await {
                Ok(count) if count > 0 => left = left.saturating_sub(count),
                _ => return,
            }
            buffer.as_mut().zeroize();
        }
    };
    let _ = tokio::time::timeout(time, reading).await;
}

/// Waits until the connection may start another call, then starts it. While it waits, it releases the connection's
/// turn, which the connection's own batches may need.
async fn start_call<S: RpcService>(
    shared: &Arc<Shared<S>>,
    exposure: &mut ConnectionExposure,
    mut text: MessageText,
    message: RawMessage,
    turn: &mut TaskTurn,
    spare: &mut SpareFuture<'static, ()>,
) {
    turn.rest_while(shared.outgoing.has_room()).await;
    // Only this task takes permits: one that is free now is still free when the call needs it.
    if shared.places.available_permits() == 0 {
        drop(turn.rest_while(shared.places.acquire()).await);
    }
    let length = text.bytes.len();
    let call = {
        let (shared, exposure) = (Arc::clone(shared), exposure.now());
        async move {
            let caller = shared.dispatcher.caller(exposure, shared.origin);
            let guard = caller.context.cancel_on_drop();
            let answer = shared.dispatcher.answer(&mut text, &message, &caller, Some(&shared.subscriptions)).await;
            guard.disarm();
            deliver(&shared, answer);
        }
    };
    let mut call = spare.fill(call);
    // Most calls are done on their first poll and need neither a permit nor a task.
    if first_poll_of_message(length, pin!(&mut call)).await.is_ready() {
        spare.keep(call);
    } else if let Ok(place) = Arc::clone(&shared.places).try_acquire_owned() {
        let own = Arc::clone(shared);
        shared.spawn(async move {
            tokio::select! {
                biased;
                () = &mut call => {}
                // Polled again, the call fails.
                () = own.cut.notified() => call.await,
            }
            drop(place);
        });
    }
    tokio::task::coop::consume_budget().await;
}

/// Sends an answer before its subscriptions start to send, never the other way round.
fn deliver<S: RpcService>(shared: &Arc<Shared<S>>, answer: Answer<S>) {
    if let Some(reply) = answer.reply {
        shared.outgoing.push_answer(reply);
    }
    for opened in answer.opened {
        let id = opened.id.clone();
        let feeding = feed(Arc::clone(shared), opened);
        if let Some(task) = shared.spawn(feeding)
            && let Err(removed) = shared.subscriptions.started(&id, task)
        {
            removed.abort();
        }
    }
}

/// Sends a subscription's notifications. An event may wake thousands of one client's: they take turns, so that others'
/// reads do not wait for all of them.
async fn feed<S: RpcService>(shared: Arc<Shared<S>>, mut opened: Box<Opened<S>>) {
    let mut turn = shared.dispatcher.turn_of(shared.origin);
    while let Some(payload) = turn.work(opened.notifications.next()).await {
        let length = payload.as_ref().map_or(0, |json| json.as_ref().len());
        if !shared.exposure.may_continue(&opened.namespace) {
            let notice = format!("subscription closed: namespace {} is not available any more", opened.namespace);
            let notice = Reply::notification(&opened.namespace, &opened.id, Err::<S::Json, _>(Failure::server(notice)));
            let _ = shared.outgoing.push_notification(notice);
            break;
        }
        if length > UNCOUNTED_BUFFER && shared.outgoing.make_room(length + Reply::NOTIFICATION_BYTES).is_err() {
            break;
        }
        let notification = Reply::notification(&opened.namespace, &opened.id, payload);
        if shared.outgoing.push_notification(notification).is_err() {
            break;
        }
        shared.traffic.notify();
        // Otherwise a stream that is always ready would block the writer's thread.
        tokio::task::coop::consume_budget().await;
        if turn.is_over(length) {
            turn.pass().await;
        }
    }
    shared.subscriptions.remove(&opened.id);
    drop(opened.memory);
}

impl<S: RpcService> Shared<S> {
    /// Sends the reply to the last message, if it has one.
    fn finish(&self, reply: Option<Reply>, goodbye: Option<Bytes>) -> End {
        if let Some(reply) = reply {
            self.outgoing.push_answer(reply);
        }
        End::Finish(goodbye)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> Option<tokio::task::AbortHandle> {
        let mut tasks = self.tasks.lock();
        let tasks = tasks.as_mut()?;
        while tasks.try_join_next().is_some() {}
        Some(tasks.spawn(task))
    }
}

/// Wipes an unfinished or invalid message: it may contain a password.
impl<S: RpcService, F> Drop for Connection<S, F> {
    fn drop(&mut self) {
        self.buffer.as_mut().zeroize();
    }
}

/// Drops the connection's calls and subscriptions, however the connection ends.
struct EndTasks<S: RpcService>(Arc<Shared<S>>);

impl<S: RpcService> Drop for EndTasks<S> {
    fn drop(&mut self) {
        self.0.tasks.lock().take();
    }
}

/// The pieces of a reply, unchanged.
pub(crate) fn encode_plain(reply: Reply, pieces: &mut VecDeque<Bytes>) {
    pieces.push_back(reply.first);
    if let Some(rest) = reply.rest {
        pieces.extend(*rest);
    }
}

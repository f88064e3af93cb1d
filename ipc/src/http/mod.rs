//! HTTP/1.1 (`docs/spec/rpc-eth.md` 2.2), and the upgrade to WebSocket on the same port.
//!
//! hyper serves the connection directly, not jsonrpsee's `serve`: that wrapper checks for HTTP/2 first and offers
//! neither idle nor write time-outs, and the rest of jsonrpsee (its envelope) must be ours anyway. Measured with
//! `examples/constant_server.rs`, 64 connections, server and wrk on a core each: 9.7 to 12.4 µs of processor time per
//! request against 9.4 to 10.3 of a raw hyper server with a constant answer, 0.83 to 0.97 of it; a method in jsonrpsee
//! reached 0.63 of raw hyper (117,000 requests per second instead of 184,000).

mod answers;
mod body;
mod conversation;
pub(crate) mod cors;
mod disconnect;
mod head;
mod health;
pub(crate) mod hosts;
mod listener;
mod pipeline;
mod proxies;
mod stream;

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Poll, ready},
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::{body::Body as _, body::Incoming};
use tenon_bus::{CallContext, MemoryUse, OutOfMemory, Reservation};
use tenon_host::until_woken;
use tokio::net::TcpStream;
use zeroize::Zeroize as _;

use crate::{
    envelope::{ALWAYS_WIPED, Dispatcher, EnvelopeLimits, MessageText, UsedBuffers, grow_message, poll_once},
    exposure::{Admission, HttpAccess, WebSocketAccess},
    service::{ClientId, Exposure, Origin, RpcService, Transport},
    stop_signals::StopSignals,
    traffic::TransportTraffic,
    websocket::{WebSocketLimits, handshake},
};
use answers::{
    Answer, client_disconnected, host_not_allowed, method_not_allowed, out_of_memory, refused, report, status_only,
    stopping, timed_out, with_content_encoding,
};
use body::AnswerBody;
use conversation::{Conversation, Upgrade};
use cors::Cors;
use disconnect::Disconnect;
use head::{Head, is_root};
pub use health::{HealthCheck, HealthReport};
pub(crate) use listener::HttpServer;
pub(crate) use proxies::Proxies;
pub use proxies::{Network, NetworkError};

/// Limits of the HTTP front-end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Limits of each message.
    pub envelope: EnvelopeLimits,
    /// Concurrent connections. When all places are taken, the longest idle connection of the address with the most
    /// connections is closed for a new one.
    pub connections: usize,
    /// Bytes of a request's body. A larger declared length is answered with 413; a longer body of undeclared length is
    /// cut, as in the reference.
    pub body_bytes: usize,
    /// Time from a request's head to its answer; on expiry the client gets 503 and the call is cancelled. The head
    /// itself, from its first byte, has the same time limit, after which the connection ends.
    pub request_timeout: Duration,
    /// Maximum idle time of a connection.
    pub idle_timeout: Duration,
    /// Time limit for the client to read one write.
    pub write_timeout: Duration,
}

/// JSON-RPC over HTTP on a port.
pub(crate) struct HttpSide<S> {
    pub(crate) dispatcher: Dispatcher<S>,
    /// Access rules; read for every request.
    pub(crate) access: ArcSwap<HttpAccess>,
    pub(crate) proxies: Proxies,
    pub(crate) limits: HttpLimits,
    pub(crate) health: Option<HealthCheck>,
    pub(crate) stop_signals: StopSignals,
    pub(crate) traffic: Arc<TransportTraffic>,
}

/// JSON-RPC over WebSocket on a port.
pub(crate) struct WebSocketSide<S> {
    pub(crate) dispatcher: Dispatcher<S>,
    /// Access rules; its connections read them for every message.
    pub(crate) access: Arc<ArcSwap<WebSocketAccess>>,
    pub(crate) proxies: Proxies,
    pub(crate) limits: WebSocketLimits,
    pub(crate) stop_signals: StopSignals,
    pub(crate) traffic: Arc<TransportTraffic>,
}

/// The services of a TCP port: HTTP, WebSocket or both.
#[derive(Clone)]
pub(crate) struct Port<S> {
    pub(crate) http: Option<Arc<HttpSide<S>>>,
    pub(crate) websocket: Option<Arc<WebSocketSide<S>>>,
}

/// Result of checking a request's head.
///
/// Separate from the rest of the answer: a future that carried the request through every check would have thousands of
/// bytes, and hyper moves it for every request.
pub(crate) enum Step {
    /// The complete answer.
    Done(Answer),
    /// The complete answer to a request whose body may have arrived.
    Refuse(Box<RefusedRequest>),
    /// The body must be read and answered.
    Call(Call),
}

impl Step {
    /// The answer to a request whose body is not needed.
    fn refuse(answer: Answer, request: Request<Incoming>) -> Self {
        // If the client waits for `100 Continue`, reading the body would send it.
        if request.body().is_end_stream() || request.headers().contains_key(header::EXPECT) {
            return Self::Done(answer);
        }
        Self::Refuse(Box::new(RefusedRequest { answer, body: request.into_body() }))
    }
}

/// A request that is answered without its body, which may contain a secret all the same.
pub(crate) struct RefusedRequest {
    answer: Answer,
    body: Incoming,
}

impl RefusedRequest {
    /// Wipes the part of the body that has already arrived, up to [`ALWAYS_WIPED`] bytes, and returns the answer. The
    /// connection ends if the body continues.
    pub(crate) async fn wiped(&mut self, buffers: &UsedBuffers) -> Answer {
        let Self { answer, body } = self;
        let (mut length, mut has_ended) = (0, false);
        while length < ALWAYS_WIPED && !has_ended {
            match arrived_piece(body).await {
                Poll::Ready(Some(piece)) => {
                    length += piece.len();
                    buffers.wipe_later(piece);
                    has_ended = body.is_end_stream();
                }
                Poll::Ready(None) => has_ended = true,
                Poll::Pending => break,
            }
        }
        if !has_ended || buffers.needs_close() {
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        std::mem::take(answer)
    }
}

/// A request with a valid head.
pub(crate) struct Call {
    /// `None` when it is thrown away.
    body: Option<Incoming>,
    /// The request's header map, emptied. The answer reuses it to save an allocation.
    headers: HeaderMap,
    admitted: Admitted,
}

/// What the head of an admitted request says.
struct Admitted {
    /// The methods that it may call.
    exposure: Exposure,
    origin: Origin,
    takes_gzip: bool,
    /// CORS headers of the answer.
    cors: Option<Box<HeaderMap>>,
}

/// Outcome of checking a request's head.
enum Verdict<T> {
    /// The complete answer.
    Answered(Answer),
    /// The request may call methods.
    Admitted(T),
}

impl<S> Port<S> {
    /// The stop signals of its services.
    pub(crate) fn stop_signals(&self) -> impl Iterator<Item = &StopSignals> {
        let http = self.http.as_ref().map(|side| &side.stop_signals);
        http.into_iter().chain(self.websocket.as_ref().map(|side| &side.stop_signals))
    }
}

impl<S: RpcService> Port<S> {
    /// Checks the head of a request.
    pub(crate) fn begin(&self, mut request: Request<Incoming>, conversation: &Conversation) -> Step {
        let admitted = match self.check(&mut request, conversation) {
            Verdict::Answered(answer) => return Step::refuse(answer, request),
            Verdict::Admitted(admitted) => admitted,
        };
        let mut headers = std::mem::take(request.headers_mut());
        headers.clear();
        Step::Call(Call { body: Some(request.into_body()), headers, admitted })
    }

    fn check(&self, request: &mut Request<Incoming>, conversation: &Conversation) -> Verdict<Admitted> {
        let head = match Head::of(request.headers()) {
            Ok(head) => head,
            Err(error) => return Verdict::Answered(refused(StatusCode::BAD_REQUEST, &error.to_string())),
        };
        if let Some(side) = &self.websocket
            && head.has_upgrade
            && handshake::is_upgrade(request.headers())
        {
            if !side.stop_signals.stopping.is_set() {
                return Verdict::Answered(side.upgrade(request, conversation));
            }
            // If only WebSocket has been closed, HTTP answers, as it does on new connections.
            if self.stop_signals().all(|signals| signals.stopping.is_set()) {
                return Verdict::Answered(stopping());
            }
        }
        match &self.http {
            Some(side) => side.check(request, &head, conversation),
            None => Verdict::Answered(status_only(StatusCode::NOT_FOUND)),
        }
    }

    /// Reads the body and answers it. `stream` is the request's connection.
    pub(crate) async fn finish(&self, call: &mut Call, conversation: &Arc<Conversation>, stream: &TcpStream) -> Answer {
        match &self.http {
            Some(side) => side.finish(call, conversation, stream).await,
            None => status_only(StatusCode::NOT_FOUND),
        }
    }
}

impl<S: RpcService> WebSocketSide<S> {
    fn upgrade(&self, request: &mut Request<Incoming>, conversation: &Conversation) -> Answer {
        if !is_root(request) {
            return status_only(StatusCode::NOT_FOUND);
        }
        let access = self.access.load();
        let client = self.proxies.client(conversation, request.headers());
        let from = Origin::new(Transport::WebSocket, client);
        let admission = match access.access_control.admit(request.headers(), from) {
            Ok(admission) => admission,
            Err(reason) => return refused(StatusCode::UNAUTHORIZED, reason),
        };
        match handshake::accept(request, &access.origins) {
            Ok(key) => {
                conversation.upgrade_to(Upgrade { on_upgrade: hyper::upgrade::on(request), admission });
                let mut answer = status_only(StatusCode::SWITCHING_PROTOCOLS);
                let headers = answer.headers_mut();
                headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
                headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
                headers.insert(header::SEC_WEBSOCKET_ACCEPT, key);
                answer
            }
            Err(status) => {
                let mut answer = refused(status, status.canonical_reason().unwrap_or_default());
                answer.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
                answer
            }
        }
    }
}

impl<S: RpcService> HttpSide<S> {
    /// The reference's order: path, time-out, gzip, virtual host, CORS, JSON-RPC. The request itself is not moved until
    /// its body is needed: it is large, and would be moved from check to check.
    fn check(&self, request: &Request<Incoming>, head: &Head<'_>, conversation: &Conversation) -> Verdict<Admitted> {
        let access = self.access.load();
        if !is_root(request) {
            let is_host_allowed = || access.hosts.allow_request(head, request.uri());
            return Verdict::Answered(match (&self.health, request.uri().path(), request.method()) {
                // Its target has no path.
                (_, _, &Method::CONNECT) => method_not_allowed(),
                (Some(_), "/health", &Method::GET) if !is_host_allowed() => host_not_allowed(),
                (Some(health), "/health", &Method::GET) => report(&health()),
                _ => refused(StatusCode::NOT_FOUND, "404 page not found"),
            });
        }
        let takes_gzip = head.takes_gzip;
        let client = self.proxies.client(conversation, request.headers());
        let (verdict, cors) = self.guarded(&access, (request, head), client);
        match verdict {
            Verdict::Admitted((exposure, origin)) => {
                Verdict::Admitted(Admitted { exposure, origin, takes_gzip, cors: cors.map(Box::new) })
            }
            Verdict::Answered(mut answer) => {
                if let Some(added) = cors {
                    answer.headers_mut().extend(added);
                }
                Verdict::Answered(with_content_encoding(answer, takes_gzip))
            }
        }
    }

    /// Outcome of checking the head, and the answer's CORS headers.
    fn guarded(
        &self,
        access: &HttpAccess,
        (request, head): (&Request<Incoming>, &Head<'_>),
        client: ClientId,
    ) -> (Verdict<(Exposure, Origin)>, Option<HeaderMap>) {
        if !access.hosts.allow_request(head, request.uri()) {
            return (Verdict::Answered(host_not_allowed()), None);
        }
        let Some(cors) = &access.cors else { return (self.checked(access, (request, head), client), None) };
        if Cors::is_preflight(request.method(), request.headers()) {
            let mut answer = Response::new(AnswerBody::empty());
            *answer.headers_mut() = cors.preflight(request.headers());
            return (Verdict::Answered(answer), None);
        }
        let mut added = HeaderMap::new();
        cors.add_headers(request.method(), request.headers(), &mut added);
        (self.checked(access, (request, head), client), Some(added))
    }

    fn checked(
        &self,
        access: &HttpAccess,
        (request, head): (&Request<Incoming>, &Head<'_>),
        client: ClientId,
    ) -> Verdict<(Exposure, Origin)> {
        let (method, headers) = (request.method(), request.headers());
        let declared = request.body().size_hint().exact();
        match *method {
            Method::GET if declared == Some(0) => return Verdict::Answered(status_only(StatusCode::OK)),
            Method::POST | Method::GET | Method::HEAD | Method::OPTIONS | Method::PATCH => {}
            _ => return Verdict::Answered(method_not_allowed()),
        }
        if let Some(length) = declared.filter(|length| *length > self.limits.body_bytes as u64) {
            let text = format!("content length too large ({length}>{})", self.limits.body_bytes);
            return Verdict::Answered(refused(StatusCode::PAYLOAD_TOO_LARGE, &text));
        }
        if *method != Method::OPTIONS && !head.is_json() {
            let text = "invalid content type, only application/json is supported";
            return Verdict::Answered(refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
        }
        match access.access_control.admit(headers, Origin::new(Transport::Http, client)) {
            Ok(Admission { origin, .. }) => {
                Verdict::Admitted((access.access_control.exposure(origin.has_token).clone(), origin))
            }
            Err(reason) => Verdict::Answered(refused(StatusCode::UNAUTHORIZED, reason)),
        }
    }

    async fn finish(&self, call: &mut Call, conversation: &Arc<Conversation>, stream: &TcpStream) -> Answer {
        let begun = conversation.request_begins();
        let (takes_gzip, cors) = (call.admitted.takes_gzip, call.admitted.cors.take());
        let (buffers, is_whole) = (&conversation.used_buffers, AtomicBool::new(false));
        let mut answering = pin!(self.answered(call, begun, conversation, &is_whole));
        let mut disconnect = Disconnect::of(stream);
        let answered = poll_fn(|context| match answering.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Ok(answer)),
            // hyper polls this again when the stop begins.
            Poll::Pending if conversation.is_stopping() && !is_whole.load(Ordering::Relaxed) => {
                conversation.cut_short();
                Poll::Ready(Err(stopping()))
            }
            Poll::Pending if disconnect.poll(context).is_ready() => Poll::Ready(Err(client_disconnected())),
            Poll::Pending => {
                ready!(conversation.poll_request_end(context));
                Poll::Ready(Err(timed_out()))
            }
        });
        let mut answer = match answered.await {
            Ok(mut answer) => {
                if let Some(added) = cors {
                    answer.headers_mut().extend(*added);
                }
                with_content_encoding(answer, takes_gzip)
            }
            Err(refusal) => refusal,
        };
        if buffers.needs_close() {
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }

    async fn answered(
        &self,
        call: &mut Call,
        begun: Instant,
        conversation: &Arc<Conversation>,
        is_whole: &AtomicBool,
    ) -> Answer {
        let Call { body, headers, admitted: Admitted { exposure, origin, .. } } = call;
        let buffers = &conversation.used_buffers;
        // The call's deadline is a second after the answer 503, so that the client always sees the 503.
        let context = match begun.checked_add(self.limits.request_timeout + Duration::from_secs(1)) {
            Some(deadline) => CallContext::with_deadline(deadline),
            None => CallContext::new(),
        };
        let caller = self.dispatcher.caller_within(exposure.clone(), context.with_origin(*origin));
        let take = |bytes| self.dispatcher.memory_of(caller.context.origin()).reserve(MemoryUse::Messages, bytes);
        let text = match read_body(body.as_mut(), self.limits.body_bytes, buffers, take).await {
            Ok(text) => text,
            // The client has disconnected: this is not sent.
            Err(BodyError::Broken) => return status_only(StatusCode::BAD_REQUEST),
            Err(BodyError::TooMuch(refused)) => {
                throw_away(body.take(), self.limits.body_bytes, Arc::clone(conversation));
                return out_of_memory(refused);
            }
        };
        is_whole.store(true, Ordering::Relaxed);
        if conversation.pipeline.follows_another() {
            Box::pin(conversation.pipeline.wait_for_turn(|| self.dispatcher.turn_of(*origin))).await;
        }
        // If the client leaves or the time limit expires, this future is dropped, and with it the guard.
        let guard = caller.context.cancel_on_drop();
        let mut answering = pin!(self.dispatcher.answer_body(text, buffers, &caller));
        let reply = match poll_once(answering.as_mut()).await {
            Poll::Ready(reply) => reply,
            Poll::Pending => {
                conversation.pipeline.rest();
                // Polled again at once, a batch would take its yield for done.
                until_woken().await;
                answering.await
            }
        };
        guard.disarm();
        let mut answer = Response::new(reply.map_or_else(AnswerBody::empty, AnswerBody::reply));
        *answer.headers_mut() = std::mem::take(headers);
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        answer
    }
}

/// Time for which the rest of a refused body is read and discarded. If the connection were closed while the client
/// sends, the system would drop the answer before it is read.
const LINGER: Duration = Duration::from_secs(2);

/// Bodies up to this size are not counted: their connection already accounts for them.
const UNCOUNTED_BODY: usize = 16 << 10;

/// Why the body is missing.
enum BodyError {
    /// It was not received.
    Broken,
    /// There is no memory for it.
    TooMuch(OutOfMemory),
}

/// The body, cut at `max` bytes. `take` reserves memory for it as the body arrives; nothing is reserved for the
/// announced length.
async fn read_body(
    body: Option<&mut Incoming>,
    max: usize,
    buffers: &UsedBuffers,
    take: impl Fn(usize) -> Result<Reservation, OutOfMemory>,
) -> Result<MessageText, BodyError> {
    let mut memory = None;
    let mut hold = |bytes: usize| match &mut memory {
        _ if bytes <= UNCOUNTED_BODY => Ok(()),
        Some(held) => Reservation::resize(held, bytes),
        none => take(bytes).map(|taken| *none = Some(taken)),
    };
    let nothing = || Ok(MessageText { bytes: Bytes::new(), memory: None });
    let Some(body) = body else { return nothing() };
    let Some(first) = next_piece(body).await? else { return nothing() };
    if first.len() >= max || body.is_end_stream() {
        if let Err(refused) = hold(first.len()) {
            buffers.wipe_later(first);
            return Err(BodyError::TooMuch(refused));
        }
        return Ok(MessageText { bytes: first.slice(..first.len().min(max)), memory });
    }
    let mut unfinished = UnfinishedBody { whole: BytesMut::from(&first[..]), last: first, buffers };
    while let Some(piece) = next_piece(body).await? {
        let UnfinishedBody { whole, last, .. } = &mut unfinished;
        let room = max - whole.len();
        let added = piece.len().min(room);
        if whole.capacity() - whole.len() < added {
            let larger = (2 * whole.capacity()).max(whole.len() + added);
            if let Err(refused) = hold(larger) {
                buffers.wipe_later(piece);
                return Err(BodyError::TooMuch(refused));
            }
            grow_message(whole, larger);
        }
        whole.extend_from_slice(&piece[..added]);
        let read = std::mem::replace(last, piece);
        if whole.len() <= ALWAYS_WIPED {
            buffers.wipe_later(read);
        }
        if added == room {
            break;
        }
    }
    let (whole, last) = (std::mem::take(&mut unfinished.whole), std::mem::take(&mut unfinished.last));
    if whole.len() <= ALWAYS_WIPED {
        buffers.wipe_later(last);
    }
    Ok(MessageText { bytes: whole.freeze(), memory })
}

/// The pieces of a body that have arrived. They are wiped if the rest never arrives.
struct UnfinishedBody<'a> {
    whole: BytesMut,
    last: Bytes,
    buffers: &'a UsedBuffers,
}

impl Drop for UnfinishedBody<'_> {
    fn drop(&mut self) {
        self.whole.as_mut().zeroize();
        if !self.last.is_empty() {
            self.buffers.wipe_later(std::mem::take(&mut self.last));
        }
    }
}

/// Reads and discards the rest of a body in the background, up to `max` bytes. Its beginning may contain a secret.
fn throw_away(body: Option<Incoming>, max: usize, conversation: Arc<Conversation>) {
    let Some(mut body) = body else { return };
    tokio::spawn(tokio::time::timeout(LINGER, async move {
        let mut length = 0_usize;
        while length < max
            && let Ok(Some(piece)) = next_piece(&mut body).await
        {
            let before = length;
            length += piece.len();
            if before < ALWAYS_WIPED {
                conversation.used_buffers.wipe_later(piece);
            }
        }
    }));
}

/// The next piece of the body, `None` at its end; pending if neither has arrived.
async fn arrived_piece(body: &mut Incoming) -> Poll<Option<Bytes>> {
    let mut piece = pin!(next_piece(body));
    let mut was_requested = false;
    poll_fn(|context| match piece.as_mut().poll(context) {
        Poll::Ready(piece) => Poll::Ready(piece.map_or(Poll::Pending, Poll::Ready)),
        Poll::Pending if was_requested => Poll::Ready(Poll::Pending),
        Poll::Pending => {
            // hyper passes bytes of its buffer only after they have been requested, and polls this again when woken.
            was_requested = true;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

/// The next piece of the body; `None` at its end.
async fn next_piece(body: &mut Incoming) -> Result<Option<Bytes>, BodyError> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Err(_)) => return Err(BodyError::Broken),
            Some(Ok(frame)) => {
                if let Ok(piece) = frame.into_data() {
                    return Ok(Some(piece));
                }
            }
        }
    }
}

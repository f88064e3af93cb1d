//! The JSON-RPC envelope, the same on every transport (`docs/spec/rpc-eth.md` 3).

mod batch;
mod call;
pub(crate) mod failures;
mod large_answers;
mod limits;
mod raw_message;
mod reply;
mod request;
mod request_id;
mod scan;
mod secrets;
mod spare_future;
mod subscriptions;
mod text;
mod turns;

use std::{
    borrow::Cow,
    future::poll_fn,
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Instant,
};

use bytes::{Bytes, BytesMut};
use bytes_utils::Str;
use futures_util::FutureExt as _;
use tenon_bus::{CallContext, ClientMemory, MemoryBudget, MemoryUse, Origin, Reservation, SubscriptionPlace};
use tenon_sdk::{Failure, FailureCode};

pub use limits::EnvelopeLimits;
pub(crate) use raw_message::RawMessage;
pub(crate) use reply::Reply;
pub(crate) use scan::{Ending, Progress, Scanner};
pub(crate) use secrets::{ALWAYS_WIPED, UsedBuffers, grow_message, move_message};
pub(crate) use spare_future::SpareFuture;
pub(crate) use subscriptions::Subscriptions;
pub(crate) use turns::{TaskTurn, TaskTurns, first_poll_of_message, work_on_message};

use crate::{
    service::{Caller, Exposure, RawCall, RpcService},
    stop_signals::StopSignal,
};
use large_answers::is_large;
use raw_message::{RawRequest, Span};
use request::Request;
use request_id::RequestId;
use secrets::wiped_text;
use text::read_string;

/// Memory of an open subscription besides its parameters: its task, its list entries, its futures and its waiting
/// events.
const SUBSCRIPTION_BYTES: usize = 12 << 10;

/// Replies up to this size are not counted: their connection or call already accounts for them.
const UNCOUNTED_REPLY: usize = 16 << 10;

/// An id up to this length is repeated in an out-of-memory refusal; a longer one is replaced by `null`.
const MAX_REFUSED_ID: usize = 256;

/// Endings of the methods that the envelope serves itself.
const SUBSCRIBE: &str = "_subscribe";
const UNSUBSCRIBE: &str = "_unsubscribe";
/// Ending of methods that become subscriptions of the same name if the connection supports notifications:
/// `admin_peerEvents`.
const EVENTS: &str = "Events";

/// Answers messages. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Dispatcher<S> {
    service: S,
    limits: Arc<EnvelopeLimits>,
    memory: MemoryBudget,
    turns: TaskTurns,
    /// Set when the grace period of a stop is over: then running calls fail.
    cut: StopSignal,
}

/// The text of a message, with its reservation in the memory budget.
#[derive(Debug, Default)]
pub(crate) struct MessageText {
    pub(crate) bytes: Bytes,
    /// `None` for a small one, which is in the connection's own buffer.
    pub(crate) memory: Option<Reservation>,
}

/// A subscription whose answer is about to be sent, and which may send only afterwards.
pub(crate) struct Opened<S: RpcService> {
    pub(crate) id: String,
    pub(crate) namespace: String,
    pub(crate) notifications: S::Notifications,
    /// Its place and memory in its client's share, for as long as it is open.
    pub(crate) memory: (SubscriptionPlace, Reservation),
}

/// Result of a message.
pub(crate) struct Answer<S: RpcService> {
    /// `None` if all were notifications.
    pub(crate) reply: Option<Reply>,
    /// To be started once the reply is queued.
    pub(crate) opened: Vec<Box<Opened<S>>>,
}

impl<S: RpcService> Answer<S> {
    fn only(reply: Option<Reply>) -> Self {
        Self { reply, opened: Vec::new() }
    }
}

/// Result of parsing a whole text.
pub(crate) enum Parsed {
    /// Nothing but white space.
    Empty,
    /// One message; the text after it is ignored.
    Message(RawMessage),
    /// The text ends too early.
    Truncated,
    /// Not JSON.
    Invalid(scan::SyntaxError),
}

/// Outcome of a call.
enum Outcome<S: RpcService> {
    Json(S::Json),
    /// Unsubscribed; the result is `true`.
    Done,
    /// Boxed because it is rare and would enlarge every outcome.
    Opened(Box<Opened<S>>),
    Failed(Failure),
}

impl<S: RpcService> Outcome<S> {
    /// The answer to a call with this id.
    #[inline]
    fn into_answer(self, id: &str) -> Answer<S> {
        match self {
            Self::Json(json) => Answer::only(Some(Reply::result(id, json))),
            Self::Done => Answer::only(Some(Reply::result(id, "true"))),
            Self::Failed(failure) => Answer::only(Some(failed(id, &failure))),
            Self::Opened(opened) => {
                let reply = Reply::result(id, format!("\"{}\"", opened.id));
                Answer { reply: Some(reply), opened: vec![opened] }
            }
        }
    }
}

impl<S: RpcService> Dispatcher<S> {
    /// Creates a dispatcher over `service`.
    pub fn new(service: S, limits: EnvelopeLimits) -> Self {
        Self {
            service,
            limits: Arc::new(limits),
            memory: MemoryBudget::unbounded(),
            turns: TaskTurns::default(),
            cut: StopSignal::default(),
        }
    }

    /// Counts messages, calls and answers in this memory budget.
    #[must_use]
    pub fn with_memory(self, memory: MemoryBudget) -> Self {
        Self { memory, ..self }
    }

    /// Schedules long tasks together with those of other dispatchers.
    #[must_use]
    pub(crate) fn with_turns(self, turns: TaskTurns) -> Self {
        Self { turns, ..self }
    }

    /// Fails the running calls once this signal is set. What sets it also wakes their tasks.
    #[must_use]
    pub(crate) fn with_cut_signal(self, cut: StopSignal) -> Self {
        Self { cut, ..self }
    }

    /// A turn for a client's task on the shared threads.
    pub(crate) fn turn_of(&self, origin: Origin) -> TaskTurn {
        self.turns.at_rest(origin.client)
    }

    /// Its memory budget.
    pub(crate) const fn memory(&self) -> &MemoryBudget {
        &self.memory
    }

    /// The bytes of a parsed message. They are wiped after use if a method in it takes secrets.
    pub(crate) fn sealed_text(&self, bytes: BytesMut, message: &RawMessage) -> Bytes {
        match self.takes_secrets(&bytes, message) {
            true => wiped_text(bytes),
            false => bytes.freeze(),
        }
    }

    /// Whether a method in a parsed message takes secrets.
    fn takes_secrets(&self, bytes: &[u8], message: &RawMessage) -> bool {
        let takes_secrets = |request: &RawRequest| {
            request.method_in_bytes(bytes).is_some_and(|method| self.service.takes_secrets(&method))
        };
        let requests = if message.is_batch { &message.items[..] } else { std::slice::from_ref(&message.single) };
        requests.iter().any(takes_secrets)
    }

    /// The share of memory of a client.
    pub(crate) fn memory_of(&self, origin: Origin) -> ClientMemory {
        self.memory.client(origin.client)
    }

    /// The answer to a whole body, as HTTP returns it: `None` if there is nothing to answer. Any JSON-RPC error is such
    /// an answer. Subscriptions are refused.
    pub async fn answer_text(&self, body: &[u8], caller: &Caller) -> Option<Vec<u8>> {
        let body = MessageText { bytes: Bytes::copy_from_slice(body), memory: None };
        let reply = self.answer_body(body, &UsedBuffers::default(), caller).await?;
        let mut text = Vec::from(reply.first);
        if let Some(rest) = reply.rest {
            text.extend(rest.iter().flatten());
        }
        Some(text)
    }

    /// The answer to a whole body. A body with secrets is wiped after use; if it shares the memory of a read buffer,
    /// `buffers` wipes it later.
    pub(crate) async fn answer_body(
        &self,
        mut body: MessageText,
        buffers: &UsedBuffers,
        caller: &Caller,
    ) -> Option<Reply> {
        let length = body.bytes.len();
        let mut answering = pin!(self.answer_unread(&mut body, buffers, caller));
        match first_poll_of_message(length, answering.as_mut()).await {
            Poll::Ready(reply) => reply,
            Poll::Pending => answering.await,
        }
    }

    async fn answer_unread(&self, body: &mut MessageText, buffers: &UsedBuffers, caller: &Caller) -> Option<Reply> {
        let message = match self.parse(&body.bytes) {
            Parsed::Empty => return None,
            Parsed::Truncated | Parsed::Invalid(_) => {
                // Whether it contains a secret is unknown.
                buffers.wipe_later(std::mem::take(&mut body.bytes));
                return Some(Reply::failure_without_request(&failures::parse_error()));
            }
            Parsed::Message(message) => message,
        };
        if self.takes_secrets(&body.bytes, &message) {
            body.bytes = buffers.take_secret(std::mem::take(&mut body.bytes));
        }
        self.answer(body, &message, caller, None).await.reply
    }

    /// The caller of a message over a connection with this exposure and origin. Each message has its own time limit.
    pub(crate) fn caller(&self, exposure: Exposure, origin: Origin) -> Caller {
        let context = self.limits.call_timeout.map_or_else(CallContext::new, CallContext::with_timeout);
        self.caller_within(exposure, context.with_origin(origin))
    }

    /// The caller of a message over a connection with this exposure. Adds the computing time of a message to `context`.
    pub(crate) fn caller_within(&self, exposure: Exposure, context: CallContext) -> Caller {
        Caller::new(
            exposure,
            match self.limits.computing_time {
                Some(time) => context.within_computing_time(time),
                None => context,
            },
        )
    }

    /// Creates a scanner for one message of a stream.
    pub(crate) fn scanner(&self) -> Scanner {
        Scanner::new(self.limits.batch_items)
    }

    /// Parses a whole text.
    pub(crate) fn parse(&self, text: &[u8]) -> Parsed {
        let mut scanner = self.scanner();
        match scanner.advance(text) {
            Progress::Complete(message) => Parsed::Message(message),
            Progress::Invalid(error) => Parsed::Invalid(error),
            Progress::More => match scanner.finish() {
                Ending::Empty => Parsed::Empty,
                Ending::Truncated => Parsed::Truncated,
                Ending::Complete(message) => Parsed::Message(message),
            },
        }
    }

    /// Answers a parsed message. With `subscriptions` the transport can send notifications.
    ///
    /// Takes `text`. It is borrowed, and the futures of rare cases are boxed here and below, so that the future of an
    /// ordinary call stays small: its caller moves it.
    pub(crate) async fn answer(
        &self,
        text: &mut MessageText,
        message: &RawMessage,
        caller: &Caller,
        subscriptions: Option<&Subscriptions>,
    ) -> Answer<S> {
        text.bytes.truncate(message.end);
        let valid = match Str::from_inner(std::mem::take(&mut text.bytes)) {
            Ok(valid) => valid,
            Err(error) => {
                text.bytes = error.into_inner();
                return Box::pin(self.answer_repaired(std::mem::take(text), caller, subscriptions)).await;
            }
        };
        if message.is_batch {
            return Box::pin(self.answer_batch(&valid, message, caller, subscriptions)).await;
        }
        let (id, call) = match Request::inspect(&message.single, &valid) {
            Request::Ignored => return Answer::only(None),
            Request::Invalid { id } => return Answer::only(Some(failed(id, &failures::invalid_request()))),
            Request::Call { id, method, params } => {
                let id = id.map(RequestId::new);
                let copied = match method {
                    Cow::Borrowed(_) => None,
                    Cow::Owned(name) => Some(RawCall::copied(&name, params)),
                };
                (id, copied)
            }
        };
        let mut call = call.unwrap_or_else(|| {
            let method = message.single.method.map(Span::without_quotes).unwrap_or_default();
            RawCall::owned(valid, method.range(), message.single.params.map(Span::range), text.memory.take())
        });
        let length = id.as_ref().map_or(0, RequestId::len);
        let client = caller.context.origin().client;
        let subscriptions = subscriptions.filter(|_| id.is_some());
        let outcome = match self.turns.large_answers.has_recent(client, Instant::now) {
            false => self.call_in_time(&mut call, length, caller, subscriptions).await,
            true => Box::pin(self.call_in_turn(&mut call, length, caller, subscriptions)).await,
        };
        let Some(id) = id else { return Answer::only(None) };
        let id = id.as_str();
        let mut answer = outcome.into_answer(id);
        if let Some(reply) = &mut answer.reply
            && reply.len() > UNCOUNTED_REPLY
        {
            self.count(reply, id, caller);
        }
        answer
    }

    /// Counts a large reply in the budget, or replaces it by an error if it does not fit. A very large one makes its
    /// client's calls take turns.
    fn count(&self, reply: &mut Reply, id: &str, caller: &Caller) {
        let client = self.memory_of(caller.context.origin());
        if is_large(reply.len(), client.connections()) {
            self.turns.large_answers.record(caller.context.origin().client, Instant::now());
        }
        match client.reserve(MemoryUse::Answers, reply.len()) {
            Ok(memory) => reply.memory = Some(memory),
            Err(refused) => {
                let id = if id.len() > MAX_REFUSED_ID { "null" } else { id };
                *reply = failed(id, &failures::out_of_memory(refused));
            }
        }
    }

    /// Answers a message that is not UTF-8. Invalid bytes inside strings become U+FFFD, as in the reference. This moves
    /// the text after them, so it is parsed again.
    async fn answer_repaired(
        &self,
        text: MessageText,
        caller: &Caller,
        subscriptions: Option<&Subscriptions>,
    ) -> Answer<S> {
        // Each invalid byte becomes three.
        let length = text.bytes.len() * 3;
        let memory = match self.memory_of(caller.context.origin()).reserve(MemoryUse::Messages, length) {
            Ok(memory) => Some(memory),
            Err(refused) => {
                return Answer::only(Some(Reply::failure_without_request(&failures::out_of_memory(refused))));
            }
        };
        // In a buffer that never grows: the buffers that growing would leave behind would not be wiped.
        let mut repaired = BytesMut::with_capacity(length);
        for chunk in text.bytes.utf8_chunks() {
            repaired.extend_from_slice(chunk.valid().as_bytes());
            if !chunk.invalid().is_empty() {
                repaired.extend_from_slice("\u{fffd}".as_bytes());
            }
        }
        drop(text);
        let Parsed::Message(message) = self.parse(&repaired) else {
            return Answer::only(Some(Reply::failure_without_request(&failures::parse_error())));
        };
        let mut text = MessageText { bytes: self.sealed_text(repaired, &message), memory };
        self.answer(&mut text, &message, caller, subscriptions).await
    }

    async fn call_service(
        &self,
        call: &mut RawCall<'_>,
        caller: &Caller,
        subscriptions: Option<&Subscriptions>,
    ) -> Outcome<S> {
        // Both endings belong to the subscription layer, with any prefix.
        let method = call.method();
        if let Some(namespace) = method.strip_suffix(SUBSCRIBE) {
            return Box::pin(self.subscribe(namespace, call.params(), caller, subscriptions)).await;
        }
        if method.ends_with(UNSUBSCRIBE) {
            return unsubscribe(call.params(), subscriptions);
        }
        if method.ends_with(EVENTS)
            && let Some(subscriptions) = subscriptions
            && self.service.names_subscription(method, caller)
            && let Some((namespace, kind)) = method.split_once('_')
        {
            return Box::pin(self.open(namespace, kind, None, caller, subscriptions)).await;
        }
        let result = AssertUnwindSafe(self.service.serve_call(call, caller)).catch_unwind().await;
        match result {
            Ok(Ok(json)) => match json.as_ref().len() {
                length if length > self.limits.response_bytes => {
                    Outcome::Failed(failures::response_too_large(length, self.limits.response_bytes))
                }
                _ => Outcome::Json(json),
            },
            Ok(Err(failure)) => Outcome::Failed(failure),
            Err(_) => Outcome::Failed(failures::handler_crashed()),
        }
    }

    async fn subscribe(
        &self,
        prefix: &str,
        params: Option<&str>,
        caller: &Caller,
        subscriptions: Option<&Subscriptions>,
    ) -> Outcome<S> {
        let Some(subscriptions) = subscriptions else {
            return Outcome::Failed(failures::notifications_not_supported());
        };
        let (kind, rest) = match first_text(params) {
            Ok(Some(found)) => found,
            Ok(None) => return Outcome::Failed(failures::no_subscription_name()),
            Err(failure) => return Outcome::Failed(failure),
        };
        // As with methods, the namespace ends at the first underscore.
        let namespace = prefix.split('_').next().unwrap_or_default();
        self.open(namespace, &kind, rest, caller, subscriptions).await
    }

    /// Opens a subscription, with the list of its parameters, if any.
    async fn open(
        &self,
        namespace: &str,
        kind: &str,
        rest: Option<String>,
        caller: &Caller,
        subscriptions: &Subscriptions,
    ) -> Outcome<S> {
        let bytes = SUBSCRIPTION_BYTES + rest.as_ref().map_or(0, String::len);
        let client = self.memory_of(caller.context.origin());
        let Some(of_client) = client.take_subscription(self.limits.client_subscriptions) else {
            return Outcome::Failed(failures::too_many_subscriptions_of_client(self.limits.client_subscriptions));
        };
        let memory = match client.reserve(MemoryUse::Subscriptions, bytes) {
            Ok(memory) => (of_client, memory),
            Err(refused) => return Outcome::Failed(failures::out_of_memory(refused)),
        };
        let Some(id) = subscriptions.reserve() else {
            return Outcome::Failed(failures::too_many_subscriptions(subscriptions.max()));
        };
        // Its drop releases the id if the caller leaves before the subscription is open.
        let mut guard = SubscriptionGuard { subscriptions, id: Some(&id) };
        let opening = self.service.subscribe(namespace, kind, rest.as_deref(), caller);
        let opening = AssertUnwindSafe(opening).catch_unwind();
        match opening.await {
            Ok(Ok(notifications)) => {
                guard.id = None;
                drop(guard);
                Outcome::Opened(Box::new(Opened { id, namespace: namespace.to_owned(), notifications, memory }))
            }
            Ok(Err(failure)) if failure.code == FailureCode::METHOD_NOT_FOUND => {
                Outcome::Failed(failures::no_subscription(kind, namespace))
            }
            Ok(Err(failure)) => Outcome::Failed(failure),
            Err(_) => Outcome::Failed(failures::handler_crashed()),
        }
    }
}

/// Polls a future once.
pub(crate) async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

/// Releases a reserved subscription id on drop, unless the subscription was opened.
struct SubscriptionGuard<'a> {
    subscriptions: &'a Subscriptions,
    id: Option<&'a str>,
}

impl Drop for SubscriptionGuard<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.subscriptions.remove(id);
        }
    }
}

fn failed(id: &str, failure: &Failure) -> Reply {
    let mut text = Vec::with_capacity(96 + failure.message.len());
    reply::write_failure(&mut text, id, failure);
    text.push(b'\n');
    Reply::whole(text)
}

fn unsubscribe<S: RpcService>(params: Option<&str>, subscriptions: Option<&Subscriptions>) -> Outcome<S> {
    let params = params.filter(|params| *params != "null").unwrap_or("[]");
    let id = match first_text(Some(params)) {
        Ok(Some((id, _))) => id,
        Ok(None) if is_empty_list(params) => return Outcome::Failed(Failure::missing_argument(0)),
        // The reference's ids are strings; any other value matches no subscription.
        Ok(None) => return Outcome::Failed(failures::subscription_not_found()),
        Err(failure) => return Outcome::Failed(failure),
    };
    match subscriptions {
        Some(subscriptions) if subscriptions.remove(&id) => Outcome::Done,
        _ => Outcome::Failed(failures::subscription_not_found()),
    }
}

/// The first value of a list if it is a string, and the list of the others, if any. The text is valid JSON.
fn first_text(params: Option<&str>) -> Result<Option<(String, Option<String>)>, Failure> {
    let list = params.filter(|params| params.starts_with('[')).ok_or_else(Failure::non_array_arguments)?;
    let list = list[1..].trim_start();
    if !list.starts_with('"') {
        return Ok(None);
    }
    let mut scanner = Scanner::new(0);
    let Progress::Complete(first) = scanner.advance(list.as_bytes()) else { return Ok(None) };
    let (first, rest) = list.split_at(first.end);
    let rest = rest.trim_start().strip_prefix(',').map(|rest| format!("[{rest}"));
    Ok(Some((read_string(first).into_owned(), rest)))
}

fn is_empty_list(list: &str) -> bool {
    list.trim_start_matches('[').trim_start().starts_with(']')
}

#[cfg(test)]
mod tests;

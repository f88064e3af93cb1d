//! The JSON-RPC envelope, the same on every transport (`spec/rpc-eth.md` 3).

mod batch;
pub(crate) mod failures;
mod limits;
mod reply;
mod scan;
mod subscriptions;
mod text;

use std::{
    borrow::Cow,
    future::poll_fn,
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
};

use futures_util::FutureExt as _;
use tenon_api::{Failure, FailureCode};
use tenon_bus::{CallContext, Origin};

pub use limits::EnvelopeLimits;
pub(crate) use reply::Reply;
pub(crate) use scan::{Ending, Progress, RawMessage, Scanner};
pub(crate) use subscriptions::Subscriptions;

use crate::service::{Caller, Exposure, RpcService};
use scan::RawRequest;
use text::read_string;

/// Endings of the methods that the envelope serves itself.
const SUBSCRIBE: &str = "_subscribe";
const UNSUBSCRIBE: &str = "_unsubscribe";

/// Turns messages into answers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Dispatcher<S> {
    service: S,
    limits: Arc<EnvelopeLimits>,
}

/// A subscription whose answer is about to be sent, and which may speak only afterwards.
pub(crate) struct Opened<S: RpcService> {
    pub(crate) id: String,
    pub(crate) namespace: String,
    pub(crate) notifications: S::Notifications,
}

/// What comes of a message.
pub(crate) struct Answer<S: RpcService> {
    /// `None` if there was nothing but notifications.
    pub(crate) reply: Option<Reply>,
    /// To be started once the reply is on its way.
    pub(crate) opened: Vec<Opened<S>>,
}

impl<S: RpcService> Answer<S> {
    fn only(reply: Option<Reply>) -> Self {
        Self { reply, opened: Vec::new() }
    }
}

/// What a whole text turned out to be.
pub(crate) enum Parsed {
    /// Nothing but white space.
    Empty,
    /// One message; what follows it is not looked at.
    Message(RawMessage),
    /// The text ends too early.
    Truncated,
    /// Not JSON.
    Invalid(scan::SyntaxError),
}

/// A request, looked at.
enum Request<'a> {
    /// Somebody's answer, or a notification that only servers send: dropped.
    Ignored,
    /// Not a call.
    Invalid { id: &'a str },
    /// A call, or without id a notification.
    Call { id: Option<&'a str>, method: Cow<'a, str>, params: Option<&'a str> },
}

/// How a call ended.
enum Outcome<S: RpcService> {
    Json(S::Json),
    /// `true`: unsubscribed.
    Done,
    Opened(Opened<S>),
    Failed(Failure),
}

impl<S: RpcService> Dispatcher<S> {
    /// A dispatcher over `service`.
    pub fn new(service: S, limits: EnvelopeLimits) -> Self {
        Self { service, limits: Arc::new(limits) }
    }

    /// The answer to a whole body, as HTTP gives it: `None` if there is nothing to say. Any JSON-RPC error
    /// is such an answer. Subscriptions are refused.
    pub async fn answer_text(&self, body: &[u8], caller: &Caller) -> Option<Vec<u8>> {
        let reply = self.answer_body(body, caller).await?;
        Some(reply.segments.concat())
    }

    pub(crate) async fn answer_body(&self, body: &[u8], caller: &Caller) -> Option<Reply> {
        match self.parse(body) {
            Parsed::Empty => None,
            Parsed::Truncated | Parsed::Invalid(_) => Some(Reply::stray_failure(&failures::parse_error())),
            Parsed::Message(message) => self.answer(body, &message, caller, None).await.reply,
        }
    }

    /// The caller of a message over a connection with this exposure and origin. Each message has a time limit of its own.
    pub(crate) fn caller(&self, exposure: Exposure, origin: Origin) -> Caller {
        let context = self.limits.call_timeout.map_or_else(CallContext::new, CallContext::with_timeout);
        self.caller_within(exposure, context.from_origin(origin))
    }

    /// The caller of a message over a connection with this exposure, within the bounds of `context` and of every message.
    pub(crate) fn caller_within(&self, exposure: Exposure, context: CallContext) -> Caller {
        Caller::new(
            exposure,
            match self.limits.computing_time {
                Some(time) => context.within_computing_time(time),
                None => context,
            },
        )
    }

    /// A scanner for one message of a stream.
    pub(crate) fn scanner(&self) -> Scanner {
        Scanner::new(self.limits.batch_items)
    }

    /// Scans a text that is whole.
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

    /// Answers a message whose members were found in `text`. With `subscriptions` the transport can notify.
    pub(crate) async fn answer(
        &self,
        text: &[u8],
        message: &RawMessage,
        caller: &Caller,
        subscriptions: Option<&Subscriptions>,
    ) -> Answer<S> {
        match std::str::from_utf8(text.get(..message.end).unwrap_or(text)) {
            Ok(text) => self.answer_valid(text, message, caller, subscriptions).await,
            Err(_) => {
                // Wrong bytes inside strings become U+FFFD, as in the reference; that moves what follows.
                let repaired = String::from_utf8_lossy(text);
                match self.parse(repaired.as_bytes()) {
                    Parsed::Message(message) => {
                        Box::pin(self.answer_valid(&repaired, &message, caller, subscriptions)).await
                    }
                    _ => Answer::only(Some(Reply::stray_failure(&failures::parse_error()))),
                }
            }
        }
    }

    /// What is rare is boxed here and below, and with it its futures: the one of a plain call is moved into place by
    /// whoever polls it, and every byte of it costs.
    async fn answer_valid(
        &self,
        text: &str,
        message: &RawMessage,
        caller: &Caller,
        subscriptions: Option<&Subscriptions>,
    ) -> Answer<S> {
        if message.is_batch {
            return Box::pin(self.answer_batch(text, message, caller, subscriptions)).await;
        }
        match Request::look_at(&message.single, text) {
            Request::Ignored => Answer::only(None),
            Request::Invalid { id } => Answer::only(Some(failed(id, &failures::invalid_request()))),
            Request::Call { id, method, params } => {
                let outcome = self.call_in_time(&method, params, caller, subscriptions.filter(|_| id.is_some())).await;
                let Some(id) = id else { return Answer::only(None) };
                match outcome {
                    Outcome::Json(json) => Answer::only(Some(Reply::result(id, json))),
                    Outcome::Done => Answer::only(Some(Reply::result(id, "true"))),
                    Outcome::Failed(failure) => Answer::only(Some(failed(id, &failure))),
                    Outcome::Opened(opened) => {
                        let reply = Reply::result(id, format!("\"{}\"", opened.id));
                        Answer { reply: Some(reply), opened: vec![opened] }
                    }
                }
            }
        }
    }

    /// A call that ends at its caller's deadline.
    async fn call_in_time(
        &self,
        method: &str,
        params: Option<&str>,
        caller: &Caller,
        subscriptions: Option<&Subscriptions>,
    ) -> Outcome<S> {
        let mut call = pin!(self.call(method, params, caller, subscriptions));
        let Some(deadline) = caller.context.deadline() else { return call.await };
        // Most calls are done on their first poll: no timer is made for them.
        if let Poll::Ready(outcome) = poll_once(call.as_mut()).await {
            return outcome;
        }
        let outcome = Box::pin(tokio::time::timeout_at(deadline.into(), call)).await;
        outcome.unwrap_or_else(|_| Outcome::Failed(failures::timed_out()))
    }

    async fn call(
        &self,
        method: &str,
        params: Option<&str>,
        caller: &Caller,
        subscriptions: Option<&Subscriptions>,
    ) -> Outcome<S> {
        // Both endings belong to the subscription layer whatever stands before them.
        if let Some(namespace) = method.strip_suffix(SUBSCRIBE) {
            return Box::pin(self.subscribe(namespace, params, caller, subscriptions)).await;
        }
        if method.ends_with(UNSUBSCRIBE) {
            return unsubscribe(params, subscriptions);
        }
        let result = AssertUnwindSafe(self.service.call(method, params, caller)).catch_unwind().await;
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
        let Some(id) = subscriptions.reserve() else {
            return Outcome::Failed(failures::too_many_subscriptions(subscriptions.most()));
        };
        // Gives the place back if the caller leaves before the subscription stands.
        let mut reservation = Reservation { subscriptions, id: Some(&id) };
        let opening = self.service.subscribe(namespace, &kind, rest.as_deref(), caller);
        let opening = AssertUnwindSafe(opening).catch_unwind();
        match opening.await {
            Ok(Ok(notifications)) => {
                reservation.id = None;
                drop(reservation);
                Outcome::Opened(Opened { id, namespace: namespace.to_owned(), notifications })
            }
            Ok(Err(failure)) if failure.code == FailureCode::METHOD_NOT_FOUND => {
                Outcome::Failed(failures::no_subscription(&kind, namespace))
            }
            Ok(Err(failure)) => Outcome::Failed(failure),
            Err(_) => Outcome::Failed(failures::handler_crashed()),
        }
    }
}

/// Polls a future a single time.
pub(crate) async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

struct Reservation<'a> {
    subscriptions: &'a Subscriptions,
    id: Option<&'a str>,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.subscriptions.remove(id);
        }
    }
}

impl<'a> Request<'a> {
    /// Sorts a request (`spec/rpc-eth.md` 3.1).
    fn look_at(raw: &RawRequest, text: &'a str) -> Self {
        if !raw.is_object {
            return Self::Invalid { id: "null" };
        }
        let id = raw.id.map(|id| id.of(text));
        let is_usable = |id: &&str| !id.starts_with(['{', '[']);
        let params = raw.params.map(|params| params.of(text));
        let method = raw.method.map(|method| read_string(method.of(text))).filter(|method| !method.is_empty());
        match (method, id) {
            (Some(method), None) if method.ends_with("_subscription") => Self::Ignored,
            (Some(method), None) => Self::Call { id: None, method, params },
            (Some(method), Some(id)) if is_usable(&id) => Self::Call { id: Some(id), method, params },
            (None, Some(id)) if is_usable(&id) && params.is_none() && raw.has_outcome => Self::Ignored,
            (_, id) => Self::Invalid { id: id.filter(is_usable).unwrap_or("null") },
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
        Ok(None) if is_empty_list(params) => return Outcome::Failed(failures::missing_argument(0)),
        // The reference's ids are strings; anything else is the id of no subscription.
        Ok(None) => return Outcome::Failed(failures::subscription_not_found()),
        Err(failure) => return Outcome::Failed(failure),
    };
    match subscriptions {
        Some(subscriptions) if subscriptions.remove(&id) => Outcome::Done,
        _ => Outcome::Failed(failures::subscription_not_found()),
    }
}

/// The first value of a list if it is a string, and the list of the others if there are any. The text is known
/// to be JSON.
fn first_text(params: Option<&str>) -> Result<Option<(String, Option<String>)>, Failure> {
    let list = params.filter(|params| params.starts_with('[')).ok_or_else(failures::non_array_args)?;
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

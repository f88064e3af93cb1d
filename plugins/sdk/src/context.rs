//! A running method's access to its caller and its host.

use std::{
    future::poll_fn,
    marker::PhantomData,
    ops::Deref,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context as TaskContext, Poll},
    time::Duration,
};

use crate::{Failure, FailureCode};
use tenon_api::{Event, EventPosition, MethodPattern, Request, codec};

use crate::boundary::{CallToken, ForeignFuture, ForeignStream, StreamItem};

/// Level of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Something was lost or refused that should not have been.
    Error = 1,
    /// Asks for action.
    Warn = 2,
    /// For operators.
    Info = 3,
    /// For plugin authors.
    Debug = 4,
    /// Everything.
    Trace = 5,
}

/// The services of a host; implemented by the C table in [`crate::boundary`] and by the fake host of tests.
pub(crate) trait HostPort: Send + Sync {
    fn call_bus(&self, token: CallToken, topic: u32, schema: u32, frame: &[u8]) -> ForeignFuture;
    fn subscribe(&self, topic: u32, schema: u32) -> ForeignStream;
    fn sleep(&self, nanos: u64) -> ForeignFuture;
    fn log(&self, level: LogLevel, message: &str);
    fn now_nanos(&self) -> u64;
    /// Counts memory that is kept for a client. Returns false if the client or the node has no memory left.
    fn hold(&self, client: u64, bytes: i64) -> bool;
    /// Calls a method by its name.
    fn call_json(&self, token: CallToken, method: &str, params: &str) -> ForeignFuture;
}

/// The caller, as reported by the host.
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) token: CallToken,
    /// 0 if there is no client.
    pub(crate) client: u64,
}

impl Caller {
    /// The plugin itself.
    pub(crate) const NONE: Self = Self { token: CallToken::NONE, client: 0 };
}

/// The node's services for work on the plugin's own account.
#[derive(Clone)]
pub struct Host {
    pub(crate) port: Arc<dyn HostPort>,
}

impl Host {
    /// Sends a request to the node.
    ///
    /// # Errors
    /// The answering module's error; `-32000` if the plugin was not granted the request's capability.
    pub async fn call<R: Request>(&self, request: R) -> Result<R::Reply, Failure> {
        let frame = encode_request(&request)?;
        let future = self.port.call_bus(CallToken::NONE, R::TOPIC.0, u32::from(R::SCHEMA), frame.as_ref());
        decode_reply::<R>(future).await
    }

    /// Calls a method of any namespace by its full name, on the plugin's own account; see [`Context::call_json`].
    ///
    /// # Errors
    /// As [`Context::call_json`].
    pub async fn call_json(&self, method: &str, params: &str) -> Result<String, Failure> {
        json_text(self.port.call_json(CallToken::NONE, method, params)).await
    }

    /// Subscribes to an event. Events after this call are delivered or counted as missed. A subscription that sends
    /// items made of them marks the items itself ([`Sink::made_of`](crate::Sink::made_of)).
    pub fn events<E: Event>(&self) -> Events<E> {
        let stream = self.port.subscribe(E::TOPIC.0, u32::from(E::SCHEMA));
        Events { stream, position: Arc::default(), event: PhantomData }
    }

    /// Waits.
    pub async fn sleep(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        // A host that cannot wait returns an error at once; the caller could not handle it better.
        let _ = self.port.sleep(nanos).await;
    }

    /// Writes a line to the node's log, under the plugin's name.
    pub fn log(&self, level: LogLevel, message: &str) {
        self.port.log(level, message);
    }

    /// Counts `bytes` that the plugin keeps for a client beyond its calls, until the returned value is dropped.
    /// `client` is [`Context::client`], or 0 for the plugin's own account.
    ///
    /// # Errors
    /// `-32005` if the client, or all clients together, would exceed their limit: the plugin must not keep the memory
    /// then.
    pub fn hold(&self, client: u64, bytes: usize) -> Result<HeldMemory, Failure> {
        let mut held = HeldMemory { port: self.port.clone(), client, bytes: 0 };
        held.resize(bytes)?;
        Ok(held)
    }

    /// Time of a monotonic clock; only differences are meaningful.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.port.now_nanos())
    }
}

/// Memory that a plugin keeps for a client, counted by the node until this is dropped.
#[derive(derive_more::Debug)]
#[debug("HeldMemory({client:?}, {bytes} bytes)")]
pub struct HeldMemory {
    port: Arc<dyn HostPort>,
    client: u64,
    bytes: usize,
}

impl HeldMemory {
    /// Its size in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Grows or shrinks to `bytes`.
    ///
    /// # Errors
    /// `-32005` if no more memory is left; the size does not change then.
    pub fn resize(&mut self, bytes: usize) -> Result<(), Failure> {
        let signed = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
        if bytes != self.bytes && !self.port.hold(self.client, signed(bytes) - signed(self.bytes)) {
            return Err(Failure::limit(
                "out of memory: the node keeps no more for this client; remove filters and close subscriptions",
            ));
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.port.hold(self.client, -i64::try_from(self.bytes).unwrap_or(i64::MAX));
        }
    }
}

/// One call: the plugin's state (by `Deref`), the host, and the caller. Cheap to clone.
pub struct Context<S> {
    inner: Arc<Inner<S>>,
}

/// State shared by all calls of a started plugin.
pub(crate) struct Served<S> {
    pub(crate) plugin: Arc<S>,
    pub(crate) host: Host,
}

struct Inner<S> {
    /// In one `Arc`, so that a call counts one reference instead of two.
    served: Arc<Served<S>>,
    /// Identifies the caller to the host. Cleared when the call ends, so that a context kept longer cannot misuse it;
    /// the lock is held while the token is used.
    token: Mutex<CallToken>,
    client: u64,
    namespaces: Namespaces,
    /// On the host's clock.
    deadline: Option<Duration>,
    /// The event that a subscription received last. Created by subscriptions only.
    last_event: OnceLock<Arc<LastEvent>>,
}

/// The position of the event that a subscription received last. The SDK gives it to the items that follow.
#[derive(Default)]
pub(crate) struct LastEvent {
    /// 0 for none.
    position: AtomicU64,
}

impl LastEvent {
    pub(crate) fn set(&self, position: Option<EventPosition>) {
        self.position.store(position.unwrap_or_default().0, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Option<EventPosition> {
        Some(EventPosition(self.position.load(Ordering::Relaxed))).filter(|position| *position != EventPosition(0))
    }
}

/// Prefix of a refused method's pattern in the host's list of namespaces.
const REFUSED: char = '!';

enum Namespaces {
    All,
    Listed(Box<str>),
}

impl<S> Context<S> {
    /// `deadline` is a time of the host's clock ([`Host::now`]).
    pub(crate) fn new(served: Arc<Served<S>>, caller: Caller, namespaces: &str, deadline: Option<Duration>) -> Self {
        let Caller { token, client } = caller;
        let namespaces = if namespaces == "*" { Namespaces::All } else { Namespaces::Listed(namespaces.into()) };
        let (token, last_event) = (Mutex::new(token), OnceLock::new());
        Self { inner: Arc::new(Inner { served, token, client, namespaces, deadline, last_event }) }
    }

    pub(crate) fn last_event(&self) -> Arc<LastEvent> {
        Arc::clone(self.inner.last_event.get_or_init(Arc::default))
    }

    /// Sends a request to the node on the caller's behalf: the call's deadline and cancellation apply.
    ///
    /// # Errors
    /// The answering module's error; `-32000` if the plugin was not granted the request's capability.
    pub async fn call<R: Request>(&self, request: R) -> Result<R::Reply, Failure> {
        let frame = encode_request(&request)?;
        let future = {
            let token = self.inner.token.lock().unwrap_or_else(PoisonError::into_inner);
            self.inner.served.host.port.call_bus(*token, R::TOPIC.0, u32::from(R::SCHEMA), frame.as_ref())
        };
        decode_reply::<R>(future).await
    }

    /// Calls a method of any namespace by its full name on the caller's behalf, and returns the JSON text of its
    /// result. `params` is the JSON text of its parameters, or empty. The method can do only what this plugin's own
    /// capabilities allow. For chain data the typed requests of [`Node`](crate::Node) are faster and need no parsing.
    ///
    /// ```
    /// use tenon_sdk::{prelude::*, testing::FakeHost};
    ///
    /// /// The height, as clients receive it.
    /// async fn height(context: Context<()>) -> Result<String, Failure> {
    ///     context.call_json("eth_blockNumber", "[]").await
    /// }
    ///
    /// let host = FakeHost::new().answer_json("eth_blockNumber", |_| Ok(r#""0x10""#.to_owned()));
    /// assert_eq!(host.run(height(host.context(()))), Ok(r#""0x10""#.to_owned()));
    /// ```
    ///
    /// # Errors
    /// The method's; `-32601` if there is no such method; `-32000` if this plugin was not granted what the method
    /// needs, or the host is older than this function.
    pub async fn call_json(&self, method: &str, params: &str) -> Result<String, Failure> {
        let future = {
            let token = self.inner.token.lock().unwrap_or_else(PoisonError::into_inner);
            self.inner.served.host.port.call_json(*token, method, params)
        };
        json_text(future).await
    }

    /// Subscribes to an event. Events after this call are delivered or counted as missed. What a subscription sends
    /// after it received an event is marked as made of that event ([`Sink::made_of`](crate::Sink::made_of)).
    pub fn events<E: Event>(&self) -> Events<E> {
        Events { position: self.last_event(), ..self.inner.served.host.events() }
    }

    /// Waits.
    pub async fn sleep(&self, duration: Duration) {
        self.inner.served.host.sleep(duration).await;
    }

    /// The host, for work that is not done for the caller.
    pub fn host(&self) -> &Host {
        &self.inner.served.host
    }

    /// The plugin's state, to keep beyond the call.
    pub fn plugin(&self) -> &Arc<S> {
        &self.inner.served.plugin
    }

    /// Namespaces that the caller's endpoint exposes; `None` means all.
    pub fn namespaces(&self) -> Option<impl Iterator<Item = &str>> {
        match &self.inner.namespaces {
            Namespaces::All => None,
            Namespaces::Listed(text) => {
                let is_namespace = |name: &&str| !name.is_empty() && !name.starts_with(REFUSED);
                Some(text.split(',').map(str::trim).filter(is_namespace))
            }
        }
    }

    /// Whether the caller's endpoint exposes a namespace.
    pub fn is_exposed(&self, namespace: &str) -> bool {
        self.namespaces().is_none_or(|mut names| names.any(|name| name == namespace))
    }

    /// Whether the caller's endpoint refuses this method, although it may expose the namespace.
    pub fn is_refused(&self, method: &str) -> bool {
        match &self.inner.namespaces {
            Namespaces::All => false,
            Namespaces::Listed(text) => text
                .split(',')
                .filter_map(|item| item.trim().strip_prefix(REFUSED))
                .any(|pattern| MethodPattern::new(pattern).matches(method)),
        }
    }

    /// The client: the same number in all its calls, over any connection; 0 if there is none. A plugin can use it to
    /// give each client a fair share of its memory.
    pub fn client(&self) -> u64 {
        self.inner.client
    }

    /// Counts `bytes` that the plugin keeps for this client; see [`Host::hold`].
    ///
    /// # Errors
    /// `-32005` if the client, or all clients together, would exceed their limit.
    pub fn hold(&self, bytes: usize) -> Result<HeldMemory, Failure> {
        self.host().hold(self.client(), bytes)
    }

    /// Remaining time until the host's deadline for the answer; `None` if there is no deadline.
    pub fn time_left(&self) -> Option<Duration> {
        self.inner.deadline.map(|deadline| deadline.saturating_sub(self.inner.served.host.now()))
    }
}

impl<S> Clone for Context<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<S> Deref for Context<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.inner.served.plugin
    }
}

/// Kept inside a call's future. Dropping it ends the call and clears its token.
pub(crate) struct ScopeGuard<S> {
    inner: Arc<Inner<S>>,
}

impl<S> ScopeGuard<S> {
    pub(crate) fn new(context: &Context<S>) -> Self {
        Self { inner: context.inner.clone() }
    }
}

impl<S> Drop for ScopeGuard<S> {
    fn drop(&mut self) {
        // Usually no clone of the context is left that could use the token.
        if Arc::strong_count(&self.inner) == 1 {
            return;
        }
        *self.inner.token.lock().unwrap_or_else(PoisonError::into_inner) = CallToken::NONE;
    }
}

/// An item of an event stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery<E> {
    /// An event.
    Event(E),
    /// The listener was too slow and missed this many events; the stream continues with newer ones.
    Missed(u64),
}

/// A subscription to the events of one kind, from the moment it was opened.
pub struct Events<E> {
    stream: ForeignStream,
    /// The position of the last delivery, shared with the sink of the subscription that listens.
    position: Arc<LastEvent>,
    event: PhantomData<fn() -> E>,
}

impl<E: Event> Events<E> {
    /// The next event; `None` once the node stops announcing.
    ///
    /// # Errors
    /// If the plugin was not granted the event's capability, or a frame does not decode.
    pub async fn next(&mut self) -> Result<Option<Delivery<E>>, Failure> {
        poll_fn(|task| self.poll_next(task)).await
    }

    /// The next event; the polling form of [`Events::next`].
    ///
    /// # Errors
    /// As [`Events::next`].
    pub fn poll_next(&mut self, task: &TaskContext<'_>) -> Poll<Result<Option<Delivery<E>>, Failure>> {
        let item = std::task::ready!(self.stream.poll_item(task));
        let position = item.as_ref().and_then(|item| item.as_ref().ok()).and_then(|event| event.position);
        self.position.set(position);
        Poll::Ready(Self::read(item))
    }

    /// The position of the event that was delivered last. `None` after missed events, because later items are made of
    /// the node's state, and on hosts with an ABI below 1.5.
    pub fn position(&self) -> Option<EventPosition> {
        self.position.get()
    }

    fn read(item: Option<Result<StreamItem, Failure>>) -> Result<Option<Delivery<E>>, Failure> {
        match item {
            None => Ok(None),
            Some(Ok(frame)) => Ok(Some(Delivery::Event(codec::decode(frame.as_ref()).map_err(codec_failure)?))),
            Some(Err(failure)) if failure.code == FailureCode::LIMIT_EXCEEDED => match failure.message.parse() {
                Ok(missed) => Ok(Some(Delivery::Missed(missed))),
                Err(_) => Err(failure),
            },
            Some(Err(failure)) => Err(failure),
        }
    }
}

fn encode_request<R: Request>(request: &R) -> Result<codec::RequestFrame, Failure> {
    codec::encode_request(request).map_err(codec_failure)
}

async fn decode_reply<R: Request>(future: ForeignFuture) -> Result<R::Reply, Failure> {
    let frame = future.await?;
    codec::decode(frame.as_ref()).map_err(codec_failure)
}

async fn json_text(future: ForeignFuture) -> Result<String, Failure> {
    let json = future.await?;
    String::from_utf8(json.as_ref().to_vec()).map_err(|_| Failure::server("the method's answer is not UTF-8"))
}

fn codec_failure(error: codec::CodecError) -> Failure {
    Failure::server(error.to_string())
}

//! A host made of closures.

use std::{
    collections::{HashMap, VecDeque},
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context as TaskContext, Poll, Waker},
    time::Duration,
};

use crate::Failure;
use futures_util::stream;
use tenon_api::{Event, EventPosition, Request, codec};

use crate::{
    Context, Host, LogLevel, Table,
    boundary::{CallToken, ExportedFuture, ExportedStream, ForeignFuture, ForeignStream, OutgoingItem},
    context::{Caller, HostPort, Served},
};

/// A frame with its position, or the number of missed events as a failure.
type PreparedEvent = Result<OutgoingItem, Failure>;
type Answer = Arc<dyn Fn(&[u8]) -> Result<Vec<u8>, Failure> + Send + Sync>;
type JsonAnswer = Arc<dyn Fn(&str) -> Result<String, Failure> + Send + Sync>;

/// A host that answers requests with closures, announces prepared events and records log lines. Cheap to clone; clones
/// are the same host.
///
/// ```
/// use tenon_sdk::{prelude::*, testing::FakeHost};
///
/// struct Heads;
/// async fn head(context: Context<Heads>) -> Result<String, Failure> {
///     context.call(GetClientVersion).await
/// }
/// let host = FakeHost::new().answer(|_: GetClientVersion| Ok("Tenon/1".to_string()));
/// let context = host.context(Heads);
/// assert_eq!(host.run(head(context)), Ok("Tenon/1".to_string()));
/// ```
#[derive(Clone, Default)]
pub struct FakeHost {
    port: Arc<FakePort>,
    namespaces: Option<String>,
    client: u64,
}

#[derive(Default)]
struct FakePort {
    answers: Mutex<HashMap<u32, Answer>>,
    /// Answers of methods, by name.
    json_answers: Mutex<HashMap<String, JsonAnswer>>,
    /// Frames that the next subscriber of a topic receives.
    events: Mutex<HashMap<u32, Vec<PreparedEvent>>>,
    /// The position of the latest event.
    position: AtomicU64,
    log: Mutex<Vec<(LogLevel, String)>>,
    clock: Arc<Clock>,
    /// Bytes that plugins keep, by client, and the limit per client if there is one.
    held: Mutex<HashMap<u64, i64>>,
    memory: Mutex<Option<i64>>,
    /// Whether subscribers stay and receive later events, and sleepers wait for [`FakeHost::advance`].
    is_live: AtomicBool,
    listeners: Mutex<Vec<(u32, Weak<Mutex<Listener>>)>>,
}

/// The host's clock.
#[derive(Default)]
struct Clock {
    nanos: AtomicU64,
    sleepers: Mutex<Vec<Waker>>,
}

/// A listener to an event, registered as long as its stream lives.
#[derive(Default)]
struct Listener {
    waiting: VecDeque<PreparedEvent>,
    waker: Option<Waker>,
}

impl FakeHost {
    /// A host that answers nothing and exposes every namespace.
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers a request with `answer` from now on.
    #[must_use]
    pub fn answer<R: Request>(self, answer: impl Fn(R) -> Result<R::Reply, Failure> + Send + Sync + 'static) -> Self {
        let answer = move |frame: &[u8]| {
            let request = codec::decode(frame).map_err(|error| Failure::server(error.to_string()))?;
            codec::encode(&answer(request)?).map_err(|error| Failure::server(error.to_string()))
        };
        lock(&self.port.answers).insert(R::TOPIC.0, Arc::new(answer));
        self
    }

    /// Answers calls of a method with `answer` from now on: JSON text of the parameters in, JSON text of the result
    /// out.
    #[must_use]
    pub fn answer_json(
        self,
        method: &str,
        answer: impl Fn(&str) -> Result<String, Failure> + Send + Sync + 'static,
    ) -> Self {
        lock(&self.port.json_answers).insert(method.to_owned(), Arc::new(answer));
        self
    }

    /// Prepares an event for the next listener.
    ///
    /// # Panics
    /// If the event has no encoding.
    #[must_use]
    pub fn announce<E: Event>(self, event: &E) -> Self {
        let prepared = self.port.prepare(event);
        lock(&self.port.events).entry(E::TOPIC.0).or_default().push(prepared);
        self
    }

    /// A host with continuing events: a published event reaches every listener at once, and time passes only with
    /// [`FakeHost::advance`].
    pub(super) fn live() -> Self {
        let host = Self::default();
        host.port.is_live.store(true, Ordering::Relaxed);
        host
    }

    /// Sends an event to all listeners.
    pub(super) fn publish<E: Event>(&self, event: &E) {
        self.port.publish(E::TOPIC.0, &self.port.prepare(event));
    }

    /// Reports to all listeners that they missed this many events.
    pub(super) fn publish_missed<E: Event>(&self, count: u64) {
        self.port.publish(E::TOPIC.0, &Err(Failure::limit(count.to_string())));
    }

    /// As [`FakeHost::answer`], for a host that is already shared.
    pub(super) fn set_answer<R: Request>(
        &self,
        answer: impl Fn(R) -> Result<R::Reply, Failure> + Send + Sync + 'static,
    ) {
        drop(self.clone().answer(answer));
    }

    /// Prepares a report of this many missed events.
    #[must_use]
    pub fn announce_missed<E: Event>(self, count: u64) -> Self {
        let missed = Err(Failure::limit(count.to_string()));
        lock(&self.port.events).entry(E::TOPIC.0).or_default().push(missed);
        self
    }

    /// Contexts made from now on expose these namespaces only.
    #[must_use]
    pub fn exposing(mut self, namespaces: &[&str]) -> Self {
        self.namespaces = Some(namespaces.join(","));
        self
    }

    /// Contexts made from now on are calls of this client.
    #[must_use]
    pub const fn from_client(mut self, client: u64) -> Self {
        self.client = client;
        self
    }

    /// Limits the bytes that a plugin may keep for each client.
    #[must_use]
    pub fn with_memory(self, bytes: usize) -> Self {
        *lock(&self.port.memory) = i64::try_from(bytes).ok();
        self
    }

    /// Bytes that a plugin keeps for a client.
    pub fn held(&self, client: u64) -> usize {
        lock(&self.port.held).get(&client).and_then(|held| usize::try_from(*held).ok()).unwrap_or_default()
    }

    /// The host as `Plugin::start` receives it.
    pub fn host(&self) -> Host {
        Host { port: self.port.clone() }
    }

    /// A call's context, to call a method directly as a function.
    pub fn context<S>(&self, plugin: S) -> Context<S> {
        self.context_of(Arc::new(plugin))
    }

    /// A call's context for an instance that is used several times.
    pub fn context_of<S>(&self, plugin: Arc<S>) -> Context<S> {
        let served = Arc::new(Served { plugin, host: self.host() });
        let caller = Caller { client: self.client, ..Caller::NONE };
        Context::new(served, caller, self.namespaces.as_deref().unwrap_or("*"), None)
    }

    /// Calls a method through the table: raw JSON parameters in, JSON text out.
    ///
    /// # Errors
    /// The method's answer; `-32601` if the table does not have it.
    pub fn call_method<S: Send + Sync + 'static>(
        &self,
        table: &Table<S>,
        plugin: &Arc<S>,
        method: &str,
        params: &str,
    ) -> Result<String, Failure> {
        let found = table.methods.iter().find(|candidate| candidate.name == method);
        let found = found.ok_or_else(|| Failure::method_not_found(method))?;
        let future = (found.call)(self.context_of(plugin.clone()), params.as_bytes());
        self.run(ForeignFuture::from(future)).map(text).map_err(Failure::for_client)
    }

    /// Opens a subscription through the table and collects its items until it ends or waits for something that never
    /// arrives. The first item is empty: the acceptance.
    pub fn subscribe<S: Send + Sync + 'static>(
        &self,
        table: &Table<S>,
        plugin: &Arc<S>,
        kind: &str,
        params: &str,
    ) -> Vec<Result<String, Failure>> {
        let Some(found) = table.subscriptions.iter().find(|candidate| candidate.name == kind) else {
            return Vec::new();
        };
        let opened = (found.open)(self.context_of(plugin.clone()), params.as_bytes());
        let mut stream = ForeignStream::from(opened);
        let task = TaskContext::from_waker(Waker::noop());
        std::iter::from_fn(|| match stream.poll_item(&task) {
            Poll::Ready(item) => item,
            Poll::Pending => None,
        })
        .map(|item| item.map(text).map_err(Failure::for_client))
        .collect()
    }

    /// Runs a future to completion.
    ///
    /// # Panics
    /// If it waits for something that no other task will provide: with this host everything is ready at once.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let mut task = TaskContext::from_waker(Waker::noop());
        // Bounded, because a future may wake itself a few times before it is ready.
        for _ in 0..10_000 {
            if let Poll::Ready(output) = future.as_mut().poll(&mut task) {
                return output;
            }
        }
        panic!("the future waits for something that the fake host does not provide");
    }

    /// The log so far.
    pub fn logged(&self) -> Vec<(LogLevel, String)> {
        lock(&self.port.log).clone()
    }

    /// Advances the host's clock.
    pub fn advance(&self, duration: Duration) {
        self.port.advance(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
        lock(&self.port.clock.sleepers).drain(..).for_each(Waker::wake);
    }
}

impl FakePort {
    fn advance(&self, nanos: u64) {
        // A plain counter that orders no other memory accesses.
        let _ =
            self.clock.nanos.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| Some(now.saturating_add(nanos)));
    }

    fn prepare<E: Event>(&self, event: &E) -> PreparedEvent {
        let frame = codec::encode(event).map_err(|error| Failure::server(error.to_string()))?;
        let position = EventPosition(self.position.fetch_add(1, Ordering::Relaxed) + 1);
        Ok(OutgoingItem { body: frame.into(), position: Some(position) })
    }

    fn publish(&self, topic: u32, event: &PreparedEvent) {
        let mut listeners = lock(&self.listeners);
        listeners.retain(|(_, listener)| listener.strong_count() > 0);
        let of_topic = listeners.iter().filter(|(listens_to, _)| *listens_to == topic);
        for listener in of_topic.filter_map(|(_, listener)| listener.upgrade()) {
            let mut listener = lock(&listener);
            listener.waiting.push_back(event.clone());
            if let Some(waker) = listener.waker.take() {
                waker.wake();
            }
        }
    }

    fn listen(&self, topic: u32, prepared: Vec<PreparedEvent>) -> ForeignStream {
        let listener = Arc::new(Mutex::new(Listener { waiting: prepared.into(), waker: None }));
        lock(&self.listeners).push((topic, Arc::downgrade(&listener)));
        let next = stream::poll_fn(move |task| {
            let mut listener = lock(&listener);
            match listener.waiting.pop_front() {
                Some(event) => Poll::Ready(Some(event)),
                None => {
                    listener.waker = Some(task.waker().clone());
                    Poll::Pending
                }
            }
        });
        ExportedStream::new(next).into()
    }
}

impl HostPort for FakePort {
    fn call_bus(&self, _token: CallToken, topic: u32, _schema: u32, frame: &[u8]) -> ForeignFuture {
        let answer = lock(&self.answers).get(&topic).cloned();
        let result = match answer {
            Some(answer) => answer(frame),
            None => Err(Failure::server(format!("the fake host has no answer for topic {topic:#06x}"))),
        };
        ExportedFuture::ready(result).into()
    }

    fn subscribe(&self, topic: u32, _schema: u32) -> ForeignStream {
        let frames = lock(&self.events).remove(&topic).unwrap_or_default();
        if self.is_live.load(Ordering::Relaxed) {
            return self.listen(topic, frames);
        }
        ExportedStream::new(stream::iter(frames)).into()
    }

    /// Returns at once, unless the host is live: then the test advances the clock.
    fn sleep(&self, nanos: u64) -> ForeignFuture {
        if self.is_live.load(Ordering::Relaxed) {
            let (clock, end) = (Arc::clone(&self.clock), self.now_nanos().saturating_add(nanos));
            let wait = poll_fn(move |task| {
                if clock.nanos.load(Ordering::Relaxed) >= end {
                    return Poll::Ready(Ok(Vec::new()));
                }
                lock(&clock.sleepers).push(task.waker().clone());
                Poll::Pending
            });
            return ExportedFuture::new(wait).into();
        }
        self.advance(nanos);
        ExportedFuture::ready(Ok(Vec::new())).into()
    }

    fn log(&self, level: LogLevel, message: &str) {
        lock(&self.log).push((level, message.to_string()));
    }

    fn now_nanos(&self) -> u64 {
        self.clock.nanos.load(Ordering::Relaxed)
    }

    fn call_json(&self, _token: CallToken, method: &str, params: &str) -> ForeignFuture {
        let answer = lock(&self.json_answers).get(method).cloned();
        let result = answer.map_or_else(|| Err(Failure::method_not_found(method)), |answer| answer(params));
        ExportedFuture::ready(result.map(String::into_bytes)).into()
    }

    fn hold(&self, client: u64, bytes: i64) -> bool {
        let (mut held, memory) = (lock(&self.held), *lock(&self.memory));
        let of_client = held.entry(client).or_default();
        if bytes > 0 && memory.is_some_and(|memory| *of_client + bytes > memory) {
            return false;
        }
        *of_client += bytes;
        true
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn text(bytes: impl AsRef<[u8]>) -> String {
    String::from_utf8_lossy(bytes.as_ref()).into_owned()
}

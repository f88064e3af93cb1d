//! Requests and their handlers.

use std::{
    any::Any,
    collections::HashMap,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwap;
use futures_util::{FutureExt, future::BoxFuture};
use tenon_api::{Failure, Request, Topic, codec};

use crate::{CallContext, WorkPool, events::EventTable};

/// Why a handler was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The request has a handler already: two rooms answer the same question.
    #[error("request {name} (topic {:#06x}) has a handler already", topic.0)]
    AlreadyHandled {
        /// The request's name.
        name: &'static str,
        /// Its topic.
        topic: Topic,
    },
}

type ReadFunction<R> = Box<dyn Fn(R, &CallContext) -> Result<<R as Request>::Reply, Failure> + Send + Sync>;
type AsyncFunction<R> =
    Box<dyn Fn(R, CallContext) -> BoxFuture<'static, Result<<R as Request>::Reply, Failure>> + Send + Sync>;

enum Handler<R: Request> {
    Read(ReadFunction<R>),
    Async(AsyncFunction<R>),
}

impl<R: Request> Handler<R> {
    async fn run(&self, request: R, context: &CallContext) -> Result<R::Reply, Failure> {
        match self {
            Self::Read(function) => guarded(R::NAME, || function(request, context)),
            Self::Async(function) => {
                let guard = context.cancel_on_drop();
                let work = AssertUnwindSafe(async { function(request, context.clone()).await }).catch_unwind();
                let outcome = match context.deadline() {
                    Some(deadline) => match tokio::time::timeout_at(deadline.into(), work).await {
                        Ok(outcome) => outcome,
                        // The guard cancels what still runs.
                        Err(_) => return Err(Failure::limit("request timed out")),
                    },
                    None => work.await,
                };
                guard.disarm();
                outcome.unwrap_or_else(|panic| Err(crashed(R::NAME, &*panic)))
            }
        }
    }
}

/// A handler whose request type is known by topic only.
trait AnyHandler: Send + Sync {
    fn name(&self) -> &'static str;
    fn schema(&self) -> u16;
    fn as_any(&self) -> &dyn Any;
    fn call_frame<'a>(&'a self, frame: &'a [u8], context: &'a CallContext) -> BoxFuture<'a, Result<Vec<u8>, Failure>>;
    fn try_read_frame(&self, frame: &[u8], context: &CallContext) -> Option<Result<Vec<u8>, Failure>>;
    /// What stands in the table while the module behind this handler is stopped.
    fn suspended(&self) -> Option<&Suspended> {
        None
    }
}

/// In the place of a handler whose module is stopped. It is of no request's type, so that typed calls find out for
/// free.
struct Suspended {
    handler: Arc<dyn AnyHandler>,
    refusal: Failure,
}

impl AnyHandler for Suspended {
    fn name(&self) -> &'static str {
        self.handler.name()
    }

    fn schema(&self) -> u16 {
        self.handler.schema()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn call_frame<'a>(&'a self, _: &'a [u8], _: &'a CallContext) -> BoxFuture<'a, Result<Vec<u8>, Failure>> {
        std::future::ready(Err(self.refusal.clone())).boxed()
    }

    fn try_read_frame(&self, _: &[u8], _: &CallContext) -> Option<Result<Vec<u8>, Failure>> {
        Some(Err(self.refusal.clone()))
    }

    fn suspended(&self) -> Option<&Suspended> {
        Some(self)
    }
}

impl<R: Request> AnyHandler for Handler<R> {
    fn name(&self) -> &'static str {
        R::NAME
    }

    fn schema(&self) -> u16 {
        R::SCHEMA
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn call_frame<'a>(&'a self, frame: &'a [u8], context: &'a CallContext) -> BoxFuture<'a, Result<Vec<u8>, Failure>> {
        async move {
            let request = codec::decode::<R>(frame).map_err(malformed::<R>)?;
            encode_reply::<R>(&self.run(request, context).await?)
        }
        .boxed()
    }

    fn try_read_frame(&self, frame: &[u8], context: &CallContext) -> Option<Result<Vec<u8>, Failure>> {
        let Self::Read(function) = self else { return None };
        Some(
            codec::decode::<R>(frame)
                .map_err(malformed::<R>)
                .and_then(|request| guarded(R::NAME, || function(request, context)))
                .and_then(|reply| encode_reply::<R>(&reply)),
        )
    }
}

fn malformed<R: Request>(error: codec::CodecError) -> Failure {
    Failure::server(format!("malformed {} request: {error}", R::NAME))
}

fn encode_reply<R: Request>(reply: &R::Reply) -> Result<Vec<u8>, Failure> {
    codec::encode(reply).map_err(|error| Failure::server(format!("cannot send the answer of {}: {error}", R::NAME)))
}

type HandlerTable = HashMap<Topic, Arc<dyn AnyHandler>>;

struct Inner {
    // Read on every call, written a few dozen times at start: copied on write, so that reads take no lock.
    handlers: ArcSwap<HandlerTable>,
    events: EventTable,
}

/// The bus. Cloning it gives another handle to the same one.
#[derive(Clone)]
pub struct Bus {
    inner: Arc<Inner>,
}

impl Default for Bus {
    fn default() -> Self {
        Self::new()
    }
}

impl Bus {
    /// A bus without handlers.
    pub fn new() -> Self {
        Self { inner: Arc::new(Inner { handlers: ArcSwap::default(), events: EventTable::default() }) }
    }

    /// Lets all handlers go; from then on every call is answered as if nobody had registered. The last step of a
    /// stop: handlers hold modules, modules hold the bus, and neither would ever be dropped.
    pub fn close(&self) {
        self.inner.handlers.store(Arc::default());
    }

    /// Registers a short read: it runs on the caller's task and must not block for more than a few point reads.
    ///
    /// # Errors
    /// [`RegisterError::AlreadyHandled`].
    pub fn handle_read<R: Request>(
        &self,
        function: impl Fn(R, &CallContext) -> Result<R::Reply, Failure> + Send + Sync + 'static,
    ) -> Result<(), RegisterError> {
        self.register(Handler::<R>::Read(Box::new(function)))
    }

    /// Registers a handler that may wait.
    ///
    /// # Errors
    /// [`RegisterError::AlreadyHandled`].
    pub fn handle<R, F, Answer>(&self, function: F) -> Result<(), RegisterError>
    where
        R: Request,
        F: Fn(R, CallContext) -> Answer + Send + Sync + 'static,
        Answer: Future<Output = Result<R::Reply, Failure>> + Send + 'static,
    {
        self.register(Handler::<R>::Async(Box::new(move |request, context| function(request, context).boxed())))
    }

    /// Registers long work: every call is one job on `pool`. The function looks at
    /// [`CallContext::is_cancelled`] now and then and stops when it says so.
    ///
    /// # Errors
    /// [`RegisterError::AlreadyHandled`].
    pub fn handle_work<R: Request>(
        &self,
        pool: &WorkPool,
        function: impl Fn(R, &CallContext) -> Result<R::Reply, Failure> + Send + Sync + 'static,
    ) -> Result<(), RegisterError> {
        let pool = pool.clone();
        let function = Arc::new(function);
        self.handle::<R, _, _>(move |request, context| {
            let pool = pool.clone();
            let function = Arc::clone(&function);
            async move { pool.run(&context, move |context| function(request, context)).await }
        })
    }

    fn register<R: Request>(&self, handler: Handler<R>) -> Result<(), RegisterError> {
        let handler: Arc<dyn AnyHandler> = Arc::new(handler);
        let mut already_handled = false;
        self.inner.handlers.rcu(|table| {
            already_handled = table.contains_key(&R::TOPIC);
            let mut table = HandlerTable::clone(table);
            if !already_handled {
                table.insert(R::TOPIC, Arc::clone(&handler));
            }
            table
        });
        if already_handled {
            return Err(RegisterError::AlreadyHandled { name: R::NAME, topic: R::TOPIC });
        }
        Ok(())
    }

    /// Answers these requests with `refusal` until [`Bus::resume`]: the module behind them is stopped. What runs is not
    /// touched. Topics without a handler are left out.
    pub fn suspend(&self, topics: &[Topic], refusal: &Failure) {
        self.inner.handlers.rcu(|table| {
            let mut table = HandlerTable::clone(table);
            for topic in topics {
                if let Some(handler) = table.get_mut(topic) {
                    let inner =
                        handler.suspended().map_or_else(|| Arc::clone(handler), |known| Arc::clone(&known.handler));
                    *handler = Arc::new(Suspended { handler: inner, refusal: refusal.clone() });
                }
            }
            table
        });
    }

    /// Ends [`Bus::suspend`].
    pub fn resume(&self, topics: &[Topic]) {
        self.inner.handlers.rcu(|table| {
            let mut table = HandlerTable::clone(table);
            for topic in topics {
                if let Some(handler) = table.get_mut(topic)
                    && let Some(inner) = handler.suspended().map(|known| Arc::clone(&known.handler))
                {
                    *handler = inner;
                }
            }
            table
        });
    }

    /// Asks, and waits for the answer until the context's deadline. Dropping the future cancels the work.
    ///
    /// # Errors
    /// What the handler answers; `-32601` when nobody handles the request; `-32005` at the deadline; `-32000`
    /// `method handler crashed` when the handler panicked.
    pub async fn call<R: Request>(&self, request: R, context: &CallContext) -> Result<R::Reply, Failure> {
        let handler = self.find(R::TOPIC).ok_or_else(|| nobody(R::NAME))?;
        match handler.as_any().downcast_ref::<Handler<R>>() {
            Some(handler) => handler.run(request, context).await,
            None => Err(refusal::<R>(&*handler)),
        }
    }

    /// Asks a read handler without a future; none when the request has no read handler.
    pub fn try_read<R: Request>(&self, request: R, context: &CallContext) -> Option<Result<R::Reply, Failure>> {
        let handler = self.find(R::TOPIC)?;
        match handler.as_any().downcast_ref::<Handler<R>>() {
            Some(Handler::Read(function)) => Some(guarded(R::NAME, || function(request, context))),
            Some(Handler::Async(_)) => None,
            None => Some(Err(refusal::<R>(&*handler))),
        }
    }

    /// [`Bus::call`] for a caller outside the process or beyond the plugin boundary: frames in and out.
    ///
    /// # Errors
    /// As [`Bus::call`]; and when topic or schema are unknown or the frame does not decode.
    pub async fn call_frame(
        &self,
        topic: Topic,
        schema: u16,
        frame: &[u8],
        context: &CallContext,
    ) -> Result<Vec<u8>, Failure> {
        self.find_for_frame(topic, schema)?.call_frame(frame, context).await
    }

    /// [`Bus::try_read`] for frames; none when the request has no read handler.
    ///
    /// # Errors
    /// As [`Bus::call_frame`].
    pub fn try_read_frame(
        &self,
        topic: Topic,
        schema: u16,
        frame: &[u8],
        context: &CallContext,
    ) -> Option<Result<Vec<u8>, Failure>> {
        match self.find_for_frame(topic, schema) {
            Ok(handler) => handler.try_read_frame(frame, context),
            Err(failure) => Some(Err(failure)),
        }
    }

    pub(crate) fn events(&self) -> &EventTable {
        &self.inner.events
    }

    fn find(&self, topic: Topic) -> Option<Arc<dyn AnyHandler>> {
        self.inner.handlers.load().get(&topic).cloned()
    }

    fn find_for_frame(&self, topic: Topic, schema: u16) -> Result<Arc<dyn AnyHandler>, Failure> {
        let handler =
            self.find(topic).ok_or_else(|| Failure::server(format!("nobody answers topic {:#06x}", topic.0)))?;
        if handler.schema() != schema {
            return Err(Failure::server(format!(
                "{} has schema {}, the frame has schema {schema}",
                handler.name(),
                handler.schema()
            )));
        }
        Ok(handler)
    }
}

fn nobody(name: &'static str) -> Failure {
    Failure::server(format!("this node has no module that answers {name}"))
}

/// What the caller of a handler that is not its request's own is told.
fn refusal<R: Request>(handler: &dyn AnyHandler) -> Failure {
    handler.suspended().map_or_else(|| nobody(R::NAME), |suspended| suspended.refusal.clone())
}

fn guarded<T>(name: &'static str, function: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(function)).unwrap_or_else(|panic| Err(crashed(name, &*panic)))
}

/// Panics of handlers since the process began.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// How many handlers of requests have panicked in this process; each cost its caller one error.
pub fn handler_panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// The error of a panicked handler, in the reference's words (`spec/rpc-eth.md` 3.3); the cause goes to the log.
pub(crate) fn crashed(handler: &'static str, panic: &(dyn Any + Send)) -> Failure {
    let cause = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    PANICS.fetch_add(1, Ordering::Relaxed);
    tracing::error!(handler, cause, "handler panicked");
    Failure::server("method handler crashed")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenon_api::{
        B256, BlockNumber,
        messages::{GetChainChanges, GetClientVersion, GetSyncStatus, SyncStatus},
    };

    use super::*;

    fn bus_with_version() -> Bus {
        let bus = Bus::new();
        bus.handle_read(|_: GetClientVersion, _: &CallContext| Ok("Tenon".to_owned())).unwrap();
        bus
    }

    #[tokio::test]
    async fn a_closed_bus_keeps_nothing_alive() {
        let bus = Bus::new();
        let module = Arc::new(());
        let (held, own) = (Arc::clone(&module), bus.clone());
        bus.handle_read(move |_: GetClientVersion, _: &CallContext| {
            let _ = (&held, &own);
            Ok("Tenon".to_owned())
        })
        .unwrap();

        bus.close();

        assert_eq!(Arc::strong_count(&module), 1);
        assert!(bus.call(GetClientVersion, &CallContext::new()).await.is_err());
    }

    #[tokio::test]
    async fn a_read_answers_typed_and_by_frame_alike() {
        let bus = bus_with_version();
        let context = CallContext::new();
        let frame = codec::encode(&GetClientVersion).unwrap();

        let typed = bus.call(GetClientVersion, &context).await.unwrap();
        let framed = bus.call_frame(GetClientVersion::TOPIC, 1, &frame, &context).await.unwrap();
        let read = bus.try_read_frame(GetClientVersion::TOPIC, 1, &frame, &context).unwrap().unwrap();

        assert_eq!(typed, "Tenon");
        assert_eq!(codec::decode::<String>(&framed).unwrap(), typed);
        assert_eq!(read, framed);
    }

    #[test]
    fn a_second_handler_is_refused_by_name() {
        let bus = bus_with_version();

        let refused = bus.handle_read(|_: GetClientVersion, _: &CallContext| Ok(String::new()));

        assert_eq!(refused.unwrap_err().to_string(), "request GetClientVersion (topic 0x0600) has a handler already");
        assert_eq!(bus.try_read(GetClientVersion, &CallContext::new()), Some(Ok("Tenon".to_owned())));
    }

    #[tokio::test]
    async fn a_suspended_request_is_refused_in_the_given_words_until_it_is_resumed() {
        let bus = bus_with_version();
        bus.handle(|_: GetSyncStatus, _| async { Ok(None) }).unwrap();
        let (context, stopped) = (CallContext::new(), Failure::server("module node is stopped"));
        let frame = codec::encode(&GetClientVersion).unwrap();
        let topics = [GetClientVersion::TOPIC, GetSyncStatus::TOPIC, Topic(0x7fff)];

        for _ in 0..2 {
            bus.suspend(&topics, &stopped);
        }
        assert_eq!(bus.call(GetClientVersion, &context).await, Err(stopped.clone()));
        assert_eq!(bus.call(GetSyncStatus, &context).await, Err(stopped.clone()));
        assert_eq!(bus.try_read(GetClientVersion, &context), Some(Err(stopped.clone())));
        assert_eq!(bus.call_frame(topics[0], 1, &frame, &context).await, Err(stopped.clone()));
        assert_eq!(bus.try_read_frame(topics[0], 1, &frame, &context), Some(Err(stopped)));
        let again = bus.handle_read(|_: GetClientVersion, _: &CallContext| Ok(String::new()));
        assert!(again.is_err(), "it is still taken");

        bus.resume(&topics);
        bus.resume(&topics);
        assert_eq!(bus.call(GetClientVersion, &context).await, Ok("Tenon".to_owned()));
        assert_eq!(bus.call(GetSyncStatus, &context).await, Ok(None));
    }

    #[tokio::test]
    async fn unknown_topics_and_schemas_are_named() {
        let bus = bus_with_version();
        let context = CallContext::new();

        let unhandled = bus.call(GetSyncStatus, &context).await.unwrap_err();
        let unknown = bus.call_frame(Topic(0x7fff), 1, &[], &context).await.unwrap_err();
        let newer = bus.call_frame(GetClientVersion::TOPIC, 2, &[], &context).await.unwrap_err();
        let malformed = bus.call_frame(GetClientVersion::TOPIC, 1, &[1], &context).await.unwrap_err();

        assert_eq!(unhandled.message, "this node has no module that answers GetSyncStatus");
        assert_eq!(unknown.message, "nobody answers topic 0x7fff");
        assert_eq!(newer.message, "GetClientVersion has schema 1, the frame has schema 2");
        assert!(malformed.message.starts_with("malformed GetClientVersion request"), "{malformed}");
    }

    #[tokio::test]
    async fn a_panic_costs_its_caller_one_error_and_nobody_else() {
        let bus = bus_with_version();
        bus.handle_read(|_: GetSyncStatus, _: &CallContext| panic!("on purpose")).unwrap();
        bus.handle(|_: GetChainChanges, _| async { panic!("on purpose") }).unwrap();
        let context = CallContext::new();

        let before = handler_panics();
        let crashed = Failure::server("method handler crashed");
        let changes = GetChainChanges { since: B256::ZERO, limit: 1 };

        assert_eq!(bus.call(GetSyncStatus, &context).await, Err(crashed.clone()));
        assert_eq!(bus.call(changes, &context).await, Err(crashed));
        assert_eq!(bus.call(GetClientVersion, &context).await, Ok("Tenon".to_owned()));
        // Other tests of this process panic on purpose too.
        assert!(handler_panics() >= before + 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_ends_at_its_deadline_and_its_work_is_told() {
        let bus = Bus::new();
        let (tell, told) = std::sync::mpsc::channel();
        bus.handle(move |_: GetSyncStatus, context: CallContext| {
            let tell = tell.clone();
            async move {
                tell.send(context).unwrap();
                std::future::pending::<Result<Option<SyncStatus>, Failure>>().await
            }
        })
        .unwrap();

        let answer = bus.call(GetSyncStatus, &CallContext::with_timeout(Duration::from_secs(5))).await;

        assert_eq!(answer, Err(Failure::limit("request timed out")));
        assert!(told.recv().unwrap().is_cancelled());
    }

    #[tokio::test]
    async fn dropping_a_call_cancels_its_work() {
        let bus = Bus::new();
        let (tell, told) = std::sync::mpsc::channel();
        bus.handle(move |_: GetSyncStatus, context: CallContext| {
            tell.send(context).unwrap();
            std::future::pending::<Result<Option<SyncStatus>, Failure>>()
        })
        .unwrap();
        let context = CallContext::new();
        let mut call = Box::pin(bus.call(GetSyncStatus, &context));
        assert!(call.as_mut().now_or_never().is_none());
        let seen_by_the_work = told.recv().unwrap();
        assert!(!seen_by_the_work.is_cancelled());

        drop(call);

        assert!(seen_by_the_work.is_cancelled());
    }

    #[tokio::test]
    async fn work_runs_on_the_pool() {
        let bus = Bus::new();
        let pool = WorkPool::new("test", 1, 1);
        bus.handle_work(&pool, |request: GetChainChanges, _| {
            Ok(tenon_api::messages::ChainChanges {
                removed: vec![],
                added: vec![(BlockNumber(request.limit), request.since)],
            })
        })
        .unwrap();

        let answer = bus.call(GetChainChanges { since: B256::ZERO, limit: 3 }, &CallContext::new()).await.unwrap();

        assert_eq!(answer.added, [(BlockNumber(3), B256::ZERO)]);
    }
}

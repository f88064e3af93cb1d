//! Requests and their handlers.

use std::{
    any::Any,
    collections::{BTreeMap, HashMap},
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwap;
use foldhash::fast::FixedState;
use futures_util::{FutureExt, future::BoxFuture};
use tenon_api::{BusError, Request, Topic, codec};

use crate::{CallContext, WorkPool, events::EventTable, injected_panic::panic_if_injected, spans};

/// Why a handler was not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The request already has a handler.
    #[error("request {name} (topic {:#06x}) has a handler already", topic.0)]
    AlreadyHandled {
        /// The request's name.
        name: &'static str,
        /// Its topic.
        topic: Topic,
    },
}

/// Outcome of a call: the reply, or why there is none.
type Answer<R> = Result<<R as Request>::Reply, BusError>;

type ReadFunction<R> = Box<dyn Fn(R, &CallContext) -> Answer<R> + Send + Sync>;
/// Takes a request and returns its reply as a value or as a frame.
type AsyncFunction<R, T> = Box<dyn Fn(R, CallContext) -> BoxFuture<'static, Result<T, BusError>> + Send + Sync>;

type AttemptFunction<R> = Box<dyn Fn(&R, &CallContext) -> Option<Answer<R>> + Send + Sync>;

enum Handler<R: Request> {
    Read(ReadFunction<R>),
    /// Tried on the caller's task first.
    Attempt(AttemptFunction<R>, Waiting<R>),
    Async(Waiting<R>),
}

/// A function that may wait, in two forms.
struct Waiting<R: Request> {
    typed: AsyncFunction<R, R::Reply>,
    /// For callers beyond the plugin boundary. The frame is encoded on the thread that makes the reply: encoding a long
    /// one takes tens of milliseconds and would block the caller's thread.
    framed: AsyncFunction<R, Vec<u8>>,
}

impl<R: Request> Handler<R> {
    async fn run(&self, request: R, context: &CallContext) -> Answer<R> {
        match self {
            Self::Read(function) => read(function, request, context),
            Self::Attempt(attempt, function) => match attempted(attempt, &request, context) {
                Some(answer) => answer,
                None => wait_for(&function.typed, request, context).await,
            },
            Self::Async(function) => wait_for(&function.typed, request, context).await,
        }
    }

    /// The frame of the reply, for a caller that has already tried [`AnyHandler::try_read_frame`].
    async fn run_unattempted(&self, request: R, context: &CallContext) -> Result<Vec<u8>, BusError> {
        match self {
            Self::Attempt(_, function) | Self::Async(function) => wait_for(&function.framed, request, context).await,
            Self::Read(function) => read(function, request, context).and_then(encode_reply::<R>),
        }
    }
}

fn read<R: Request>(function: &ReadFunction<R>, request: R, context: &CallContext) -> Answer<R> {
    guarded(R::NAME, || {
        let _span = spans::span("read", R::NAME);
        panic_if_injected("read", R::NAME);
        function(request, context)
    })
}

fn attempted<R: Request>(attempt: &AttemptFunction<R>, request: &R, context: &CallContext) -> Option<Answer<R>> {
    // A panic is returned as an error; the request is not retried elsewhere.
    let attempt = || {
        let _span = spans::span("read", R::NAME);
        panic_if_injected("read", R::NAME);
        attempt(request, context)
    };
    catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(|panic| Some(Err(crashed(R::NAME, &*panic))))
}

async fn wait_for<R: Request, T>(
    function: &AsyncFunction<R, T>,
    request: R,
    context: &CallContext,
) -> Result<T, BusError> {
    let guard = context.cancel_on_drop();
    let work = AssertUnwindSafe(async {
        panic_if_injected("task", R::NAME);
        function(request, context.clone()).await
    })
    .catch_unwind();
    let outcome = match context.deadline() {
        Some(deadline) => match tokio::time::timeout_at(deadline.into(), work).await {
            Ok(outcome) => outcome,
            // The guard cancels what still runs.
            Err(_) => return Err(BusError::TimedOut),
        },
        None => work.await,
    };
    guard.disarm();
    outcome.unwrap_or_else(|panic| Err(crashed(R::NAME, &*panic)))
}

/// A handler whose request type is known only by its topic.
trait AnyHandler: Send + Sync {
    fn name(&self) -> &'static str;
    fn schema(&self) -> u16;
    fn as_any(&self) -> &dyn Any;
    fn call_frame<'a>(&'a self, frame: &'a [u8], context: &'a CallContext) -> BoxFuture<'a, Result<Vec<u8>, BusError>>;
    fn try_read_frame(&self, frame: &[u8], context: &CallContext) -> Option<Result<Vec<u8>, BusError>>;
    /// Returns `self` if this is the entry that replaces a handler while its module is stopped.
    fn suspended(&self) -> Option<&Suspended> {
        None
    }
}

/// Replaces a handler while its module is stopped. It does not downcast to any request's handler type, so typed calls
/// detect it at no extra cost.
struct Suspended {
    handler: Arc<dyn AnyHandler>,
    /// The module's name.
    module: String,
}

impl Suspended {
    fn refusal(&self) -> BusError {
        BusError::Suspended { module: self.module.clone() }
    }
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

    fn call_frame<'a>(&'a self, _: &'a [u8], _: &'a CallContext) -> BoxFuture<'a, Result<Vec<u8>, BusError>> {
        std::future::ready(Err(self.refusal())).boxed()
    }

    fn try_read_frame(&self, _: &[u8], _: &CallContext) -> Option<Result<Vec<u8>, BusError>> {
        Some(Err(self.refusal()))
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

    fn call_frame<'a>(&'a self, frame: &'a [u8], context: &'a CallContext) -> BoxFuture<'a, Result<Vec<u8>, BusError>> {
        async move {
            let request = codec::decode_request::<R>(frame).map_err(malformed::<R>)?;
            self.run_unattempted(request, context).await
        }
        .boxed()
    }

    fn try_read_frame(&self, frame: &[u8], context: &CallContext) -> Option<Result<Vec<u8>, BusError>> {
        if matches!(self, Self::Async(_)) {
            return None;
        }
        let answer = match (self, codec::decode_request::<R>(frame).map_err(malformed::<R>)) {
            (_, Err(error)) => Err(error),
            (Self::Read(function), Ok(request)) => read(function, request, context),
            (Self::Attempt(attempt, _), Ok(request)) => attempted(attempt, &request, context)?,
            (Self::Async(_), Ok(_)) => return None,
        };
        Some(answer.and_then(encode_reply::<R>))
    }
}

fn malformed<R: Request>(error: codec::CodecError) -> BusError {
    BusError::MalformedRequest { request: R::NAME, error }
}

#[expect(clippy::needless_pass_by_value, reason = "frees the reply where it is encoded")]
fn encode_reply<R: Request>(reply: R::Reply) -> Result<Vec<u8>, BusError> {
    codec::encode(&reply).map_err(|error| BusError::UnsendableReply { request: R::NAME, error })
}

/// Topics are chosen by the project, never by a client, so a predictable hash is safe.
type HandlerTable = HashMap<Topic, Arc<dyn AnyHandler>, FixedState>;

struct Inner {
    // Read on every call, written a few dozen times at start. Copied on write, so that reads take no lock.
    handlers: ArcSwap<HandlerTable>,
    events: EventTable,
}

/// The bus. Clones share the same handlers and channels.
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

    /// Removes all handlers; later calls fail as if none were registered. The last step of a stop: handlers hold
    /// modules and modules hold the bus, so neither would be dropped otherwise.
    pub fn close(&self) {
        self.inner.handlers.store(Arc::default());
    }

    /// Registers a short read: it runs on the caller's task and must not block for more than a few point reads.
    ///
    /// # Errors
    /// [`RegisterError::AlreadyHandled`].
    pub fn handle_read<R: Request>(
        &self,
        function: impl Fn(R, &CallContext) -> Result<R::Reply, BusError> + Send + Sync + 'static,
    ) -> Result<(), RegisterError> {
        self.register(Handler::<R>::Read(Box::new(function)))
    }

    /// Registers a handler that may wait.
    ///
    /// # Errors
    /// [`RegisterError::AlreadyHandled`].
    pub fn handle<R, F, Reply>(&self, function: F) -> Result<(), RegisterError>
    where
        R: Request,
        F: Fn(R, CallContext) -> Reply + Send + Sync + 'static,
        Reply: Future<Output = Result<R::Reply, BusError>> + Send + 'static,
    {
        let function = Arc::new(function);
        let framing = Arc::clone(&function);
        self.register(Handler::<R>::Async(Waiting {
            typed: Box::new(move |request, context| function(request, context).boxed()),
            framed: Box::new(move |request, context| {
                let answer = framing(request, context);
                answer.map(|answer| answer.and_then(encode_reply::<R>)).boxed()
            }),
        }))
    }

    /// Registers long work: every call is one job on `pool`. The function checks [`CallContext::is_cancelled`] from
    /// time to time and stops when it is set.
    ///
    /// # Errors
    /// [`RegisterError::AlreadyHandled`].
    pub fn handle_work<R: Request>(
        &self,
        pool: &WorkPool,
        function: impl Fn(R, &CallContext) -> Result<R::Reply, BusError> + Send + Sync + 'static,
    ) -> Result<(), RegisterError> {
        self.register(Handler::<R>::Async(on_pool(pool, function)))
    }

    /// Registers work that is usually short. `attempt` runs on the caller's task, which avoids waking a thread (15 to
    /// 80 µs), and returns `None` before it has cost more than a read may; the request then becomes one job of
    /// `function` on `pool`. The client is charged for attempts; once its allowance is used up they are skipped.
    ///
    /// # Errors
    /// [`RegisterError::AlreadyHandled`].
    pub fn handle_attempt<R: Request>(
        &self,
        pool: &WorkPool,
        attempt: impl Fn(&R, &CallContext) -> Option<Result<R::Reply, BusError>> + Send + Sync + 'static,
        function: impl Fn(R, &CallContext) -> Result<R::Reply, BusError> + Send + Sync + 'static,
    ) -> Result<(), RegisterError> {
        let own = pool.clone();
        let attempt = move |request: &R, context: &CallContext| own.attempt(context, || attempt(request, context));
        self.register(Handler::<R>::Attempt(Box::new(attempt), on_pool(pool, function)))
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

    /// Answers these requests with [`BusError::Suspended`] until [`Bus::resume`], because `module` is stopped. Running
    /// calls are not affected. Topics without a handler are ignored.
    pub fn suspend(&self, topics: &[Topic], module: &str) {
        self.inner.handlers.rcu(|table| {
            let mut table = HandlerTable::clone(table);
            for topic in topics {
                if let Some(handler) = table.get_mut(topic) {
                    let inner =
                        handler.suspended().map_or_else(|| Arc::clone(handler), |known| Arc::clone(&known.handler));
                    *handler = Arc::new(Suspended { handler: inner, module: module.to_owned() });
                }
            }
            table
        });
    }

    /// Undoes [`Bus::suspend`].
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

    /// Number of panics in handlers of these requests in this process; each one returned an error to its caller.
    pub fn panics(&self, topics: &[Topic]) -> u64 {
        let handlers = self.inner.handlers.load();
        let counts = panics_by_name();
        let of = |topic| counts.get(handlers.get(topic)?.name()).copied();
        topics.iter().filter_map(of).sum()
    }

    /// Calls the handler and waits for the answer until the context's deadline. Dropping the future cancels the work.
    ///
    /// # Errors
    /// [`BusError::Module`] with the handler's error; [`BusError::NoHandler`] or [`BusError::Suspended`] when there is
    /// none; [`BusError::TimedOut`] at the deadline; [`BusError::HandlerCrashed`] when it panicked; for work also what
    /// [`WorkPool::run`] reports.
    pub async fn call<R: Request>(&self, request: R, context: &CallContext) -> Result<R::Reply, BusError> {
        let handler = self.find(R::TOPIC).ok_or_else(|| no_handler(R::NAME))?;
        match handler.as_any().downcast_ref::<Handler<R>>() {
            Some(handler) => handler.run(request, context).await,
            None => Err(refusal::<R>(&*handler)),
        }
    }

    /// Calls a read handler synchronously; `None` if the request has no read handler.
    pub fn try_read<R: Request>(&self, request: R, context: &CallContext) -> Option<Result<R::Reply, BusError>> {
        // Uses the current table without cloning the handler's `Arc`: that would cost two atomic operations.
        let handlers = self.inner.handlers.load();
        let handler = handlers.get(&R::TOPIC)?;
        match handler.as_any().downcast_ref::<Handler<R>>() {
            Some(Handler::Read(function)) => Some(read(function, request, context)),
            Some(Handler::Attempt(..) | Handler::Async(_)) => None,
            None => Some(Err(refusal::<R>(&**handler))),
        }
    }

    /// [`Bus::call`] for a caller outside the process or beyond the plugin boundary: takes and returns frames. Makes no
    /// attempt on the caller's task, because such a caller has tried [`Bus::try_read_frame`] first.
    ///
    /// # Errors
    /// As [`Bus::call`]; and when topic or schema are unknown or the frame does not decode.
    pub async fn call_frame(
        &self,
        topic: Topic,
        schema: u16,
        frame: &[u8],
        context: &CallContext,
    ) -> Result<Vec<u8>, BusError> {
        let handler = Arc::clone(for_frame(&self.inner.handlers.load(), topic, schema)?);
        handler.call_frame(frame, context).await
    }

    /// [`Bus::try_read`] for frames; `None` if the request has no read handler or its attempt gave up.
    ///
    /// # Errors
    /// Like [`Bus::call_frame`].
    pub fn try_read_frame(
        &self,
        topic: Topic,
        schema: u16,
        frame: &[u8],
        context: &CallContext,
    ) -> Option<Result<Vec<u8>, BusError>> {
        // Borrows the table, as in `try_read`.
        match for_frame(&self.inner.handlers.load(), topic, schema) {
            Ok(handler) => handler.try_read_frame(frame, context),
            Err(error) => Some(Err(error)),
        }
    }

    pub(crate) fn events(&self) -> &EventTable {
        &self.inner.events
    }

    fn find(&self, topic: Topic) -> Option<Arc<dyn AnyHandler>> {
        self.inner.handlers.load().get(&topic).cloned()
    }
}

/// Finds the handler of a frame.
fn for_frame(handlers: &HandlerTable, topic: Topic, schema: u16) -> Result<&Arc<dyn AnyHandler>, BusError> {
    let handler = handlers.get(&topic).ok_or(BusError::UnknownTopic { topic })?;
    if handler.schema() != schema {
        let (request, known) = (handler.name(), handler.schema());
        return Err(BusError::WrongSchema { request, known, sent: schema });
    }
    Ok(handler)
}

/// Runs a request's function as a job on a pool.
fn on_pool<R: Request>(
    pool: &WorkPool,
    function: impl Fn(R, &CallContext) -> Result<R::Reply, BusError> + Send + Sync + 'static,
) -> Waiting<R> {
    let function = Arc::new(function);
    Waiting {
        typed: job_on_pool(pool, Arc::clone(&function), Ok),
        framed: job_on_pool(pool, function, encode_reply::<R>),
    }
}

/// A job that ends with `finish`, which converts the reply to the form that the caller needs.
fn job_on_pool<R: Request, T: Send + 'static>(
    pool: &WorkPool,
    function: Arc<impl Fn(R, &CallContext) -> Result<R::Reply, BusError> + Send + Sync + 'static>,
    finish: fn(R::Reply) -> Result<T, BusError>,
) -> AsyncFunction<R, T> {
    let pool = pool.clone();
    Box::new(move |request, context| {
        let pool = pool.clone();
        let function = Arc::clone(&function);
        // Catches the panic here too: the pool does not know the request's name.
        let job = move |context: &CallContext| {
            guarded(R::NAME, || {
                let _span = spans::span("job", R::NAME);
                panic_if_injected("pool", R::NAME);
                function(request, context).and_then(finish)
            })
        };
        async move { pool.run(&context, job).await }.boxed()
    })
}

fn no_handler(request: &'static str) -> BusError {
    BusError::NoHandler { request }
}

/// The error when the handler in the table is not of the request's type.
fn refusal<R: Request>(handler: &dyn AnyHandler) -> BusError {
    handler.suspended().map_or_else(|| no_handler(R::NAME), Suspended::refusal)
}

fn guarded<T>(name: &'static str, function: impl FnOnce() -> Result<T, BusError>) -> Result<T, BusError> {
    catch_unwind(AssertUnwindSafe(function)).unwrap_or_else(|panic| Err(crashed(name, &*panic)))
}

/// Handler panics since the process started.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// Handler panics by request. Nothing awaits under the lock.
static PANICS_BY_NAME: Mutex<BTreeMap<&str, u64>> = Mutex::new(BTreeMap::new());

fn panics_by_name() -> MutexGuard<'static, BTreeMap<&'static str, u64>> {
    PANICS_BY_NAME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of handler panics in this process; each one returned an error to its caller.
pub fn handler_panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// The text of a caught panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message")
}

/// Counts and logs the panic of a handler, and returns its error.
pub(crate) fn crashed(handler: &'static str, panic: &(dyn Any + Send)) -> BusError {
    let cause = panic_text(panic);
    PANICS.fetch_add(1, Ordering::Relaxed);
    *panics_by_name().entry(handler).or_default() += 1;
    tracing::error!(handler, cause, "handler panicked");
    BusError::HandlerCrashed
}

#[cfg(test)]
mod tests;

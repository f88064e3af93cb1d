//! From method names to plugins.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Instant,
};

use arc_swap::ArcSwap;
use tenon_api::{Failure, FailureCode, messages::NamespaceInfo};
use tenon_sdk::boundary::OwnedBytes;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use crate::{
    Caller, Cost, Manifest,
    gate::Gate,
    instance::{PluginInstance, PluginItems},
};

/// A started plugin with the account of what is in flight. Whoever calls it owns a share, so that it is stopped
/// when the last one has gone.
pub(crate) struct Running {
    pub(crate) manifest: Manifest,
    instance: Box<dyn PluginInstance>,
    gate: Gate,
    /// Becomes true when its subscriptions must close.
    closing: watch::Sender<bool>,
}

impl Running {
    pub(crate) fn new(manifest: Manifest, instance: Box<dyn PluginInstance>) -> Self {
        Self { manifest, instance, gate: Gate::default(), closing: watch::Sender::new(false) }
    }

    /// Lets no new call or subscription in and closes the subscriptions that are open.
    pub(crate) fn close(&self) {
        self.gate.close();
        self.closing.send_replace(true);
    }

    /// Waits until no call and no stream is left.
    pub(crate) async fn drained(&self) {
        self.gate.drained().await;
    }

    /// Calls and streams that are left.
    pub(crate) fn in_flight(&self) -> usize {
        self.gate.inside()
    }
}

/// One call or stream in flight; leaving the gate before giving up its share.
struct Ticket {
    plugin: Arc<Running>,
}

impl Ticket {
    fn take(plugin: &Arc<Running>) -> Option<Self> {
        plugin.gate.enter().then(|| Self { plugin: Arc::clone(plugin) })
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.plugin.gate.leave();
    }
}

struct Route {
    plugin: Arc<Running>,
    index: u32,
    cost: Cost,
}

/// Immutable; replaced as a whole.
#[derive(Default)]
pub(crate) struct RouteTable {
    methods: HashMap<Box<str>, Route>,
    namespaces: BTreeMap<String, Arc<Running>>,
}

impl RouteTable {
    /// The routes of these plugins.
    pub(crate) fn of<'a>(plugins: impl IntoIterator<Item = &'a Arc<Running>>) -> Self {
        let mut table = Self::default();
        for plugin in plugins {
            for (index, method) in (0..).zip(&plugin.manifest.methods) {
                let route = Route { plugin: Arc::clone(plugin), index, cost: method.cost };
                table.methods.insert(method.name.as_str().into(), route);
            }
            table.namespaces.insert(plugin.manifest.namespace.clone(), Arc::clone(plugin));
        }
        table
    }
}

struct Inner {
    /// Read on every call, replaced when a plugin comes or goes.
    routes: ArcSwap<RouteTable>,
    slow: Semaphore,
    /// Calls that wait for `slow`, at most `slow_queue`.
    slow_waiting: AtomicUsize,
    slow_queue: usize,
}

/// Finds the plugin of a method and calls it on the caller's task. Cloning gives the same router.
#[derive(Clone)]
pub struct Router {
    inner: Arc<Inner>,
}

impl Router {
    pub(crate) fn new(slow_calls: usize, slow_queue: usize) -> Self {
        Self {
            inner: Arc::new(Inner {
                routes: ArcSwap::default(),
                slow: Semaphore::new(slow_calls.min(Semaphore::MAX_PERMITS)),
                slow_waiting: AtomicUsize::new(0),
                slow_queue,
            }),
        }
    }

    pub(crate) fn replace(&self, routes: RouteTable) {
        self.inner.routes.store(Arc::new(routes));
    }

    /// Calls a method. `params` is the raw JSON of the request's `params`, if it has any. Dropping the future
    /// cancels the call.
    ///
    /// # Errors
    /// What the plugin answers; `-32601` when no plugin serves the method or the caller's endpoint does not
    /// expose its namespace; `-32005` at the deadline or when too many slow calls wait.
    pub async fn call(&self, method: &str, params: Option<&str>, caller: &Caller) -> Result<JsonBytes, Failure> {
        let (ticket, index, cost) = self.enter(method, caller)?;
        let _permit = match cost {
            Cost::Fast => None,
            Cost::Slow => Some(self.slow_permit(caller).await?),
        };
        let mut call = ticket.plugin.instance.call(index, params, caller);
        // A fast method answers its first poll: no timer is made for it.
        let first = poll_fn(|task| Poll::Ready(call.poll_reply(task))).await;
        let answer = match first {
            Poll::Ready(answer) => answer,
            Poll::Pending => before(caller.context.deadline(), call).await?,
        };
        JsonBytes::new(answer?, &ticket.plugin)
    }

    /// Opens a subscription. `params` is the raw JSON array of the arguments after the kind, if there are any.
    /// Dropping the stream ends it.
    ///
    /// # Errors
    /// What the plugin answers; `-32601` when the namespace or the kind does not exist or is not exposed;
    /// `-32005` at the deadline.
    pub async fn subscribe(
        &self,
        namespace: &str,
        kind: &str,
        params: Option<&str>,
        caller: &Caller,
    ) -> Result<PluginStream, Failure> {
        let (ticket, index) = self.enter_subscription(namespace, kind, caller)?;
        let mut receiver = ticket.plugin.closing.subscribe();
        // The subscription outlives the call that opens it, and with it the deadline.
        let deadline = caller.context.deadline();
        let lasting = Caller { exposure: caller.exposure.clone(), context: tenon_bus::CallContext::new() };
        let raw = ticket.plugin.instance.subscribe(index, params, &lasting);
        let closing = Box::pin(async move {
            // An error says that the plugin is gone, which is the same.
            let _ = receiver.wait_for(|is_closing| *is_closing).await;
        });
        let mut open = Open { raw, closing, ticket };
        let acceptance = before(deadline, open.next()).await?;
        match acceptance {
            Some(Ok(_)) => Ok(PluginStream { open: Some(open) }),
            Some(Err(failure)) => Err(failure),
            None => Err(Failure::server("the subscription ended before it was opened")),
        }
    }

    /// The namespaces that are served, in the order of their names.
    pub fn namespaces(&self) -> Vec<NamespaceInfo> {
        self.inner.routes.load().namespaces.values().map(|plugin| plugin.manifest.namespace_info()).collect()
    }

    /// Finds the route of a method and enters its plugin.
    fn enter(&self, method: &str, caller: &Caller) -> Result<(Ticket, u32, Cost), Failure> {
        loop {
            let routes = self.inner.routes.load();
            let route = routes
                .methods
                .get(method)
                .filter(|route| caller.exposure.exposes(&route.plugin.manifest.namespace))
                .ok_or_else(|| no_method(method))?;
            if let Some(ticket) = Ticket::take(&route.plugin) {
                return Ok((ticket, route.index, route.cost));
            }
            // Closed between look-up and entry. When another plugin has taken its place, go there.
            if self.is_current(&routes) {
                return Err(no_method(method));
            }
        }
    }

    fn enter_subscription(&self, namespace: &str, kind: &str, caller: &Caller) -> Result<(Ticket, u32), Failure> {
        loop {
            let routes = self.inner.routes.load();
            let plugin = routes
                .namespaces
                .get(namespace)
                .filter(|_| caller.exposure.exposes(namespace))
                .ok_or_else(|| no_method(&format!("{namespace}_subscribe")))?;
            let mut kinds = (0..).zip(&plugin.manifest.subscriptions);
            let (index, _) = kinds.find(|(_, known)| *known == kind).ok_or_else(|| Failure {
                code: FailureCode::METHOD_NOT_FOUND,
                message: format!("no \"{kind}\" subscription in {namespace} namespace"),
                data: None,
            })?;
            if let Some(ticket) = Ticket::take(plugin) {
                return Ok((ticket, index));
            }
            if self.is_current(&routes) {
                return Err(no_method(&format!("{namespace}_subscribe")));
            }
        }
    }

    fn is_current(&self, routes: &Arc<RouteTable>) -> bool {
        Arc::ptr_eq(routes, &self.inner.routes.load())
    }

    /// Waits for the turn of a slow call.
    async fn slow_permit(&self, caller: &Caller) -> Result<SemaphorePermit<'_>, Failure> {
        let Inner { slow, slow_waiting, slow_queue, .. } = &*self.inner;
        if let Ok(permit) = slow.try_acquire() {
            return Ok(permit);
        }
        let place = Place { waiting: slow_waiting };
        if slow_waiting.fetch_add(1, Ordering::Relaxed) >= *slow_queue {
            return Err(Failure::limit("too many slow calls are waiting; try again later"));
        }
        let permit = before(caller.context.deadline(), slow.acquire()).await?;
        drop(place);
        permit.map_err(|_| Failure::server("the node is shutting down"))
    }
}

/// One place in the queue of slow calls; given back when the wait ends or is dropped.
struct Place<'a> {
    waiting: &'a AtomicUsize,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let routes = self.inner.routes.load();
        formatter.debug_struct("Router").field("namespaces", &routes.namespaces.keys()).finish_non_exhaustive()
    }
}

fn no_method(method: &str) -> Failure {
    Failure {
        code: FailureCode::METHOD_NOT_FOUND,
        message: format!("the method {method} does not exist/is not available"),
        data: None,
    }
}

/// Waits for `work` until the deadline, and drops it then.
async fn before<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Result<T, Failure> {
    match deadline {
        None => Ok(work.await),
        Some(deadline) => {
            tokio::time::timeout_at(deadline.into(), work).await.map_err(|_| Failure::limit("request timed out"))
        }
    }
}

/// A result: finished JSON in the plugin's own buffer, freed by the plugin when this is dropped.
#[derive(Debug)]
pub struct JsonBytes(OwnedBytes);

impl JsonBytes {
    fn new(bytes: OwnedBytes, plugin: &Running) -> Result<Self, Failure> {
        if bytes.as_ref().is_empty() {
            let plugin = plugin.manifest.name.as_str();
            tracing::error!(plugin, "plugin answered with nothing where JSON was due");
            return Err(Failure::server("the plugin gave no result"));
        }
        Ok(Self(bytes))
    }
}

impl AsRef<[u8]> for JsonBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref()
    }
}

/// An open subscription.
pub struct PluginStream {
    /// None when it has ended: the plugin's side is dropped at once then.
    open: Option<Open>,
}

/// The plugin's side of a subscription. Fields drop in this order: the stream before the plugin's share.
struct Open {
    raw: PluginItems,
    closing: Pin<Box<dyn Future<Output = ()> + Send>>,
    ticket: Ticket,
}

impl Open {
    async fn next(&mut self) -> Option<Result<OwnedBytes, Failure>> {
        poll_fn(|task| {
            if self.closing.as_mut().poll(task).is_ready() {
                let namespace = &self.ticket.plugin.manifest.namespace;
                let notice = format!("subscription closed: namespace {namespace} is not available any more");
                return Poll::Ready(Some(Err(Failure::server(notice))));
            }
            self.raw.poll_item(task)
        })
        .await
    }
}

impl PluginStream {
    /// The next item, the `result` of a notification; none at the end. After an error there is nothing more:
    /// the plugin's reason, or the notice that its namespace was taken away. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<JsonBytes, Failure>> {
        let open = self.open.as_mut()?;
        let item = match open.next().await {
            Some(Ok(bytes)) => JsonBytes::new(bytes, &open.ticket.plugin),
            Some(Err(failure)) => Err(failure),
            None => {
                self.open = None;
                return None;
            }
        };
        if item.is_err() {
            self.open = None;
        }
        Some(item)
    }
}

impl fmt::Debug for PluginStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PluginStream").field("is_open", &self.open.is_some()).finish()
    }
}

//! Routes method names to plugins.

use std::{
    collections::{BTreeMap, HashMap},
    future::{Future, poll_fn},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::Instant,
};

use arc_swap::ArcSwap;
use foldhash::fast::FixedState;
use tenon_api::{
    abi::AHEAD_SUFFIX,
    messages::{ModuleLimits, NamespaceInfo, NamespaceVersion},
};
use tenon_bus::{CallContext, EnterError, FairLimits, FairQueue, JobPermit, Share, Transport};
use tenon_sdk::{Failure, FailureCode};

use crate::{
    Caller, Cost, Manifest, Method, NamespaceAlias, PluginStream,
    calls::{CallCounters, CallCounts},
    exposure::TableNumber,
    gate::{Entry, Kind},
    json_bytes::JsonBytes,
    long_polls::LongPolls,
    plugin_interface::PluginInstance,
    raw_call::RawCall,
    running::{RunningPlugin, Ticket},
    stream::SubscriptionRequest,
    subscriptions,
};

struct Route {
    plugin: Arc<RunningPlugin>,
    index: u32,
    cost: Cost,
    only_reads: bool,
    takes_secrets: bool,
    /// Number of the method that prepares many calls of this one ([`Router::call_ahead`]).
    ahead: Option<u32>,
    /// Its index in the table, by which [`Exposure`](crate::Exposure) knows whether it is refused.
    number: u32,
    /// The method's name under its namespace's own name: a method refused under one name is refused under all.
    own_name: Box<str>,
}

impl Route {
    fn new(plugin: &Arc<RunningPlugin>, index: u32, method: &Method, own_name: &str) -> Self {
        let Method { cost, only_reads, takes_secrets, .. } = *method;
        let is_ahead = |other: &Method| other.is_ahead && other.name.strip_suffix(AHEAD_SUFFIX) == Some(&method.name);
        let ahead = (0..).zip(&plugin.manifest.methods).find(|(_, other)| is_ahead(other)).map(|(index, _)| index);
        Self {
            plugin: Arc::clone(plugin),
            index,
            cost,
            only_reads,
            takes_secrets,
            ahead,
            number: 0,
            own_name: own_name.into(),
        }
    }
}

/// The methods that clients may call, with their numbers.
fn served_methods(plugin: &RunningPlugin) -> impl Iterator<Item = (u32, &Method)> {
    (0..).zip(&plugin.manifest.methods).filter(|(_, method)| !method.is_ahead)
}

/// Result of [`Router::enter`].
enum Entered {
    /// Entered; the method's number and cost.
    At(Ticket, u32, Cost),
    /// The plugin is being replaced.
    Held(Arc<RunningPlugin>),
}

/// Immutable; replaced as a whole.
pub struct RouteTable {
    number: TableNumber,
    /// Clients cannot choose its keys, so a predictable hash is safe.
    methods: HashMap<Box<str>, Route, FixedState>,
    namespaces: BTreeMap<String, Arc<RunningPlugin>>,
    /// Plugins by the other names of their namespaces.
    aliases: BTreeMap<String, Arc<RunningPlugin>>,
}

impl Default for RouteTable {
    fn default() -> Self {
        let (methods, namespaces, aliases) = Default::default();
        Self { number: TableNumber::next(), methods, namespaces, aliases }
    }
}

impl RouteTable {
    /// The routes of these plugins. The names of methods begin with their namespace, and no two plugins serve one.
    pub fn of<'a>(plugins: impl IntoIterator<Item = &'a Arc<RunningPlugin>>) -> Self {
        let mut table = Self::default();
        for plugin in plugins {
            for (index, method) in served_methods(plugin) {
                let route = Route::new(plugin, index, method, &method.name);
                table.methods.insert(method.name.as_str().into(), route);
            }
            table.namespaces.insert(plugin.manifest.namespace.clone(), Arc::clone(plugin));
        }
        table
    }

    /// Adds the methods of a namespace under another name of it, so that a call by that name needs no extra look-up. A
    /// plugin registered under that name has precedence. Methods specific to the other name are served only under it.
    fn add_alias(&mut self, alias: &NamespaceAlias) {
        let Some(plugin) = self.namespaces.get(&alias.namespace).cloned() else { return };
        let is_served = alias.is_served && !self.namespaces.contains_key(&alias.name);
        for (index, method) in served_methods(&plugin) {
            if let Some(name) = alias.name_of_internal(&method.name) {
                self.methods.remove(method.name.as_str());
                if is_served {
                    let own_name = format!("{}_{name}", alias.namespace);
                    let route = Route::new(&plugin, index, method, &own_name);
                    self.methods.insert(format!("{}_{name}", alias.name).into(), route);
                }
            } else if is_served && let Some(name) = method.name.strip_prefix(&alias.namespace) {
                let route = Route::new(&plugin, index, method, &method.name);
                self.methods.entry(format!("{}{name}", alias.name).into()).or_insert(route);
            }
        }
        if is_served {
            self.aliases.insert(alias.name.clone(), plugin);
        }
    }

    /// Removes the routes to a namespace that the chain does not serve.
    fn withhold(&mut self, namespace: &str) {
        self.methods.retain(|_, route| route.plugin.manifest.namespace != namespace);
        self.namespaces.remove(namespace);
    }

    /// Numbers the routes.
    fn number_routes(&mut self) {
        for (number, route) in (0..).zip(self.methods.values_mut()) {
            route.number = number;
        }
    }

    /// Every route with the name by which it is called, and its own.
    fn names(&self) -> impl Iterator<Item = (u32, &str, &str)> {
        self.methods.iter().map(|(name, route)| (route.number, &**name, &*route.own_name))
    }

    /// The other names of a plugin's namespace.
    fn aliases_of(&self, plugin: &Arc<RunningPlugin>) -> Vec<String> {
        let own = self.aliases.iter().filter(|(_, served)| Arc::ptr_eq(served, plugin));
        own.map(|(name, _)| name.clone()).collect()
    }

    /// Whether a caller may open no subscription of a plugin. That is so if `<namespace>_subscribe` is refused under
    /// any name of the namespace.
    fn refuses_subscriptions(&self, plugin: &Arc<RunningPlugin>, caller: &Caller) -> bool {
        caller.exposure.refuses_some()
            && self
                .aliases_of(plugin)
                .iter()
                .chain([&plugin.manifest.namespace])
                .any(|name| caller.exposure.refuses(&subscribe_of(name)))
    }
}

struct Inner {
    /// Read on every call, replaced when a plugin comes or goes.
    routes: ArcSwap<RouteTable>,
    aliases: Vec<NamespaceAlias>,
    /// Namespaces without routes, even if a plugin serves them.
    unserved: Vec<String>,
    /// Limits of each plugin's slow calls.
    slow: FairLimits,
    calls: CallCounters,
    long_polls: LongPolls,
    /// The [`initial_bit`]s of all methods that took secrets since the start. It rules out most other names without a
    /// look-up.
    secret_initials: AtomicU64,
}

/// Finds the plugin of a method and calls it on the caller's task. Clones share the same routes.
#[derive(Clone, derive_more::Debug)]
#[debug("Router({:?})", self.inner.routes.load().namespaces.keys())]
pub struct Router {
    inner: Arc<Inner>,
}

/// A [`Router`] that does not keep its routes alive.
#[derive(Clone)]
pub struct WeakRouter(Weak<Inner>);

impl WeakRouter {
    /// The router; `None` once it is gone.
    pub(crate) fn upgrade(&self) -> Option<Router> {
        self.0.upgrade().map(|inner| Router { inner })
    }
}

impl Router {
    /// A router for plugins. It does not keep the routes alive, because the routes own the plugins.
    pub fn downgrade(&self) -> WeakRouter {
        WeakRouter(Arc::downgrade(&self.inner))
    }

    /// A router without plugins. A plugin runs at most `slow_calls` slow calls at a time, and `slow_queue` more wait.
    pub fn new(slow_calls: usize, slow_queue: usize, aliases: Vec<NamespaceAlias>, unserved: Vec<String>) -> Self {
        Self {
            inner: Arc::new(Inner {
                routes: ArcSwap::default(),
                aliases,
                unserved,
                slow: FairLimits {
                    places: slow_calls,
                    // Keeps places free for other clients' calls.
                    client_places: slow_calls.div_ceil(2),
                    queue: slow_queue,
                    client_queue: slow_queue.div_ceil(2),
                    // A plugin's code cannot be paused here; its jobs can, in the work pool.
                    parked: 0,
                },
                calls: CallCounters::default(),
                long_polls: LongPolls::new(),
                secret_initials: AtomicU64::new(0),
            }),
        }
    }

    /// Replaces all routes at once. Calls that have found their plugin are not affected.
    pub fn replace(&self, mut routes: RouteTable) {
        self.inner.unserved.iter().for_each(|namespace| routes.withhold(namespace));
        self.inner.aliases.iter().for_each(|alias| routes.add_alias(alias));
        routes.number_routes();
        let secret = routes.methods.iter().filter(|(_, route)| route.takes_secrets);
        let initials = secret.fold(0, |initials, (name, _)| initials | initial_bit(name.as_bytes()));
        // Before the routes are visible: no call may find a route whose bit is missing.
        self.inner.secret_initials.fetch_or(initials, Ordering::Release);
        self.inner.routes.store(Arc::new(routes));
    }

    /// Calls a method. `params` is the raw JSON of the request's `params`, if it has any. Dropping the future
    /// cancels the call.
    ///
    /// # Errors
    /// The plugin's error; `-32601` when no plugin serves the method, or the caller's endpoint does not expose its
    /// namespace or refuses it by name; `-32005` at the deadline or when too many slow calls wait.
    pub async fn call_method(&self, method: &str, params: Option<&str>, caller: &Caller) -> Result<JsonBytes, Failure> {
        self.call_raw(&mut RawCall::lent(method, params), caller).await
    }

    /// As [`Router::call_method`], for a call that may own its text: that is freed when the plugin has decoded the
    /// parameters.
    ///
    /// # Errors
    /// As [`Router::call_method`].
    pub async fn call_raw(&self, call: &mut RawCall<'_>, caller: &Caller) -> Result<JsonBytes, Failure> {
        // Everything that waits is boxed where it begins. Timers and queues inside this future would make it ten times
        // as large, and futures of fast methods are moved more often than polled.
        let entered = match self.enter(call.method(), caller) {
            Ok(Entered::At(ticket, index, cost)) => Ok((ticket, index, cost)),
            Ok(Entered::Held(plugin)) => {
                call.detach();
                Box::pin(self.enter_later(plugin, call.method(), caller)).await
            }
            Err(failure) => Err(failure),
        };
        let (ticket, index, cost) = match entered {
            Ok(entered) => entered,
            Err(failure) => {
                if failure.code == FailureCode::METHOD_NOT_FOUND {
                    self.inner.calls.count_unknown(caller.context.origin().transport);
                }
                return Err(failure);
            }
        };
        let plugin = &*ticket.plugin;
        let counted = plugin.calls.get(index as usize);
        let counted = counted.map(|calls| calls.begin(caller.context.origin().transport, self.inner.calls.is_timed()));
        let answer = self.run(plugin, index, cost, call, caller).await;
        if let Some(counted) = counted {
            counted.end(answer.is_err());
        }
        answer
    }

    /// Calls a method of an entered plugin.
    async fn run(
        &self,
        plugin: &RunningPlugin,
        index: u32,
        cost: Cost,
        raw: &mut RawCall<'_>,
        caller: &Caller,
    ) -> Result<JsonBytes, Failure> {
        let _permit = match cost {
            Cost::Fast => None,
            Cost::Slow => match self.slow_calls(plugin).try_enter(Share::from(caller.context.origin())) {
                Some(permit) => Some(permit),
                None => {
                    raw.detach();
                    Some(Box::pin(self.slow_call_permit(plugin, caller)).await?)
                }
            },
        };
        let mut call = plugin.instance.call_plugin(index, raw.params(), caller);
        // The call may wait for long, and no longer needs its text.
        raw.release();
        // A fast method is ready on its first poll: no timer is created for it.
        let first = poll_fn(|task| Poll::Ready(call.poll_reply(task))).await;
        let answer = match first {
            Poll::Ready(answer) => answer,
            Poll::Pending => {
                let call = self.inner.long_polls.finish(call, &caller.context);
                Box::pin(plugin.unless_cancelled(before(caller.context.deadline(), call))).await?.unwrap_or_else(Err)
            }
        };
        let answer = answer.and_then(|bytes| JsonBytes::new(bytes, &plugin.manifest.namespace));
        answer.inspect_err(|failure| plugin.note_failure(index, failure))
    }

    /// Opens a subscription. `params` is the raw JSON array of the arguments after the kind, if there are any.
    /// Dropping the stream ends it.
    ///
    /// # Errors
    /// The plugin's error; `-32601` when the namespace or the kind does not exist or is not exposed; `-32005` at the
    /// deadline.
    pub async fn subscribe(
        &self,
        namespace: &str,
        kind: &str,
        params: Option<&str>,
        caller: &Caller,
    ) -> Result<PluginStream, Failure> {
        let (ticket, index) = self.enter_subscription(namespace, kind, caller).await?;
        // Without a deadline: the subscription outlives the call that opens it.
        let request = SubscriptionRequest {
            namespace: namespace.to_owned(),
            kind: kind.to_owned(),
            params: params.map(str::to_owned),
            caller: Caller::new(caller.exposure.clone(), CallContext::new().with_origin(caller.context.origin())),
        };
        let stream = subscriptions::open(ticket, index, request);
        before(caller.context.deadline(), stream.accepted()).await??;
        Ok(stream)
    }

    /// Whether the caller may open the subscription named like this method.
    pub fn names_subscription(&self, method: &str, caller: &Caller) -> bool {
        let Some((namespace, kind)) = method.split_once('_') else { return false };
        let routes = self.inner.routes.load();
        let plugin =
            routes.namespaces.get(namespace).filter(|plugin| caller.exposure.exposes(&plugin.manifest.namespace));
        !caller.exposure.refuses(method)
            && plugin.is_some_and(|plugin| plugin.manifest.subscriptions.iter().any(|known| known == kind))
    }

    /// Whether a method changes no state visible to other calls, according to its plugin. All other calls keep their
    /// order in a batch.
    pub fn only_reads(&self, method: &str) -> bool {
        self.inner.routes.load().methods.get(method).is_some_and(|route| route.only_reads)
    }

    /// Whether a call of this method may hold passwords or keys: the text of the call is wiped. An unknown method
    /// counts if it begins like one that takes secrets: it may be one that is misspelt, or whose plugin is disabled.
    pub fn takes_secrets(&self, method: &[u8]) -> bool {
        if self.inner.secret_initials.load(Ordering::Acquire) & initial_bit(method) == 0 {
            return false;
        }
        let Ok(method) = std::str::from_utf8(method) else { return true };
        self.inner.routes.load().methods.get(method).is_none_or(|route| route.takes_secrets)
    }

    /// Whether the plugin prepares successive calls of this method in a batch together ([`Router::call_ahead`]).
    pub fn is_called_ahead(&self, method: &str) -> bool {
        self.inner.routes.load().methods.get(method).is_some_and(|route| route.ahead.is_some())
    }

    /// Passes the parameters of many successive calls of a method in a batch to its plugin, which can then do their
    /// shared work once. `params` has the raw JSON of each. The plugin's answer is ignored: the calls themselves report
    /// any failure.
    pub async fn call_ahead(&self, method: &str, params: &[&str], caller: &Caller) {
        let Some((ticket, index)) = self.enter_ahead(method, caller) else { return };
        let params = format!("[[{}]]", params.join(","));
        let call = ticket.plugin.instance.call_plugin(index, Some(&params), caller);
        let answer = ticket.plugin.unless_cancelled(before(caller.context.deadline(), call)).await;
        if let Ok(Err(failure)) | Err(failure) | Ok(Ok(Err(failure))) = answer {
            tracing::debug!(method, error = failure.message, "calls of a batch were not prepared");
        }
    }

    /// Enters the plugin of a method for the call ahead of it, if the caller may call the method. Nothing is called
    /// ahead while the plugin is being replaced, or when it runs its maximum number of calls.
    fn enter_ahead(&self, method: &str, caller: &Caller) -> Option<(Ticket, u32)> {
        let routes = self.inner.routes.load();
        let route = routes
            .methods
            .get(method)
            .filter(|route| caller.exposure.exposes(&route.plugin.manifest.namespace))
            .filter(|route| !caller.exposure.refuses_route(route.number, routes.number, || routes.names()))?;
        let ticket = Ticket::take(&route.plugin, Kind::Call).ok()?;
        Some((ticket, route.ahead?))
    }

    /// The served namespaces, sorted by name, with the methods that clients can call under the listed names.
    pub fn namespaces(&self) -> Vec<NamespaceInfo> {
        let routes = self.inner.routes.load();
        let info_of = |plugin: &Arc<RunningPlugin>| {
            let mut info = plugin.manifest.namespace_info(routes.aliases_of(plugin));
            info.methods.retain(|method| routes.methods.contains_key(method.name.as_str()));
            info
        };
        routes.namespaces.values().map(info_of).collect()
    }

    /// The namespaces' versions, sorted by name.
    pub fn versions(&self) -> Vec<NamespaceVersion> {
        let routes = self.inner.routes.load();
        let version_of = |plugin: &Arc<RunningPlugin>| NamespaceVersion {
            namespace: plugin.manifest.namespace.clone(),
            version: plugin.manifest.version.clone(),
            aliases: routes.aliases_of(plugin),
        };
        routes.namespaces.values().map(version_of).collect()
    }

    /// Call counts of each method over each transport used, since the node started.
    pub fn calls(&self) -> Vec<CallCounts> {
        self.inner.calls.counted()
    }

    /// Number of calls of methods that are not served, or not exposed to the caller.
    pub fn unknown_calls(&self) -> [(Transport, u64); Transport::ALL.len()] {
        self.inner.calls.unknown()
    }

    /// Sets whether calls are timed, which costs two clock reads per call. Off when the node starts.
    pub fn time_calls(&self, is_timed: bool) {
        self.inner.calls.time(is_timed);
    }

    /// Number of slow calls waiting for their turn.
    pub fn waiting_slow_calls(&self) -> usize {
        let routes = self.inner.routes.load();
        let queues = routes.namespaces.values().filter_map(|plugin| plugin.slow.get());
        queues.map(|queue| queue.counts().2).sum()
    }

    /// A started plugin whose calls this router counts. [`Router::replace`] routes to it.
    pub fn running_plugin(
        &self,
        name: String,
        manifest: Manifest,
        instance: Box<dyn PluginInstance>,
        limits: ModuleLimits,
        warnings: Vec<String>,
    ) -> Arc<RunningPlugin> {
        let calls = self.inner.calls.counters(&manifest);
        Arc::new(RunningPlugin::new(name, manifest, instance, calls, limits, warnings))
    }

    /// Finds the route of a method and enters its plugin.
    fn enter(&self, method: &str, caller: &Caller) -> Result<Entered, Failure> {
        loop {
            let routes = self.inner.routes.load();
            let route = routes
                .methods
                .get(method)
                .filter(|route| caller.exposure.exposes(&route.plugin.manifest.namespace))
                .filter(|route| !caller.exposure.refuses_route(route.number, routes.number, || routes.names()))
                .ok_or_else(|| Failure::method_not_found(method))?;
            let kind = if route.cost == Cost::Slow { Kind::SlowCall } else { Kind::Call };
            match Ticket::take(&route.plugin, kind) {
                Ok(ticket) => return Ok(Entered::At(ticket, route.index, route.cost)),
                Err(Entry::Held) => return Ok(Entered::Held(Arc::clone(&route.plugin))),
                Err(Entry::Full) => return Err(route.plugin.refuse()),
                // Closed between look-up and entry. If another plugin has replaced it, use that one.
                Err(_) if self.is_current(&routes) => return Err(Failure::method_not_found(method)),
                Err(_) => {}
            }
        }
    }

    /// Waits while the plugin is being replaced, then enters the new one.
    async fn enter_later(
        &self,
        mut held: Arc<RunningPlugin>,
        method: &str,
        caller: &Caller,
    ) -> Result<(Ticket, u32, Cost), Failure> {
        loop {
            before(caller.context.deadline(), held.gate.released()).await?;
            held = match self.enter(method, caller)? {
                Entered::At(ticket, index, cost) => return Ok((ticket, index, cost)),
                Entered::Held(plugin) => plugin,
            };
        }
    }

    async fn enter_subscription(&self, namespace: &str, kind: &str, caller: &Caller) -> Result<(Ticket, u32), Failure> {
        loop {
            let held = {
                let routes = self.inner.routes.load();
                let plugin = routes
                    .namespaces
                    .get(namespace)
                    .or_else(|| routes.aliases.get(namespace))
                    .filter(|plugin| caller.exposure.exposes(&plugin.manifest.namespace))
                    .filter(|plugin| !routes.refuses_subscriptions(plugin, caller))
                    .ok_or_else(|| Failure::method_not_found(&subscribe_of(namespace)))?;
                let mut kinds = (0..).zip(&plugin.manifest.subscriptions);
                let (index, _) = kinds
                    .find(|(_, known)| *known == kind)
                    .ok_or_else(|| Failure::subscription_not_found(namespace, kind))?;
                match Ticket::take(plugin, Kind::Stream) {
                    Ok(ticket) => return Ok((ticket, index)),
                    Err(Entry::Held) => Arc::clone(plugin),
                    Err(_) if self.is_current(&routes) => {
                        return Err(Failure::method_not_found(&subscribe_of(namespace)));
                    }
                    Err(_) => continue,
                }
            };
            before(caller.context.deadline(), held.gate.released()).await?;
        }
    }

    fn is_current(&self, routes: &Arc<RouteTable>) -> bool {
        Arc::ptr_eq(routes, &self.inner.routes.load())
    }

    /// The queue of a plugin's slow calls. Each plugin has its own places, shared fairly by its callers, so a plugin whose
    /// calls do not end blocks no other plugin.
    fn slow_calls<'a>(&self, plugin: &'a RunningPlugin) -> &'a FairQueue {
        plugin.slow.get_or_init(|| FairQueue::new(self.inner.slow))
    }

    /// Waits until a slow call may run.
    async fn slow_call_permit(&self, plugin: &RunningPlugin, caller: &Caller) -> Result<JobPermit, Failure> {
        let queue = self.slow_calls(plugin);
        let (share, deadline) = (Share::from(caller.context.origin()), caller.context.deadline());
        plugin.unless_cancelled(queue.enter(share, deadline)).await?.map_err(|reason| {
            Failure::limit(match reason {
                EnterError::QueueFull => "too many slow calls are waiting; try again later",
                EnterError::ClientFull => "too many of your slow calls are waiting; try again later",
                EnterError::Displaced => {
                    "too many of your slow calls were waiting, and other clients need the places; try again later"
                }
                EnterError::DeadlinePassed => "request timed out",
            })
        })
    }
}

/// One of 64 bits, chosen by the lower-case first byte of a method's name. A fast filter for the names of `personal`.
fn initial_bit(method: &[u8]) -> u64 {
    let first = method.first().map_or(0, u8::to_ascii_lowercase);
    1 << (first % 64)
}

/// The method that opens the subscriptions of a namespace.
fn subscribe_of(namespace: &str) -> String {
    format!("{namespace}_subscribe")
}

/// Waits for `work` until the deadline, then drops it.
async fn before<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Result<T, Failure> {
    match deadline {
        None => Ok(work.await),
        Some(deadline) => {
            tokio::time::timeout_at(deadline.into(), work).await.map_err(|_| Failure::limit("request timed out"))
        }
    }
}

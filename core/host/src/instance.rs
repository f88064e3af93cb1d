//! The seam between the router and a plugin: the same whether its library is mapped here or runs in a child.

use std::{
    future::Future,
    pin::Pin,
    task::{Context as TaskContext, Poll},
    time::{Duration, Instant},
};

use futures_util::{Stream, future::BoxFuture, stream::BoxStream};
use tenon_api::{Capability, Failure, messages::ModuleFaults};
use tenon_bus::{Bus, CallContext, MemoryBudget};
use tenon_sdk::boundary::OwnedBytes;

use crate::{
    Caller, Manifest,
    boundary::{LocalCall, LocalStream},
    space::Space,
};

/// A library that passed the handshake and has not been started.
pub(crate) trait OpenedPlugin: Send {
    /// What it says about itself.
    fn manifest(&self) -> &Manifest;

    /// Starts it. May block for as long as the plugin's own start takes.
    ///
    /// # Errors
    /// The plugin's reason; nothing is left behind then.
    fn start(self: Box<Self>, start: Start<'_>) -> Result<Box<dyn PluginInstance>, Failure>;
}

/// What a plugin is started with.
pub(crate) struct Start<'a> {
    /// The name by which the host knows it, whatever it calls itself: its budgets and its lines in the log go by that.
    pub(crate) name: &'a str,
    /// How long it may take, where that is less than its own bound.
    pub(crate) most: Duration,
    /// What it may use of the bus.
    pub(crate) granted: Vec<Capability>,
    /// The bus.
    pub(crate) bus: Bus,
    /// Its own storage.
    pub(crate) space: Space,
    /// What it and its callers hold of the node's memory.
    pub(crate) memory: MemoryBudget,
    /// Lines a second that it may write to the log, where that is not the process' own bound.
    pub(crate) log_lines: Option<u32>,
    /// JSON text of its own settings.
    pub(crate) settings: &'a str,
    /// What [`PluginInstance::export_state`] of the version before gave, or empty.
    pub(crate) handover: &'a [u8],
}

/// A started plugin. Dropping it stops it; its owner makes sure that its calls and streams have ended before.
pub(crate) trait PluginInstance: Send + Sync {
    /// Calls a method by its number. Dropping the call cancels it. The parameters are read before this returns.
    fn call<'a>(&'a self, method: u32, params: Option<&str>, caller: &'a Caller) -> PluginCall<'a>;

    /// Opens a subscription by its kind's number. The first item says whether it was opened. Dropping the items
    /// closes it.
    fn subscribe(&self, kind: u32, params: Option<&str>, caller: &Caller) -> PluginItems;

    /// State for the version that replaces this one; empty when there is none. May block for an instant.
    ///
    /// # Errors
    /// The plugin's reason.
    fn export_state(&self) -> Result<Vec<u8>, Failure>;

    /// Lets its listeners to events have what has happened until now and nothing after. Subscriptions that follow events
    /// end by that.
    fn end_events(&self);

    /// The plugin's background work, started again. Ready when there is no more; dropping it cancels it.
    fn background(&self) -> BoxFuture<'_, Result<(), Failure>>;

    /// The process that it runs in, when that is not the node's own.
    fn process(&self) -> Option<u32>;

    /// Why it will never answer again, when it runs in a process that has failed for good.
    fn failure(&self) -> Option<String> {
        None
    }

    /// What should protect the node from it and does not, a line each.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// What went wrong in it, as far as the instance itself sees it.
    fn faults(&self) -> ModuleFaults {
        ModuleFaults::default()
    }

    /// Bytes that the node holds because of the process that it runs in.
    fn held_bytes(&self) -> usize {
        0
    }

    /// How often the node's own answers told it of a panic, which it may have passed on.
    fn bus_crashes(&self) -> u64 {
        0
    }
}

/// The client of a call, as the boundary, the wire and the memory budget say it: 0 where there is none.
pub(crate) const fn client_of(context: &CallContext) -> u64 {
    context.origin().client.as_number()
}

/// How long a plugin may take, nanoseconds, as the boundary and the wire say it: 0 means without a bound.
pub(crate) fn nanos_left(context: &CallContext) -> u64 {
    context.deadline().map_or(0, |deadline| {
        let left = deadline.saturating_duration_since(Instant::now()).as_nanos();
        u64::try_from(left).unwrap_or(u64::MAX).max(1)
    })
}

/// The context of a call that may take this many nanoseconds ([`nanos_left`]).
pub(crate) fn context_within(nanos: u64) -> CallContext {
    if nanos == 0 { CallContext::new() } else { CallContext::with_timeout(Duration::from_nanos(nanos)) }
}

/// A running call. An enum, so that the common case, a library mapped here, allocates nothing.
pub(crate) enum PluginCall<'a> {
    Local(LocalCall<'a>),
    Remote(BoxFuture<'a, Result<OwnedBytes, Failure>>),
}

impl PluginCall<'_> {
    pub(crate) fn poll_reply(&mut self, task: &mut TaskContext<'_>) -> Poll<Result<OwnedBytes, Failure>> {
        match self {
            Self::Local(call) => call.poll_reply(task),
            Self::Remote(call) => call.as_mut().poll(task),
        }
    }
}

impl Future for PluginCall<'_> {
    type Output = Result<OwnedBytes, Failure>;

    fn poll(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        self.get_mut().poll_reply(task)
    }
}

/// A running subscription.
pub(crate) enum PluginItems {
    Local(LocalStream),
    Remote(BoxStream<'static, Result<OwnedBytes, Failure>>),
}

impl PluginItems {
    pub(crate) fn poll_item(&mut self, task: &mut TaskContext<'_>) -> Poll<Option<Result<OwnedBytes, Failure>>> {
        match self {
            Self::Local(stream) => stream.poll_item(task),
            Self::Remote(stream) => Pin::new(stream).poll_next(task),
        }
    }
}

//! The interface between the router and a started plugin, for a library in this process as well as in a child.

use std::{
    future::Future,
    pin::Pin,
    task::{Context as TaskContext, Poll},
    time::{Duration, Instant},
};

use futures_util::{Stream, future::BoxFuture, stream::BoxStream};
use tenon_api::{EventPosition, messages::ModuleFaults};
use tenon_bus::CallContext;
use tenon_sdk::Failure;
use tenon_sdk::boundary::{OwnedBytes, StreamItem};

use crate::{
    Caller,
    boundary::{LocalCall, LocalStream},
};

/// A started plugin. Dropping it stops it; its owner makes sure that its calls and streams have ended before.
pub trait PluginInstance: Send + Sync {
    /// Calls a method by its number. Dropping the call cancels it. The parameters are read before this returns.
    fn call_plugin<'a>(&'a self, method: u32, params: Option<&str>, caller: &'a Caller) -> PluginCall<'a>;

    /// Opens a subscription by its kind's number. The first item says whether it was accepted. Dropping the items
    /// closes it.
    fn subscribe(&self, kind: u32, params: Option<&str>, caller: &Caller) -> PluginItems;

    /// State for the version that replaces this one; empty if there is none. May block briefly.
    ///
    /// # Errors
    /// The plugin's reason.
    fn export_state(&self) -> Result<Vec<u8>, Failure>;

    /// Ends the plugin's event subscriptions after the latest event, and returns the position of that event.
    /// Subscriptions of clients that the plugin feeds from these events end with them.
    fn end_events(&self) -> EventPosition;

    /// Starts the plugin's background work again. Ready when there is no more; dropping it cancels it.
    fn background(&self) -> BoxFuture<'_, Result<(), Failure>>;

    /// The id of its process, if not the node's own.
    fn process(&self) -> Option<u32>;

    /// The reason, if its process has failed for good.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Protections of the node that are not in force, one per line.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// The faults that the instance itself counts.
    fn faults(&self) -> ModuleFaults {
        ModuleFaults::default()
    }

    /// Bytes that the node holds for its process.
    fn held_bytes(&self) -> usize {
        0
    }
}

/// The client of a call, as encoded on the boundary, the wire and in the memory budget: 0 means none.
pub const fn client_of(context: &CallContext) -> u64 {
    context.origin().client.as_number()
}

/// A plugin's remaining time in nanoseconds, as encoded on the boundary and the wire: 0 means unlimited.
pub fn nanos_left(context: &CallContext) -> u64 {
    context.deadline().map_or(0, |deadline| {
        let left = deadline.saturating_duration_since(Instant::now()).as_nanos();
        u64::try_from(left).unwrap_or(u64::MAX).max(1)
    })
}

/// The context of a call with this many nanoseconds left ([`nanos_left`]).
pub fn context_within(nanos: u64) -> CallContext {
    if nanos == 0 { CallContext::new() } else { CallContext::with_timeout(Duration::from_nanos(nanos)) }
}

/// A running call. An enum, so that the common case, a library in this process, allocates nothing.
pub enum PluginCall<'a> {
    /// Of a library in this process.
    Local(LocalCall<'a>),
    /// Of a plugin in a process of its own.
    Remote(BoxFuture<'a, Result<OwnedBytes, Failure>>),
}

impl PluginCall<'_> {
    /// Polls for the answer.
    pub fn poll_reply(&mut self, task: &mut TaskContext<'_>) -> Poll<Result<OwnedBytes, Failure>> {
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
pub enum PluginItems {
    /// Of a library in this process.
    Local(LocalStream),
    /// Of a plugin in a process of its own.
    Remote(BoxStream<'static, Result<StreamItem, Failure>>),
}

impl PluginItems {
    /// Polls for the next item.
    pub fn poll_item(&mut self, task: &mut TaskContext<'_>) -> Poll<Option<Result<StreamItem, Failure>>> {
        match self {
            Self::Local(stream) => stream.poll_item(task),
            Self::Remote(stream) => Pin::new(stream).poll_next(task),
        }
    }
}

//! The sending end of a subscription, for its author, and the stream that the host polls.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context as TaskContext, Poll, Waker},
};

use crate::Failure;
use futures_util::Stream;
use serde::Serialize;
use tenon_api::EventPosition;

use crate::{
    Context,
    boundary::{OutgoingBytes, OutgoingItem, crashed},
    context::{HeldMemory, Host, LastEvent, ScopeGuard},
    output,
    shapes::JsonWriter,
};

/// Items up to this size are counted with their subscription.
const UNCOUNTED_ITEM: usize = 4 << 10;

/// Sends a subscription's items. It holds at most one: `send` returns once the previous item has been taken, so a slow
/// client slows down only its own subscription.
///
/// A waiting item counts as memory of its client. Shared items do not: those who share them count them once.
#[derive(Clone)]
pub struct Sink {
    shared: Arc<Mutex<Shared>>,
    host: Host,
    /// Whose memory a waiting item is.
    client: u64,
    /// The event that the next items are made of.
    last_event: Arc<LastEvent>,
}

/// Used by the subscription's own task only, hence never contended; nothing awaits under the lock.
#[derive(Default)]
struct Shared {
    /// The item that the host has not taken yet: finished JSON, or empty for the acceptance.
    item: Option<OutgoingItem>,
    /// The reservation for `item`, if it is large and not shared.
    memory: Option<HeldMemory>,
    /// Whether the acceptance has been sent.
    is_accepted: bool,
    /// The task that waits until `item` has been taken.
    waiting: Option<Waker>,
}

impl Sink {
    /// The sink of a subscription.
    pub(crate) fn of<S>(context: &Context<S>) -> Self {
        let (host, client) = (context.host().clone(), context.client());
        Self { shared: Arc::default(), host, client, last_event: context.last_event() }
    }

    /// Marks the items from here on as made of this event; `None` for items that are not made of an event, such as
    /// those of a timer, or of the chain's state after missed events. [`Context::events`](crate::Context::events) does
    /// this for every received event; [`Events::position`](crate::Events::position) is for other ways to receive
    /// events.
    ///
    /// What the mark decides when the plugin is replaced: [`TenonReply::data`](tenon_api::abi::TenonReply::data).
    pub fn made_of(&self, event: Option<EventPosition>) {
        self.last_event.set(event);
    }

    /// Reports to the client that the subscription is open. Call it once, before the first `send` and after subscribing
    /// to the events; `send` calls it if necessary.
    pub async fn accept(&self) {
        let is_first = !std::mem::replace(&mut self.lock().is_accepted, true);
        if is_first {
            self.put(Vec::new().into(), None).await;
        }
    }

    /// Sends one notification: `payload` becomes its `result`.
    ///
    /// # Errors
    /// If the payload cannot be written as JSON; `-32005` if it is large and no memory is left for its client.
    pub async fn send<T: Serialize + ?Sized>(&self, payload: &T) -> Result<(), Failure> {
        self.send_own(output::to_json(payload)?).await
    }

    /// Sends one notification whose `result` is finished JSON. The text is not copied.
    ///
    /// # Errors
    /// `-32005` if it is large and no memory is left for its client.
    pub async fn send_written(&self, json: JsonWriter) -> Result<(), Failure> {
        self.send_own(json.into_bytes()).await
    }

    /// Sends one notification whose `result` is finished JSON, shared with other subscriptions: nothing is copied. The
    /// node does not count it as the client's memory. If it is large, count it once with
    /// [`Host::hold`](crate::Host::hold), for as long as it is shared.
    pub async fn send_shared(&self, json: Arc<[u8]>) {
        self.accept().await;
        self.put(json.into(), None).await;
    }

    async fn send_own(&self, json: Vec<u8>) -> Result<(), Failure> {
        let memory = match json.capacity() {
            small if small <= UNCOUNTED_ITEM => None,
            large => Some(self.host.hold(self.client, large)?),
        };
        self.accept().await;
        self.put(json.into(), memory).await;
        Ok(())
    }

    async fn put(&self, body: OutgoingBytes, memory: Option<HeldMemory>) {
        let mut waiting = Some((OutgoingItem { body, position: self.last_event.get() }, memory));
        poll_fn(|task| {
            let mut shared = self.lock();
            if shared.item.is_some() {
                shared.waiting = Some(task.waker().clone());
                return Poll::Pending;
            }
            if let Some((item, memory)) = waiting.take() {
                (shared.item, shared.memory) = (Some(item), memory);
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Hands the item to the host, which counts it from now on.
    fn take(&self) -> Option<OutgoingItem> {
        let (item, memory, waiting) = {
            let mut shared = self.lock();
            (shared.item.take(), shared.memory.take(), shared.waiting.take())
        };
        drop(memory);
        if let Some(waker) = waiting {
            waker.wake();
        }
        item
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Function = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// Polls a subscription's function and yields the items of its sink.
pub(crate) struct SubscriptionStream<S> {
    sink: Sink,
    /// `None` once it has returned.
    function: Option<Function>,
    /// The error that the function returned, delivered after the last item.
    failure: Option<Failure>,
    _guard: ScopeGuard<S>,
}

impl<S> SubscriptionStream<S> {
    pub(crate) fn new(
        sink: Sink,
        function: impl Future<Output = Result<(), Failure>> + Send + 'static,
        guard: ScopeGuard<S>,
    ) -> Self {
        Self { sink, function: Some(Box::pin(function)), failure: None, _guard: guard }
    }

    /// Prepares the last item after the function has returned.
    fn conclude(&mut self, result: Result<(), Failure>) {
        let is_accepted = self.sink.lock().is_accepted;
        self.failure = match result {
            Err(failure) => Some(failure),
            Ok(()) if !is_accepted => Some(Failure::server("the subscription ended before it was opened")),
            Ok(()) => None,
        };
    }
}

impl<S> Stream for SubscriptionStream<S> {
    type Item = Result<OutgoingItem, Failure>;

    fn poll_next(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(item) = this.sink.take() {
                return Poll::Ready(Some(Ok(item)));
            }
            let Some(function) = &mut this.function else {
                return Poll::Ready(this.failure.take().map(Err));
            };
            // Caught here, so that items sent before the panic still arrive.
            let polled = catch_unwind(AssertUnwindSafe(|| function.as_mut().poll(task)));
            match polled.unwrap_or_else(|_| Poll::Ready(Err(crashed()))) {
                Poll::Ready(result) => {
                    this.function = None;
                    this.conclude(result);
                }
                Poll::Pending => {
                    return match this.sink.take() {
                        Some(item) => Poll::Ready(Some(Ok(item))),
                        None => Poll::Pending,
                    };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tenon_api::messages::SyncChanged;

    use super::*;
    use crate::{Delivery, Table, boundary::ForeignStream, testing::FakeHost};

    async fn follow(context: Context<()>, sink: Sink) -> Result<(), Failure> {
        let mut events = context.events::<SyncChanged>();
        sink.send("begin").await?;
        while let Some(delivery) = events.next().await? {
            sink.send("first").await?;
            if matches!(delivery, Delivery::Event(_)) {
                sink.send("second").await?;
                sink.made_of(None);
                sink.send("timer").await?;
            }
        }
        sink.made_of(Some(EventPosition(7)));
        sink.send("end").await
    }

    #[test]
    fn items_have_the_position_of_the_event_received_last() {
        let event = SyncChanged { status: None };
        let host = FakeHost::new().announce(&event).announce(&event).announce_missed::<SyncChanged>(3).announce(&event);
        let table = Table::new("test", "1.0").subscription("follow", follow);
        let opened = (table.subscriptions[0].open)(host.context_of(Arc::new(())), b"[]");
        let mut stream = ForeignStream::from(opened);

        let mut positions = Vec::new();
        while let Poll::Ready(Some(Ok(item))) = stream.poll_item(&TaskContext::from_waker(Waker::noop())) {
            positions.push(item.position.map_or(0, |position| position.0));
        }

        let (accepted, begin, missed, end) = (0, 0, 0, 7);
        assert_eq!(positions, [accepted, begin, 1, 1, 0, 2, 2, 0, missed, 3, 3, 0, end]);
    }

    const LARGE: usize = 100_000;

    fn large() -> JsonWriter {
        let mut json = JsonWriter::with_capacity(LARGE);
        json.raw(&"1".repeat(LARGE));
        json
    }

    async fn written(_context: Context<()>, sink: Sink) -> Result<(), Failure> {
        sink.send_written(large()).await?;
        sink.send(&"1".repeat(LARGE)).await
    }

    async fn shared(_context: Context<()>, sink: Sink) -> Result<(), Failure> {
        sink.send_shared(large().into_bytes().into()).await;
        sink.send(&1).await
    }

    #[test]
    fn a_large_item_is_its_clients_memory_while_it_waits_unless_it_is_shared() {
        let table = Table::new("test", "1.0").subscription("written", written).subscription("shared", shared);
        let host = FakeHost::new().from_client(5);
        let held_after_items = |kind: usize| {
            let opened = (table.subscriptions[kind].open)(host.context_of(Arc::new(())), b"[]");
            let mut stream = ForeignStream::from(opened);
            let mut next = || match stream.poll_item(&TaskContext::from_waker(Waker::noop())) {
                Poll::Ready(Some(Ok(_))) => Some(host.held(5)),
                _ => None,
            };
            std::iter::from_fn(&mut next).collect::<Vec<_>>()
        };

        let held = held_after_items(0);

        assert_eq!(held.len(), 3, "the acceptance and two items");
        assert!(held[..2].iter().all(|held| (LARGE..3 * LARGE).contains(held)) && held[2] == 0, "{held:?}");
        assert_eq!(held_after_items(1), [0, 0, 0]);
    }

    #[test]
    fn without_memory_a_large_item_ends_its_subscription() {
        let table = Table::new("test", "1.0").subscription("written", written);
        let host = FakeHost::new().from_client(5).with_memory(LARGE / 2);

        let items = host.subscribe(&table, &Arc::new(()), "written", "[]");

        let codes: Vec<_> = items.into_iter().map(|item| item.map_err(|failure| failure.code)).collect();
        assert_eq!(codes, [Err(crate::FailureCode::LIMIT_EXCEEDED)]);
    }
}

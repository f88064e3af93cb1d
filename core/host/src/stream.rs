//! Open subscriptions. The plugin's side of one can be closed, or replaced by that of a new instance, even while its
//! client reads slowly.
//!
//! During a replacement both instances receive events for a while. Each item carries the position of the event that it
//! was made of ([`Place`]). The replaced instance receives no event after a position that the host chooses
//! ([`HandOver`]). When its subscription has ended, items of the next instance up to that position are skipped. If it
//! fails or takes too long, only items up to the last one that it sent are skipped. An item without a position is never
//! skipped.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context as TaskContext, Poll, Waker, ready},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tenon_api::EventPosition;
use tenon_sdk::Failure;
use tenon_sdk::boundary::{OwnedBytes, StreamItem};
use tokio::time::{Instant, timeout_at};

use crate::{
    Caller, JsonBytes,
    plugin_interface::{PluginInstance, PluginItems},
};

/// Maximum number of items that a replaced instance leaves for a slow client: more than the few hundred events that may
/// wait on the bus.
const MAX_BACKLOG: usize = 4096;

/// Time limit for a last attempt to take the lock after the grace period.
const LAST_CHECK_TIMEOUT: Duration = Duration::from_millis(100);

/// The place of an item among those of its subscription: the event that it was made of, and its number among the items
/// that were made of that event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    event: EventPosition,
    number: u64,
}

impl Place {
    /// The last of all items that can be made of an event.
    const fn last_of(event: EventPosition) -> Self {
        Self { event, number: u64::MAX }
    }

    /// The place of the next item, which was made of `event`.
    fn next(self, event: EventPosition) -> Self {
        Self { event, number: if event == self.event { self.number + 1 } else { 1 } }
    }
}

/// An item that an instance has sent.
struct Item {
    /// `None` if it was not made of an event.
    place: Option<Place>,
    result: Result<OwnedBytes, Failure>,
}

impl Item {
    /// Whether it is among the items up to `last`.
    fn is_up_to(&self, last: Place) -> bool {
        self.place.is_some_and(|place| place <= last)
    }
}

/// Keeps the plugin of a subscription running until it is dropped.
pub(crate) trait KeptPlugin: Send {
    /// Counts a failure of the subscription, if it is the plugin's fault.
    fn note_failure(&self, failure: &Failure);
}

/// A plugin's side of a subscription. The items are dropped first, then what keeps the plugin running.
struct Part {
    items: PluginItems,
    plugin: Box<dyn KeptPlugin>,
    /// Place of the last item that had a position.
    last: Place,
}

impl Part {
    fn new(items: PluginItems, plugin: Box<dyn KeptPlugin>) -> Self {
        Self { items, plugin, last: Place::default() }
    }

    fn poll_item(&mut self, task: &mut TaskContext<'_>) -> Poll<Option<Item>> {
        let Some(item) = ready!(self.items.poll_item(task)) else { return Poll::Ready(None) };
        let (position, result) = match item {
            Ok(StreamItem { body, position }) => (position, Ok(body)),
            Err(failure) => (None, Err(failure)),
        };
        let place = position.map(|event| self.last.next(event));
        self.last = place.unwrap_or(self.last);
        Poll::Ready(Some(Item { place, result }))
    }
}

/// The hand-over of the subscriptions of one instance to the next.
#[derive(Debug, Default)]
pub struct HandOver {
    /// The position of the last event for the replaced instance, once its events end. Locked while they are ended;
    /// nothing awaits under it.
    end: Mutex<Option<EventPosition>>,
}

impl HandOver {
    /// Ends the events of the replaced instance: later ones are only for the next one.
    pub fn end_events(&self, replaced: &dyn PluginInstance) {
        // Locked until the position is set: a subscription that ends together with the events waits for it.
        let mut end = self.end.lock();
        *end = Some(replaced.end_events());
    }

    /// The last place of the replaced instance, if it ended because its events have ended.
    fn last_place(&self) -> Option<Place> {
        self.end.lock().map(Place::last_of)
    }
}

/// A subscription request; repeated when the plugin is replaced.
pub(crate) struct SubscriptionRequest {
    pub(crate) namespace: String,
    pub(crate) kind: String,
    pub(crate) params: Option<String>,
    /// Without a deadline: a subscription outlives the call that opens it.
    pub(crate) caller: Caller,
}

/// An open subscription, shared by its reader and the life cycle of its plugin.
pub struct Slot {
    request: SubscriptionRequest,
    /// Held while the plugin's side is polled, for as long as the plugin's code takes; the life cycle only tries to
    /// lock it. Nothing awaits under it.
    parts: Mutex<Parts>,
    /// Why it was closed. Set before the parts are dropped, so that a holder of the lock drops them.
    notice: OnceLock<Failure>,
    is_over: AtomicBool,
}

#[derive(Default)]
struct Parts {
    /// `None` once it has ended.
    current: Option<Part>,
    /// The last place that was sent before `current` took over. It skips items up to this one.
    taken_over: Place,
    /// The last place that `current` has sent, or that is in `backlog`. At least `taken_over`.
    sent: Place,
    /// Set once the next instance has accepted the subscription. It takes over when `current` has ended.
    hand_over: Option<Arc<HandOver>>,
    /// `None` also once it has ended.
    next: Option<Part>,
    /// Items of `next` that `current` has not sent. They are taken from the plugin so that events do not pile up on the
    /// bus.
    ahead: VecDeque<Item>,
    /// Items that are sent before those of `current`: unsent items of replaced instances, then items that `current` made
    /// during the replacement.
    backlog: VecDeque<Item>,
    /// Set while [`Slot::finish_current`] polls `current`. The reader must not poll it then: the plugin wakes only the
    /// task that polled last.
    is_collected: bool,
    is_notice_sent: bool,
    reader: Option<Waker>,
}

impl Slot {
    /// Whether there is anything to close.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_over.load(Ordering::Acquire) && self.notice.get().is_none()
    }

    /// Drops the plugin's side immediately. The reader receives `notice`.
    pub fn close(&self, notice: Failure) {
        if self.notice.set(notice).is_err() {
            return;
        }
        // If the lock is taken, its holder finds the notice when it unlocks.
        if let Some(parts) = self.parts.try_lock() {
            self.drop_parts(parts);
        }
    }

    /// The request that opened it.
    pub(crate) const fn request(&self) -> &SubscriptionRequest {
        &self.request
    }

    /// Waits until another instance, which sends `items`, has accepted the same subscription. It takes over when the
    /// present one has ended.
    ///
    /// # Errors
    /// Why the other instance refuses it; nothing has changed then.
    pub(crate) async fn open_next(
        &self,
        items: PluginItems,
        plugin: Box<dyn KeptPlugin>,
        hand_over: &Arc<HandOver>,
        deadline: Instant,
    ) -> Result<(), Failure> {
        let mut next = Part::new(items, plugin);
        let acceptance = timeout_at(deadline, poll_fn(|task| next.items.poll_item(task)));
        accepted(acceptance.await.map_err(|_| Failure::limit("it was not accepted in time"))?)?;
        // From now on it receives events, and its items are kept even while the reader is busy.
        let mut ahead = VecDeque::new();
        let mut parts = loop {
            if let Some(parts) = self.parts.try_lock() {
                break parts;
            }
            if Instant::now() >= deadline {
                return Err(Failure::server("the subscription was busy until the deadline"));
            }
            poll_fn(|task| {
                while let Poll::Ready(Some(item)) = next.poll_item(task) {
                    ahead.push_back(item);
                }
                Poll::Ready(())
            })
            .await;
            tokio::task::yield_now().await;
        };
        // The instance before may have left an unfinished hand-over, if its code held the lock beyond its deadline.
        parts.promote(None);
        parts.ahead = ahead;
        parts.next = Some(next);
        parts.hand_over = Some(Arc::clone(hand_over));
        parts.drop_sent();
        self.unlock(parts);
        Ok(())
    }

    /// Collects the remaining items of the present instance, until it ends or the deadline passes; then the next one
    /// takes over.
    pub async fn finish_current(&self, deadline: Instant) {
        let ended = poll_fn(|task| {
            let Some(mut parts) = self.parts.try_lock() else {
                // Its reader is polling it; try again.
                task.waker().wake_by_ref();
                return Poll::Pending;
            };
            let outcome = parts.collect(task);
            parts.is_collected = outcome.is_pending();
            let reader = parts.reader.take();
            self.unlock(parts);
            if let Some(reader) = reader {
                reader.wake();
            }
            outcome
        });
        if timeout_at(deadline, ended).await.is_ok() {
            return;
        }
        // The lock is held only briefly now: the reader does not poll the plugin.
        if let Some(mut parts) = self.lock_until(Instant::now() + LAST_CHECK_TIMEOUT).await {
            parts.is_collected = false;
            let current = if parts.hand_over.is_some() { parts.current.take() } else { None };
            parts.promote(None);
            let reader = parts.reader.take();
            self.unlock(parts);
            drop(current);
            if let Some(reader) = reader {
                reader.wake();
            }
        }
    }

    fn poll_next(&self, task: &mut TaskContext<'_>) -> Poll<Option<Result<JsonBytes, Failure>>> {
        let mut parts = self.parts.lock();
        let polled = match self.notice.get() {
            Some(notice) => parts.send_notice(notice),
            None => parts.poll(task, &self.request.namespace),
        };
        let polled = match (polled, self.notice.get()) {
            // Closed while the plugin was being polled.
            (Poll::Pending, Some(notice)) => parts.send_notice(notice),
            (polled, _) => polled,
        };
        if polled.is_pending() {
            parts.reader = Some(task.waker().clone());
        }
        if matches!(polled, Poll::Ready(None)) {
            self.is_over.store(true, Ordering::Release);
        }
        self.unlock(parts);
        if polled.is_pending() && self.notice.get().is_some() {
            // Closed between the check above and the unlocking: only this wakes the task.
            task.waker().wake_by_ref();
        }
        polled
    }

    async fn lock_until(&self, deadline: Instant) -> Option<MutexGuard<'_, Parts>> {
        loop {
            if let Some(parts) = self.parts.try_lock() {
                return Some(parts);
            }
            if Instant::now() >= deadline {
                return None;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Unlocks, and completes a closing that found the lock taken.
    fn unlock(&self, parts: MutexGuard<'_, Parts>) {
        drop(parts);
        if self.notice.get().is_some()
            && let Some(parts) = self.parts.try_lock()
        {
            self.drop_parts(parts);
        }
    }

    fn drop_parts(&self, mut parts: MutexGuard<'_, Parts>) {
        let (current, next, reader) = (parts.current.take(), parts.next.take(), parts.reader.take());
        parts.backlog.clear();
        parts.ahead.clear();
        drop(parts);
        // Runs the plugin's own code.
        drop((current, next));
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

/// Checks the first item of a subscription: an error or a missing item refuses the subscription.
fn accepted(item: Option<Result<StreamItem, Failure>>) -> Result<(), Failure> {
    match item {
        Some(item) => item.map(drop),
        None => Err(Failure::server("the subscription ended before it was opened")),
    }
}

impl Parts {
    fn send_notice(&mut self, notice: &Failure) -> Poll<Option<Result<JsonBytes, Failure>>> {
        let is_first = !std::mem::replace(&mut self.is_notice_sent, true);
        Poll::Ready(is_first.then(|| Err(notice.clone())))
    }

    fn poll(&mut self, task: &mut TaskContext<'_>, namespace: &str) -> Poll<Option<Result<JsonBytes, Failure>>> {
        loop {
            if let Some(item) = self.backlog.pop_front() {
                return self.deliver(item, namespace);
            }
            self.buffer_next_instance(task);
            if self.is_collected {
                return Poll::Pending;
            }
            match ready!(self.poll_current(task)) {
                None if self.hand_over.is_none() => return Poll::Ready(None),
                None => self.promote_after_end(),
                // The next instance continues where this one failed.
                Some(Item { result: Err(_), .. }) if self.hand_over.is_some() => self.promote(None),
                Some(item) => {
                    if let (Err(failure), Some(current)) = (&item.result, &self.current) {
                        current.plugin.note_failure(failure);
                    }
                    self.note_sent(&item);
                    return self.deliver(item, namespace);
                }
            }
        }
    }

    /// The next item of the current instance; skips items that the replaced instance has sent. `None` when the instance's
    /// stream has ended.
    fn poll_current(&mut self, task: &mut TaskContext<'_>) -> Poll<Option<Item>> {
        while let Some(current) = &mut self.current {
            match ready!(current.poll_item(task)) {
                None => self.current = None,
                Some(item) if item.is_up_to(self.taken_over) => {}
                item => return Poll::Ready(item),
            }
        }
        Poll::Ready(None)
    }

    /// Collects items of the next instance, so that it does not miss events before its turn.
    fn buffer_next_instance(&mut self, task: &mut TaskContext<'_>) {
        while let Some(next) = self.next.as_mut().filter(|_| self.ahead.len() < MAX_BACKLOG) {
            match next.poll_item(task) {
                Poll::Pending => return,
                Poll::Ready(Some(item)) if item.is_up_to(self.sent) => {}
                Poll::Ready(Some(item)) => self.ahead.push_back(item),
                Poll::Ready(None) => self.next = None,
            }
        }
    }

    /// Switches to the next instance after the current one has sent all items of its events.
    fn promote_after_end(&mut self) {
        let last = self.hand_over.as_ref().and_then(|hand_over| hand_over.last_place());
        self.promote(last);
    }

    /// Switches to the next instance, if there is one. Its items are queued behind the remaining items of the previous
    /// instance. Items up to `last` are dropped; by default that is the last place that was sent.
    fn promote(&mut self, last: Option<Place>) {
        if self.hand_over.take().is_none() {
            return;
        }
        self.current = self.next.take();
        // The end that the host chose takes precedence over positions that a plugin stated.
        self.taken_over = last.unwrap_or(self.sent);
        self.sent = self.taken_over;
        for item in std::mem::take(&mut self.ahead) {
            if !item.is_up_to(self.taken_over) {
                self.note_sent(&item);
                self.backlog.push_back(item);
            }
        }
    }

    fn deliver(&mut self, item: Item, namespace: &str) -> Poll<Option<Result<JsonBytes, Failure>>> {
        let item = match item.result {
            Ok(bytes) => JsonBytes::new(bytes, namespace),
            Err(failure) => Err(failure),
        };
        if item.is_err() {
            *self = Self { is_notice_sent: self.is_notice_sent, reader: self.reader.take(), ..Self::default() };
        }
        Poll::Ready(Some(item))
    }

    /// Records an item of the current instance that is sent, or will be.
    fn note_sent(&mut self, item: &Item) {
        self.sent = self.sent.max(item.place.unwrap_or_default());
        self.drop_sent();
    }

    /// Drops the next instance's first items that the current one has sent.
    fn drop_sent(&mut self) {
        while self.ahead.pop_front_if(|item| item.is_up_to(self.sent)).is_some() {}
    }

    /// Moves items of the current instance to the backlog. Ready once the next one has taken over.
    fn collect(&mut self, task: &mut TaskContext<'_>) -> Poll<()> {
        if self.hand_over.is_none() {
            // The reader has switched to it already.
            return Poll::Ready(());
        }
        self.buffer_next_instance(task);
        loop {
            match ready!(self.poll_current(task)) {
                Some(item) if item.result.is_ok() && self.backlog.len() < MAX_BACKLOG => {
                    self.note_sent(&item);
                    self.backlog.push_back(item);
                }
                None => {
                    self.promote_after_end();
                    return Poll::Ready(());
                }
                // It failed, or has left more than is kept: the next instance continues after what was kept.
                Some(_) => {
                    self.promote(None);
                    return Poll::Ready(());
                }
            }
        }
    }
}

/// An open subscription.
#[derive(derive_more::Debug)]
#[debug("PluginStream(is_open: {})", self.slot.is_open())]
pub struct PluginStream {
    slot: Arc<Slot>,
}

impl PluginStream {
    /// A subscription whose first instance sends `items`, and has not accepted it yet.
    pub(crate) fn new(items: PluginItems, plugin: Box<dyn KeptPlugin>, request: SubscriptionRequest) -> Self {
        let parts = Parts { current: Some(Part::new(items, plugin)), ..Parts::default() };
        let slot = Slot { request, parts: Mutex::new(parts), notice: OnceLock::new(), is_over: AtomicBool::new(false) };
        Self { slot: Arc::new(slot) }
    }

    /// Its state, which the life cycle of its plugin shares.
    pub(crate) const fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    /// Waits for the first item, which says whether the plugin accepts the subscription.
    pub(crate) async fn accepted(&self) -> Result<(), Failure> {
        let item = poll_fn(|task| {
            let mut parts = self.slot.parts.lock();
            let polled = match (self.slot.notice.get(), &mut parts.current) {
                (Some(notice), _) => Poll::Ready(Some(Err(notice.clone()))),
                (None, Some(current)) => current.items.poll_item(task),
                (None, None) => Poll::Ready(None),
            };
            if polled.is_pending() {
                parts.reader = Some(task.waker().clone());
            }
            self.slot.unlock(parts);
            polled
        });
        accepted(item.await)
    }

    /// The next item, the `result` of a notification; `None` at the end. An error is the last item: the plugin's
    /// reason, or the notice that its namespace was removed. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<JsonBytes, Failure>> {
        poll_fn(|task| self.slot.poll_next(task)).await
    }
}

impl Drop for PluginStream {
    fn drop(&mut self) {
        self.slot.is_over.store(true, Ordering::Release);
        // Closed explicitly, because the plugin's life cycle may still hold an `Arc` of the slot.
        self.slot.close(Failure::server("it has no reader"));
    }
}

#[cfg(test)]
mod tests;

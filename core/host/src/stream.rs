//! Open subscriptions. The plugin's side of one can be closed, or replaced by that of a new instance, even while its
//! client reads slowly.

use std::{
    collections::VecDeque,
    fmt,
    future::poll_fn,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context as TaskContext, Poll, Waker},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tenon_api::Failure;
use tenon_sdk::boundary::OwnedBytes;
use tokio::time::{Instant, timeout_at};

use crate::{
    Caller, JsonBytes,
    gate::Kind,
    plugin_interface::PluginItems,
    running::{RunningPlugin, Ticket},
};

/// Maximum number of items that a replaced instance leaves for a slow client: more than the few hundred events that may
/// wait on the bus.
const MAX_BACKLOG: usize = 4096;

/// Time limit for a last attempt to take the lock after the grace period.
const LAST_CHECK_TIMEOUT: Duration = Duration::from_millis(100);

type Item = Result<OwnedBytes, Failure>;

/// A plugin's side of a subscription. The items are dropped first, then the ticket, which keeps the plugin alive.
pub(crate) struct Part {
    items: PluginItems,
    ticket: Ticket,
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
    /// Whether the next instance listens, or is about to.
    is_recording_overlap: bool,
    /// Whether the next instance has accepted the subscription. It takes over when `current` has ended.
    has_next: bool,
    /// `None` also once it has ended.
    next: Option<Part>,
    /// Items of `next` that `current` has not sent. They are taken from the plugin so that events do not pile up on the
    /// bus.
    ahead: VecDeque<Item>,
    /// Remaining items of `current`, to be sent first.
    backlog: VecDeque<Item>,
    /// Items that `current` has sent since `next` began to listen. `next` will send them too, and they are then
    /// skipped.
    overlap: VecDeque<OwnedBytes>,
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
        // The holder of the lock checks the notice when it unlocks.
        if let Some(parts) = self.parts.try_lock() {
            self.drop_parts(parts);
        }
    }

    /// Opens the same subscription in another instance, which takes over when the present one has ended.
    ///
    /// # Errors
    /// Why the other instance refuses it; nothing has changed then.
    pub async fn open_next(&self, plugin: &Arc<RunningPlugin>, deadline: Instant) -> Result<(), Failure> {
        self.set_recording_overlap(true, deadline).await?;
        let opened = self.open_while_recording(plugin, deadline).await;
        if opened.is_err() {
            self.set_recording_overlap(false, Instant::now() + LAST_CHECK_TIMEOUT).await?;
        }
        opened
    }

    async fn set_recording_overlap(&self, is_recording_overlap: bool, deadline: Instant) -> Result<(), Failure> {
        let Some(mut parts) = self.lock_until(deadline).await else {
            return Err(Failure::server("the subscription was busy until the deadline"));
        };
        parts.is_recording_overlap = is_recording_overlap;
        self.unlock(parts);
        Ok(())
    }

    async fn open_while_recording(&self, plugin: &Arc<RunningPlugin>, deadline: Instant) -> Result<(), Failure> {
        let SubscriptionRequest { kind, params, caller, .. } = &self.request;
        let mut kinds = (0..).zip(&plugin.manifest.subscriptions);
        let (index, _) = kinds
            .find(|(_, known)| *known == kind)
            .ok_or_else(|| Failure::server(format!("it has no subscription {kind:?}")))?;
        let ticket = Ticket::take(plugin, Kind::Stream).map_err(|_| Failure::server("it is being closed"))?;
        let mut items = plugin.instance.subscribe(index, params.as_deref(), caller);
        let acceptance = timeout_at(deadline, poll_fn(|task| items.poll_item(task)));
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
                while let Poll::Ready(Some(item)) = items.poll_item(task) {
                    ahead.push_back(item);
                }
                Poll::Ready(())
            })
            .await;
            tokio::task::yield_now().await;
        };
        for item in ahead {
            if !parts.was_sent(&item) {
                parts.ahead.push_back(item);
            }
        }
        parts.next = Some(Part { items, ticket });
        parts.has_next = true;
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
            if outcome.is_ready() {
                parts.promote();
            }
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
            let current = if parts.has_next { parts.current.take() } else { None };
            parts.promote();
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
        parts.overlap.clear();
        drop(parts);
        // Runs the plugin's own code.
        drop((current, next));
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

/// Checks the first item of a subscription: an error or a missing item refuses the subscription.
fn accepted(item: Option<Item>) -> Result<(), Failure> {
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
            self.look_ahead(task);
            if self.is_collected {
                return Poll::Pending;
            }
            let Some(current) = &mut self.current else {
                if !self.has_next {
                    return Poll::Ready(None);
                }
                self.promote();
                continue;
            };
            match current.items.poll_item(task) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => self.current = None,
                // The next instance continues where this one failed.
                Poll::Ready(Some(Err(_))) if self.has_next => self.current = None,
                Poll::Ready(Some(item)) => {
                    if let Err(failure) = &item {
                        current.ticket.plugin.faults.note(failure);
                    }
                    if self.is_recording_overlap {
                        self.note(&item);
                    } else if self.was_sent(&item) {
                        continue;
                    } else {
                        // Both send in the order of events: the first item that is new ends the overlap.
                        self.overlap.clear();
                    }
                    return self.deliver(item, namespace);
                }
            }
        }
    }

    /// Collects items of the next instance, so that it does not miss events before its turn.
    fn look_ahead(&mut self, task: &mut TaskContext<'_>) {
        while let Some(next) = self.next.as_mut().filter(|_| self.ahead.len() < MAX_BACKLOG) {
            match next.items.poll_item(task) {
                Poll::Pending => return,
                Poll::Ready(Some(item)) if self.was_sent(&item) => {}
                Poll::Ready(Some(item)) => self.ahead.push_back(item),
                Poll::Ready(None) => self.next = None,
            }
        }
    }

    /// Switches to the next instance: queues its items behind the remaining ones of the previous one, without those
    /// that both sent.
    fn promote(&mut self) {
        if !std::mem::take(&mut self.has_next) {
            return;
        }
        self.is_recording_overlap = false;
        self.current = self.next.take();
        self.backlog.append(&mut self.ahead);
    }

    fn deliver(&mut self, item: Item, namespace: &str) -> Poll<Option<Result<JsonBytes, Failure>>> {
        let item = match item {
            Ok(bytes) => JsonBytes::new(bytes, namespace),
            Err(failure) => Err(failure),
        };
        if item.is_err() {
            *self = Self { is_notice_sent: self.is_notice_sent, reader: self.reader.take(), ..Self::default() };
        }
        Poll::Ready(Some(item))
    }

    /// Records items of the current instance while the next one listens too.
    fn note(&mut self, item: &Item) {
        let Ok(bytes) = item else { return };
        let is_same = |other: &Item| other.as_ref().is_ok_and(|other| other.as_ref() == bytes.as_ref());
        if let Some(at) = self.ahead.iter().position(is_same) {
            self.ahead.remove(at);
            return;
        }
        if self.overlap.len() >= MAX_BACKLOG {
            self.overlap.pop_front();
        }
        self.overlap.push_back(OwnedBytes::from(bytes.as_ref().to_vec()));
    }

    /// Whether the previous instance has already sent this item of the next one, for an event that both received.
    fn was_sent(&mut self, item: &Item) -> bool {
        let Ok(bytes) = item else { return false };
        match self.overlap.iter().position(|sent| sent.as_ref() == bytes.as_ref()) {
            None => false,
            Some(at) => {
                self.overlap.drain(..=at);
                true
            }
        }
    }

    /// Moves items of the current instance to the backlog. Ready once it has ended.
    fn collect(&mut self, task: &mut TaskContext<'_>) -> Poll<()> {
        if !self.has_next {
            // The reader has switched to it already.
            return Poll::Ready(());
        }
        self.look_ahead(task);
        while let Some(current) = &mut self.current {
            match current.items.poll_item(task) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(bytes))) if self.backlog.len() < MAX_BACKLOG => {
                    let item = Ok(bytes);
                    self.note(&item);
                    self.backlog.push_back(item);
                }
                Poll::Ready(_) => self.current = None,
            }
        }
        Poll::Ready(())
    }
}

/// An open subscription.
pub struct PluginStream {
    slot: Arc<Slot>,
}

impl PluginStream {
    /// Opens a subscription in an entered plugin.
    pub(crate) fn begin(ticket: Ticket, index: u32, request: SubscriptionRequest) -> Self {
        let items = ticket.plugin.instance.subscribe(index, request.params.as_deref(), &request.caller);
        let plugin = Arc::clone(&ticket.plugin);
        let parts = Parts { current: Some(Part { items, ticket }), ..Parts::default() };
        let slot = Slot { request, parts: Mutex::new(parts), notice: OnceLock::new(), is_over: AtomicBool::new(false) };
        let slot = Arc::new(slot);
        plugin.add_slot(&slot);
        Self { slot }
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
        // The life cycle may hold a share of the slot; the plugin's side must end now regardless.
        self.slot.close(Failure::server("it has no reader"));
    }
}

impl fmt::Debug for PluginStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PluginStream").field("is_open", &self.slot.is_open()).finish()
    }
}

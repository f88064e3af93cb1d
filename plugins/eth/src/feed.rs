//! The events of one kind, decoded once for all subscriptions.
//!
//! One listener receives the node's events for all of them. The subscription polled first accepts an event; the others
//! read the kept copy. An event is kept until all have read it, or until too many are kept: a subscription that falls
//! too far behind gets the same "missed" notice as from the bus.

use std::{
    collections::{HashMap, VecDeque},
    future::poll_fn,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context as TaskContext, Poll, Wake, Waker},
};

use tenon_sdk::{Events, prelude::*};

use crate::dialect::Dialect;

/// Maximum number of events kept for subscriptions that have not read them.
const MAX_KEPT: usize = 256;
/// Maximum bytes of kept events. The newest event is kept even if it is larger. The three feeds together stay below the
/// default share of a client (128 MiB).
const MAX_KEPT_BYTES: usize = 32 << 20;

/// An event as all subscriptions share it.
pub(crate) trait FeedItem: Send + Sync + Sized {
    /// The node's event.
    type Event: Event;

    /// The memory in bytes that an event needs.
    fn bytes_of(event: &Self::Event) -> usize;

    /// Accepts an event, with a reservation for its memory.
    fn new(dialect: &'static Dialect, event: Self::Event, memory: HeldMemory) -> Self;

    /// Its memory in bytes.
    fn bytes(&self) -> usize;
}

/// Where the feed of an event is found. It lives as long as one of its listeners. Locked when a listener is added;
/// nothing awaits under the lock.
pub(crate) type FeedPlace<T> = Mutex<Weak<Feed<T>>>;

/// The events of one plugin instance while there are listeners.
pub(crate) struct Feed<T: FeedItem> {
    host: Host,
    dialect: &'static Dialect,
    /// Nothing awaits under the lock, and no event is decoded under it.
    state: Mutex<State<T>>,
    listeners: Arc<Listeners>,
}

/// Tasks that wait for an event, by listener. All are woken at once, and any of them accepts the event.
#[derive(Default)]
struct Listeners {
    waiting: Mutex<HashMap<u64, Waker>>,
}

struct State<T: FeedItem> {
    /// `None` while a listener accepts events.
    events: Option<Events<T::Event>>,
    /// Oldest first.
    unread: VecDeque<UnreadDelivery<T>>,
    /// The number of the oldest kept event.
    first: u64,
    /// Number of listeners.
    listeners: usize,
    /// The number of the next listener.
    next_listener: u64,
    /// Whether a listener found `events` taken and is waiting.
    is_awaited: bool,
    /// Why the events ended, once they have.
    end: Option<Result<(), Failure>>,
}

struct UnreadDelivery<T> {
    delivery: Delivery<Arc<T>>,
    /// Position of the event; `None` for missed events.
    position: Option<EventPosition>,
    /// Number of listeners that have not read it.
    pending_listeners: usize,
}

impl<T: FeedItem> Feed<T> {
    /// Starts listening. Creates the feed if there is none.
    pub(crate) async fn listen(place: &FeedPlace<T>, host: &Host, dialect: &'static Dialect) -> Listener<T> {
        let (feed, is_new) = Self::shared(place, host, dialect);
        let mut listener = feed.add_listener();
        if !is_new {
            // Earlier events are only for listeners that existed when they arrived.
            poll_fn(|task| listener.poll_present(task)).await;
        }
        listener
    }

    fn shared(place: &FeedPlace<T>, host: &Host, dialect: &'static Dialect) -> (Arc<Self>, bool) {
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(feed) = place.upgrade() {
            return (feed, false);
        }
        let state = State {
            events: Some(host.events()),
            unread: VecDeque::new(),
            first: 0,
            listeners: 0,
            next_listener: 0,
            is_awaited: false,
            end: None,
        };
        let feed = Arc::new(Self { host: host.clone(), dialect, state: Mutex::new(state), listeners: Arc::default() });
        *place = Arc::downgrade(&feed);
        (feed, true)
    }

    fn add_listener(self: &Arc<Self>) -> Listener<T> {
        let mut state = self.state();
        state.listeners += 1;
        state.next_listener += 1;
        let (number, next) = (state.next_listener, state.end());
        Listener { feed: Arc::clone(self), number, next, position: None }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts the next event if one is ready. The calling task must already be registered among the waiting listeners.
    ///
    /// If another task is accepting, it wakes all listeners once it has an event. With `is_awaited` it wakes them even
    /// if there was none. Tasks that only wait for events pass `false`: otherwise they would wake each other endlessly.
    fn take_over(&self, is_awaited: bool) -> AcceptOutcome {
        let mut state = self.state();
        let Some(events) = state.events.take() else {
            let has_ended = state.end.is_some();
            state.is_awaited |= is_awaited && !has_ended;
            return if has_ended { AcceptOutcome::Nothing } else { AcceptOutcome::Busy };
        };
        drop(state);
        let mut taking = EventsGuard { feed: self, events: Some(events) };
        let waker = Waker::from(Arc::clone(&self.listeners));
        let polled = taking.events.as_mut().map(|events| events.poll_next(&TaskContext::from_waker(&waker)));
        let Some(Poll::Ready(outcome)) = polled else { return AcceptOutcome::Nothing };
        let position = taking.events.as_ref().and_then(Events::position);
        match outcome {
            Ok(Some(Delivery::Event(event))) => {
                let delivery = self.accept(event);
                self.state().store(delivery, position);
            }
            Ok(Some(Delivery::Missed(missed))) => self.state().store(Delivery::Missed(missed), None),
            end => {
                self.state().end = Some(end.map(drop));
                taking.events = None;
            }
        }
        drop(taking);
        self.listeners.wake_all();
        AcceptOutcome::One
    }

    /// Accepts an event. Its memory counts as the plugin's own, because every client may need it. If the node has none, the
    /// oldest events are dropped, so that only listeners that are behind miss any. If that does not suffice, the event
    /// counts as missed.
    fn accept(&self, event: T::Event) -> Delivery<Arc<T>> {
        let bytes = T::bytes_of(&event);
        loop {
            match self.host.hold(0, bytes) {
                Ok(memory) => return Delivery::Event(Arc::new(T::new(self.dialect, event, memory))),
                Err(_) if self.state().drop_oldest() => {}
                Err(_) => return Delivery::Missed(1),
            }
        }
    }
}

/// Result of accepting an event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AcceptOutcome {
    /// One more is kept, or the end was reached.
    One,
    /// None is ready.
    Nothing,
    /// Another task is accepting, and wakes this one when it is done.
    Busy,
}

/// Returns the events on drop, also after a panic.
struct EventsGuard<'a, T: FeedItem> {
    feed: &'a Feed<T>,
    events: Option<Events<T::Event>>,
}

impl<T: FeedItem> Drop for EventsGuard<'_, T> {
    fn drop(&mut self) {
        let mut state = self.feed.state();
        state.events = self.events.take();
        if state.events.is_none() && state.end.is_none() {
            state.end = Some(Ok(()));
        }
        let is_awaited = mem::take(&mut state.is_awaited);
        drop(state);
        if is_awaited {
            self.feed.listeners.wake_all();
        }
    }
}

impl<T: FeedItem> State<T> {
    /// The number of the next event.
    fn end(&self) -> u64 {
        self.first + self.unread.len() as u64
    }

    fn store(&mut self, delivery: Delivery<Arc<T>>, position: Option<EventPosition>) {
        // Listeners replace missed events by a query of the node, whose result belongs to no event.
        let position = position.filter(|_| matches!(delivery, Delivery::Event(_)));
        self.unread.push_back(UnreadDelivery { delivery, position, pending_listeners: self.listeners });
        let mut bytes: usize = self.unread.iter().map(UnreadDelivery::bytes).sum();
        while self.unread.len() > MAX_KEPT || (bytes > MAX_KEPT_BYTES && self.unread.len() > 1) {
            bytes -= self.unread.front().map_or(0, UnreadDelivery::bytes);
            self.drop_oldest();
        }
    }

    /// Drops the oldest event; false if there is none.
    fn drop_oldest(&mut self) -> bool {
        let oldest = self.unread.pop_front();
        self.first += u64::from(oldest.is_some());
        oldest.is_some()
    }

    /// The event with this number and its position, or the count of events dropped since, and the number of the event
    /// to read next. `None` if the event has not arrived yet.
    fn take(&mut self, number: u64) -> Option<(Delivery<Arc<T>>, Option<EventPosition>, u64)> {
        if number < self.first {
            return Some((Delivery::Missed(self.first - number), None, self.first));
        }
        let at = usize::try_from(number - self.first).ok()?;
        let kept = self.unread.get_mut(at)?;
        let (delivery, position) = (kept.delivery.clone(), kept.position);
        kept.pending_listeners = kept.pending_listeners.saturating_sub(1);
        self.drop_taken();
        Some((delivery, position, number + 1))
    }

    /// Counts the events from this number on as read by one listener. They are kept for the others.
    fn leave(&mut self, number: u64) {
        let at = usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX);
        for kept in self.unread.iter_mut().skip(at) {
            kept.pending_listeners = kept.pending_listeners.saturating_sub(1);
        }
        self.drop_taken();
    }

    fn drop_taken(&mut self) {
        while self.unread.front().is_some_and(|oldest| oldest.pending_listeners == 0) {
            self.drop_oldest();
        }
    }
}

impl<T: FeedItem> UnreadDelivery<T> {
    fn bytes(&self) -> usize {
        match &self.delivery {
            Delivery::Event(event) => event.bytes(),
            Delivery::Missed(_) => 0,
        }
    }
}

impl Listeners {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, listener: u64, task: &TaskContext<'_>) {
        let mut waiting = self.lock();
        match waiting.get_mut(&listener) {
            Some(waker) => waker.clone_from(task.waker()),
            None => drop(waiting.insert(listener, task.waker().clone())),
        }
    }

    fn wake_all(&self) {
        let waiting = mem::take(&mut *self.lock());
        waiting.into_values().for_each(Waker::wake);
    }
}

impl Wake for Listeners {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }
}

/// One subscription's position in the feed.
pub(crate) struct Listener<T: FeedItem> {
    feed: Arc<Feed<T>>,
    number: u64,
    /// The number of the next event to read.
    next: u64,
    position: Option<EventPosition>,
}

impl<T: FeedItem> Listener<T> {
    /// The position of the last delivery's event; `None` after missed ones.
    pub(crate) const fn position(&self) -> Option<EventPosition> {
        self.position
    }

    /// The next event; `None` once the node stops announcing.
    ///
    /// # Errors
    /// As [`Events::next`].
    pub(crate) async fn next(&mut self) -> Result<Option<Delivery<Arc<T>>>, Failure> {
        poll_fn(|task| self.poll_next(task)).await
    }

    fn poll_next(&mut self, task: &TaskContext<'_>) -> Poll<Result<Option<Delivery<Arc<T>>>, Failure>> {
        loop {
            // Registered before the check, so that an event kept after the check wakes this task.
            self.feed.listeners.wait(self.number, task);
            let mut state = self.feed.state();
            if let Some((delivery, position, next)) = state.take(self.next) {
                (self.position, self.next) = (position, next);
                return Poll::Ready(Ok(Some(delivery)));
            }
            if let Some(end) = &state.end {
                return Poll::Ready(end.clone().map(|()| None));
            }
            drop(state);
            if self.feed.take_over(false) != AcceptOutcome::One {
                return Poll::Pending;
            }
        }
    }

    /// Skips the events that have already arrived.
    fn poll_present(&mut self, task: &TaskContext<'_>) -> Poll<()> {
        loop {
            self.feed.listeners.wait(self.number, task);
            match self.feed.take_over(true) {
                AcceptOutcome::One => {}
                AcceptOutcome::Busy => return Poll::Pending,
                AcceptOutcome::Nothing => break,
            }
        }
        let mut state = self.feed.state();
        state.leave(self.next);
        self.next = state.end();
        Poll::Ready(())
    }
}

impl<T: FeedItem> Drop for Listener<T> {
    fn drop(&mut self) {
        let mut state = self.feed.state();
        state.leave(self.next);
        state.listeners -= 1;
        drop(state);
        self.feed.listeners.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use tenon_sdk::testing::{Chain, Started, TestBlock, TestSubscription};

    use super::*;
    use crate::Eth;

    const CONTRACT: Address = Address::repeat_byte(1);

    fn block(logs: u8) -> TestBlock {
        let block = TestBlock::new().transaction(Address::ZERO, CONTRACT, U256::ZERO);
        (0..logs).fold(block, |block, number| block.log(CONTRACT, &[B256::with_last_byte(number)], &[number]))
    }

    fn started() -> (Chain, Started<Eth>) {
        let chain = Chain::new();
        let eth = chain.start::<Eth>("{}").expect("it starts");
        (chain, eth)
    }

    fn subscribe(eth: &Started<Eth>, criteria: &str) -> TestSubscription {
        let mut opened = eth.subscribe("logs", &format!("[{criteria}]")).expect("a subscription");
        assert_eq!(opened.items(), [Ok(String::new())], "accepted");
        opened
    }

    /// The data of the sent logs.
    fn data(subscription: &mut TestSubscription) -> Vec<String> {
        let items = subscription.items().into_iter().map(|item| item.expect("an item"));
        let value = |text: String| serde_json::from_str::<serde_json::Value>(&text).expect("JSON");
        items.map(|text| value(text)["data"].as_str().unwrap_or_default().to_owned()).collect()
    }

    fn kept(eth: &Started<Eth>) -> Option<usize> {
        let feed = eth.plugin().log_feed.lock().unwrap().upgrade()?;
        let state = feed.state();
        Some(state.unread.len())
    }

    #[test]
    fn an_event_is_decoded_once_and_kept_until_all_have_read_it() {
        let (chain, eth) = started();
        let (mut first, mut second) = (subscribe(&eth, "{}"), subscribe(&eth, "{}"));
        let before = chain.held(0);

        chain.add(block(2));

        assert_eq!(data(&mut first), ["0x00", "0x01"]);
        assert_eq!(kept(&eth), Some(1), "for the second");
        let held = chain.held(0);
        assert!(held > before, "counted while it is kept");
        assert_eq!(data(&mut second), ["0x00", "0x01"]);
        assert_eq!((kept(&eth), chain.held(0)), (Some(0), before));
        drop((first, second));
        assert_eq!(kept(&eth), None, "nothing listens");
    }

    #[test]
    fn a_task_that_finds_the_events_taken_wakes_no_other_and_reads_the_event_kept_by_the_other() {
        let (_chain, eth) = started();
        let (_first, mut second) = (subscribe(&eth, "{}"), subscribe(&eth, "{}"));
        let feed = eth.plugin().log_feed.lock().unwrap().upgrade().expect("a feed");
        // Another task polls the events.
        let taking = EventsGuard { events: feed.state().events.take(), feed: &feed };

        assert_eq!(second.items(), []);
        assert!(!feed.state().is_awaited, "the other task need not wake any listener before an event");
        assert!(
            feed.take_over(true) == AcceptOutcome::Busy && feed.state().is_awaited,
            "a task that must be woken sets the flag"
        );

        feed.state().store(Delivery::Missed(1), None);
        drop(taking);
        assert_eq!(second.items(), [], "the missed logs are queried, and there are none");
        assert_eq!(feed.state().unread.len(), 1, "it took the event, the first has not");
    }

    #[test]
    fn each_item_has_the_position_of_its_event_in_every_subscription() {
        let (chain, eth) = started();
        let (mut first, mut second) = (subscribe(&eth, "{}"), subscribe(&eth, "{}"));

        chain.add(block(2));
        let positions = first.positions();
        chain.add(block(1));
        let later = first.positions();

        assert!(positions.len() == 2 && positions[0] == positions[1] && later.len() == 1);
        assert!(positions[0].is_some() && later[0] > positions[0]);
        assert_eq!(second.positions(), [positions, later].concat(), "as the one that polled first");
    }

    #[test]
    fn queried_logs_have_no_position() {
        let (chain, eth) = started();
        let (mut fast, mut slow) = (subscribe(&eth, "{}"), subscribe(&eth, "{}"));
        for _ in 0..=MAX_KEPT {
            chain.add(block(1));
            assert_eq!(fast.positions().len(), 1);
        }

        let positions = slow.positions();

        assert_eq!(positions, vec![None; MAX_KEPT + 1]);
    }

    #[test]
    fn a_later_subscription_gets_later_blocks_only() {
        let (chain, eth) = started();
        let mut first = subscribe(&eth, "{}");
        chain.add(block(1));

        let mut second = subscribe(&eth, "{}");
        chain.add(block(2));

        assert_eq!(data(&mut second), ["0x00", "0x01"]);
        assert_eq!(data(&mut first), ["0x00", "0x00", "0x01"]);
        assert_eq!(kept(&eth), Some(0));
    }

    #[test]
    fn a_closed_subscription_keeps_no_events() {
        let (chain, eth) = started();
        let (mut first, second) = (subscribe(&eth, "{}"), subscribe(&eth, "{}"));
        chain.add(block(1));
        assert_eq!(data(&mut first), ["0x00"]);
        assert_eq!(kept(&eth), Some(1));

        drop(second);

        assert_eq!(kept(&eth), Some(0));
    }

    #[test]
    fn a_subscription_far_behind_queries_the_missed_logs() {
        let (chain, eth) = started();
        let (mut fast, mut slow) = (subscribe(&eth, "{}"), subscribe(&eth, "{}"));
        let count = MAX_KEPT + 10;
        for _ in 0..count {
            chain.add(block(1));
            assert_eq!(data(&mut fast).len(), 1);
        }
        assert_eq!(kept(&eth), Some(MAX_KEPT));

        assert_eq!(data(&mut slow).len(), count);
    }

    #[test]
    fn missed_logs_are_found_behind_more_blocks_than_one_query_returns() {
        let (chain, eth) = started();
        let mut opened = subscribe(&eth, &format!(r#"{{"topics":["{}"]}}"#, B256::with_last_byte(3)));
        for _ in 0..1_100 {
            chain.add(TestBlock::new());
        }
        chain.memory(300_000);

        chain.add(block(4).log(CONTRACT, &[], &[0; 400_000]));

        assert_eq!(data(&mut opened), ["0x03"], "the event found no memory");
    }

    #[test]
    fn each_subscription_queries_an_event_that_found_no_memory_and_ends_if_its_own_logs_find_none() {
        let (chain, eth) = started();
        let (mut selective, mut greedy) =
            (subscribe(&eth, &format!(r#"{{"topics":["{}"]}}"#, B256::with_last_byte(3))), subscribe(&eth, "{}"));
        chain.memory(8_000);

        chain.add(block(100));

        assert_eq!(data(&mut selective), ["0x03"], "one log fits");
        let ended = greedy.items().pop().and_then(Result::err);
        assert_eq!(ended.map(|failure| failure.code), Some(FailureCode::LIMIT_EXCEEDED));
    }
}

//! Hand-overs of a subscription from one instance to the next, with items that the tests send.

#![allow(clippy::expect_used, reason = "a failed setup fails the test")]

use std::collections::VecDeque;

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use tenon_api::messages::ModuleLimits;
use tokio::sync::mpsc;

use super::*;
use crate::{
    Manifest,
    gate::Kind,
    plugin_interface::PluginCall,
    running::{RunningPlugin, Ticket},
    subscriptions,
};

type SentItem = Result<StreamItem, Failure>;

/// An instance with one subscription, whose items the test sends.
struct Instance {
    plugin: Arc<RunningPlugin>,
    /// `None` once the subscription has ended.
    items: Option<mpsc::UnboundedSender<SentItem>>,
}

struct FakeInstance {
    subscriptions: Mutex<VecDeque<mpsc::UnboundedReceiver<SentItem>>>,
    end: EventPosition,
}

impl PluginInstance for FakeInstance {
    fn call_plugin<'a>(&'a self, _: u32, _: Option<&str>, _: &'a Caller) -> PluginCall<'a> {
        PluginCall::Remote(async { Err(Failure::server("it has no methods")) }.boxed())
    }

    fn subscribe(&self, _: u32, _: Option<&str>, _: &Caller) -> PluginItems {
        let mut items = self.subscriptions.lock().pop_front().expect("one subscription");
        PluginItems::Remote(stream::poll_fn(move |task| items.poll_recv(task)).boxed())
    }

    fn export_state(&self) -> Result<Vec<u8>, Failure> {
        Ok(Vec::new())
    }

    fn end_events(&self) -> EventPosition {
        self.end
    }

    fn background(&self) -> BoxFuture<'_, Result<(), Failure>> {
        async { Ok(()) }.boxed()
    }

    fn process(&self) -> Option<u32> {
        None
    }
}

impl Instance {
    /// An instance whose events end after the one at position `end`, and that has accepted its subscription.
    fn ending_after(end: u64) -> Self {
        let (items, received) = mpsc::unbounded_channel();
        let subscriptions = Mutex::new(VecDeque::from([received]));
        let instance = FakeInstance { subscriptions, end: EventPosition(end) };
        let manifest = Manifest {
            name: "test".to_owned(),
            namespace: "test".to_owned(),
            version: "1.0".to_owned(),
            built_with: String::new(),
            capabilities: Vec::new(),
            needs: Vec::new(),
            has_lasting_subscriptions: true,
            has_item_positions: true,
            has_background: false,
            methods: Vec::new(),
            subscriptions: vec!["items".to_owned()],
            sends_frames: true,
        };
        let (limits, warnings) = (ModuleLimits::default(), Vec::new());
        let plugin = RunningPlugin::new("test".into(), manifest, Box::new(instance), Box::default(), limits, warnings);
        let instance = Self { plugin: Arc::new(plugin), items: Some(items) };
        instance.send(None, "");
        instance
    }

    fn send(&self, position: Option<u64>, text: &str) {
        let item = StreamItem { body: text.as_bytes().to_vec().into(), position: position.map(EventPosition) };
        self.items.as_ref().expect("it has not ended").send(Ok(item)).expect("it is open");
    }

    /// Sends an item that was made of the event at this position.
    fn made_of(&self, position: u64, text: &str) {
        self.send(Some(position), text);
    }

    fn fail(&self) {
        let items = self.items.as_ref().expect("it has not ended");
        items.send(Err(Failure::server("its process ended"))).expect("it is open");
    }

    fn end(&mut self) {
        self.items = None;
    }

    async fn open(&self) -> PluginStream {
        let ticket = Ticket::take(&self.plugin, Kind::Stream).expect("it is open");
        let request = SubscriptionRequest {
            namespace: "test".to_owned(),
            kind: "items".to_owned(),
            params: None,
            caller: Caller::local(),
        };
        let stream = subscriptions::open(ticket, 0, request);
        stream.accepted().await.expect("it is accepted");
        stream
    }
}

impl PluginStream {
    async fn hand_over_to(&self, next: &Instance) -> Arc<HandOver> {
        let hand_over = Arc::default();
        let deadline = Instant::now() + Duration::from_secs(1);
        next.plugin.continue_subscription(&self.slot, &hand_over, deadline).await.expect("it is accepted");
        hand_over
    }

    async fn finish(&self) {
        self.slot.finish_current(Instant::now() + Duration::from_secs(1)).await;
    }

    /// The texts that can be read now.
    fn texts(&mut self) -> Vec<String> {
        let mut texts = Vec::new();
        while let Some(Some(item)) = self.next().now_or_never() {
            texts.push(String::from_utf8(item.expect("an item").as_ref().to_vec()).expect("text"));
        }
        texts
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_of_the_next_instance_is_delivered_even_if_it_equals_an_earlier_one() {
    let (mut old, next) = (Instance::ending_after(2), Instance::ending_after(9));
    let mut stream = old.open().await;

    let hand_over = stream.hand_over_to(&next).await;
    // Event 1 was published before the next instance subscribed, so only the old one makes an item of it.
    old.made_of(1, "0");
    old.made_of(2, "0");
    next.made_of(2, "0");
    assert_eq!(stream.texts(), ["0", "0"]);
    hand_over.end_events(&*old.plugin.instance);
    old.end();
    next.made_of(3, "0");
    next.made_of(4, "0");
    stream.finish().await;

    assert_eq!(stream.texts(), ["0", "0"], "events 3 and 4");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_both_instances_saw_is_delivered_once_whatever_they_make_of_it() {
    let (mut old, next) = (Instance::ending_after(3), Instance::ending_after(9));
    let mut stream = old.open().await;

    let hand_over = stream.hand_over_to(&next).await;
    old.made_of(1, "old 1");
    next.made_of(1, "next 1");
    // The old instance makes no item of event 2.
    next.made_of(2, "next 2");
    hand_over.end_events(&*old.plugin.instance);
    next.made_of(4, "next 4");
    old.made_of(3, "old 3");
    old.end();
    stream.finish().await;
    // The next instance is slower than the old one.
    next.made_of(3, "next 3");
    next.made_of(5, "next 5");

    assert_eq!(stream.texts(), ["old 1", "old 3", "next 4", "next 5"]);
}

#[tokio::test(start_paused = true)]
async fn the_next_instance_goes_on_within_the_event_at_which_the_old_one_failed() {
    let (old, next) = (Instance::ending_after(9), Instance::ending_after(9));
    let mut stream = old.open().await;

    stream.hand_over_to(&next).await;
    for text in ["same", "same", "same"] {
        next.made_of(5, text);
    }
    next.made_of(6, "6");
    old.made_of(5, "same");
    old.made_of(5, "same");
    old.fail();

    assert_eq!(stream.texts(), ["same", "same", "same", "6"]);
}

#[tokio::test(start_paused = true)]
async fn the_next_instance_continues_after_the_last_item_of_one_that_does_not_end_in_time() {
    let (old, next) = (Instance::ending_after(9), Instance::ending_after(9));
    let mut stream = old.open().await;

    let hand_over = stream.hand_over_to(&next).await;
    for position in 1..=4 {
        next.made_of(position, &position.to_string());
    }
    old.made_of(1, "1");
    old.made_of(2, "2");
    hand_over.end_events(&*old.plugin.instance);
    stream.finish().await;

    assert_eq!(stream.texts(), ["1", "2", "3", "4"]);
}

#[tokio::test(start_paused = true)]
async fn items_wait_in_order_for_a_slow_client_over_two_hand_overs() {
    let (mut first, mut second, third) =
        (Instance::ending_after(3), Instance::ending_after(5), Instance::ending_after(9));
    let mut stream = first.open().await;

    first.made_of(1, "1");
    let hand_over = stream.hand_over_to(&second).await;
    for position in 2..=5 {
        second.made_of(position, &position.to_string());
    }
    hand_over.end_events(&*first.plugin.instance);
    first.made_of(2, "2");
    first.made_of(3, "3");
    first.end();
    stream.finish().await;
    let hand_over = stream.hand_over_to(&third).await;
    for position in 4..=6 {
        third.made_of(position, &position.to_string());
    }
    hand_over.end_events(&*second.plugin.instance);
    second.end();
    stream.finish().await;

    assert_eq!(stream.texts(), ["1", "2", "3", "4", "5", "6"]);
}

#[tokio::test(start_paused = true)]
async fn items_without_position_are_never_dropped() {
    let (mut old, next) = (Instance::ending_after(9), Instance::ending_after(9));
    let mut stream = old.open().await;

    let hand_over = stream.hand_over_to(&next).await;
    old.send(None, "old");
    next.send(None, "next");
    hand_over.end_events(&*old.plugin.instance);
    old.end();
    stream.finish().await;
    next.send(None, "next");

    assert_eq!(stream.texts(), ["old", "next", "next"]);
}

#[tokio::test(start_paused = true)]
async fn the_next_instance_continues_after_the_last_event_of_one_that_marks_no_items() {
    let (mut old, next) = (Instance::ending_after(2), Instance::ending_after(9));
    let mut stream = old.open().await;

    let hand_over = stream.hand_over_to(&next).await;
    old.send(None, "old 1");
    for position in 1..=3 {
        next.made_of(position, &format!("next {position}"));
    }
    old.send(None, "old 2");
    hand_over.end_events(&*old.plugin.instance);
    old.end();

    assert_eq!(stream.texts(), ["old 1", "old 2", "next 3"], "also if its reader sees the end first");
    stream.finish().await;
    next.made_of(4, "next 4");
    assert_eq!(stream.texts(), ["next 4"]);
}

#[tokio::test(start_paused = true)]
async fn a_position_that_no_event_has_does_not_silence_the_next_instance() {
    let (mut old, next) = (Instance::ending_after(2), Instance::ending_after(9));
    let mut stream = old.open().await;

    let hand_over = stream.hand_over_to(&next).await;
    old.made_of(u64::MAX, "wrong");
    hand_over.end_events(&*old.plugin.instance);
    old.end();
    stream.finish().await;
    next.made_of(2, "next 2");
    next.made_of(3, "next 3");

    assert_eq!(stream.texts(), ["wrong", "next 3"]);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_refuses_the_subscription_changes_nothing() {
    let (old, next) = (Instance::ending_after(9), Instance::ending_after(9));
    let mut stream = old.open().await;
    let refused = Instance { items: None, ..next };
    let hand_over = Arc::default();

    refused.plugin.gate.close();
    let opened =
        refused.plugin.continue_subscription(&stream.slot, &hand_over, Instant::now() + Duration::from_secs(1)).await;
    old.made_of(1, "1");

    assert_eq!(opened, Err(Failure::server("it is being closed")));
    assert_eq!(stream.texts(), ["1"]);
}

//! Events and their subscribers.

use std::{
    any::Any,
    collections::HashMap,
    marker::PhantomData,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use tenon_api::{BusError, Event, Topic, codec, schema_entries};
use tokio::sync::broadcast;

use crate::Bus;

/// How many events a subscriber may lag behind before it misses some. Events are `Arc`s, so this bounds memory to a few
/// hundred blocks at worst.
const MAX_LAG: usize = 256;

/// An event as shared by all subscribers. The first subscriber beyond the plugin boundary encodes its frame, at most
/// once.
struct Published {
    schema: u16,
    event: Arc<dyn Any + Send + Sync>,
    encode: fn(&(dyn Any + Send + Sync)) -> Result<Vec<u8>, codec::CodecError>,
    frame: OnceLock<Result<Arc<[u8]>, codec::CodecError>>,
}

impl Published {
    fn frame(&self) -> Result<Arc<[u8]>, codec::CodecError> {
        self.frame.get_or_init(|| (self.encode)(&*self.event).map(Arc::from)).clone()
    }
}

type Sender = broadcast::Sender<Arc<Published>>;

/// One broadcast channel for each topic, created on first use.
///
/// The lock protects the map only; nothing awaits under it, and publishing takes it for reading.
#[derive(Default)]
pub(crate) struct EventTable {
    channels: RwLock<HashMap<Topic, Sender>>,
}

impl EventTable {
    fn existing(&self, topic: Topic) -> Option<Sender> {
        self.channels.read().unwrap_or_else(PoisonError::into_inner).get(&topic).cloned()
    }

    fn channel(&self, topic: Topic) -> Sender {
        if let Some(sender) = self.existing(topic) {
            return sender;
        }
        let mut channels = self.channels.write().unwrap_or_else(PoisonError::into_inner);
        channels.entry(topic).or_insert_with(|| broadcast::channel(MAX_LAG).0).clone()
    }
}

impl Bus {
    /// Sends an event to all subscribers. Never waits; without subscribers it costs one look-up.
    pub fn publish<E: Event>(&self, event: E) {
        let Some(sender) = self.events().existing(E::TOPIC) else { return };
        if sender.receiver_count() == 0 {
            return;
        }
        let published = Published {
            schema: E::SCHEMA,
            event: Arc::new(event),
            encode: |event| match event.downcast_ref::<E>() {
                Some(event) => codec::encode(event),
                None => Err(codec::CodecError::Encode { type_name: E::NAME, reason: "wrong type".to_owned() }),
            },
            frame: OnceLock::new(),
        };
        // An error means that the last subscriber has just gone.
        let _ = sender.send(Arc::new(published));
    }

    /// Subscribes to every later event of a type.
    pub fn subscribe<E: Event>(&self) -> Subscription<E> {
        Subscription { receiver: self.events().channel(E::TOPIC).subscribe(), event: PhantomData }
    }

    /// Subscribes to every later event of a topic, as frames.
    ///
    /// # Errors
    /// When no event of this build has that topic and schema number.
    pub fn subscribe_frames(&self, topic: Topic, schema: u16) -> Result<FrameSubscription, BusError> {
        let known = schema_entries().iter().find(|entry| entry.topic == topic && topic.is_event());
        match known {
            Some(entry) if entry.schema == schema => {
                Ok(FrameSubscription { receiver: self.events().channel(topic).subscribe() })
            }
            Some(entry) => Err(BusError::WrongEventSchema { event: entry.name, known: entry.schema, sent: schema }),
            None => Err(BusError::UnknownEvent { topic }),
        }
    }
}

/// An item of a [`Subscription`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery<E> {
    /// The next event.
    Event(E),
    /// The subscriber was too slow and this many events were dropped: query the current state.
    Missed(u64),
}

/// The receiving end of a subscription to an event type.
#[derive(Debug)]
pub struct Subscription<E> {
    receiver: broadcast::Receiver<Arc<Published>>,
    event: PhantomData<fn() -> E>,
}

impl<E: Event> Subscription<E> {
    /// The next event; `None` when the bus is gone.
    pub async fn next(&mut self) -> Option<Delivery<E>> {
        loop {
            match self.receiver.recv().await {
                Ok(published) => {
                    if let Some(event) = published.event.downcast_ref::<E>() {
                        return Some(Delivery::Event(event.clone()));
                    }
                }
                Err(broadcast::error::RecvError::Lagged(missed)) => return Some(Delivery::Missed(missed)),
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

/// An item of a [`FrameSubscription`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameDelivery {
    /// The next event's frame, shared by all subscribers.
    Frame(Arc<[u8]>),
    /// The subscriber was too slow and this many events were dropped.
    Missed(u64),
}

/// The receiving end of a subscription to an event topic, as frames.
#[derive(Debug)]
pub struct FrameSubscription {
    receiver: broadcast::Receiver<Arc<Published>>,
}

impl FrameSubscription {
    /// The next frame; `None` when the bus is gone.
    pub async fn next(&mut self) -> Option<FrameDelivery> {
        loop {
            match self.receiver.recv().await {
                Ok(published) => match published.frame() {
                    Ok(frame) => return Some(FrameDelivery::Frame(frame)),
                    Err(error) => tracing::error!(%error, schema = published.schema, "an event could not be encoded \
                        for a plugin"),
                },
                Err(broadcast::error::RecvError::Lagged(missed)) => return Some(FrameDelivery::Missed(missed)),
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tenon_api::{
        BlockNumber,
        messages::{SyncChanged, SyncStatus},
    };

    use super::*;

    fn progress(number: u64) -> SyncChanged {
        let current = BlockNumber(number);
        SyncChanged { status: Some(SyncStatus { starting: BlockNumber(0), current, highest: BlockNumber(9) }) }
    }

    #[tokio::test]
    async fn every_subscriber_gets_every_event_in_order() {
        let bus = Bus::new();
        let mut first = bus.subscribe::<SyncChanged>();
        let mut second = bus.subscribe::<SyncChanged>();

        bus.publish(progress(1));
        bus.publish(progress(2));

        for subscriber in [&mut first, &mut second] {
            assert_eq!(subscriber.next().await, Some(Delivery::Event(progress(1))));
            assert_eq!(subscriber.next().await, Some(Delivery::Event(progress(2))));
        }
    }

    #[tokio::test]
    async fn a_slow_subscriber_learns_how_many_it_missed() {
        let bus = Bus::new();
        let mut slow = bus.subscribe::<SyncChanged>();

        for number in 0..MAX_LAG as u64 + 10 {
            bus.publish(progress(number));
        }

        assert_eq!(slow.next().await, Some(Delivery::Missed(10)));
        assert_eq!(slow.next().await, Some(Delivery::Event(progress(10))));
    }

    #[tokio::test]
    async fn frames_are_made_once_and_shared() {
        let bus = Bus::new();
        let mut first = bus.subscribe_frames(SyncChanged::TOPIC, 1).unwrap();
        let mut second = bus.subscribe_frames(SyncChanged::TOPIC, 1).unwrap();

        bus.publish(progress(7));

        let (Some(FrameDelivery::Frame(one)), Some(FrameDelivery::Frame(two))) =
            (first.next().await, second.next().await)
        else {
            panic!("both get a frame");
        };
        assert!(Arc::ptr_eq(&one, &two));
        assert_eq!(codec::decode::<SyncChanged>(&one).unwrap(), progress(7));
    }

    #[test]
    fn unknown_event_topics_are_refused_by_number() {
        let refused = Bus::new().subscribe_frames(Topic(0x0100), 1).unwrap_err();

        assert_eq!(refused, BusError::UnknownEvent { topic: Topic(0x0100) });
    }
}

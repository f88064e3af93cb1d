//! Events and their subscribers.

use std::{
    any::Any,
    collections::HashMap,
    marker::PhantomData,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use tenon_api::{BusError, Event, EventPosition, Topic, codec, schema_entries};
use tokio::sync::broadcast;

use crate::Bus;

/// How many events a subscriber may lag behind before it misses some. Events are `Arc`s, so this bounds memory to a few
/// hundred blocks at worst.
const MAX_LAG: usize = 256;

/// An event as shared by all subscribers. The first subscriber beyond the plugin boundary encodes its frame, at most
/// once.
struct Published {
    position: EventPosition,
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

/// The channel of a topic.
#[derive(Clone)]
struct Channel {
    sender: broadcast::Sender<Arc<Published>>,
    /// Held while an event gets its position and is sent, so that positions rise along the channel. Wakers run under
    /// it; they must not publish.
    publishing: Arc<Mutex<()>>,
}

impl Channel {
    fn new() -> Self {
        Self { sender: broadcast::channel(MAX_LAG).0, publishing: Arc::default() }
    }

    fn subscribe(&self) -> broadcast::Receiver<Arc<Published>> {
        self.sender.subscribe()
    }

    /// Sends an event, which `make` makes with its position.
    fn publish(&self, positions: &AtomicU64, make: impl FnOnce(EventPosition) -> Published) {
        let _publishing = self.publishing.lock().unwrap_or_else(PoisonError::into_inner);
        let position = EventPosition(positions.fetch_add(1, Ordering::Relaxed) + 1);
        // An error means that the last subscriber has just gone.
        let _ = self.sender.send(Arc::new(make(position)));
    }

    /// Waits until every event that has a position has been sent.
    fn settle(&self) {
        drop(self.publishing.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// One broadcast channel for each topic, created on first use.
///
/// The lock protects the map only; nothing awaits under it, and publishing takes it for reading.
#[derive(Default)]
pub(crate) struct EventTable {
    channels: RwLock<HashMap<Topic, Channel>>,
    /// The position of the latest event of any topic.
    latest: AtomicU64,
}

impl EventTable {
    fn existing(&self, topic: Topic) -> Option<Channel> {
        self.channels.read().unwrap_or_else(PoisonError::into_inner).get(&topic).cloned()
    }

    fn channel(&self, topic: Topic) -> Channel {
        if let Some(channel) = self.existing(topic) {
            return channel;
        }
        let mut channels = self.channels.write().unwrap_or_else(PoisonError::into_inner);
        channels.entry(topic).or_insert_with(Channel::new).clone()
    }

    /// The position of the latest event. All events up to it are in the channels.
    fn position(&self) -> EventPosition {
        let latest = self.latest.load(Ordering::Relaxed);
        // An event gets its position and is sent under its channel's lock. The lock of the map is released first, because
        // a waker may subscribe.
        let channels: Vec<Channel> =
            self.channels.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        channels.iter().for_each(Channel::settle);
        EventPosition(latest)
    }
}

impl Bus {
    /// Sends an event to all subscribers. Never waits; without subscribers it costs one look-up.
    pub fn publish<E: Event>(&self, event: E) {
        let Some(channel) = self.events().existing(E::TOPIC) else { return };
        if channel.sender.receiver_count() == 0 {
            return;
        }
        let event = Arc::new(event);
        channel.publish(&self.events().latest, |position| Published {
            position,
            schema: E::SCHEMA,
            event,
            encode: |event| match event.downcast_ref::<E>() {
                Some(event) => codec::encode(event),
                None => Err(codec::CodecError::Encode { type_name: E::NAME, reason: "wrong type".to_owned() }),
            },
            frame: OnceLock::new(),
        });
    }

    /// The position of the latest event. Every event up to it can be received already; every later one has a higher
    /// position.
    pub fn event_position(&self) -> EventPosition {
        self.events().position()
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
    /// The next event.
    Frame {
        /// Its position.
        position: EventPosition,
        /// Its frame, shared by all subscribers.
        frame: Arc<[u8]>,
    },
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
                    Ok(frame) => return Some(FrameDelivery::Frame { position: published.position, frame }),
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

        let (
            Some(FrameDelivery::Frame { frame: one, position }),
            Some(FrameDelivery::Frame { frame: two, position: same }),
        ) = (first.next().await, second.next().await)
        else {
            panic!("both get a frame");
        };
        assert!(Arc::ptr_eq(&one, &two) && position == same);
        assert_eq!(codec::decode::<SyncChanged>(&one).unwrap(), progress(7));
    }

    #[tokio::test]
    async fn positions_rise_along_a_channel_with_several_publishers() {
        let bus = Bus::new();
        let mut frames = bus.subscribe_frames(SyncChanged::TOPIC, 1).unwrap();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let bus = bus.clone();
                std::thread::spawn(move || (0..MAX_LAG as u64 / 4).for_each(|number| bus.publish(progress(number))))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());

        let mut last = EventPosition::default();
        for _ in 0..MAX_LAG {
            let Some(FrameDelivery::Frame { position, .. }) = frames.next().await else { panic!("an event") };
            assert!(position > last);
            last = position;
        }

        assert_eq!(bus.event_position(), last);
    }

    #[test]
    fn unknown_event_topics_are_refused_by_number() {
        let refused = Bus::new().subscribe_frames(Topic(0x0100), 1).unwrap_err();

        assert_eq!(refused, BusError::UnknownEvent { topic: Topic(0x0100) });
    }
}

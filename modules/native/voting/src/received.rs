//! Collects messages of peers while the actor is busy, and sends them to it as one input. Otherwise each message would
//! wake the actor, and then the connection that it came from.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tenon_api::RoundMessage;

/// Maximum number of messages that wait together. A connection has at most one at a time.
const MAX_WAITING: usize = 4096;

/// A message, and the guard that is dropped once it has been processed.
type Guarded = (RoundMessage, Box<dyn Send>);

/// Messages that the actor will process together.
pub(crate) struct ReceivedMessages {
    /// `None` once the actor has taken them.
    waiting: Mutex<Option<Vec<Guarded>>>,
}

impl ReceivedMessages {
    fn new(message: RoundMessage, guard: Box<dyn Send>) -> Self {
        Self { waiting: Mutex::new(Some(vec![(message, guard)])) }
    }

    /// Adds a message, or returns it if the others have been taken already. Too many messages are dropped.
    fn add(&self, message: Guarded) -> Result<(), Guarded> {
        match &mut *self.waiting.lock() {
            Some(waiting) if waiting.len() < MAX_WAITING => waiting.push(message),
            Some(_) => tracing::debug!("a message to the voting was dropped, because too many wait"),
            None => return Err(message),
        }
        Ok(())
    }

    /// Takes the messages; later ones are refused.
    pub(crate) fn take(&self) -> Vec<Guarded> {
        self.waiting.lock().take().unwrap_or_default()
    }
}

/// Collects messages for the actor.
#[derive(Clone, Default)]
pub(crate) struct MessageCollector {
    /// The messages that were sent to the actor last. Not owned, so that they and their guards are dropped with the
    /// actor's mailbox.
    last: Arc<Mutex<Weak<ReceivedMessages>>>,
}

impl MessageCollector {
    /// Ends the current collection, so that later messages reach the actor after the input that is sent next. A vote
    /// must not overtake its block: a quorum of votes begins the next round, in which this node no longer votes for the
    /// block.
    pub(crate) fn close(&self) {
        *self.last.lock() = Weak::new();
    }

    /// Adds a message to the collection that waits for the actor. If there is none, begins one with this message and
    /// returns it: the caller must send it to the actor.
    pub(crate) fn add(&self, message: RoundMessage, guard: Box<dyn Send>) -> Option<Arc<ReceivedMessages>> {
        let mut last = self.last.lock();
        let (message, guard) = match last.upgrade() {
            None => (message, guard),
            Some(waiting) => waiting.add((message, guard)).err()?,
        };
        let new = Arc::new(ReceivedMessages::new(message, guard));
        *last = Arc::downgrade(&new);
        Some(new)
    }
}

#[cfg(test)]
mod tests {
    use tenon_api::{Bytes, RoundMessageKind};

    use super::*;

    fn message(number: u8) -> RoundMessage {
        RoundMessage { kind: RoundMessageKind::Vote, payload: Bytes::from(vec![number]) }
    }

    #[test]
    fn messages_are_collected_until_they_are_taken() {
        let collector = MessageCollector::default();
        let first = collector.add(message(1), Box::new(())).unwrap();
        assert!(collector.add(message(2), Box::new(())).is_none());
        assert_eq!(first.take().len(), 2);

        let next = collector.add(message(3), Box::new(())).unwrap();
        assert!(first.take().is_empty());
        assert_eq!(next.take()[0].0.payload[..], [3]);
    }

    #[test]
    fn messages_after_a_closing_are_handed_over_separately() {
        let collector = MessageCollector::default();
        let first = collector.add(message(1), Box::new(())).unwrap();
        collector.close();
        let second = collector.add(message(2), Box::new(())).unwrap();
        assert_eq!((first.take().len(), second.take().len()), (1, 1));
    }

    #[test]
    fn messages_beyond_the_limit_are_dropped() {
        let collector = MessageCollector::default();
        let waiting = collector.add(message(0), Box::new(())).unwrap();
        for _ in 0..MAX_WAITING + 10 {
            assert!(collector.add(message(1), Box::new(())).is_none());
        }
        assert_eq!(waiting.take().len(), MAX_WAITING);
    }

    /// Otherwise a connection would wait forever for an actor that has ended.
    #[test]
    fn guards_are_dropped_with_the_messages_that_the_actor_never_took() {
        let (collector, guard) = (MessageCollector::default(), Arc::new(()));
        let waiting = collector.add(message(1), Box::new(Arc::clone(&guard))).unwrap();
        assert!(collector.add(message(2), Box::new(Arc::clone(&guard))).is_none());
        assert_eq!(Arc::strong_count(&guard), 3);

        drop(waiting);

        assert_eq!(Arc::strong_count(&guard), 1);
        assert!(collector.add(message(3), Box::new(())).is_some());
    }
}

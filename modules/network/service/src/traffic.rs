//! Counters of the network for metrics: atomics that are incremented where the event happens.

use std::sync::atomic::{AtomicU64, Ordering};

use tenon_network_wire::Kind;

/// Counts of the network since the node started. A stop of the network does not reset them.
#[derive(Debug, Default)]
pub struct Traffic {
    received: [Count; Kind::ALL.len()],
    sent: [Count; Kind::ALL.len()],
    bans: AtomicU64,
}

#[derive(Debug, Default)]
struct Count {
    messages: AtomicU64,
    bytes: AtomicU64,
}

/// Messages of a kind in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageCount {
    /// The message's name in the protocol.
    pub message: &'static str,
    /// `received` or `sent`.
    pub direction: &'static str,
    /// Number of messages.
    pub messages: u64,
    /// Bytes of their payloads, without compression and framing.
    pub bytes: u64,
}

impl Traffic {
    pub(crate) fn count_received(&self, kind: Kind, bytes: usize) {
        self.received.get(kind as usize).into_iter().for_each(|count| count.add(bytes));
    }

    pub(crate) fn count_sent(&self, kind: Kind, bytes: usize) {
        self.sent.get(kind as usize).into_iter().for_each(|count| count.add(bytes));
    }

    pub(crate) fn count_ban(&self) {
        self.bans.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of bans.
    pub fn bans(&self) -> u64 {
        self.bans.load(Ordering::Relaxed)
    }

    /// Messages by kind and direction; those that never occurred are left out.
    pub fn messages(&self) -> Vec<MessageCount> {
        let directions = [("received", &self.received), ("sent", &self.sent)];
        let of_direction = |(direction, counts): (&'static str, &[Count; Kind::ALL.len()])| {
            let shown = |(kind, count): (&Kind, &Count)| MessageCount {
                message: kind.name(),
                direction,
                messages: count.messages.load(Ordering::Relaxed),
                bytes: count.bytes.load(Ordering::Relaxed),
            };
            Kind::ALL.iter().zip(counts).map(shown).filter(|count| count.messages > 0).collect::<Vec<_>>()
        };
        directions.into_iter().flat_map(of_direction).collect()
    }
}

impl Count {
    fn add(&self, bytes: usize) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_by_kind_and_direction() {
        let traffic = Traffic::default();
        traffic.count_received(Kind::Vote, 100);
        traffic.count_received(Kind::Vote, 50);
        traffic.count_sent(Kind::PooledTransactions, 7);
        let vote = MessageCount { message: "Vote", direction: "received", messages: 2, bytes: 150 };
        let pooled = MessageCount { message: "PooledTransactions", direction: "sent", messages: 1, bytes: 7 };
        assert_eq!(traffic.messages(), [vote, pooled]);
    }

    #[test]
    fn every_kind_has_its_own_place() {
        assert!(Kind::ALL.iter().enumerate().all(|(place, kind)| *kind as usize == place));
    }
}

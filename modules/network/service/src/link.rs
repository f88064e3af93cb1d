//! The channels between the actor and a connection, and which messages connections accept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tenon_network_rlpx::DisconnectReason;
use tenon_network_wire::{AcceptedMessages, Kind};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::message_work::AwaitedOfNode;

/// Maximum number of unwritten requests, blocks and votes of one peer; more are dropped.
const MAX_OUTGOING: usize = 256;
/// Maximum number of unwritten messages with transactions of one peer, of 100 KiB each; more are dropped.
const MAX_OUTGOING_BULK: usize = 8;

/// A message for one peer. Several peers share its payload.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) kind: Kind,
    pub(crate) payload: Arc<Vec<u8>>,
}

/// The actor's ends of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    disconnects: Sender<DisconnectReason>,
    urgent: Sender<Outgoing>,
    bulk: Sender<Outgoing>,
}

/// The connection's ends.
pub(crate) struct LinkReceivers {
    pub(crate) disconnects: Receiver<DisconnectReason>,
    pub(crate) urgent: Receiver<Outgoing>,
    pub(crate) bulk: Receiver<Outgoing>,
}

impl Link {
    /// Both ends, with room for `max_disconnects` requests to disconnect.
    pub(crate) fn new(max_disconnects: usize) -> (Self, LinkReceivers) {
        let (disconnects, disconnects_out) = channel(max_disconnects);
        let (urgent, urgent_out) = channel(MAX_OUTGOING);
        let (bulk, bulk_out) = channel(MAX_OUTGOING_BULK);
        (
            Self { disconnects, urgent, bulk },
            LinkReceivers { disconnects: disconnects_out, urgent: urgent_out, bulk: bulk_out },
        )
    }

    /// Ends the connection. A full channel already contains a request to disconnect.
    pub(crate) fn close(&self, reason: DisconnectReason) {
        let _ = self.disconnects.try_send(reason);
    }

    /// Sends a message; false if the peer reads too slowly for it.
    pub(crate) fn send(&self, message: Outgoing) -> bool {
        let queue = if message.kind == Kind::Transactions { &self.bulk } else { &self.urgent };
        queue.try_send(message).is_ok()
    }
}

/// Which messages are accepted now. Set by the actor, read by every connection.
#[derive(Debug, Default)]
pub(crate) struct SharedAcceptance {
    pub(crate) accepts_transactions: AtomicBool,
    pub(crate) accepts_round_messages: AtomicBool,
}

impl SharedAcceptance {
    /// Returns the messages to accept from a node now: the shared settings, and the node's outstanding answers.
    pub(crate) fn now(&self, awaited: Option<&AwaitedOfNode>, accepts_new_blocks: bool) -> AcceptedMessages {
        AcceptedMessages {
            accepts_transactions: self.accepts_transactions.load(Ordering::Relaxed),
            accepts_round_messages: self.accepts_round_messages.load(Ordering::Relaxed),
            accepts_new_blocks,
            accepts_headers: awaited.is_some_and(|awaited| awaited.awaits(Kind::BlockHeaders)),
            accepts_bodies: awaited.is_some_and(|awaited| awaited.awaits(Kind::BlockBodies)),
        }
    }
}

//! The trace of a run: every event with its contents, and the state of its node after it. Two runs of a seed must have
//! the same trace; if they differ, the transcripts show the first event that differs.

use std::hash::{DefaultHasher, Hash, Hasher};

use alloy_primitives::B256;
use tenon_network_sync::SyncRequest;

use super::links::Message;
use super::node::Node;
use super::world::Event;

/// An event in a transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) time: u64,
    pub(super) who: usize,
    /// Number of the kind of event.
    pub(super) kind: u8,
    /// Hash of the trace up to and with this event.
    pub(super) hash: u64,
}

/// The hash of all events so far, and the transcript, if one was asked for.
#[derive(Default)]
pub(super) struct Trace {
    hasher: DefaultHasher,
    transcript: Option<Vec<Line>>,
}

impl Trace {
    /// Keeps a line for each event from now on.
    pub(super) fn record_transcript(&mut self) {
        self.transcript = Some(Vec::new());
    }

    /// Adds an event that is about to happen.
    pub(super) fn begin(&mut self, time: u64, who: usize, event: &Event) {
        (time, who, kind(event)).hash(&mut self.hasher);
        add_contents(event, &mut self.hasher);
        if let Some(lines) = &mut self.transcript {
            lines.push(Line { time, who, kind: kind(event), hash: 0 });
        }
    }

    /// Adds the state of the node after the event.
    pub(super) fn end(&mut self, node: &Node) {
        node.head().0.hash(&mut self.hasher);
        if let Some(state) = node.state() {
            // Without the signatures of the certificates: they are in the messages and blocks, and a large world has
            // hundreds of them in each state.
            (state.round, state.highest_quorum.block.hash, state.highest_timeout.round).hash(&mut self.hasher);
            (state.highest_voted_round, state.highest_proposed_round).hash(&mut self.hasher);
            state.committed.map(|block| block.hash).hash(&mut self.hasher);
        }
        if let Some(last) = self.transcript.as_mut().and_then(|lines| lines.last_mut()) {
            last.hash = self.hasher.finish();
        }
    }

    /// The hash of everything, and the transcript: empty if none was kept.
    pub(super) fn finish(self) -> (u64, Vec<Line>) {
        (self.hasher.finish(), self.transcript.unwrap_or_default())
    }
}

/// The number of the kind of an event.
const fn kind(event: &Event) -> u8 {
    match event {
        Event::ReceivesRoundMessage { .. } => 0,
        Event::Arrives { .. } => 1,
        Event::ToItself(_) => 2,
        Event::Wakes => 3,
        Event::VerifiesBlock(_) => 4,
        Event::ImportEnds(_) => 5,
        Event::Starts => 6,
        Event::Dies => 7,
        Event::DiesSoon => 8,
        Event::ClockJumps(_) => 9,
        Event::Connects(_) => 10,
        Event::Cut(_) => 11,
        Event::ActsByzantine => 12,
    }
}

fn add_contents(event: &Event, hasher: &mut DefaultHasher) {
    match event {
        Event::ReceivesRoundMessage { link, connection, sent } => (link, connection, sent.hash).hash(hasher),
        Event::Arrives { link, connection, message } => {
            (link, connection).hash(hasher);
            add_message(message, hasher);
        }
        Event::ToItself(input) => std::mem::discriminant(&**input).hash(hasher),
        Event::VerifiesBlock(block) => block.hash().hash(hasher),
        Event::ImportEnds(outcome) => outcome.is_ok().hash(hasher),
        Event::ClockJumps(error) => error.hash(hasher),
        Event::Connects(peer) | Event::Cut(peer) => peer.hash(hasher),
        Event::Wakes | Event::Starts | Event::Dies | Event::DiesSoon | Event::ActsByzantine => {}
    }
}

fn add_message(message: &Message, hasher: &mut DefaultHasher) {
    match message {
        Message::Status(head, total_difficulty) => (0, head, total_difficulty).hash(hasher),
        Message::Block(block, total_difficulty) => (1, block.hash(), total_difficulty).hash(hasher),
        Message::Ask(SyncRequest::Headers(request)) => format!("{request:?}").hash(hasher),
        Message::Ask(SyncRequest::Bodies(hashes)) => (2, hashes).hash(hasher),
        Message::Headers(headers) => {
            (3, headers.iter().map(|header| header.hash()).collect::<Vec<B256>>()).hash(hasher);
        }
        Message::Bodies(bodies) => {
            (4, bodies.iter().map(|body| body.transactions_root).collect::<Vec<B256>>()).hash(hasher);
        }
        Message::Transaction(raw) => (5, raw).hash(hasher),
    }
}

//! The transcript of a run: every segment and datagram that turmoil sends, delivers and hands to its reader, with its bytes,
//! and every log line of the network. Two runs of a seed have the same transcript; where they do not, the first line that
//! differs says what happened.

use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Maximum length of a kept line. All of it is in the hash.
const MAX_LINE: usize = 160;

/// An event of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Simulated time since the start.
    pub(super) time: Duration,
    /// The beginning of its text.
    pub(super) text: String,
    /// Hash of the whole text.
    hash: u64,
}

#[derive(Default)]
struct Contents {
    now: Duration,
    lines: Vec<Line>,
}

/// Receives what the code of a simulation logs. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Transcript(Arc<Mutex<Contents>>);

impl Transcript {
    /// Sets the simulated time of the next lines. A line cannot read the time itself, because turmoil logs while its
    /// world is borrowed.
    pub(super) fn set_time(&self, now: Duration) {
        self.with(|contents| contents.now = now);
    }

    /// Adds a line of the simulation itself.
    pub(super) fn note(&self, text: String) {
        let mut hasher = DefaultHasher::new();
        hasher.write(text.as_bytes());
        let (hash, mut text) = (hasher.finish(), text);
        text.truncate(text.floor_char_boundary(MAX_LINE));
        self.with(|contents| contents.lines.push(Line { time: contents.now, text, hash }));
    }

    /// Number of lines so far that contain a text.
    pub(super) fn count(&self, part: &str) -> usize {
        self.with(|contents| contents.lines.iter().filter(|line| line.text.contains(part)).count())
    }

    /// All lines.
    pub(super) fn lines(&self) -> Vec<Line> {
        self.with(|contents| contents.lines.clone())
    }

    /// Locked for a few instructions by the one thread of the simulation.
    fn with<T>(&self, action: impl FnOnce(&mut Contents) -> T) -> T {
        action(&mut self.0.lock())
    }
}

impl Subscriber for Transcript {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // turmoil names the protocol in each line about a message; the others only count its steps.
        let is_message = || metadata.fields().field("protocol").is_some();
        metadata.is_event()
            && (metadata.target().starts_with("tenon_network") || metadata.target() == "turmoil" && is_message())
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.note(text.0);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

/// The fields of a line.
struct Text(String);

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        // Writing to a string cannot fail.
        let _ = write!(self.0, "{field}={value} ");
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

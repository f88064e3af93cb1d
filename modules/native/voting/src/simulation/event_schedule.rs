//! The planned events of a world, sorted by time. Events of the same millisecond are grouped by node, which keeps the
//! node's data in the CPU cache.

use std::collections::{BTreeMap, VecDeque};

use super::world::Event;

/// An event of a node.
pub(super) struct Planned {
    pub(super) who: u32,
    /// The node's life when it was planned.
    pub(super) life: u32,
    pub(super) event: Event,
}

/// All planned events.
#[derive(Default)]
pub(super) struct EventSchedule {
    /// Those of the current millisecond.
    now: VecDeque<Planned>,
    time: u64,
    later: BTreeMap<u64, Vec<Planned>>,
}

impl EventSchedule {
    /// Plans an event for the current millisecond or a later one.
    pub(super) fn add(&mut self, time: u64, planned: Planned) {
        if time <= self.time && !self.now.is_empty() {
            self.now.push_back(planned);
        } else {
            self.later.entry(time).or_default().push(planned);
        }
    }

    /// The next event before `end`, with its time.
    pub(super) fn next(&mut self, end: u64) -> Option<(u64, Planned)> {
        if self.now.is_empty() {
            let first = self.later.first_entry().filter(|first| *first.key() < end)?;
            let (time, mut planned) = first.remove_entry();
            // A stable sort: what arrives over one connection stays in order.
            planned.sort_by_key(|planned| planned.who);
            (self.time, self.now) = (time, planned.into());
        }
        Some((self.time, self.now.pop_front()?))
    }
}

//! The logs of one event, shared by all subscriptions: decoded once, ordered once, each log written once.

use std::{
    ops::Range,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use tenon_sdk::{
    prelude::*,
    shapes::{JsonWriter, LOG_JSON_BYTES, write_located_log},
};

use crate::{criteria::Criteria, dialect::Dialect, feed::FeedItem, shared_event::Text};

/// A log is indexed by its address and up to four topics.
const KEYS: usize = 5;
/// Up to this many logs are compared one by one: sorting them costs more.
const MAX_UNINDEXED_LOGS: usize = 64;
/// Maximum number of candidate positions of a search. A filter with more candidates checks every log of the event,
/// without a list.
const MAX_CANDIDATES: usize = 512;
/// Logs that a search checks before it yields; they take some microseconds.
const LOGS_PER_STEP: usize = 256;
/// Maximum unused bytes by which the reservation for texts grows.
const MAX_TEXT_STEP: usize = 256 << 10;

/// The logs of one event.
pub(crate) struct EventLogs {
    dialect: &'static Dialect,
    /// In the order in which they are announced.
    logs: Vec<LocatedLog>,
    /// Its blocks in the order of the event: hash, and whether the block left the chain.
    blocks: Vec<(B256, bool)>,
    /// Positions of the logs, sorted by address, and by each topic. Computed when a filter first needs them.
    orders: [OnceLock<Vec<u32>>; KEYS],
    /// The JSON of each log that a subscription has requested.
    texts: Vec<OnceLock<Arc<[u8]>>>,
    memory: Mutex<Memory>,
}

/// An event's reservation in the memory budget.
struct Memory {
    /// For logs, orders and texts.
    held: HeldMemory,
    /// The used part of it.
    used: usize,
}

impl FeedItem for EventLogs {
    type Event = LogsChanged;

    fn bytes_of(event: &LogsChanged) -> usize {
        let place = size_of::<LocatedLog>() + size_of::<OnceLock<Arc<[u8]>>>() + KEYS * size_of::<u32>();
        // Data is allocated with a reference count.
        let heap = |log: &LocatedLog| log.log.topics.capacity() * size_of::<B256>() + log.log.data.len() + 64;
        event.logs.iter().map(|log| place + heap(log)).sum()
    }

    fn new(dialect: &'static Dialect, event: LogsChanged, memory: HeldMemory) -> Self {
        let mut logs = Arc::unwrap_or_clone(event.logs);
        let mut blocks: Vec<(B256, bool)> = logs.iter().map(|log| (log.block_hash, log.removed)).collect();
        blocks.dedup();
        blocks.shrink_to_fit();
        sort_removed(dialect, &mut logs);
        let texts = std::iter::repeat_with(OnceLock::new).take(logs.len()).collect();
        let memory = Mutex::new(Memory { used: memory.bytes(), held: memory });
        Self { dialect, logs, blocks, orders: Default::default(), texts, memory }
    }

    fn bytes(&self) -> usize {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).held.bytes()
    }
}

impl EventLogs {
    /// Its blocks, in the order of the event: hash, and whether the block left the chain.
    pub(crate) fn blocks(&self) -> &[(B256, bool)] {
        &self.blocks
    }

    /// A log by its position.
    pub(crate) fn log(&self, position: usize) -> Option<&LocatedLog> {
        self.logs.get(position)
    }

    /// The JSON of a log, written at the first request. If the node has no memory for it, it is not kept.
    pub(crate) fn text(&self, position: usize) -> Option<Text> {
        let (log, place) = (self.logs.get(position)?, self.texts.get(position)?);
        if let Some(text) = place.get() {
            return Some(Text::Shared(Arc::clone(text)));
        }
        let mut json = JsonWriter::with_capacity(LOG_JSON_BYTES + log.log.data.len() * 2);
        write_located_log(&mut json, self.dialect.profile, log);
        Some(match self.hold_text(json.len()) {
            true => Text::Shared(Arc::clone(place.get_or_init(|| json.into_bytes().into()))),
            false => Text::Own(json),
        })
    }

    fn hold_text(&self, bytes: usize) -> bool {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let used = memory.used.saturating_add(bytes);
        if used > memory.held.bytes() {
            let wanted = used.saturating_add((used / 4).min(MAX_TEXT_STEP));
            if memory.held.resize(wanted).is_err() {
                return false;
            }
        }
        memory.used = used;
        true
    }

    /// Positions of the logs that have this key, sorted by its value. Key 0 is the address, keys 1 to 4 are the topics.
    fn order(&self, key: usize) -> &[u32] {
        let Some(order) = self.orders.get(key) else { return &[] };
        order.get_or_init(|| {
            let has_key = |(_, log): &(u32, &LocatedLog)| key_of(log, key).is_some();
            let mut order: Vec<u32> = (0..).zip(&self.logs).filter(has_key).map(|(position, _)| position).collect();
            order.sort_by_key(|position| self.key_at(*position, key));
            order
        })
    }

    fn key_at(&self, position: u32, key: usize) -> Option<&[u8]> {
        self.logs.get(position as usize).and_then(|log| key_of(log, key))
    }

    /// The part of [`Self::order`] whose logs have this value of the key.
    fn with_value(&self, key: usize, value: &[u8]) -> Range<usize> {
        let order = self.order(key);
        let from = order.partition_point(|position| self.key_at(*position, key) < Some(value));
        let to = order.partition_point(|position| self.key_at(*position, key) <= Some(value));
        from..to
    }

    /// Positions of the logs that may match, ascending. `None` if every log must be checked: the event is small, the
    /// filter names no address and no topic, or too many logs may match.
    fn candidates(&self, filter: &LogFilter) -> Option<Vec<u32>> {
        if self.logs.len() <= MAX_UNINDEXED_LOGS {
            return None;
        }
        let addresses = filter.addresses.iter().map(|address| address.as_slice()).collect::<Vec<_>>();
        let topics = filter.topics.iter().map(|values| values.iter().map(B256::as_slice).collect::<Vec<_>>());
        let wanted = std::iter::once(addresses).chain(topics).enumerate().filter(|(_, values)| !values.is_empty());
        let found = wanted.map(|(key, values)| {
            let ranges: Vec<Range<usize>> = values.iter().map(|value| self.with_value(key, value)).collect();
            (ranges.iter().map(Range::len).sum::<usize>(), key, ranges)
        });
        let (count, key, ranges) = found.min_by_key(|(count, ..)| *count)?;
        if count > MAX_CANDIDATES {
            return None;
        }
        let order = self.order(key);
        let mut candidates: Vec<u32> =
            ranges.into_iter().filter_map(|range| order.get(range)).flatten().copied().collect();
        candidates.sort_unstable();
        candidates.dedup();
        Some(candidates)
    }
}

/// The value of a log's key: its address, or a topic.
fn key_of(log: &LocatedLog, key: usize) -> Option<&[u8]> {
    match key.checked_sub(1) {
        None => Some(log.log.address.as_slice()),
        Some(topic) => log.log.topics.get(topic).map(|topic| topic.as_slice()),
    }
}

/// Go-ethereum announces removed logs from the newest block on; native chains in ascending order
/// (`docs/spec/rpc-eth.md` 14.3).
fn sort_removed(dialect: &Dialect, logs: &mut [LocatedLog]) {
    if dialect.announces_only_above_replaced {
        let removed = logs.iter().take_while(|log| log.removed).count();
        if let Some(removed) = logs.get_mut(..removed) {
            removed.sort_by_key(|log| (log.block_number, log.log_index));
        }
    }
}

/// A search for the logs of an event that match a subscription.
pub(crate) struct Search {
    event: Arc<EventLogs>,
    /// `None`: every log is checked.
    candidates: Option<Vec<u32>>,
    /// Number of checked logs.
    looked: usize,
}

/// Result of a search step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The log at this position matches.
    Found(usize),
    /// Not finished: yield to other tasks.
    Pause,
    /// There are no more matches.
    End,
}

impl Search {
    /// Starts a search. The values of `criteria` must be sorted.
    pub(crate) fn new(event: Arc<EventLogs>, criteria: &Criteria) -> Self {
        let candidates = event.candidates(&criteria.filter);
        Self { event, candidates, looked: 0 }
    }

    /// Continues to the next matching log. Skips logs of `announced` blocks.
    pub(crate) fn step(&mut self, criteria: &Criteria, announced: &[(B256, bool)]) -> Step {
        for _ in 0..LOGS_PER_STEP {
            let position = match &self.candidates {
                Some(candidates) => candidates.get(self.looked).map(|position| *position as usize),
                None => Some(self.looked),
            };
            let Some((position, log)) = position.and_then(|position| Some((position, self.event.log(position)?)))
            else {
                return Step::End;
            };
            self.looked += 1;
            if criteria.matches_sorted(log) && !announced.contains(&(log.block_hash, log.removed)) {
                return Step::Found(position);
            }
        }
        Step::Pause
    }
}

#[cfg(test)]
mod tests {
    use tenon_sdk::testing::FakeHost;

    use super::*;
    use crate::criteria::Scope;

    fn log(number: u64) -> LocatedLog {
        let topic = |value: u64| B256::with_last_byte(value as u8);
        let topics = vec![topic(number % 7), topic(number % 3)];
        LocatedLog {
            log: Log { address: Address::with_last_byte((number % 11) as u8), topics, data: vec![7; 10].into() },
            block_number: BlockNumber(1 + number / 500),
            block_hash: B256::with_last_byte(1 + (number / 500) as u8),
            block_timestamp: 0,
            transaction_hash: B256::ZERO,
            transaction_index: 0,
            log_index: number,
            removed: false,
        }
    }

    fn event(node: &FakeHost, dialect: &'static Dialect, logs: Vec<LocatedLog>) -> Arc<EventLogs> {
        let event = LogsChanged { logs: logs.into() };
        let memory = node.host().hold(0, EventLogs::bytes_of(&event)).unwrap();
        Arc::new(EventLogs::new(dialect, event, memory))
    }

    fn criteria(addresses: &[u8], topics: &[&[u8]]) -> Criteria {
        let values = |values: &[u8]| values.iter().map(|value| B256::with_last_byte(*value)).collect();
        let filter = LogFilter {
            addresses: addresses.iter().map(|value| Address::with_last_byte(*value)).collect(),
            topics: topics.iter().map(|position| values(position)).collect(),
        };
        let mut criteria = Criteria { scope: Scope::Range { from: BlockId::LATEST, to: BlockId::LATEST }, filter };
        criteria.sort_values();
        criteria
    }

    fn found(event: &Arc<EventLogs>, criteria: &Criteria, announced: &[(B256, bool)]) -> Vec<usize> {
        let mut search = Search::new(Arc::clone(event), criteria);
        let steps = std::iter::from_fn(|| Some(search.step(criteria, announced)).filter(|step| *step != Step::End));
        steps.filter_map(|step| if let Step::Found(position) = step { Some(position) } else { None }).collect()
    }

    #[test]
    fn a_search_by_any_index_finds_the_logs_that_a_full_scan_finds() {
        let node = FakeHost::new();
        let logs: Vec<LocatedLog> = (0..1_000).map(log).collect();
        let event = event(&node, &Dialect::ETHEREUM, logs.clone());
        let cases = [
            criteria(&[], &[]),
            criteria(&[3], &[]),
            criteria(&[9, 3, 200], &[]),
            criteria(&[], &[&[6, 2]]),
            criteria(&[], &[&[], &[1]]),
            criteria(&[5, 4], &[&[1, 5], &[2, 0]]),
            criteria(&[200], &[&[1]]),
            criteria(&[], &[&[], &[], &[]]),
            criteria(&[], &[&[], &[], &[1]]),
        ];
        for criteria in &cases {
            let expected: Vec<usize> =
                (0..1_000).filter(|position| criteria.filter.matches(&logs[*position].log)).collect();

            assert_eq!(found(&event, criteria, &[]), expected, "{criteria:?}");
        }
        assert_eq!(event.candidates(&cases[1].filter).map(|candidates| candidates.len()), Some(91), "by the index");
        assert_eq!(event.candidates(&cases[0].filter), None, "every log");
    }

    #[test]
    fn announced_blocks_are_skipped() {
        let event = event(&FakeHost::new(), &Dialect::ETHEREUM, (0..1_000).map(log).collect());
        let blocks = event.blocks().to_vec();
        assert_eq!(blocks.len(), 2);

        let found = found(&event, &criteria(&[], &[]), &blocks[..1]);

        assert_eq!(found, (500..1_000).collect::<Vec<_>>());
    }

    #[test]
    fn removed_logs_of_native_chains_come_from_the_oldest_on() {
        let removed = |number| LocatedLog { removed: true, ..log(number) };
        let numbers = |dialect| {
            let event = event(&FakeHost::new(), dialect, vec![removed(600), removed(601), removed(1), removed(2)]);
            (event.logs.iter().map(|log| log.log_index).collect::<Vec<_>>(), event.blocks().len())
        };

        assert_eq!(numbers(&Dialect::NATIVE), (vec![1, 2, 600, 601], 2));
        assert_eq!(numbers(&Dialect::ETHEREUM), (vec![600, 601, 1, 2], 2));
    }

    #[test]
    fn a_log_is_written_once_and_counted_until_the_event_is_gone() {
        let node = FakeHost::new();
        let event = event(&node, &Dialect::ETHEREUM, (0..10).map(log).collect());
        let before = node.held(0);
        assert!(before > 10 * size_of::<LocatedLog>());

        let (Some(Text::Shared(first)), Some(Text::Shared(again))) = (event.text(3), event.text(3)) else {
            panic!("the text is kept")
        };

        assert!(Arc::ptr_eq(&first, &again), "the text is shared");
        assert!(node.held(0) >= before + first.len());
        assert!(event.text(10).is_none());
        drop(event);
        assert_eq!(node.held(0), 0);
    }

    #[test]
    fn without_memory_a_text_is_not_kept() {
        let node = FakeHost::new();
        let logs: Vec<LocatedLog> = (0..10).map(log).collect();
        let size = EventLogs::bytes_of(&LogsChanged { logs: logs.clone().into() });
        let _bounded = node.clone().with_memory(size + 10);

        let event = event(&node, &Dialect::ETHEREUM, logs);
        let (Some(Text::Own(first)), Some(Text::Own(again))) = (event.text(3), event.text(3)) else {
            panic!("each subscription has its own text")
        };

        assert_eq!(first.into_bytes(), again.into_bytes());
    }
}

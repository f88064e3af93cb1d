//! The installed filters. A filter is a position that its owner polled last; nothing runs between polls.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tenon_sdk::{api::codec, prelude::*};

use crate::{changes::Delivered, criteria::Criteria};

/// A filter that nobody polls for this long is forgotten (`spec/rpc-eth.md` 14.3).
pub(crate) const IDLE_LIMIT: Duration = Duration::from_mins(5);
/// Most filters at a time; one is a few hundred bytes, and up to 32 KiB of delivered logs.
const MAX_FILTERS: usize = 2_000;

/// Form of the hand-over: its first byte. Raised when [`Filter`] or what is in it changes.
const HANDOVER_VERSION: u8 = 1;

/// What a filter watches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Watched {
    /// Logs that pass.
    Logs(Criteria),
    /// Blocks of the canonical chain.
    Blocks,
    /// Transactions that became pending.
    PendingTransactions,
}

/// How far a filter's owner has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Position {
    /// The last block.
    Block(B256),
    /// The pool's cursor.
    Cursor(u64),
}

/// An installed filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Filter {
    pub(crate) watched: Watched,
    pub(crate) position: Position,
    /// Kept for log filters only.
    pub(crate) delivered: Delivered,
    /// By the host's clock.
    last_polled: Duration,
}

/// All filters of the node: ids are shared by all connections.
pub(crate) struct Registry {
    /// Touched by every filter method; nothing awaits under it.
    filters: Mutex<HashMap<u128, Filter>>,
    /// Two keyed hashes of a counter make an id that cannot be guessed from others; the keys come from the
    /// operating system.
    keys: [RandomState; 2],
    counter: AtomicU64,
}

impl Registry {
    /// An empty registry, or the one that `export` gave. What another version of this plugin exported in another form
    /// is left: its filters answer "filter not found" then, as after a restart, and clients install them anew.
    pub(crate) fn new(handover: &[u8]) -> Self {
        let filters: Vec<(u128, Filter)> = match handover.split_first() {
            Some((&HANDOVER_VERSION, filters)) => codec::decode(filters).unwrap_or_default(),
            _ => Vec::new(),
        };
        Self {
            filters: Mutex::new(filters.into_iter().take(MAX_FILTERS).collect()),
            keys: [RandomState::new(), RandomState::new()],
            counter: AtomicU64::new(0),
        }
    }

    /// All filters, for the plugin's next version.
    pub(crate) fn export(&self) -> Vec<u8> {
        let filters: Vec<(u128, Filter)> = self.lock().iter().map(|(id, filter)| (*id, filter.clone())).collect();
        let encoded = codec::encode(&filters).unwrap_or_default();
        [&[HANDOVER_VERSION], &encoded[..]].concat()
    }

    /// Adds a filter and gives its id.
    pub(crate) fn install(&self, now: Duration, watched: Watched, position: Position) -> Result<String, Failure> {
        let id = self.next_id();
        let mut filters = self.lock();
        filters.retain(|_, filter| !filter.is_idle(now));
        if filters.len() >= MAX_FILTERS {
            return Err(Failure::limit(format!("too many filters: {MAX_FILTERS} are installed; uninstall some")));
        }
        filters.insert(id, Filter { watched, position, delivered: Delivered::default(), last_polled: now });
        Ok(format!("{id:#x}"))
    }

    /// The filter, whose idle time starts anew if `is_poll`.
    pub(crate) fn get(&self, now: Duration, id: &str, is_poll: bool) -> Result<Filter, Failure> {
        let not_found = || Failure::server("filter not found");
        let id = parse_id(id).ok_or_else(not_found)?;
        let mut filters = self.lock();
        let filter = filters.get_mut(&id).ok_or_else(not_found)?;
        if filter.is_idle(now) {
            filters.remove(&id);
            return Err(not_found());
        }
        if is_poll {
            filter.last_polled = now;
        }
        Ok(filter.clone())
    }

    /// Moves a filter on past `logs`; false when somebody else moved it since `from` was read.
    pub(crate) fn advance(&self, id: &str, from: Position, to: Position, logs: &[LocatedLog]) -> bool {
        let Some(id) = parse_id(id) else { return false };
        match self.lock().get_mut(&id) {
            Some(filter) if filter.position == from => {
                filter.position = to;
                filter.delivered.note(logs);
                true
            }
            Some(_) => false,
            // Uninstalled meanwhile: there is nothing left to move.
            None => true,
        }
    }

    /// Removes a filter; false when there was none.
    pub(crate) fn uninstall(&self, id: &str) -> bool {
        parse_id(id).is_some_and(|id| self.lock().remove(&id).is_some())
    }

    fn next_id(&self) -> u128 {
        let count = self.counter.fetch_add(1, Ordering::Relaxed);
        let [high, low] = [0, 1].map(|half: usize| u128::from(self.keys[half].hash_one(count)));
        high << 64 | low
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u128, Filter>> {
        self.filters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Filter {
    fn is_idle(&self, now: Duration) -> bool {
        now.saturating_sub(self.last_polled) > IDLE_LIMIT
    }
}

pub(crate) fn parse_id(text: &str) -> Option<u128> {
    let digits = text.strip_prefix("0x").filter(|digits| !digits.starts_with('+'))?;
    u128::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_hours(1);

    fn installed(registry: &Registry) -> String {
        let position = Position::Block(B256::ZERO);
        registry.install(START, Watched::Blocks, position).unwrap_or_default()
    }

    #[test]
    fn a_filter_expires_when_nobody_polls_it() {
        let registry = Registry::new(&[]);
        let id = installed(&registry);

        assert!(registry.get(START + IDLE_LIMIT, &id, true).is_ok());
        assert!(registry.get(START + IDLE_LIMIT * 2, &id, false).is_ok());
        let late = registry.get(START + IDLE_LIMIT * 2 + Duration::from_secs(1), &id, false);

        assert_eq!(late, Err(Failure::server("filter not found")));
        assert!(!registry.uninstall(&id));
    }

    #[test]
    fn installing_sweeps_out_the_expired() {
        let registry = Registry::new(&[]);
        for _ in 0..MAX_FILTERS {
            installed(&registry);
        }

        let refused = registry.install(START, Watched::Blocks, Position::Cursor(0));
        let later = registry.install(START + IDLE_LIMIT * 2, Watched::Blocks, Position::Cursor(0));

        assert_eq!(refused.map_err(|failure| failure.code), Err(FailureCode::LIMIT_EXCEEDED));
        assert!(later.is_ok());
    }

    #[test]
    fn a_filter_advances_only_from_where_it_stands() {
        let registry = Registry::new(&[]);
        let id = installed(&registry);
        let (first, second) = (Position::Block(B256::ZERO), Position::Block(B256::repeat_byte(1)));

        assert!(registry.advance(&id, first, second, &[]));
        assert!(!registry.advance(&id, first, second, &[]));

        assert_eq!(registry.get(START, &id, true).map(|filter| filter.position), Ok(second));
    }

    #[test]
    fn filters_survive_the_replacement_of_the_plugin() {
        let registry = Registry::new(&[]);
        let id = installed(&registry);

        let next = Registry::new(&registry.export());

        assert_eq!(next.get(START, &id, true), registry.get(START, &id, true));
        assert!(next.uninstall(&id));
    }

    #[test]
    fn a_hand_over_of_another_form_begins_without_filters() {
        let registry = Registry::new(&[]);
        let id = installed(&registry);
        let filters: Vec<(u128, Filter)> = registry.lock().iter().map(|(id, filter)| (*id, filter.clone())).collect();
        let filters = codec::encode(&filters).unwrap();

        for other in [filters.clone(), [&[HANDOVER_VERSION + 1], &filters[..]].concat()] {
            let next = Registry::new(&other);
            assert_eq!(next.get(START, &id, true).unwrap_err().message, "filter not found");
        }
    }

    #[test]
    fn ids_differ_and_foreign_ones_are_unknown() {
        let registry = Registry::new(&[]);
        let ids: std::collections::HashSet<String> = (0..100).map(|_| installed(&registry)).collect();

        assert_eq!(ids.len(), 100);
        for id in ["", "0x", "0x+1", "1", "0xzz", "0x0"] {
            assert!(registry.get(START, id, false).is_err(), "{id}");
        }
    }
}

//! The installed filters. A filter is the position of its owner's last poll; between polls only its idle time is checked.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tenon_sdk::{ArgumentError, Param, RawArgument, api::codec, param::ParamDescription, prelude::*};

use crate::{changes::SentLogs, criteria::Criteria};

/// Time without polls after which a filter is removed (`docs/spec/rpc-eth.md` 14.3).
pub(crate) const IDLE_LIMIT: Duration = Duration::from_mins(5);
/// Maximum number of filters. One is a few hundred bytes, at most 52 KiB of criteria and 32 KiB of delivered logs,
/// which are counted as memory of its client.
const MAX_FILTERS: usize = 2_000;
/// Maximum number of filters of one client.
const MAX_CLIENT_FILTERS: usize = 1_000;

/// Format of the hand-over: its first byte. Raised when [`Filter`] or its content changes.
const HANDOVER_VERSION: u8 = 2;

/// The id of a filter, as its owner wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilterId(pub(crate) String);

impl Param for FilterId {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        match String::decode(raw) {
            Ok(id) => Ok(Self(id)),
            Err(_) => Err(ArgumentError::mismatch(raw.kind(), "rpc.ID")),
        }
    }

    fn description() -> ParamDescription {
        String::description()
    }
}

/// The subject of a filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Watched {
    /// Matching logs.
    Logs(Criteria),
    /// Blocks of the canonical chain.
    Blocks,
    /// Transactions that became pending.
    PendingTransactions,
}

impl Watched {
    /// Memory of such a filter in bytes, without the remembered logs.
    pub(crate) fn filter_bytes(&self) -> usize {
        // The table may have up to twice the capacity.
        let place = 2 * (size_of::<u128>() + size_of::<Installed>());
        match self {
            Self::Logs(criteria) => place + criteria.heap_bytes(),
            Self::Blocks | Self::PendingTransactions => place,
        }
    }
}

/// The position up to which a filter's owner has read.
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
    pub(crate) delivered: SentLogs,
    /// By the host's clock.
    last_polled: Duration,
    /// The client that installed it.
    client: u64,
}

/// A filter in the table.
struct Installed {
    filter: Filter,
    /// Its memory, counted for its client.
    memory: Option<HeldMemory>,
}

/// The client that installs a filter, with the memory reserved for it.
#[derive(Debug, Default)]
pub(crate) struct Installer {
    /// The client's number.
    pub(crate) client: u64,
    /// Its [`Watched::filter_bytes`]; `None` if it is not counted.
    pub(crate) memory: Option<HeldMemory>,
}

/// All filters of the node: ids are shared by all connections.
pub(crate) struct Registry {
    /// Locked by every filter method; nothing awaits under it.
    filters: Mutex<HashMap<u128, Installed>>,
    /// Two keyed hashes of a counter make an id that cannot be guessed from others; the keys come from the operating
    /// system.
    keys: [RandomState; 2],
    counter: AtomicU64,
}

impl Registry {
    /// Creates an empty registry, or the one that `export` returned. Filters that another version of this plugin
    /// exported in another format are dropped: they then return "filter not found", as after a restart, and clients
    /// install them again. Filters for which `hold`, called with client and bytes, has no memory are dropped too.
    pub(crate) fn new(handover: &[u8], hold: impl Fn(u64, usize) -> Result<Option<HeldMemory>, Failure>) -> Self {
        let filters: Vec<(u128, Filter)> = match handover.split_first() {
            Some((&HANDOVER_VERSION, filters)) => codec::decode(filters).unwrap_or_default(),
            _ => Vec::new(),
        };
        let installed = |(id, filter): (u128, Filter)| {
            let bytes = filter.watched.filter_bytes().saturating_add(filter.delivered.bytes());
            let memory = hold(filter.client, bytes).ok()?;
            Some((id, Installed { filter, memory }))
        };
        Self {
            filters: Mutex::new(filters.into_iter().take(MAX_FILTERS).filter_map(installed).collect()),
            keys: [RandomState::new(), RandomState::new()],
            counter: AtomicU64::new(0),
        }
    }

    /// All filters, for the plugin's next version.
    pub(crate) fn export(&self) -> Vec<u8> {
        let filters: Vec<(u128, Filter)> =
            self.lock().iter().map(|(id, installed)| (*id, installed.filter.clone())).collect();
        let encoded = codec::encode(&filters).unwrap_or_default();
        [&[HANDOVER_VERSION], &encoded[..]].concat()
    }

    /// Adds a filter and returns its id. A full table drops the least recently polled filter of the client with the
    /// most filters: a client that keeps installing filters does not affect others.
    pub(crate) fn install(
        &self,
        now: Duration,
        by: Installer,
        watched: Watched,
        position: Position,
    ) -> Result<String, Failure> {
        let id = self.next_id();
        self.remove_idle(now);
        let mut filters = self.lock();
        let own = filters.values().filter(|installed| installed.filter.client == by.client).count();
        if own >= MAX_CLIENT_FILTERS {
            return Err(Failure::limit(format!("too many filters: this client has {own}; uninstall some")));
        }
        if filters.len() >= MAX_FILTERS
            && let Some(given_up) = stalest_of_largest(&filters)
        {
            filters.remove(&given_up);
        }
        let Installer { client, memory } = by;
        let filter = Filter { watched, position, delivered: SentLogs::default(), last_polled: now, client };
        filters.insert(id, Installed { filter, memory });
        Ok(format!("{id:#x}"))
    }

    /// The filter, whose idle time restarts if `is_poll`.
    pub(crate) fn get(&self, now: Duration, id: &str, is_poll: bool) -> Result<Filter, Failure> {
        let not_found = || Failure::server("filter not found");
        let id = parse_id(id).ok_or_else(not_found)?;
        let mut filters = self.lock();
        let filter = &mut filters.get_mut(&id).ok_or_else(not_found)?.filter;
        if filter.is_idle(now) {
            filters.remove(&id);
            return Err(not_found());
        }
        if is_poll {
            filter.last_polled = now;
        }
        Ok(filter.clone())
    }

    /// Advances a filter past `logs`; returns false if another poll has moved it since `from` was read.
    pub(crate) fn advance(&self, id: &str, from: Position, to: Position, logs: &[LocatedLog]) -> bool {
        let Some(id) = parse_id(id) else { return false };
        match self.lock().get_mut(&id) {
            Some(Installed { filter, memory }) if filter.position == from => {
                filter.position = to;
                filter.delivered.note(logs);
                let bytes = filter.watched.filter_bytes().saturating_add(filter.delivered.bytes());
                if memory.as_mut().is_some_and(|memory| memory.resize(bytes).is_err()) {
                    // Removals of these logs can't be announced then, as for logs that were delivered long ago.
                    filter.delivered = SentLogs::default();
                }
                true
            }
            Some(_) => false,
            // Uninstalled in the meantime: there is nothing to move.
            None => true,
        }
    }

    /// Removes a filter; returns false if there was none.
    pub(crate) fn uninstall(&self, id: &str) -> bool {
        parse_id(id).is_some_and(|id| self.lock().remove(&id).is_some())
    }

    /// Removes filters that were not polled for a while, and releases their memory.
    pub(crate) fn remove_idle(&self, now: Duration) {
        self.lock().retain(|_, installed| !installed.filter.is_idle(now));
    }

    fn next_id(&self) -> u128 {
        let count = self.counter.fetch_add(1, Ordering::Relaxed);
        let [high, low] = [0, 1].map(|half: usize| u128::from(self.keys[half].hash_one(count)));
        high << 64 | low
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u128, Installed>> {
        self.filters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Filter {
    fn is_idle(&self, now: Duration) -> bool {
        now.saturating_sub(self.last_polled) > IDLE_LIMIT
    }
}

/// The least recently polled filter of the client with the most filters.
fn stalest_of_largest(filters: &HashMap<u128, Installed>) -> Option<u128> {
    let mut counts: HashMap<u64, usize> = HashMap::new();
    for installed in filters.values() {
        *counts.entry(installed.filter.client).or_default() += 1;
    }
    let (largest, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    let own = filters.iter().filter(|(_, installed)| installed.filter.client == largest);
    own.min_by_key(|(_, installed)| installed.filter.last_polled).map(|(id, _)| *id)
}

pub(crate) fn parse_id(text: &str) -> Option<u128> {
    let digits = text.strip_prefix("0x").filter(|digits| !digits.starts_with('+'))?;
    u128::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_hours(1);

    fn uncounted(_: u64, _: usize) -> Result<Option<HeldMemory>, Failure> {
        Ok(None)
    }

    fn registry(handover: &[u8]) -> Registry {
        Registry::new(handover, uncounted)
    }

    fn install_at(registry: &Registry, now: Duration, client: u64) -> Result<String, Failure> {
        let by = Installer { client, memory: None };
        registry.install(now, by, Watched::Blocks, Position::Block(B256::ZERO))
    }

    fn installed(registry: &Registry) -> String {
        install_at(registry, START, 0).unwrap_or_default()
    }

    #[test]
    fn a_filter_expires_without_polls() {
        let registry = registry(&[]);
        let id = installed(&registry);

        assert!(registry.get(START + IDLE_LIMIT, &id, true).is_ok());
        assert!(registry.get(START + IDLE_LIMIT * 2, &id, false).is_ok());
        let late = registry.get(START + IDLE_LIMIT * 2 + Duration::from_secs(1), &id, false);

        assert_eq!(late, Err(Failure::server("filter not found")));
        assert!(!registry.uninstall(&id));
    }

    #[test]
    fn a_client_has_a_quota_and_installing_sweeps_out_the_expired() {
        let registry = registry(&[]);
        for _ in 0..MAX_CLIENT_FILTERS {
            installed(&registry);
        }

        let refused = install_at(&registry, START, 0);
        let of_another = install_at(&registry, START, 1);
        let later = install_at(&registry, START + IDLE_LIMIT * 2, 0);

        assert_eq!(refused.map_err(|failure| failure.code), Err(FailureCode::LIMIT_EXCEEDED));
        assert!(of_another.is_ok());
        assert!(later.is_ok());
        assert_eq!(registry.lock().len(), 1);
    }

    #[test]
    fn a_full_table_drops_the_least_recently_polled_filter_of_the_client_with_the_most_filters() {
        let registry = registry(&[]);
        let second = Duration::from_secs(1);
        let honest = install_at(&registry, START, 7).unwrap();
        let mut greedy = Vec::new();
        for client in [1, 2] {
            for _ in client..MAX_CLIENT_FILTERS as u64 {
                greedy.push(install_at(&registry, START + second, client).unwrap());
            }
        }
        registry.get(START + second * 2, &greedy[0], true).unwrap();
        while registry.lock().len() < MAX_FILTERS {
            install_at(&registry, START + second * 2, 3).unwrap();
        }

        let newest = install_at(&registry, START + second * 3, 7).unwrap();

        let is_there = |id: &String| registry.get(START + second * 3, id, false).is_ok();
        assert!(is_there(&honest) && is_there(&newest), "filters of other clients stay, although they are older");
        assert!(is_there(&greedy[0]), "it was polled last");
        assert_eq!(greedy.iter().filter(|id| !is_there(id)).count(), 1);
        assert!(
            greedy[..MAX_CLIENT_FILTERS - 1].iter().any(|id| !is_there(id)),
            "a filter of the client with the most filters"
        );
    }

    #[test]
    fn memory_of_filters_is_counted_for_their_client_and_released() {
        let node = tenon_sdk::testing::FakeHost::new();
        let host = node.host();
        let topics = vec![vec![B256::ZERO; 1000]];
        let criteria = Criteria {
            scope: crate::criteria::Scope::Range { from: BlockId::LATEST, to: BlockId::LATEST },
            filter: LogFilter { addresses: Vec::new(), topics },
        };
        let watched = Watched::Logs(criteria);
        let hold = |client, bytes| host.hold(client, bytes).map(Some);
        let registry = Registry::new(&[], hold);
        let by = Installer { client: 5, memory: host.hold(5, watched.filter_bytes()).ok() };
        let (from, to) = (Position::Cursor(0), Position::Cursor(1));
        let id = registry.install(START, by, watched, from).unwrap();
        let before = node.held(5);
        assert!((32_000..34_000).contains(&before), "{before}");
        let log = LocatedLog {
            log: Log { address: Address::ZERO, topics: Vec::new(), data: Bytes::from(vec![0; 10_000]) },
            block_number: BlockNumber(1),
            block_hash: B256::ZERO,
            block_timestamp: 0,
            transaction_hash: B256::ZERO,
            transaction_index: 0,
            log_index: 0,
            removed: false,
        };

        assert!(registry.advance(&id, from, to, &[log]));
        assert!(node.held(5) >= before + 10_000);
        let next = Registry::new(&registry.export(), hold);
        drop(registry);
        assert!(node.held(5) >= before + 10_000, "the next version keeps the memory counted");
        let _bounded = node.clone().with_memory(1_000);
        let starved = Registry::new(&next.export(), hold);

        assert!(next.uninstall(&id));
        assert_eq!(node.held(5), 0);
        assert!(starved.get(START, &id, false).is_err(), "a filter without memory is not kept");
    }

    #[test]
    fn a_filter_advances_only_from_its_current_position() {
        let registry = registry(&[]);
        let id = installed(&registry);
        let (first, second) = (Position::Block(B256::ZERO), Position::Block(B256::repeat_byte(1)));

        assert!(registry.advance(&id, first, second, &[]));
        assert!(!registry.advance(&id, first, second, &[]));

        assert_eq!(registry.get(START, &id, true).map(|filter| filter.position), Ok(second));
    }

    #[test]
    fn filters_survive_the_replacement_of_the_plugin() {
        let registry = registry(&[]);
        let id = installed(&registry);

        let next = Registry::new(&registry.export(), uncounted);

        assert_eq!(next.get(START, &id, true), registry.get(START, &id, true));
        assert!(next.uninstall(&id));
    }

    #[test]
    fn a_hand_over_in_another_format_starts_without_filters() {
        let registry = registry(&[]);
        let id = installed(&registry);
        let filters: Vec<(u128, Filter)> =
            registry.lock().iter().map(|(id, installed)| (*id, installed.filter.clone())).collect();
        let filters = codec::encode(&filters).unwrap();

        for other in [filters.clone(), [&[HANDOVER_VERSION + 1], &filters[..]].concat()] {
            let next = Registry::new(&other, uncounted);
            assert_eq!(next.get(START, &id, true).unwrap_err().message, "filter not found");
        }
    }

    #[test]
    fn ids_differ_and_foreign_ones_are_unknown() {
        let registry = registry(&[]);
        let ids: std::collections::HashSet<String> = (0..100).map(|_| installed(&registry)).collect();

        assert_eq!(ids.len(), 100);
        for id in ["", "0x", "0x+1", "1", "0xzz", "0x0"] {
            assert!(registry.get(START, id, false).is_err(), "{id}");
        }
    }
}

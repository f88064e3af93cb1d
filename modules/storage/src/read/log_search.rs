//! Finds logs without reading blocks.
//!
//! The index lists, for every contract and for every topic at each position, the blocks with such logs and the
//! positions in them. A search walks one list per requested value. Lists of one criterion (any of these addresses, any
//! of these topics) are merged. Criteria are intersected by skipping: each one is moved to the highest block that
//! another has reached. So the most selective one decides how much is read. Only matching logs are read.

use tenon_api::{BlockNumber, LocatedLog, LogFilter, StoreError};

use crate::{
    database::{Cursor, cursor_status},
    error::corrupt,
    format::{
        columns::Column,
        keys::{self, LogIndexPrefix, LogKind},
        records::{self, StoredLog},
    },
    read::shared::Shared,
};

/// Maximum number of values of one criterion that get a cursor each. A criterion with more is not looked up in the
/// index, because cursors hold memory of the engine. It is checked on every log that the others leave.
const CURSORS_PER_CRITERION: usize = 256;

/// Logs of one block between two checks for cancellation: a block may have tens of thousands.
const CHECK_PERIOD: usize = 64;

/// A request for logs.
pub(crate) struct LogSearch<'a> {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) filter: &'a LogFilter,
    /// The search ends once more were found.
    pub(crate) limit: usize,
    /// Called at every block and every [`CHECK_PERIOD`] logs of one; true ends the search.
    pub(crate) is_cancelled: &'a dyn Fn() -> bool,
}

impl LogSearch<'_> {
    /// The matching logs in chain order.
    pub(crate) fn run(&self, shared: &Shared) -> Result<Vec<LocatedLog>, StoreError> {
        // Reads the head and the logs up to it from the same branch.
        shared.generations.together(|| self.run_once(shared))
    }

    fn run_once(&self, shared: &Shared) -> Result<Vec<LocatedLog>, StoreError> {
        let to = self.to.min(shared.head.load().header.number);
        if self.from > to {
            return Ok(Vec::new());
        }
        let token = shared.generations.observe(to)?;
        let found = self.collect(shared, to);
        // An unwind during the search would mix branches, or look like corruption.
        shared.generations.check(token, to)?;
        found
    }

    fn collect(&self, shared: &Shared, to: u64) -> Result<Vec<LocatedLog>, StoreError> {
        let mut found = Found { shared, search: self, logs: Vec::new(), block: None };
        let mut criteria = self.criteria(shared)?;
        if criteria.is_empty() {
            scan(&mut found, self.from, to)?;
        } else {
            intersect(&mut found, &mut criteria, self.from, to)?;
        }
        Ok(found.logs)
    }

    /// The criteria that the index can answer.
    fn criteria<'a>(&self, shared: &'a Shared) -> Result<Vec<Criterion<'a>>, StoreError> {
        let addresses = self.filter.addresses.iter().map(|address| keys::log_address_prefix(*address)).collect();
        let topics = (0_u8..4).zip(&self.filter.topics).map(|(position, values)| {
            values.iter().map(|value| keys::log_prefix(LogKind::Topic(position), *value)).collect()
        });
        std::iter::once(addresses)
            .chain(topics)
            .filter(|prefixes: &Vec<LogIndexPrefix>| (1..=CURSORS_PER_CRITERION).contains(&prefixes.len()))
            .map(|prefixes| Criterion::new(shared, prefixes))
            .collect()
    }
}

/// Reads every log of the range: for filters without a value in the index.
fn scan(found: &mut Found<'_>, from: u64, to: u64) -> Result<(), StoreError> {
    let end = keys::log(to.saturating_add(1), 0);
    let mut cursor = found.shared.database.range_cursor(Column::Logs, &keys::log(from, 0), Some(&end))?;
    while let Some((key, record)) = cursor.item() {
        let (number, position) = keys::log_position(key).ok_or_else(|| corrupt("key of a log"))?;
        let stored = records::decode_log(record).ok_or_else(|| corrupt(format!("log {position} of block {number}")))?;
        if found.is_done(number) {
            return Ok(());
        }
        found.add(number, position, stored)?;
        cursor.next();
    }
    cursor_status(&cursor)
}

/// Reads the logs whose positions all criteria list.
fn intersect(found: &mut Found<'_>, criteria: &mut [Criterion<'_>], from: u64, to: u64) -> Result<(), StoreError> {
    let mut logs = found.shared.database.range_cursor(Column::Logs, &keys::log(from, 0), None)?;
    let mut number = from;
    while number <= to && !found.is_done(number) {
        let mut furthest = number;
        for criterion in criteria.iter_mut() {
            let Some(reached) = criterion.advance(furthest)? else { return Ok(()) };
            furthest = reached;
        }
        if furthest > number {
            number = furthest;
            continue;
        }
        for position in common_positions(criteria, number)? {
            let wanted = keys::log(number, position);
            if logs.key() != Some(wanted.as_slice()) {
                logs.seek(wanted);
            }
            let Some((_, record)) = logs.item().filter(|(key, _)| *key == wanted.as_slice()) else {
                cursor_status(&logs)?;
                return Err(corrupt(format!("log {position} of block {number}, which the index lists")));
            };
            let damaged = || corrupt(format!("log {position} of block {number}"));
            found.add(number, position, records::decode_log(record).ok_or_else(damaged)?)?;
            if found.is_done(number) {
                return Ok(());
            }
            // Matching logs are often adjacent: a step is much cheaper than a seek.
            logs.next();
        }
        number += 1;
    }
    Ok(())
}

/// Positions that every criterion lists for this block, which all of them have reached.
fn common_positions(criteria: &[Criterion<'_>], number: u64) -> Result<Vec<u32>, StoreError> {
    let mut common: Option<Vec<u32>> = None;
    for criterion in criteria {
        let positions = criterion.positions(number)?;
        common = Some(match common {
            None => positions,
            Some(common) => common.into_iter().filter(|wanted| positions.binary_search(wanted).is_ok()).collect(),
        });
    }
    Ok(common.unwrap_or_default())
}

/// Logs found so far.
struct Found<'a> {
    shared: &'a Shared,
    search: &'a LogSearch<'a>,
    logs: Vec<LocatedLog>,
    /// The block of the last log, with hash and time.
    block: Option<(u64, alloy_primitives::B256, u64)>,
}

impl Found<'_> {
    /// Returns whether to stop before this block, or inside one with many logs.
    fn is_done(&self, number: u64) -> bool {
        let is_same_block = self.block.is_some_and(|(last, ..)| last == number);
        let checks = !is_same_block || self.logs.len().is_multiple_of(CHECK_PERIOD);
        self.logs.len() > self.search.limit || (checks && (self.search.is_cancelled)())
    }

    /// Adds a log if it passes the filter and the limit is not reached.
    fn add(&mut self, number: u64, position: u32, stored: StoredLog) -> Result<(), StoreError> {
        if self.logs.len() > self.search.limit || !self.search.filter.matches(&stored.log) {
            return Ok(());
        }
        let (_, block_hash, block_timestamp) = match self.block.filter(|(last, ..)| *last == number) {
            Some(block) => block,
            None => {
                let missing = || corrupt(format!("canonical block {number}"));
                let (hash, timestamp) = self.shared.canonical(number)?.ok_or_else(missing)?;
                *self.block.insert((number, hash, timestamp))
            }
        };
        self.logs.push(LocatedLog {
            log: stored.log,
            block_number: BlockNumber(number),
            block_hash,
            block_timestamp,
            transaction_hash: stored.transaction_hash,
            transaction_index: stored.transaction_index,
            log_index: u64::from(position),
            removed: false,
        });
        Ok(())
    }
}

/// A criterion: any of several values of one kind.
struct Criterion<'a> {
    lists: Vec<List<'a>>,
}

impl<'a> Criterion<'a> {
    fn new(shared: &'a Shared, mut prefixes: Vec<LogIndexPrefix>) -> Result<Self, StoreError> {
        prefixes.sort_unstable();
        prefixes.dedup();
        let list =
            |prefix| Ok(List { cursor: shared.database.prefix_cursor(Column::LogIndex)?, prefix, at: At::Start });
        Ok(Self { lists: prefixes.into_iter().map(list).collect::<Result<_, StoreError>>()? })
    }

    /// The first block from `number` on in any of the lists; `None` at the end.
    fn advance(&mut self, number: u64) -> Result<Option<u64>, StoreError> {
        let mut first = None;
        for list in &mut self.lists {
            if let Some(reached) = list.advance(number)? {
                first = Some(first.map_or(reached, |first: u64| first.min(reached)));
            }
        }
        self.lists.retain(|list| list.at != At::End);
        Ok(first)
    }

    /// The positions in this block, ascending.
    fn positions(&self, number: u64) -> Result<Vec<u32>, StoreError> {
        let mut positions = Vec::new();
        for list in self.lists.iter().filter(|list| list.at == At::Block(number)) {
            let record = list.cursor.value().and_then(records::decode_positions);
            positions.extend(record.ok_or_else(|| corrupt(format!("log index of block {number}")))?);
        }
        positions.sort_unstable();
        positions.dedup();
        Ok(positions)
    }
}

/// The blocks with logs of one kind and value.
struct List<'a> {
    cursor: Cursor<'a>,
    prefix: LogIndexPrefix,
    at: At,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Start,
    Block(u64),
    End,
}

impl List<'_> {
    fn advance(&mut self, number: u64) -> Result<Option<u64>, StoreError> {
        match self.at {
            At::End => return Ok(None),
            At::Block(reached) if reached >= number => return Ok(Some(reached)),
            At::Block(reached) if reached + 1 == number => self.cursor.next(),
            At::Block(_) | At::Start => self.cursor.seek(keys::log_index(&self.prefix, number)),
        }
        let reached = self.cursor.key().and_then(|key| key.strip_prefix(self.prefix.as_slice()));
        let Some(number) = reached.and_then(|number| <[u8; 8]>::try_from(number).ok()) else {
            cursor_status(&self.cursor)?;
            self.at = At::End;
            return Ok(None);
        };
        let number = u64::from_be_bytes(number);
        self.at = At::Block(number);
        Ok(Some(number))
    }
}

//! Log queries: a few blocks from their cached receipts, all others from the index.
//!
//! Clients that follow the chain query the newest blocks, whose receipts are still in memory. That takes less time than
//! waking a pool thread, as do searches with few results: both are attempted on the caller's task.

use std::{
    array,
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering},
};

use alloy_primitives::B256;
use tenon_api::{
    BlockNumber, ChainReader, LocatedLog, LogFilter, StoreError,
    messages::{GetLogs, LogRange},
};
use tenon_bus::CallContext;

use super::{
    Answers,
    error::{AnswerError, LimitExceeded},
    repeat_after_reorganisation,
};
use crate::{read::log_search::LogSearch, store::Store};

/// Maximum number of blocks answered from memory.
const CACHED_BLOCKS: u64 = 8;
/// Maximum number of their logs that a pool thread checks.
const CACHED_LOGS: usize = 4_096;
/// Maximum number that the caller's task checks; it also writes the matching ones.
const ATTEMPT_CACHED_LOGS: usize = 512;
/// A search for more filter values is not attempted: each costs a cursor.
const ATTEMPT_VALUES: usize = 4;
/// Maximum number of steps of an attempted search. A step reads a block, or jumps to one that another value has
/// reached, and moves each cursor at most once: some microseconds.
const ATTEMPT_STEPS: u32 = 16;
/// Maximum number of logs that an attempt collects. Small, because the pool repeats an abandoned attempt from the
/// start.
const ATTEMPT_LOGS: usize = 16;

impl Answers {
    /// The answer, if finding it takes no longer than waking a pool thread. `None` after an error too: the pool repeats
    /// the search, and reports the error.
    pub(super) fn attempt_logs(&self, request: &GetLogs) -> Option<Result<Vec<LocatedLog>, AnswerError>> {
        if let Some(logs) = self.cached_logs(request, ATTEMPT_CACHED_LOGS) {
            return Some(Ok(logs));
        }
        let values = request.filter.addresses.len() + request.filter.topics.iter().map(Vec::len).sum::<usize>();
        // A block given by its hash may be on a side branch, where every receipt must be read.
        if !(1..=ATTEMPT_VALUES).contains(&values) || matches!(request.range, LogRange::Block(_)) {
            return None;
        }
        let steps = Cell::new(0);
        let is_long = || {
            steps.set(steps.get() + 1);
            steps.get() > ATTEMPT_STEPS
        };
        let logs = self.search(request, ATTEMPT_LOGS, &is_long).ok()?;
        (steps.get() <= ATTEMPT_STEPS && logs.len() <= ATTEMPT_LOGS.min(self.limits.log_results)).then_some(Ok(logs))
    }

    pub(super) fn logs(&self, request: &GetLogs, context: &CallContext) -> Result<Vec<LocatedLog>, AnswerError> {
        if self.keep_if_requested_again(request).is_ok()
            && let Some(logs) = self.cached_logs(request, CACHED_LOGS)
        {
            return Ok(logs);
        }
        let limit = self.limits.log_results;
        let logs = self.search(request, limit, &|| context.should_stop())?;
        if context.is_cancelled() {
            return Err(StoreError::Stopped.into());
        }
        if logs.len() > limit {
            return Err(too_many(limit, &request.range, &logs).into());
        }
        Ok(logs)
    }

    /// Searches until `limit` is exceeded, or `is_over` returns true, which is called at every step.
    fn search(
        &self,
        request: &GetLogs,
        limit: usize,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Vec<LocatedLog>, AnswerError> {
        self.store.shared.generations.together(|| self.search_once(request, limit, is_over))
    }

    fn search_once(
        &self,
        request: &GetLogs,
        limit: usize,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Vec<LocatedLog>, AnswerError> {
        let (from, to) = match request.range {
            LogRange::Numbers { from, to } => (from.0, to.0.min(self.store.head().header.number)),
            LogRange::Block(hash) => match self.canonical_height(hash)? {
                Some(number) => (number, number),
                // The index contains the canonical chain only.
                None => return self.logs_of_branch(hash, &request.filter),
            },
        };
        let max = self.limits.log_blocks;
        if to.saturating_sub(from) >= max {
            return Err(LimitExceeded::LogBlocks { max }.into());
        }
        let search = LogSearch { from, to, filter: &request.filter, limit, is_cancelled: is_over };
        let logs = repeat_after_reorganisation(|| Ok(search.run(&self.store.shared)?))?;
        if let LogRange::Block(hash) = request.range
            && logs.iter().any(|log| log.block_hash != hash)
        {
            // The block was replaced between the look-up and the search.
            return Ok(Vec::new());
        }
        Ok(logs)
    }

    /// The logs, if all blocks that may contain some are in memory with their receipts, and have at most `max` logs
    /// together. `None` otherwise, and after any error, such as a concurrent reorganisation: the search in the index
    /// then repeats the work, and reports the error.
    fn cached_logs(&self, request: &GetLogs, max: usize) -> Option<Vec<LocatedLog>> {
        self.store.shared.generations.together(|| self.cached_logs_once(request, max))
    }

    fn cached_logs_once(&self, request: &GetLogs, max: usize) -> Option<Vec<LocatedLog>> {
        let mut found = Found { store: &self.store, filter: &request.filter, logs: Vec::new(), left: max };
        let is_whole = match request.range {
            LogRange::Block(hash) => found.add_block(hash),
            LogRange::Numbers { from, to } => {
                let (from, to) = (from.0, to.0.min(self.store.head().header.number));
                let is_short = to.saturating_sub(from) < CACHED_BLOCKS.min(self.limits.log_blocks);
                is_short && found.add_canonical(from..=to, to)
            }
        };
        (is_whole && found.logs.len() <= self.limits.log_results).then_some(found.logs)
    }

    /// Loads a block into memory when its logs are requested for the second time.
    fn keep_if_requested_again(&self, request: &GetLogs) -> Result<(), AnswerError> {
        let LogRange::Numbers { from, to } = request.range else { return Ok(()) };
        if from != to || !self.requested_blocks.is_asked_again(from.0) {
            return Ok(());
        }
        let Some(hash) = self.store.canonical_hash(from)? else { return Ok(()) };
        let summaries = self.store.shared.receipt_summaries(from.0, hash)?.unwrap_or_default();
        if summaries.iter().map(|summary| summary.log_count).sum::<u64>() <= CACHED_LOGS as u64 {
            self.store.block(hash)?;
            self.receipts_of(hash)?;
        }
        Ok(())
    }

    /// Logs of a block outside the canonical chain; none if the block was never executed.
    fn logs_of_branch(&self, hash: B256, filter: &LogFilter) -> Result<Vec<LocatedLog>, AnswerError> {
        let (Some(block), Some(receipts)) = (self.store.block(hash)?, self.store.receipts(hash)?) else {
            return Ok(Vec::new());
        };
        let logs: Vec<LocatedLog> = LocatedLog::of_block(&block, &receipts, filter).collect();
        let (limit, range) = (self.limits.log_results, LogRange::Block(hash));
        if logs.len() > limit { Err(too_many(limit, &range, &logs).into()) } else { Ok(logs) }
    }

    /// Height of a block on the canonical chain; `None` for a block of another branch.
    fn canonical_height(&self, hash: B256) -> Result<Option<u64>, AnswerError> {
        let header = self.store.header(hash)?.ok_or(AnswerError::UnknownBlock)?;
        let canonical = self.store.canonical_hash(BlockNumber(header.number))?;
        Ok((canonical == Some(hash)).then_some(header.number))
    }
}

/// Logs found in memory so far.
struct Found<'a> {
    store: &'a Store,
    filter: &'a LogFilter,
    logs: Vec<LocatedLog>,
    /// How many further logs may be checked.
    left: usize,
}

impl Found<'_> {
    /// Adds the logs of canonical blocks, none of them above `highest`. False if one is not in memory, if there are too
    /// many logs, or if a concurrent unwind may have mixed two branches.
    fn add_canonical(&mut self, numbers: impl Iterator<Item = u64>, highest: u64) -> bool {
        let generations = &self.store.shared.generations;
        let Ok(token) = generations.observe(highest) else { return false };
        for number in numbers {
            let Ok(Some(hash)) = self.store.canonical_hash(BlockNumber(number)) else { return false };
            if !self.add_block(hash) {
                return false;
            }
        }
        generations.check(token, highest).is_ok()
    }

    /// Adds the logs of a block; false if it is not in memory, or there are too many.
    fn add_block(&mut self, hash: B256) -> bool {
        let shared = &self.store.shared;
        let (Some(block), Some(receipts)) = (shared.blocks.get(&hash), shared.receipts.get(&hash)) else {
            return false;
        };
        let count = receipts.iter().map(|receipt| receipt.logs.len()).sum::<usize>();
        let Some(left) = self.left.checked_sub(count) else { return false };
        self.left = left;
        self.logs.extend(LocatedLog::of_block(&block, &receipts, self.filter));
        true
    }
}

/// The error for more than `max` logs, with the blocks that one answer can cover: those before the last log.
fn too_many(max: usize, range: &LogRange, logs: &[LocatedLog]) -> LimitExceeded {
    let fitting = match (range, logs.last()) {
        (LogRange::Numbers { from, .. }, Some(last)) if last.block_number > *from => {
            Some((*from, BlockNumber(last.block_number.0 - 1)))
        }
        _ => None,
    };
    LimitExceeded::Logs { max, fitting }
}

/// The last requested height for each remainder modulo 64. A block is loaded into memory at its second request only: an
/// indexer that walks the chain requests each block once, and would evict the others.
pub(super) struct RequestedBlocks([AtomicU64; 64]);

impl Default for RequestedBlocks {
    fn default() -> Self {
        Self(array::from_fn(|_| AtomicU64::new(u64::MAX)))
    }
}

impl RequestedBlocks {
    fn is_asked_again(&self, number: u64) -> bool {
        let place = &self.0[(number % 64) as usize];
        place.swap(number, Ordering::Relaxed) == number
    }
}

#[cfg(test)]
mod tests;

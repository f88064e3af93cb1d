//! Blocks that joined and left the canonical chain since a given block: shared by polling filters and by subscriptions
//! that fell behind.

use std::collections::VecDeque;

use tenon_sdk::prelude::*;

use crate::{EthContext, criteria::Criteria, dialect::Dialect};

/// Maximum number of added blocks in one query. A filter's next poll continues after them, a subscription queries again
/// ([`is_end`]). Bounds the work of a poll after a long pause.
pub(crate) const MAX_BLOCKS: usize = 1024;
/// Minimum number of blocks for which one range query replaces a query per block.
const RANGE_QUERY_FROM: usize = 4;

/// The changes since `since`, and the block to start from next time.
///
/// A block that the node no longer has (its head was moved back below it, or it was pruned) cannot be compared with
/// anything: the watcher then restarts from the head, because an error would stop it permanently.
pub(crate) async fn chain_changes(context: &EthContext, since: B256) -> Result<(ChainChanges, B256), Failure> {
    let changes = match context.call(GetChainChanges { since, limit: MAX_BLOCKS as u64 }).await {
        Ok(changes) => changes,
        Err(failure) if context.call(GetHeader { block: BlockId::hash(since) }).await?.is_some() => {
            return Err(failure);
        }
        Err(_) => return Ok((ChainChanges::default(), context.call(GetHead).await?.header.hash())),
    };
    let seen = match (changes.added.last(), changes.removed.last()) {
        (Some((_, newest)), _) => *newest,
        // The chain only became shorter: the remaining head is the parent of the oldest removed block.
        (None, Some((_, oldest_removed))) => {
            let removed = context.call(GetHeader { block: BlockId::hash(*oldest_removed) }).await?;
            removed.map_or(since, |removed| removed.header.parent_hash)
        }
        (None, None) => since,
    };
    Ok((changes, seen))
}

/// Whether these changes reach the head.
pub(crate) const fn is_end(changes: &ChainChanges) -> bool {
    changes.added.len() < MAX_BLOCKS
}

/// The added blocks to announce as heads. On native chains, only blocks above the height of the replaced branch. There
/// all blocks have the same difficulty, so a branch becomes canonical with the block that makes it one longer
/// (`docs/spec/rpc-eth.md` 14.3).
pub(crate) fn heads_among<'a>(
    dialect: &Dialect,
    changes: &'a ChainChanges,
) -> impl Iterator<Item = &'a (BlockNumber, B256)> + use<'a> {
    let replaced =
        dialect.announces_only_above_replaced.then(|| changes.removed.iter().map(|(number, _)| *number).max());
    let replaced = replaced.flatten();
    changes.added.iter().filter(move |(number, _)| replaced.is_none_or(|replaced| *number > replaced))
}

/// On native chains, repeats the logs of the first block above the replaced branch: they are announced with the branch
/// and again with the new head (`docs/spec/rpc-eth.md` 14.3).
fn repeat_logs_of_first_head(dialect: &Dialect, changes: &ChainChanges, logs: &mut Vec<LocatedLog>) {
    let replaced = changes.removed.iter().map(|(number, _)| number.0).max();
    let Some(winner) =
        replaced.filter(|_| dialect.announces_only_above_replaced).map(|replaced| BlockNumber(replaced + 1))
    else {
        return;
    };
    let is_of_winner = |log: &&LocatedLog| !log.removed && log.block_number == winner;
    let again: Vec<LocatedLog> = logs.iter().filter(is_of_winner).cloned().collect();
    let end = logs.iter().rposition(|log| is_of_winner(&log)).map_or(logs.len(), |last| last + 1);
    logs.splice(end..end, again);
}

/// The logs that `changes` removed (marked `removed`), oldest first, followed by the added ones.
///
/// The node need not keep the logs of blocks that left the chain, so the watcher's own record, `delivered`, is used
/// first: removals are only announced for logs that were announced before.
pub(crate) async fn log_changes(
    context: &EthContext,
    changes: &ChainChanges,
    criteria: &Criteria,
    delivered: &SentLogs,
) -> Result<Vec<LocatedLog>, Failure> {
    let mut logs = Vec::new();
    for (number, hash) in changes.removed.iter().rev() {
        if !criteria.covers(*number) {
            continue;
        }
        let mut removed = delivered.of_block(*hash);
        if removed.is_empty() {
            removed = logs_of_block(context, *hash, criteria).await.unwrap_or_default();
        }
        logs.extend(removed.into_iter().map(|log| LocatedLog { removed: true, ..log }));
    }
    let added: Vec<_> = changes.added.iter().filter(|(number, _)| criteria.covers(*number)).collect();
    match logs_of_range(context, &added, criteria).await? {
        Some(found) => logs.extend(found),
        None => {
            for (_, hash) in added {
                logs.extend(logs_of_block(context, *hash, criteria).await?);
            }
        }
    }
    repeat_logs_of_first_head(crate::dialect(context).await?, changes, &mut logs);
    Ok(logs)
}

/// The newest logs sent to a watcher, so that their removal can be announced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SentLogs {
    /// Oldest first.
    logs: VecDeque<LocatedLog>,
    bytes: usize,
}

impl SentLogs {
    /// Maximum bytes for one watcher. Reorganisations are a few blocks deep; older logs are dropped.
    const MAX_BYTES: usize = 32 * 1024;
    /// Memory of a log besides its topics and data: its slot in a queue with up to twice the capacity.
    const LOG_BYTES: usize = 2 * size_of::<LocatedLog>();
    /// Maximum number of remembered logs.
    pub(crate) const MAX_LOGS: usize = Self::MAX_BYTES / Self::LOG_BYTES;

    /// Records an answer: removed logs are dropped, added ones remembered.
    pub(crate) fn note<'a>(&mut self, logs: impl IntoIterator<Item = &'a LocatedLog>) {
        for log in logs {
            if log.removed {
                self.logs.retain(|known| known.block_hash != log.block_hash);
                self.bytes = self.logs.iter().map(Self::size).sum();
            } else if !self.knows(log) {
                self.bytes += Self::size(log);
                self.logs.push_back(log.clone());
            }
            while self.bytes > Self::MAX_BYTES {
                self.bytes = self.logs.pop_front().map_or(0, |oldest| self.bytes - Self::size(&oldest));
            }
        }
    }

    /// Its memory in bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    fn knows(&self, log: &LocatedLog) -> bool {
        self.logs.iter().any(|known| known.block_hash == log.block_hash && known.log_index == log.log_index)
    }

    fn of_block(&self, hash: B256) -> Vec<LocatedLog> {
        self.logs.iter().filter(|log| log.block_hash == hash).cloned().collect()
    }

    fn size(log: &LocatedLog) -> usize {
        Self::LOG_BYTES + log.log.topics.len() * 32 + log.log.data.len()
    }
}

/// Memory of a list of logs, in bytes.
pub(crate) fn logs_bytes(logs: &[LocatedLog]) -> usize {
    let size =
        |log: &LocatedLog| size_of::<LocatedLog>() + log.log.topics.len() * size_of::<B256>() + log.log.data.len();
    logs.iter().map(size).sum()
}

async fn logs_of_block(context: &EthContext, hash: B256, criteria: &Criteria) -> Result<Vec<LocatedLog>, Failure> {
    context.call(GetLogs { range: LogRange::Block(hash), filter: criteria.filter.clone() }).await
}

/// One query for consecutive blocks; `None` if they are few, or if the chain moved away from them during the query.
async fn logs_of_range(
    context: &EthContext,
    blocks: &[&(BlockNumber, B256)],
    criteria: &Criteria,
) -> Result<Option<Vec<LocatedLog>>, Failure> {
    let (Some((from, _)), Some((to, last))) = (blocks.first(), blocks.last()) else { return Ok(None) };
    if blocks.len() < RANGE_QUERY_FROM {
        return Ok(None);
    }
    let range = LogRange::Numbers { from: *from, to: *to };
    let logs = context.call(GetLogs { range, filter: criteria.filter.clone() }).await?;
    // If the last block is still canonical after the query, all of them were during it.
    let last = context.call(GetHeader { block: BlockId::hash(*last) }).await?;
    Ok(last.is_some_and(|last| last.is_canonical).then_some(logs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(block: u8, data: usize) -> LocatedLog {
        LocatedLog {
            log: Log { address: Address::ZERO, topics: Vec::new(), data: vec![0; data].into() },
            block_number: BlockNumber(u64::from(block)),
            block_hash: B256::repeat_byte(block),
            block_timestamp: 0,
            transaction_hash: B256::ZERO,
            transaction_index: 0,
            log_index: data as u64,
            removed: false,
        }
    }

    #[test]
    fn a_winning_branch_announces_its_newest_block_as_head_and_that_block_s_logs_twice() {
        let place = |number: u8| (BlockNumber(u64::from(number)), B256::repeat_byte(number));
        let changes =
            ChainChanges { removed: vec![place(5), place(4)], added: vec![place(4), place(5), place(6), place(7)] };
        let heads = |dialect| heads_among(dialect, &changes).map(|(number, _)| number.0).collect::<Vec<_>>();
        assert_eq!(heads(&Dialect::NATIVE), [6, 7]);
        assert_eq!(heads(&Dialect::ETHEREUM), [4, 5, 6, 7]);

        let mut logs = vec![log(4, 0), log(6, 0), log(6, 1), log(7, 0)];
        repeat_logs_of_first_head(&Dialect::NATIVE, &changes, &mut logs);
        assert_eq!(logs, [log(4, 0), log(6, 0), log(6, 1), log(6, 0), log(6, 1), log(7, 0)]);

        let mut logs = vec![log(4, 0), log(6, 0)];
        repeat_logs_of_first_head(&Dialect::ETHEREUM, &changes, &mut logs);
        assert_eq!(logs.len(), 2);
    }

    #[test]
    fn delivered_logs_are_remembered_until_they_are_removed() {
        let mut delivered = SentLogs::default();
        delivered.note(&[log(1, 0), log(2, 0), log(2, 5)]);
        assert_eq!(delivered.of_block(B256::repeat_byte(2)).len(), 2);

        delivered.note(&[LocatedLog { removed: true, ..log(2, 0) }]);

        assert!(delivered.of_block(B256::repeat_byte(2)).is_empty());
        assert_eq!(delivered.of_block(B256::repeat_byte(1)), [log(1, 0)]);
    }

    #[test]
    fn remembered_logs_are_bounded_in_bytes() {
        let mut delivered = SentLogs::default();

        for block in 0..100 {
            delivered.note(&[log(block, 1000)]);
        }
        delivered.note(&[log(100, 1 << 20)]);

        assert!(delivered.logs.is_empty() && delivered.bytes == 0, "a log above the limit is not kept");
        delivered.note(&[log(101, 1)]);
        assert_eq!(delivered.of_block(B256::repeat_byte(101)).len(), 1);
    }
}

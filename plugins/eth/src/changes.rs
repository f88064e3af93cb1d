//! What joined and left the canonical chain since a block that somebody saw last: shared by polling filters
//! and by subscriptions that fell behind.

use tenon_sdk::prelude::*;

use crate::{EthContext, criteria::Criteria};

/// Most blocks that one poll reports; the rest comes with the next poll. Bounds the work of a poll after a
/// long pause.
const MAX_BLOCKS: u64 = 1024;
/// From so many blocks on one range query replaces a query a block.
const RANGE_QUERY_FROM: usize = 4;

/// The changes since `since`, and the block to ask from next time.
pub(crate) async fn chain_changes(context: &EthContext, since: B256) -> Result<(ChainChanges, B256), Failure> {
    let changes = context.call(GetChainChanges { since, limit: MAX_BLOCKS }).await?;
    let seen = match (changes.added.last(), changes.removed.last()) {
        (Some((_, newest)), _) => *newest,
        // The chain only got shorter: what is left is the parent of the oldest block that went.
        (None, Some((_, oldest_removed))) => {
            let removed = context.call(GetHeader { block: BlockId::hash(*oldest_removed) }).await?;
            removed.map_or(since, |removed| removed.header.parent_hash)
        }
        (None, None) => since,
    };
    Ok((changes, seen))
}

/// The logs that `changes` took away (marked `removed`), oldest first, and then those that it brought.
pub(crate) async fn log_changes(
    context: &EthContext,
    changes: &ChainChanges,
    criteria: &Criteria,
) -> Result<Vec<LocatedLog>, Failure> {
    let mut logs = Vec::new();
    for (number, hash) in changes.removed.iter().rev() {
        if !criteria.covers(*number) {
            continue;
        }
        // A block that the database has forgotten cannot be reported; failing would stop the filter for good.
        let removed = logs_of_block(context, *hash, criteria).await.unwrap_or_default();
        logs.extend(removed.into_iter().map(|log| LocatedLog { removed: true, ..log }));
    }
    let added: Vec<_> = changes.added.iter().filter(|(number, _)| criteria.covers(*number)).collect();
    if let Some(found) = logs_of_range(context, &added, criteria).await? {
        logs.extend(found);
        return Ok(logs);
    }
    for (_, hash) in added {
        logs.extend(logs_of_block(context, *hash, criteria).await?);
    }
    Ok(logs)
}

async fn logs_of_block(context: &EthContext, hash: B256, criteria: &Criteria) -> Result<Vec<LocatedLog>, Failure> {
    context.call(GetLogs { range: LogRange::Block(hash), filter: criteria.filter.clone() }).await
}

/// One query for consecutive blocks; none when they are few, or when the chain moved away from them meanwhile.
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

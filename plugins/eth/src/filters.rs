//! Polling filters: `docs/spec/rpc-eth.md` 14.3.

use std::time::Duration;

use tenon_sdk::{prelude::*, shapes::JsonWriter};

use crate::{
    Answer, EthContext,
    changes::{chain_changes, heads_among, log_changes},
    criteria::LastingCriteria,
    logs,
    registry::{Filter, FilterId, Installer, Position, Watched},
    write_data_list,
};

/// Maximum number of restarts of a poll because another poll of the same filter was faster.
const MAX_RACES: usize = 8;

/// Pause between removals of idle filters.
const REMOVE_EVERY: Duration = Duration::from_mins(1);

/// The plugin's background work: removes idle filters also when no client uses filters, because their memory counts
/// against the share of clients that may be gone.
pub(crate) async fn remove_idle(context: EthContext) -> Result<(), Failure> {
    loop {
        context.sleep(REMOVE_EVERY).await;
        context.filters.remove_idle(context.host().now());
    }
}

pub(crate) async fn new_filter(
    context: EthContext,
    LastingCriteria(criteria): LastingCriteria,
) -> Result<String, Failure> {
    criteria.check_filter()?;
    install_at_head(&context, Watched::Logs(criteria)).await
}

pub(crate) async fn new_block_filter(context: EthContext) -> Result<String, Failure> {
    install_at_head(&context, Watched::Blocks).await
}

async fn install_at_head(context: &EthContext, watched: Watched) -> Result<String, Failure> {
    let head = context.call(GetHead).await?;
    install(context, watched, Position::Block(head.header.hash()))
}

/// Installs a filter and counts its memory for the caller.
fn install(context: &EthContext, watched: Watched, position: Position) -> Result<String, Failure> {
    let by = Installer { client: context.client(), memory: Some(context.hold(watched.filter_bytes())?) };
    context.filters.install(context.host().now(), by, watched, position)
}

pub(crate) async fn new_pending_transaction_filter(context: EthContext) -> Result<String, Failure> {
    let pending = context.call(GetPendingSince { cursor: None }).await?;
    install(&context, Watched::PendingTransactions, Position::Cursor(pending.cursor))
}

pub(crate) async fn uninstall_filter(context: EthContext, FilterId(id): FilterId) -> Result<bool, Failure> {
    Ok(context.filters.uninstall(&id))
}

/// The changes since the last poll. The position moves only when the answer is complete, so a client that disconnects
/// halfway loses nothing. Each change is returned by only one of two concurrent polls.
pub(crate) async fn get_filter_changes(context: EthContext, FilterId(id): FilterId) -> Answer {
    for _ in 0..MAX_RACES {
        let filter = context.filters.get(context.host().now(), &id, true)?;
        let changes = changes_of(&context, &filter).await?;
        if context.filters.advance(&id, filter.position, changes.position, &changes.logs) {
            return Ok(changes.json);
        }
    }
    Err(Failure::limit("the filter is polled by too many clients at once"))
}

/// The answer to a poll.
struct Changes {
    json: JsonWriter,
    /// Where the next poll starts.
    position: Position,
    /// The logs in the answer.
    logs: Vec<LocatedLog>,
}

async fn changes_of(context: &EthContext, filter: &Filter) -> Result<Changes, Failure> {
    let since = match filter.position {
        Position::Block(since) => since,
        Position::Cursor(cursor) => {
            let pending = context.call(GetPendingSince { cursor: Some(cursor) }).await?;
            let position = Position::Cursor(pending.cursor);
            return Ok(Changes { json: hashes_json(&pending.hashes), position, logs: Vec::new() });
        }
    };
    let (changes, seen) = chain_changes(context, since).await?;
    let position = Position::Block(seen);
    let Watched::Logs(criteria) = &filter.watched else {
        let dialect = crate::dialect(context).await?;
        let hashes: Vec<B256> = heads_among(dialect, &changes).map(|(_, hash)| *hash).collect();
        return Ok(Changes { json: hashes_json(&hashes), position, logs: Vec::new() });
    };
    let dialect = crate::dialect(context).await?;
    let logs = log_changes(context, &changes, criteria, &filter.delivered).await?;
    Ok(Changes { json: logs::write(context, dialect, &logs)?, position, logs })
}

/// All logs of the filter's range, evaluated again; does not count as a poll.
pub(crate) async fn get_filter_logs(context: EthContext, FilterId(id): FilterId) -> Answer {
    let filter = context.filters.get(context.host().now(), &id, false)?;
    let Watched::Logs(criteria) = filter.watched else { return Err(Failure::server("filter not found")) };
    let dialect = crate::dialect(&context).await?;
    logs::answer(&context, dialect, &criteria).await
}

fn hashes_json(hashes: &[B256]) -> JsonWriter {
    let mut json = JsonWriter::with_capacity(hashes.len() * 70 + 2);
    write_data_list(&mut json, hashes);
    json
}

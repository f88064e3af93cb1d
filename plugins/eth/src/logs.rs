//! `eth_getLogs` and the ranges of log filters: `docs/spec/rpc-eth.md` 14.

use tenon_sdk::{
    prelude::*,
    shapes::{JsonWriter, LOG_JSON_BYTES, logs_json, logs_json_bytes, write_located_log, write_pending_log},
};

use crate::{
    Answer, EthContext,
    changes::logs_bytes,
    criteria::{Criteria, Scope},
    dialect::{Dialect, ReversedRange},
    pending_logs,
};

const PENDING: BlockId = BlockId::Tag(BlockTag::Pending);

/// Logs and their answer up to this size are not counted, because the call itself already accounts for them.
const UNCOUNTED_BYTES: usize = 64 << 10;
/// Maximum number of topic positions in a search: a log has no more topics.
const MAX_TOPICS: usize = 4;

pub(crate) async fn get_logs(context: EthContext, criteria: Criteria) -> Answer {
    let dialect = crate::dialect(&context).await?;
    if criteria.filter.topics.len() > MAX_TOPICS {
        return Err(Failure { code: dialect.range_error_code, ..Failure::server("exceed max topics") });
    }
    answer(&context, dialect, &criteria).await
}

/// The logs that match the criteria now: those of the chain, and those that are pending if the range ends there.
pub(crate) async fn answer(context: &EthContext, dialect: &Dialect, criteria: &Criteria) -> Answer {
    let logs = find(context, dialect, criteria).await?;
    let pending = match criteria.scope {
        Scope::Range { to: PENDING, .. } => pending_logs::find(context, &criteria.filter).await?,
        Scope::Range { .. } | Scope::Block(_) => Vec::new(),
    };
    if pending.is_empty() {
        return write(context, dialect, &logs);
    }
    let data: usize = pending.iter().map(|log| log.data.len() * 2).sum();
    let bytes = logs_json_bytes(&logs).saturating_add(data).saturating_add(pending.len() * LOG_JSON_BYTES);
    let _memory = context.hold(logs_bytes(&logs).saturating_add(bytes))?;
    let mut json = JsonWriter::with_capacity(bytes);
    json.begin_list();
    for log in &logs {
        write_located_log(&mut json, dialect.profile, log);
    }
    for log in &pending {
        write_pending_log(&mut json, log);
    }
    json.end_list();
    Ok(json)
}

/// The answer with these logs, if there is memory for it: it is counted before it is written.
pub(crate) fn write(context: &EthContext, dialect: &Dialect, logs: &[LocatedLog]) -> Answer {
    let bytes = logs_bytes(logs).saturating_add(logs_json_bytes(logs));
    let _memory = match bytes {
        ..=UNCOUNTED_BYTES => None,
        _ => Some(context.hold(bytes)?),
    };
    Ok(logs_json(dialect.profile, logs))
}

/// The chain's logs that match the criteria now.
pub(crate) async fn find(
    context: &EthContext,
    dialect: &Dialect,
    criteria: &Criteria,
) -> Result<Vec<LocatedLog>, Failure> {
    let range = match criteria.scope {
        Scope::Block(hash) if hash.is_zero() && dialect.zero_hash_is_none => {
            let head = context.call(GetHead).await?.number();
            LogRange::Numbers { from: head, to: head }
        }
        Scope::Block(hash) => block_range(context, hash).await?,
        Scope::Range { from, to } => match numbers(context, dialect, from, to).await? {
            Some(range) => range,
            None => return Ok(Vec::new()),
        },
    };
    context.call(GetLogs { range, filter: criteria.filter.clone() }).await
}

async fn block_range(context: &EthContext, hash: B256) -> Result<LogRange, Failure> {
    match context.call(GetHeader { block: BlockId::hash(hash) }).await? {
        Some(_) => Ok(LogRange::Block(hash)),
        None => Err(Failure::server("unknown block")),
    }
}

/// Resolves both ends to numbers; `None` if the range is empty without being an error.
async fn numbers(
    context: &EthContext,
    dialect: &Dialect,
    from: BlockId,
    to: BlockId,
) -> Result<Option<LogRange>, Failure> {
    // One head for both ends, so that they are consistent.
    let head = context.call(GetHead).await?;
    let code = dialect.range_error_code;
    match (from, to) {
        // The chain has no pending blocks.
        (PENDING, PENDING) => return Ok(None),
        (PENDING, _) => return Err(Failure { code, ..Failure::server("invalid block range") }),
        _ => {}
    }
    let (first, last) = (resolve(&head, dialect, from)?, resolve(&head, dialect, to)?);
    let is_reversed = first > last;
    if is_reversed {
        let both_numbers = matches!((from, to), (BlockId::Number(_), BlockId::Number(_)));
        match dialect.reversed_range {
            ReversedRange::Refused if both_numbers => {
                return Err(Failure { code, ..Failure::server("invalid block range params") });
            }
            ReversedRange::Empty if last <= head.number() => return Ok(None),
            ReversedRange::Refused | ReversedRange::Empty => {}
        }
    }
    if first.max(last) > head.number() {
        return Err(Failure { code, ..Failure::server(dialect.beyond_head) });
    }
    Ok((!is_reversed).then_some(LogRange::Numbers { from: first, to: last }))
}

fn resolve(head: &Head, dialect: &Dialect, end: BlockId) -> Result<BlockNumber, Failure> {
    let missing = |name: &str| Failure::server(format!("{name} header not found"));
    match end {
        BlockId::Number(number) => Ok(number),
        BlockId::Tag(BlockTag::Earliest) => Ok(BlockNumber::GENESIS),
        BlockId::Tag(BlockTag::Finalized) => head.finalized.ok_or_else(|| missing(dialect.finalized_name)),
        // A finalized block is also safe.
        BlockId::Tag(BlockTag::Safe) => head.safe.or(head.finalized).ok_or_else(|| missing("safe")),
        BlockId::Tag(BlockTag::Latest | BlockTag::Pending) | BlockId::Hash { .. } => Ok(head.number()),
    }
}

//! `eth_getLogs` and the ranges of log filters: `docs/spec/rpc-eth.md` 14.

use tenon_sdk::{
    prelude::*,
    shapes::{JsonWriter, LOG_JSON_BYTES, logs_json, logs_json_bytes, write_located_log, write_pending_log},
};

use crate::{
    Answer, EthContext,
    changes::logs_bytes,
    criteria::{Criteria, Scope},
    pending_logs,
};

const PENDING: BlockId = BlockId::Tag(BlockTag::Pending);

/// Logs and their answer up to this size are not counted, because the call itself already accounts for them.
const UNCOUNTED_BYTES: usize = 64 << 10;
/// More positions than a log can have topics.
const MAX_TOPICS: usize = 4;

pub(crate) async fn get_logs(context: EthContext, criteria: Criteria) -> Answer {
    let profile = crate::profile(&context).await?;
    if criteria.filter.topics.len() > MAX_TOPICS {
        return Err(Failure { code: range_error_code(profile), ..Failure::server("exceed max topics") });
    }
    answer(&context, profile, &criteria).await
}

/// The logs that match the criteria now: those of the chain, and those that are pending if the range ends there.
pub(crate) async fn answer(context: &EthContext, profile: Profile, criteria: &Criteria) -> Answer {
    let logs = find(context, profile, criteria).await?;
    let pending = match criteria.scope {
        Scope::Range { to: PENDING, .. } => pending_logs::find(context, &criteria.filter).await?,
        Scope::Range { .. } | Scope::Block(_) => Vec::new(),
    };
    if pending.is_empty() {
        return write(context, profile, &logs);
    }
    let data: usize = pending.iter().map(|log| log.data.len() * 2).sum();
    let bytes = logs_json_bytes(&logs).saturating_add(data).saturating_add(pending.len() * LOG_JSON_BYTES);
    let _memory = context.hold(logs_bytes(&logs).saturating_add(bytes))?;
    let mut json = JsonWriter::with_capacity(bytes);
    json.begin_list();
    for log in &logs {
        write_located_log(&mut json, profile, log);
    }
    for log in &pending {
        write_pending_log(&mut json, log);
    }
    json.end_list();
    Ok(json)
}

/// The answer with these logs, if there is memory for it: it is counted before it is written.
pub(crate) fn write(context: &EthContext, profile: Profile, logs: &[LocatedLog]) -> Answer {
    let bytes = logs_bytes(logs).saturating_add(logs_json_bytes(logs));
    let _memory = match bytes {
        ..=UNCOUNTED_BYTES => None,
        _ => Some(context.hold(bytes)?),
    };
    Ok(logs_json(profile, logs))
}

/// The chain's logs that match the criteria now.
pub(crate) async fn find(
    context: &EthContext,
    profile: Profile,
    criteria: &Criteria,
) -> Result<Vec<LocatedLog>, Failure> {
    let range = match criteria.scope {
        // The reference represents a missing hash as zeroes.
        Scope::Block(hash) if hash.is_zero() && profile == Profile::Native => {
            let head = context.call(GetHead).await?.number();
            LogRange::Numbers { from: head, to: head }
        }
        Scope::Block(hash) => block_range(context, hash).await?,
        Scope::Range { from, to } => match numbers(context, profile, from, to).await? {
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

/// The profiles differ: go-ethereum calls a bad range an invalid argument.
const fn range_error_code(profile: Profile) -> FailureCode {
    match profile {
        Profile::Ethereum => FailureCode::INVALID_PARAMS,
        Profile::Native => FailureCode::SERVER,
    }
}

/// Resolves both ends to numbers; `None` if the range is empty without being an error.
async fn numbers(
    context: &EthContext,
    profile: Profile,
    from: BlockId,
    to: BlockId,
) -> Result<Option<LogRange>, Failure> {
    // One head for both ends, so that they are consistent.
    let head = context.call(GetHead).await?;
    let code = range_error_code(profile);
    match (from, to) {
        // The chain has no pending blocks.
        (PENDING, PENDING) => return Ok(None),
        (PENDING, _) => return Err(Failure { code, ..Failure::server("invalid block range") }),
        _ => {}
    }
    let (first, last) = (resolve(&head, profile, from)?, resolve(&head, profile, to)?);
    let is_reversed = first > last;
    // Like go-ethereum, the Ethereum profile rejects a reversed range only if both ends were given as numbers, and
    // checks that before it reads the head.
    let both_numbers = matches!((from, to), (BlockId::Number(_), BlockId::Number(_)));
    if profile == Profile::Ethereum && is_reversed && both_numbers {
        return Err(Failure { code, ..Failure::server("invalid block range params") });
    }
    let is_empty = profile == Profile::Native && is_reversed && last <= head.number();
    if !is_empty && first.max(last) > head.number() {
        return Err(match profile {
            Profile::Ethereum => Failure { code, ..Failure::server("block range extends beyond current head block") },
            Profile::Native => Failure::server("header for number not found"),
        });
    }
    Ok((!is_reversed).then_some(LogRange::Numbers { from: first, to: last }))
}

fn resolve(head: &Head, profile: Profile, end: BlockId) -> Result<BlockNumber, Failure> {
    let missing = |name: &str| Failure::server(format!("{name} header not found"));
    match end {
        BlockId::Number(number) => Ok(number),
        BlockId::Tag(BlockTag::Earliest) => Ok(BlockNumber::GENESIS),
        BlockId::Tag(BlockTag::Finalized) => head.finalized.ok_or_else(|| match profile {
            Profile::Ethereum => missing("finalized"),
            Profile::Native => missing("committed"),
        }),
        // A finalized block is also safe.
        BlockId::Tag(BlockTag::Safe) => head.safe.or(head.finalized).ok_or_else(|| missing("safe")),
        BlockId::Tag(BlockTag::Latest | BlockTag::Pending) | BlockId::Hash { .. } => Ok(head.number()),
    }
}

//! `debug_subscribe traceChain`: the traces of a range of blocks, one notification per block (`docs/spec/rpc-node.md`
//! 4.2).

use serde_json::value::RawValue;
use tenon_sdk::prelude::*;

use crate::{DebugContext, trace::TraceArgument};

/// The notification of a block. After a transaction that cannot be traced, the rest of its block is `null`.
#[derive(Debug, Serialize)]
struct BlockTraces<'a> {
    block: String,
    hash: B256,
    traces: Vec<Option<&'a RawValue>>,
}

/// Traces the blocks after `start` up to `end`. Blocks without transactions are skipped, except the last one.
pub(crate) async fn subscription(
    context: DebugContext,
    sink: Sink,
    start: BlockNumberParam,
    end: BlockNumberParam,
    options: Option<TraceArgument>,
) -> Result<(), Failure> {
    let first = height(&context, start.0, "start").await?;
    let last = height(&context, end.0, "end").await?;
    if first >= last {
        return Err(Failure::server(format!("wrong parameter order: start({first}) >= end({last})")));
    }
    let options = options.unwrap_or_default().options(&context).await?;
    sink.accept().await;
    for number in first + 1..=last {
        let block = BlockId::number(number);
        let header = context.call(GetHeader { block }).await?;
        let header = header.ok_or_else(|| Failure::server(format!("block #{number} not found")))?.header;
        // By hash, so that the traces belong to the block in the notification.
        let target = TraceTarget::Block(BlockId::hash(header.hash()));
        let traced = context.call(Trace { target, options: options.clone() }).await?.json;
        let traces = until_failure(&traced)?;
        if !traces.is_empty() || number == last {
            let block = format!("{number:#x}");
            sink.send(&BlockTraces { block, hash: header.hash(), traces }).await?;
        }
    }
    Ok(())
}

async fn height(context: &DebugContext, id: BlockId, role: &str) -> Result<u64, Failure> {
    let found = context.call(GetHeader { block: id }).await?;
    found.map(|found| found.header.number).ok_or_else(|| match id {
        BlockId::Number(number) => Failure::server(format!("not find {role} block {number}")),
        _ => Failure::server(format!("not find {role} block")),
    })
}

/// The results of a block's trace up to and including the first failure, and `None` for those after it.
fn until_failure(traced: &str) -> Result<Vec<Option<&RawValue>>, Failure> {
    let members: Vec<&RawValue> = serde_json::from_str(traced)
        .map_err(|error| Failure::server(format!("the trace of a block is no list: {error}")))?;
    let mut has_failed = false;
    let kept = members.into_iter().map(|member| {
        let shown = (!has_failed).then_some(member);
        has_failed |= member.get().starts_with("{\"error\"");
        shown
    });
    Ok(kept.collect())
}

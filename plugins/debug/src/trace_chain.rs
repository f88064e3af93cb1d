//! `debug_subscribe traceChain`: the traces of a range of blocks, one notification per block (`docs/spec/rpc-node.md`
//! 4.2).

use tenon_sdk::{
    prelude::*,
    shapes::{JsonWriter, write_transaction_trace},
};

use crate::{DebugContext, trace::TraceArgument};

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
        let reply = context.call(Trace { target, options: options.clone() }).await?;
        let TraceResults::Block(traces) = reply.results else {
            return Err(Failure::server("the trace of a block is no list"));
        };
        if !traces.is_empty() || number == last {
            sink.send_written(&notification(number, header.hash(), reply.dialect, traces)?).await;
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

/// The notification of a block. In the reference's, the rest of the block is `null` after a transaction that cannot be
/// traced.
fn notification(
    number: u64,
    hash: B256,
    dialect: TracerDialect,
    traces: Vec<TransactionTrace>,
) -> Result<JsonWriter, Failure> {
    let mut json = JsonWriter::with_capacity(1024);
    json.begin_object();
    json.key("block").quantity(number);
    json.key("hash").data(hash);
    json.key("traces").begin_list();
    let mut has_failed = false;
    for trace in traces {
        if has_failed {
            json.null();
            continue;
        }
        has_failed = dialect == TracerDialect::Reference && trace.result.is_err();
        write_transaction_trace(&mut json, dialect, trace)?;
    }
    json.end_list();
    json.end_object();
    Ok(json)
}

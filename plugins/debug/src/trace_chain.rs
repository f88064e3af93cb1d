//! `debug_subscribe traceChain`: the traces of a range of blocks, one notification per block (`docs/spec/rpc-node.md`
//! 4.2).

use tenon_sdk::{
    prelude::*,
    shapes::{JsonWriter, TraceText},
};

use crate::{
    DebugContext,
    trace::{TraceArgument, written},
};

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
        let reply = context.call(Trace { target, options: options.clone() }).await.or_failure()?;
        let is_empty = matches!(&reply.results, TraceResults::Block(traces) if traces.is_empty());
        let text = TraceText::of_block_in_range(reply);
        if !is_empty || number == last {
            let (traces, mut memory) = written(&context, text).await?;
            // Also counts the notification, which copies the text. The sink counts it from then on.
            memory.resize(memory.bytes() + traces.len())?;
            let json = notification(number, header.hash(), traces);
            drop(memory);
            sink.send_written(json).await?;
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

/// The notification of a block.
fn notification(number: u64, hash: B256, traces: JsonWriter) -> JsonWriter {
    let mut json = JsonWriter::with_capacity(traces.len() + 128);
    json.begin_object();
    json.key("block").quantity(number);
    json.key("hash").data(hash);
    json.key("traces").raw(&traces.into_string());
    json.end_object();
    json
}

//! Traces of transactions, blocks and calls (`debug_trace*`).
//!
//! The steps of a request are the same for every family: how the target is found and on which stack it is traced. The
//! chain's [`TraceFamily`](tenon_traces::TraceFamily) makes the [`Tracing`].

use std::{sync::Arc, time::Instant};

use alloy_primitives::B256;
use tenon_api::{
    RecoveredBlock,
    messages::{MissingItem, OutermostItem, Trace, TraceFailure, TraceOptions, TraceReply, TraceResults, TraceTarget},
};
use tenon_bus::CallContext;
use tenon_chain::DecodeError;
use tenon_execution_interface::BlockState;
use tenon_traces::{Replay, TraceError, Tracing};

use crate::call::{Calls, Kind};

/// Stack of a trace, bytes. A tree of calls is as deep as the EVM allows, 1024, and is written and freed
/// recursively, which overflowed the 2 MiB of an ordinary worker.
const TRACE_STACK: usize = 64 << 20;

impl Calls {
    /// `debug_trace*`.
    pub(crate) fn trace(&self, trace: &Trace, caller: &CallContext) -> Result<TraceReply, TraceError> {
        let begun = Instant::now();
        let tracing = tracing_of(self, &trace.options, caller, None)?;
        // A larger stack on the same thread: a new thread would cost more than a short trace.
        let reply = stacker::grow(TRACE_STACK, move || run(&*tracing, &trace.target));
        if let (Ok(_), TraceTarget::Call { request, .. }) = (&reply, &trace.target) {
            self.forget_if_short(Kind::Trace, request, begun);
        }
        reply
    }

    /// Traces a call with a tracer that records calls only, until `end`. Its errors are not reported to the caller.
    pub(crate) fn trace_in_time(
        &self,
        trace: &Trace,
        caller: &CallContext,
        end: Instant,
    ) -> Result<TraceReply, TraceError> {
        let tracing = tracing_of(self, &trace.options, caller, Some(end))?;
        run(&*tracing, &trace.target)
    }

    /// The state before a transaction of a block.
    pub(super) fn state_before(
        &self,
        block: &RecoveredBlock,
        index: u64,
        caller: &CallContext,
    ) -> Result<BlockState, TraceError> {
        Replay::new(self, caller, None, self.tracers.dialect()).state_before(block, index)
    }
}

/// The tracing of a request by the chain's family. `attempt_ends` is the end of an attempt, if this is one.
fn tracing_of<'a>(
    calls: &'a Calls,
    options: &'a TraceOptions,
    caller: &'a CallContext,
    attempt_ends: Option<Instant>,
) -> Result<Box<dyn Tracing + 'a>, TraceError> {
    let replay = Replay::new(calls, caller, attempt_ends, calls.tracers.dialect());
    let tracing = calls.tracers.tracing(replay, options)?;
    if attempt_ends.is_some() && !tracing.records_calls_only() {
        return Err(TraceError::NotAttempted);
    }
    Ok(tracing)
}

/// Executes the trace request.
fn run(tracing: &dyn Tracing, target: &TraceTarget) -> Result<TraceReply, TraceError> {
    let results = match target {
        TraceTarget::Transaction(hash) => {
            let (block, index) = transaction(tracing, *hash)?;
            let mut execution = tracing.replay().before(&block, index)?;
            TraceResults::Single(tracing.trace_transaction(&mut execution, &block, index)?)
        }
        TraceTarget::Block(block) => TraceResults::Block(tracing.trace_block(&*tracing.block(*block)?)?),
        TraceTarget::RawBlock(bytes) => TraceResults::Block(tracing.trace_block(&raw_block(tracing, bytes)?)?),
        TraceTarget::Call { .. } => TraceResults::Single(tracing.trace_call(target)?),
    };
    Ok(TraceReply { dialect: tracing.replay().dialect, results })
}

/// A transaction's block, and its index there.
fn transaction(tracing: &dyn Tracing, hash: B256) -> Result<(Arc<RecoveredBlock>, usize), TraceError> {
    let replay = tracing.replay();
    let chain = replay.source.chain();
    let unknown = || replay.missing(MissingItem::Transaction(hash));
    let (block_hash, index) = chain.transaction_location(hash)?.ok_or_else(unknown)?;
    let unknown_block = || replay.missing(MissingItem::BlockByHash(block_hash));
    let block = chain.block(block_hash)?.ok_or_else(unknown_block)?;
    Ok((block, usize::try_from(index).map_err(|_| unknown())?))
}

/// A block that the caller supplied. Trailing bytes are ignored, as in the reference.
fn raw_block(tracing: &dyn Tracing, bytes: &[u8]) -> Result<RecoveredBlock, TraceError> {
    let Replay { source, dialect, .. } = tracing.replay();
    let undecodable = |DecodeError { what, offset, problem }| {
        let (outermost, what, dialect) = (outermost_item(bytes), what.into(), *dialect);
        TraceFailure::UndecodableBlock { outermost, what, offset, problem, dialect }
    };
    let block = tenon_chain::decode_block(&mut &*bytes).map_err(undecodable)?;
    tracing.check_raw_block(&block)?;
    let rules = source.family().spec().signer_rules(block.header.number, block.header.timestamp);
    Ok(tenon_chain::recover_senders_under(block, &rules)?)
}

/// The form of the outermost item of bytes that are not a block. A length of the long form may begin with zeros.
fn outermost_item(bytes: &[u8]) -> OutermostItem {
    let Some((first, rest)) = bytes.split_first() else { return OutermostItem::None };
    let long = |base: u8| {
        let digits = rest.get(..usize::from(first - base))?;
        let start = digits.iter().position(|digit| *digit != 0).unwrap_or(digits.len());
        let significant = digits.get(start..).filter(|digits| digits.len() <= 8)?;
        let length = significant.iter().fold(0_u64, |length, digit| length << 8 | u64::from(*digit));
        length.checked_add(digits.len() as u64)
    };
    let needed = match first {
        0x00..=0x7f => Some(0),
        0x80..=0xb7 => Some(u64::from(first - 0x80)),
        0xb8..=0xbf => long(0xb7),
        0xc0..=0xf7 => Some(u64::from(first - 0xc0)),
        0xf8..=0xff => long(0xf7),
    };
    match needed {
        Some(needed) if needed > rest.len() as u64 => OutermostItem::Truncated,
        Some(_) if *first < 0xc0 => OutermostItem::NotList,
        Some(_) if *first == 0xc0 => OutermostItem::EmptyList,
        _ => OutermostItem::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_item_of_undecodable_bytes_is_what_gos_decoder_reports() {
        let cases: [(&[u8], OutermostItem); 8] = [
            (&[], OutermostItem::None),
            (&[0x7f, 0x9d], OutermostItem::NotList),
            (&[0x81, 0x9d], OutermostItem::NotList),
            (&[0x83, 0x9d], OutermostItem::Truncated),
            (&[0xd3, 0x17, 0x34], OutermostItem::Truncated),
            (&[0xf9, 0x01, 0x00], OutermostItem::Truncated),
            (&[0xc0], OutermostItem::EmptyList),
            (&[0xc1, 0x80], OutermostItem::Other),
        ];
        for (bytes, expected) in cases {
            assert_eq!(outermost_item(bytes), expected, "{bytes:02x?}");
        }
    }
}

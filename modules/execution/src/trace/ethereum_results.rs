//! Results of go-ethereum's tracers as messages, from those of the library that records.

use alloy_primitives::U256;
use alloy_rpc_types_trace::geth::{CallFrame as LibraryFrame, CallLogFrame};
use tenon_api::{
    Failure,
    messages::{CallFrame, FrameKind, GasByKind, TracedLog},
};

use crate::block::widen;

/// The tree of calls, as a list.
///
/// # Errors
/// The library has a kind of call that the messages have not.
pub(super) fn call_frames(outermost: LibraryFrame) -> Result<Vec<CallFrame>, Failure> {
    let mut frames = Vec::new();
    // The calls that are still to be listed, the next one last.
    let mut left = vec![(0, outermost)];
    while let Some((depth, mut frame)) = left.pop() {
        let calls = std::mem::take(&mut frame.calls);
        left.extend(calls.into_iter().rev().map(|call| (depth + 1, call)));
        frames.push(call_frame(depth, frame)?);
    }
    Ok(frames)
}

fn call_frame(depth: u32, frame: LibraryFrame) -> Result<CallFrame, Failure> {
    let number = |number: Option<U256>| number.unwrap_or_default().saturating_to::<u64>();
    let gas_by_kind = frame.execution_gas_used.map(|execution| GasByKind {
        execution: execution.saturating_to(),
        state: number(frame.state_gas_used),
        refund: number(frame.gas_refund),
    });
    Ok(CallFrame {
        depth,
        kind: frame_kind(&frame.typ)?,
        from: frame.from,
        to: frame.to,
        value: frame.value.map(widen),
        gas: frame.gas.saturating_to(),
        gas_used: frame.gas_used.saturating_to(),
        gas_by_kind,
        input: frame.input,
        output: frame.output,
        error: frame.error,
        revert_reason: frame.revert_reason,
        logs: frame.logs.into_iter().map(traced_log).collect(),
    })
}

fn frame_kind(name: &str) -> Result<FrameKind, Failure> {
    let kind = FrameKind::ALL.into_iter().find(|kind| kind.name() == name);
    kind.ok_or_else(|| Failure::server(format!("tracing failed: unknown kind of call {name}")))
}

fn traced_log(log: CallLogFrame) -> TracedLog {
    TracedLog {
        address: log.address.unwrap_or_default(),
        topics: log.topics.unwrap_or_default(),
        data: log.data.unwrap_or_default(),
        position: log.position.unwrap_or_default(),
        index: log.index.unwrap_or_default(),
    }
}

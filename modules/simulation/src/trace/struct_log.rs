//! The struct logger's result from the recording of the library, step by step: the library's own form would hold the
//! whole trace once more, and could not be interrupted.

use std::collections::{BTreeMap, HashMap};

use alloy_primitives::{Address, U256};
use alloy_rpc_types_trace::geth::GethDefaultTracingOptions;
use revm::{
    bytecode::opcode::{CALL, CALLCODE, CREATE, CREATE2, DELEGATECALL, OpCode, SLOAD, SSTORE, STATICCALL},
    context::result::ExecutionResult,
};
use revm_inspectors::tracing::types::{CallTraceNode, CallTraceStep};
use tenon_api::messages::{StepRecorder, StructLog};
use tenon_traces::TraceError;

/// Steps between two checks whether to continue: less than a millisecond's work.
const STEPS_PER_CHECK: usize = 1024;

/// The slots of each contract accessed so far in the trace.
type Slots = HashMap<Address, BTreeMap<U256, U256>>;

/// A struct logger's result. `check_limits` is called at intervals, with length and capacity of the records so far.
///
/// # Errors
/// Those of `check_limits`.
pub(super) fn struct_log(
    nodes: &[CallTraceNode],
    options: &GethDefaultTracingOptions,
    result: &ExecutionResult,
    check_limits: impl Fn(usize, usize) -> Result<(), TraceError>,
) -> Result<StructLog, TraceError> {
    let (mut recorder, mut slots) = (StepRecorder::default(), Slots::new());
    let mut opcodes = [false; 256];
    for (index, (node, step)) in Steps::of(nodes).enumerate() {
        opcodes[usize::from(step.op.get())] = true;
        record_step(&mut recorder, options, node, step, &mut slots);
        if index % STEPS_PER_CHECK == STEPS_PER_CHECK - 1 {
            check_limits(recorder.len(), recorder.capacity())?;
        }
    }
    let used = (0..=u8::MAX).filter(|opcode| opcodes[usize::from(*opcode)]);
    Ok(StructLog {
        gas: result.gas().tx_gas_used(),
        has_failed: nodes.first().is_some_and(|root| !root.trace.success),
        // A failed run returns no data, except the data of a revert.
        output: result.output().cloned().unwrap_or_default(),
        names: used.map(|opcode| (opcode, OpCode::new(opcode).map_or("Unknown", OpCode::as_str).to_owned())).collect(),
        steps: recorder.finish(),
    })
}

/// All steps in the order of execution: those of a call follow the instruction that made it.
struct Steps<'a> {
    nodes: &'a [CallTraceNode],
    /// The open calls, each with its next step and its next inner call.
    running: Vec<(&'a CallTraceNode, usize, usize)>,
}

impl<'a> Steps<'a> {
    fn of(nodes: &'a [CallTraceNode]) -> Self {
        Self { nodes, running: nodes.first().map(|root| (root, 0, 0)).into_iter().collect() }
    }
}

impl<'a> Iterator for Steps<'a> {
    type Item = (&'a CallTraceNode, &'a CallTraceStep);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (node, next_step, next_call) = self.running.last_mut()?;
            let node = *node;
            let Some(step) = node.trace.steps.get(*next_step) else {
                self.running.pop();
                continue;
            };
            *next_step += 1;
            // A call instruction may fail before the call begins.
            if matches!(step.op.get(), CALL | CALLCODE | DELEGATECALL | STATICCALL | CREATE | CREATE2)
                && let Some(child) = node.children.get(*next_call)
            {
                *next_call += 1;
                self.running.extend(self.nodes.get(*child).map(|called| (called, 0, 0)));
            }
            return Some((node, step));
        }
    }
}

fn record_step(
    recorder: &mut StepRecorder,
    options: &GethDefaultTracingOptions,
    node: &CallTraceNode,
    step: &CallTraceStep,
    slots: &mut Slots,
) {
    recorder.begin(step.pc as u64, step.op.get(), step.gas_remaining, node.trace.depth as u64 + 1);
    if step.gas_refund_counter > 0 {
        recorder.refund(step.gas_refund_counter);
    }
    if let Some(stack) = step.stack.as_ref().filter(|_| options.is_stack_enabled()) {
        recorder.stack(stack);
    }
    if options.is_return_data_enabled() && !step.returndata.is_empty() {
        recorder.return_data(&step.returndata);
    }
    let memory = step.memory.as_ref().filter(|_| options.is_memory_enabled()).map(|memory| memory.as_bytes());
    if let Some(memory) = memory.filter(|memory| !memory.is_empty()) {
        recorder.memory(memory);
    }
    if options.is_storage_enabled() {
        record_storage(recorder, node, step, slots);
    }
    let halt = step.status.filter(|status| status.is_halt()).map(|status| format!("{status:?}"));
    recorder.end(step.gas_cost, halt.as_deref());
}

/// Every slot of the contract read or written so far, at the instructions that read and write.
fn record_storage(recorder: &mut StepRecorder, node: &CallTraceNode, step: &CallTraceStep, slots: &mut Slots) {
    let is_access = matches!(step.op.get(), SLOAD | SSTORE);
    if !is_access && step.storage_change.is_none() {
        return;
    }
    let slots = slots.entry(node.execution_address()).or_default();
    if let Some(change) = &step.storage_change {
        slots.insert(change.key, change.value);
    }
    if is_access && !slots.is_empty() {
        recorder.storage(slots.iter().flat_map(|(slot, value)| [slot, value]));
    }
}

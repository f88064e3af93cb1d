//! The struct logger's result in go-ethereum's format: all numbers with `0x`, and empty or zero members left out.
//!
//! Written directly from the recording, step by step: an intermediate form would hold the whole trace once more, and
//! could not be interrupted.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
};

use alloy_primitives::{Address, U256, hex};
use alloy_rpc_types_trace::geth::GethDefaultTracingOptions;
use revm::{
    bytecode::opcode::{CALL, CALLCODE, CREATE, CREATE2, DELEGATECALL, SLOAD, SSTORE, STATICCALL},
    context::result::ExecutionResult,
};
use revm_inspectors::tracing::types::{CallTraceNode, CallTraceStep};
use tenon_api::Failure;

/// Steps written between two checks whether to continue: a millisecond's work, some 100 bytes each.
const STEPS_PER_CHECK: usize = 1024;

/// The slots of each contract accessed so far in the trace.
type Slots = HashMap<Address, BTreeMap<U256, U256>>;

/// The JSON text of a struct logger's result. `may_go_on` is called at intervals, with length and capacity of the text
/// so far.
///
/// # Errors
/// Those of `may_go_on`.
pub(super) fn struct_log_json(
    nodes: &[CallTraceNode],
    options: &GethDefaultTracingOptions,
    result: &ExecutionResult,
    may_go_on: impl Fn(usize, usize) -> Result<(), Failure>,
) -> Result<String, Failure> {
    let mut json = String::new();
    // A failed run has no return value unless it reverted, and then the data of the revert.
    let has_failed = nodes.first().is_some_and(|root| !root.trace.success);
    let returned = result.output().map(|data| data.as_ref()).unwrap_or_default();
    append(&mut json, format_args!("{{\"gas\":{},\"failed\":{has_failed}", result.gas().tx_gas_used()));
    append(&mut json, format_args!(",\"returnValue\":\"{}\",\"structLogs\":[", hex::encode_prefixed(returned)));
    let mut slots = Slots::new();
    for (index, (node, step)) in Steps::of(nodes).enumerate() {
        if index > 0 {
            json.push(',');
        }
        append_step(&mut json, options, node, step, &mut slots);
        if index % STEPS_PER_CHECK == STEPS_PER_CHECK - 1 {
            may_go_on(json.len(), json.capacity())?;
        }
    }
    json.push_str("]}");
    Ok(json)
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

fn append_step(
    json: &mut String,
    options: &GethDefaultTracingOptions,
    node: &CallTraceNode,
    step: &CallTraceStep,
    slots: &mut Slots,
) {
    let name = if step.op.is_valid() { step.op.as_str() } else { "Unknown" };
    append(json, format_args!("{{\"pc\":{},\"op\":\"{name}\"", step.pc));
    let depth = node.trace.depth + 1;
    append(json, format_args!(",\"gas\":{},\"gasCost\":{},\"depth\":{depth}", step.gas_remaining, step.gas_cost));
    if step.gas_refund_counter > 0 {
        append(json, format_args!(",\"refund\":{}", step.gas_refund_counter));
    }
    if let Some(halt) = step.status.filter(|status| status.is_halt()) {
        append(json, format_args!(",\"error\":\"Some({halt:?})\""));
    }
    if let Some(stack) = step.stack.as_ref().filter(|_| options.is_stack_enabled()) {
        append_list(json, "stack", stack.iter(), |json, item| append(json, format_args!("{item:#x}")));
    }
    if options.is_return_data_enabled() && !step.returndata.is_empty() {
        append(json, format_args!(",\"returnData\":\"{}\"", step.returndata));
    }
    let memory = step.memory.as_ref().filter(|_| options.is_memory_enabled()).map(|memory| memory.as_bytes());
    if let Some(memory) = memory.filter(|memory| !memory.is_empty()) {
        // The EVM's memory grows in whole words.
        let words = memory.chunks(32);
        append_list(json, "memory", words, |json, word| append(json, format_args!("0x{}", hex::encode(word))));
    }
    if options.is_storage_enabled() {
        append_storage(json, node, step, slots);
    }
    json.push('}');
}

/// Every slot of the contract read or written so far, at the instructions that read and write.
fn append_storage(json: &mut String, node: &CallTraceNode, step: &CallTraceStep, slots: &mut Slots) {
    let is_access = matches!(step.op.get(), SLOAD | SSTORE);
    if !is_access && step.storage_change.is_none() {
        return;
    }
    let slots = slots.entry(node.execution_address()).or_default();
    if let Some(change) = &step.storage_change {
        slots.insert(change.key, change.value);
    }
    if !is_access || slots.is_empty() {
        return;
    }
    json.push_str(",\"storage\":{");
    for (index, (slot, value)) in slots.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        append(json, format_args!("{comma}\"0x{slot:064x}\":\"0x{value:064x}\""));
    }
    json.push('}');
}

fn append_list<T>(json: &mut String, name: &str, items: impl Iterator<Item = T>, append_item: impl Fn(&mut String, T)) {
    append(json, format_args!(",\"{name}\":["));
    for (index, item) in items.enumerate() {
        json.push_str(if index > 0 { ",\"" } else { "\"" });
        append_item(json, item);
        json.push('"');
    }
    json.push(']');
}

fn append(json: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = json.write_fmt(text);
}

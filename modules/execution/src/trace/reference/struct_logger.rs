//! Every instruction with gas, stack, memory and storage, in the older format that the reference has kept
//! (`docs/spec/rpc-node.md` 4.2).

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
};

use alloy_primitives::{Address, U256, hex};
use revm::bytecode::opcode::{SLOAD, SSTORE};
use tenon_api::messages::StructLogOptions;

use super::{
    accounts::Accounts,
    tracer::{FrameEnd, Run, Step, StepEnd, Tracer, TracerFailure},
};
use crate::{block::StateError, instructions::instruction_name, trace::recording::text_bytes};

/// Writes its answer during the run: an instruction's cost is known only after it ran, so the text after the cost waits
/// in `rest`.
pub(super) struct StructLogger {
    options: StructLogOptions,
    steps: String,
    recorded: i64,
    is_step_recorded: bool,
    depth: usize,
    rest: String,
    /// All slots read or written so far, by contract.
    slots: HashMap<Address, BTreeMap<U256, U256>>,
    output: Option<FrameEnd>,
}

impl StructLogger {
    pub(super) fn new(options: StructLogOptions) -> Self {
        Self {
            options,
            steps: String::new(),
            recorded: 0,
            is_step_recorded: false,
            depth: 0,
            rest: String::new(),
            slots: HashMap::new(),
            output: None,
        }
    }

    fn write_stack(&mut self, stack: &[U256]) {
        self.rest.push_str(",\"stack\":[");
        for (index, item) in stack.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write(&mut self.rest, format_args!("{comma}\"{item:#x}\""));
        }
        self.rest.push(']');
    }

    fn write_memory(&mut self, memory: &[u8]) {
        self.rest.push_str(",\"memory\":[");
        for (index, word) in memory.chunks_exact(32).enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write(&mut self.rest, format_args!("{comma}\"{}\"", hex::encode(word)));
        }
        self.rest.push(']');
    }

    /// The slots accessed by the contract, including the one of this instruction.
    fn write_storage(&mut self, step: &Step<'_>, accounts: &mut dyn Accounts) -> Result<(), StateError> {
        let value = match step.opcode {
            SLOAD if !step.stack.is_empty() => accounts.slot(step.contract, step.peek(0))?,
            SSTORE if step.stack.len() >= 2 => step.peek(1),
            _ => return Ok(()),
        };
        let slots = self.slots.entry(step.contract).or_default();
        slots.insert(step.peek(0), value);
        self.rest.push_str(",\"storage\":{");
        for (index, (slot, value)) in slots.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write(&mut self.rest, format_args!("{comma}\"{slot:064x}\":\"{value:064x}\""));
        }
        self.rest.push('}');
        Ok(())
    }
}

impl Tracer for StructLogger {
    fn step(&mut self, step: &Step<'_>, accounts: &mut dyn Accounts) -> Result<(), StateError> {
        self.is_step_recorded = self.options.limit == 0 || self.recorded < self.options.limit;
        if !self.is_step_recorded {
            return Ok(());
        }
        self.recorded += 1;
        let comma = if self.steps.is_empty() { "" } else { "," };
        let name = instruction_name(step.opcode);
        write(
            &mut self.steps,
            format_args!("{comma}{{\"pc\":{},\"op\":\"{name}\",\"gas\":{},\"gasCost\":", step.pc, step.gas),
        );
        self.depth = step.depth;
        self.rest.clear();
        if self.options.with_stack {
            self.write_stack(step.stack);
        }
        if self.options.with_memory {
            self.write_memory(step.memory);
        }
        if self.options.with_storage {
            self.write_storage(step, accounts)?;
        }
        Ok(())
    }

    fn step_end(&mut self, end: StepEnd<'_>) {
        if !self.is_step_recorded {
            return;
        }
        // The error itself is lost in the reference's encoding.
        let (cost, error) = match end {
            StepEnd::Ran { cost } | StepEnd::Failed { cost, .. } => (cost, ""),
            StepEnd::Refused { cost, .. } => (cost, ",\"error\":{}"),
        };
        write(&mut self.steps, format_args!("{cost},\"depth\":{}{error}{}}}", self.depth, self.rest));
    }

    fn end(&mut self, end: &FrameEnd) {
        self.output = Some(end.clone());
    }

    fn held_bytes(&self) -> usize {
        // The answer contains a copy of the steps.
        let (length, capacity) = (self.steps.len(), self.steps.capacity());
        let steps = text_bytes(length, capacity).max((length + capacity) as u64);
        usize::try_from(steps).unwrap_or(usize::MAX).saturating_add(self.rest.capacity())
    }

    fn result(&mut self, run: &Run<'_>, _accounts: &mut dyn Accounts) -> Result<String, TracerFailure> {
        let succeeded = self.output.as_ref().filter(|end| end.error.is_none());
        let has_failed = succeeded.is_none();
        let output = succeeded.map_or_else(String::new, |end| hex::encode(&end.output));
        let steps = std::mem::take(&mut self.steps);
        Ok(format!(
            "{{\"gas\":{},\"failed\":{has_failed},\"returnValue\":\"{output}\",\"structLogs\":[{steps}]}}",
            run.gas_used
        ))
    }
}

fn write(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(arguments);
}

//! Every instruction with gas, stack, memory and storage, in the older form that the reference has kept
//! (`docs/spec/rpc-node.md` 4.2).

use std::collections::{BTreeMap, HashMap};

use alloy_primitives::{Address, U256};
use revm::bytecode::opcode::{SLOAD, SSTORE};
use tenon_api::messages::{StepRecorder, StructLog, StructLogOptions, TraceResult};
use tenon_execution_interface::StateError;
use tenon_simulation_interface::instruction_name;
use tenon_traces::{Accounts, FrameEnd, Run, Step, StepEnd, Tracer, TracerFailure, growing_bytes};

/// Records steps during the run.
pub(super) struct StructLogger {
    options: StructLogOptions,
    steps: StepRecorder,
    recorded: i64,
    /// Which instructions are recorded.
    opcodes: [bool; 256],
    /// All slots read or written so far, by contract.
    slots: HashMap<Address, BTreeMap<U256, U256>>,
    output: Option<FrameEnd>,
}

impl StructLogger {
    pub(super) fn new(options: StructLogOptions) -> Self {
        Self {
            options,
            steps: StepRecorder::default(),
            recorded: 0,
            opcodes: [false; 256],
            slots: HashMap::new(),
            output: None,
        }
    }

    /// The slots accessed by the contract, including the one of this instruction.
    fn record_storage(&mut self, step: &Step<'_>, accounts: &mut dyn Accounts) -> Result<(), StateError> {
        let value = match step.opcode {
            SLOAD if !step.stack.is_empty() => accounts.slot(step.contract, step.peek(0))?,
            SSTORE if step.stack.len() >= 2 => step.peek(1),
            _ => return Ok(()),
        };
        let slots = self.slots.entry(step.contract).or_default();
        slots.insert(step.peek(0), value);
        self.steps.storage(slots.iter().flat_map(|(slot, value)| [slot, value]));
        Ok(())
    }
}

impl Tracer for StructLogger {
    fn step(&mut self, step: &Step<'_>, accounts: &mut dyn Accounts) -> Result<(), StateError> {
        if self.options.limit != 0 && self.recorded >= self.options.limit {
            return Ok(());
        }
        self.recorded += 1;
        self.opcodes[usize::from(step.opcode)] = true;
        self.steps.begin(step.pc as u64, step.opcode, step.gas, step.depth as u64);
        if self.options.with_stack {
            self.steps.stack(step.stack);
        }
        if self.options.with_memory {
            self.steps.memory(step.memory);
        }
        if self.options.with_storage {
            self.record_storage(step, accounts)?;
        }
        Ok(())
    }

    /// Does nothing for a step that is not recorded: none is open then.
    fn step_end(&mut self, end: StepEnd<'_>) {
        match end {
            StepEnd::Ran { cost } | StepEnd::Failed { cost, .. } => self.steps.end(cost, None),
            StepEnd::Refused { cost, error } => self.steps.end(cost, Some(error)),
        }
    }

    fn end(&mut self, end: &FrameEnd) {
        self.output = Some(end.clone());
    }

    fn held_bytes(&self) -> usize {
        usize::try_from(growing_bytes(self.steps.len(), self.steps.capacity())).unwrap_or(usize::MAX)
    }

    fn result(&mut self, run: &Run<'_>, _accounts: &mut dyn Accounts) -> Result<TraceResult, TracerFailure> {
        let succeeded = self.output.take().filter(|end| end.error.is_none());
        let used = (0..=u8::MAX).filter(|opcode| self.opcodes[usize::from(*opcode)]);
        Ok(TraceResult::StructLog(StructLog {
            gas: run.gas_used,
            has_failed: succeeded.is_none(),
            output: succeeded.map(|end| end.output).unwrap_or_default(),
            names: used.map(|opcode| (opcode, instruction_name(opcode).into_owned())).collect(),
            steps: std::mem::take(&mut self.steps).finish(),
        }))
    }
}

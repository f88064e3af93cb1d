//! `contractTracer`: lists contracts that were created, or that ran a given instruction. Exists only on native chains.

use alloy_primitives::Address;
use tenon_api::messages::TraceResult;
use tenon_execution_interface::StateError;
use tenon_traces::{Accounts, FrameStart, Run, Step, Tracer, TracerFailure};

/// Lists addresses without duplicates in order of appearance; the reference defines no order.
#[derive(Default)]
pub(super) struct ContractTracer {
    /// The instruction to look for; `None` to list creations.
    opcode: Option<u8>,
    found: Vec<Address>,
}

impl ContractTracer {
    pub(super) fn new(opcode: Option<u8>) -> Self {
        Self { opcode, ..Self::default() }
    }

    fn found(&mut self, address: Address) {
        if !self.found.contains(&address) {
            self.found.push(address);
        }
    }
}

impl Tracer for ContractTracer {
    fn start(&mut self, frame: &FrameStart) {
        if self.opcode.is_none() && frame.kind.is_creation() {
            self.found(frame.to);
        }
    }

    fn step(&mut self, step: &Step<'_>, _accounts: &mut dyn Accounts) -> Result<(), StateError> {
        if self.opcode == Some(step.opcode) {
            self.found(step.contract);
        }
        Ok(())
    }

    fn result(&mut self, _run: &Run<'_>, _accounts: &mut dyn Accounts) -> Result<TraceResult, TracerFailure> {
        Ok(TraceResult::Contracts(std::mem::take(&mut self.found)))
    }
}

/// `noopTracer`: does nothing.
pub(super) struct NoopTracer;

impl Tracer for NoopTracer {
    fn result(&mut self, _run: &Run<'_>, _accounts: &mut dyn Accounts) -> Result<TraceResult, TracerFailure> {
        Ok(TraceResult::Noop)
    }
}

//! `4byteTracer` and its older form: selectors called, with the size of their data.

use alloy_primitives::{Address, Bytes, U256};
use revm::bytecode::opcode::{CALL, CALLCODE, DELEGATECALL, STATICCALL};
use tenon_api::messages::{SelectorCount, TraceResult};
use tenon_execution_interface::{MovedPrecompiles, StateError};
use tenon_traces::{Accounts, FrameStart, Run, Step, Tracer, TracerFailure};

use crate::histograms::Counts;

/// Counts selectors. The outermost call is counted last.
pub(super) struct SelectorTracer {
    /// Selectors with the lengths of their data.
    counts: Counts<(Bytes, U256)>,
    precompiles: MovedPrecompiles,
    /// Whether it reads calls from the stack instead of using frame events. It then also sees refused calls, but no
    /// creations.
    reads_stack: bool,
}

impl SelectorTracer {
    pub(super) fn new(precompiles: MovedPrecompiles, reads_stack: bool) -> Self {
        Self { counts: Counts::default(), precompiles, reads_stack }
    }

    fn count(&mut self, selector: &[u8], data_length: U256) {
        self.counts.add((Bytes::copy_from_slice(selector), data_length));
    }
}

impl Tracer for SelectorTracer {
    fn enter(&mut self, frame: &FrameStart) {
        if self.reads_stack || self.precompiles.is_precompile(frame.to) {
            return;
        }
        if let Some((selector, data)) = frame.input.split_at_checked(4) {
            self.count(selector, U256::from(data.len()));
        }
    }

    fn step(&mut self, step: &Step<'_>, _accounts: &mut dyn Accounts) -> Result<(), StateError> {
        let offset_at = match step.opcode {
            CALL | CALLCODE if self.reads_stack => 3,
            DELEGATECALL | STATICCALL if self.reads_stack => 2,
            _ => return Ok(()),
        };
        if self.precompiles.is_precompile(Address::from_word(step.peek(1).into())) {
            return Ok(());
        }
        let length = step.peek(offset_at + 1);
        if let Some(data_length) = length.checked_sub(U256::from(4)) {
            // The memory has not grown for the call yet; if it is too short, the selector is empty.
            let selector = step.memory_slice(step.peek(offset_at), U256::from(4)).to_vec();
            self.count(&selector, data_length);
        }
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        self.counts.held_bytes()
    }

    fn result(&mut self, run: &Run<'_>, _accounts: &mut dyn Accounts) -> Result<TraceResult, TracerFailure> {
        if let Some((selector, data)) = run.frame.and_then(|(start, _)| start.input.split_at_checked(4)) {
            let (selector, length) = (selector.to_vec(), U256::from(data.len()));
            self.count(&selector, length);
        }
        let counted = self.counts.take().into_iter();
        let counted = counted.map(|((selector, data_length), count)| SelectorCount { selector, data_length, count });
        Ok(TraceResult::Selectors(counted.collect()))
    }
}

//! Runs the frames of a native transaction like the EVM, recording the changes to empty accounts (see `dirty_marks`).

use alloy_primitives::Address;
use revm::{
    context::{ContextTr, JournalEntry},
    handler::{EvmTr, FrameData, FrameInitOrResult, FrameResult, ItemOrResult},
    interpreter::{CallValue, FrameInput, interpreter::EthInterpreter, interpreter_action::FrameInit},
};

use super::dirty_marks::{Change, DirtyMarks};
use crate::block::{BlockEvm, EvmFailure};

type EthFrame = revm::handler::EthFrame<EthInterpreter>;

/// How to begin and run frames: with or without an inspector.
pub(super) struct FrameRunner<I> {
    /// Begins a frame; returns its result if there is nothing to run.
    pub(super) begin: fn(&mut BlockEvm<I>, FrameInit) -> Result<Option<FrameResult>, EvmFailure>,
    /// Runs the innermost frame until it ends or begins another.
    pub(super) run: fn(&mut BlockEvm<I>) -> Result<FrameInitOrResult<EthFrame>, EvmFailure>,
}

impl<I> FrameRunner<I> {
    /// Runs a frame and all its inner frames.
    ///
    /// # Errors
    /// The database failed, or the run was interrupted.
    pub(super) fn run_all(&self, evm: &mut BlockEvm<I>, first: FrameInit) -> Result<FrameResult, EvmFailure> {
        marks(evm, DirtyMarks::begin_transaction);
        if let Some(result) = self.begin(evm, first)? {
            return Ok(result);
        }
        loop {
            let start = evm.ctx.journaled_state.inner.journal.len();
            let result = match (self.run)(evm)? {
                ItemOrResult::Item(next) => match self.begin(evm, next)? {
                    Some(result) => result,
                    None => continue,
                },
                ItemOrResult::Result(result) => {
                    end(evm, &result, start);
                    result
                }
            };
            if let Some(result) = evm.frame_return_result(result)? {
                return Ok(result);
            }
        }
    }

    fn begin(&self, evm: &mut BlockEvm<I>, frame: FrameInit) -> Result<Option<FrameResult>, EvmFailure> {
        let receiver = match &frame.frame_input {
            FrameInput::Call(call) => match call.value {
                CallValue::Transfer(value) if call.caller != call.target_address => {
                    let change = if value.is_zero() { Change::Touch } else { Change::Write };
                    Some((call.target_address, change))
                }
                _ => None,
            },
            FrameInput::Create(_) | FrameInput::Empty => None,
        };
        let result = (self.begin)(evm, frame)?;
        let change = receiver.or_else(|| created(evm).filter(|_| result.is_none()));
        marks(evm, |marks| {
            marks.begin_frame();
            // A call that did not begin changes nothing.
            let is_begun = result.as_ref().is_none_or(|result| is_kept(result) || is_of_precompile(result));
            if let Some((address, change)) = change.filter(|_| is_begun) {
                marks.record(address, change);
            }
            if let Some(result) = &result {
                marks.end_frame(!is_kept(result));
            }
        });
        Ok(result)
    }
}

/// Ends a frame whose last instructions wrote the journal's entries from `start` on. Frames begin only in between, so a
/// transfer among these entries is that of SELFDESTRUCT.
fn end<I>(evm: &mut BlockEvm<I>, result: &FrameResult, start: usize) {
    let entries = evm.ctx.journaled_state.inner.journal.get(start..).unwrap_or_default();
    let beneficiary = entries.iter().find_map(|entry| match entry {
        JournalEntry::AccountDestroyed { address, target, had_balance, .. } if address != target => {
            Some((*target, had_balance.is_zero()))
        }
        JournalEntry::BalanceTransfer { to, balance, .. } => Some((*to, balance.is_zero())),
        _ => None,
    });
    marks(evm, |marks| {
        if let Some((address, is_nothing)) = beneficiary {
            marks.record(address, if is_nothing { Change::Touch } else { Change::Write });
        }
        marks.end_frame(!is_kept(result));
    });
}

/// The contract being created by the innermost frame.
fn created<I>(evm: &mut BlockEvm<I>) -> Option<(Address, Change)> {
    evm.frame_stack.index()?;
    match &evm.frame_stack.get().data {
        FrameData::Create(frame) => Some((frame.created_address, Change::Creation)),
        FrameData::Call(_) => None,
    }
}

fn is_kept(result: &FrameResult) -> bool {
    result.instruction_result().is_ok()
}

const fn is_of_precompile(result: &FrameResult) -> bool {
    matches!(result, FrameResult::Call(call) if call.was_precompile_called)
}

fn marks<I>(evm: &mut BlockEvm<I>, change: impl FnOnce(&mut DirtyMarks)) {
    if let Some(marks) = evm.ctx.db_mut().dirty_marks_mut() {
        change(marks);
    }
}

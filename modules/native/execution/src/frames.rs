//! Runs the frames of a native transaction like the EVM, recording the changes to empty accounts (see [`DirtyMarks`]).

use alloy_primitives::Address;
use revm::{
    context::{ContextTr, JournalEntry},
    handler::{EvmTr, FrameData, FrameResult, ItemOrResult},
    interpreter::{CallValue, FrameInput, interpreter_action::FrameInit},
};

use tenon_execution::family::{AnyEvm, Change, DirtyMarks, EvmFailure};

/// Runs a frame and all its inner frames.
///
/// # Errors
/// The database failed, or the run was interrupted.
pub(super) fn run_all(evm: &mut AnyEvm<'_>, first: FrameInit) -> Result<FrameResult, EvmFailure> {
    marks(evm, DirtyMarks::begin_transaction);
    if let Some(result) = begin(evm, first)? {
        return Ok(result);
    }
    loop {
        let start = evm.context().journaled_state.inner.journal.len();
        let result = match evm.frame_run()? {
            ItemOrResult::Item(next) => match begin(evm, next)? {
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

/// Begins a frame; returns its result if there is nothing to run.
fn begin(evm: &mut AnyEvm<'_>, frame: FrameInit) -> Result<Option<FrameResult>, EvmFailure> {
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
    let result = match evm.frame_init(frame)? {
        ItemOrResult::Item(_) => None,
        ItemOrResult::Result(result) => Some(result),
    };
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

/// Ends a frame whose last instructions wrote the journal's entries from `start` on. Frames begin only in between, so a
/// transfer among these entries is that of SELFDESTRUCT.
fn end(evm: &mut AnyEvm<'_>, result: &FrameResult, start: usize) {
    let journal = &evm.context().journaled_state.inner.journal;
    let entries = journal.get(start..).unwrap_or_default();
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
fn created(evm: &mut AnyEvm<'_>) -> Option<(Address, Change)> {
    let frames = evm.frame_stack();
    frames.index()?;
    match &frames.get().data {
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

fn marks(evm: &mut AnyEvm<'_>, change: impl FnOnce(&mut DirtyMarks)) {
    if let Some(marks) = evm.context().db_mut().dirty_marks_mut() {
        change(marks);
    }
}

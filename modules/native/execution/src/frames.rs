//! Runs the frames of a native transaction like the EVM, with two differences: changes to empty accounts are recorded
//! (see [`DirtyMarks`]), and transfers work with balances of more than the 256 bits of the EVM (see
//! [`WholeBalances`](tenon_execution_interface::WholeBalances)).

use alloy_primitives::Address;
use revm::{
    context::{ContextTr, JournalEntry, JournalTr},
    handler::{EvmTr, FrameData, FrameResult, ItemOrResult},
    interpreter::{CallValue, FrameInput, interpreter_action::FrameInit},
    primitives::constants::CALL_STACK_LIMIT,
};

use tenon_execution_interface::{AnyEvm, Change, DirtyMarks, EvmFailure, widen};

/// Runs a frame and all its inner frames.
///
/// # Errors
/// The database failed, or the run was interrupted.
pub fn run_all(evm: &mut AnyEvm<'_>, first: FrameInit) -> Result<FrameResult, EvmFailure> {
    marks(evm, DirtyMarks::begin_transaction);
    if let Some(balances) = evm.context().db_mut().whole_balances_mut() {
        balances.begin_transaction();
    }
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
    let parties =
        if evm.context().db_mut().whole_balances_mut().is_some() { prepare_value(evm, &frame)? } else { None };
    let result = match evm.frame_init(frame)? {
        ItemOrResult::Item(_) => None,
        ItemOrResult::Result(result) => Some(result),
    };
    if evm.context().db_mut().whole_balances_mut().is_some() {
        begin_whole_balances(evm, parties, result.as_ref());
    }
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

/// Ends a frame whose last instructions wrote the journal's entries from `start` on. No frame begins among these
/// entries, so a transfer in them is that of SELFDESTRUCT.
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
    let journal = &mut evm.context().journaled_state;
    if let Some(balances) = journal.database.whole_balances_mut() {
        balances.end_frame(!is_kept(result), &mut journal.inner.state);
    }
}

/// The payer and the receiver of the value of a frame.
type Parties = (Address, Option<Address>);

/// Called before a frame that moves a value: prepares balances of more than 256 bits, so that the EVM can move the
/// value (`docs/spec/chain.md` 8.1).
fn prepare_value(evm: &mut AnyEvm<'_>, frame: &FrameInit) -> Result<Option<Parties>, EvmFailure> {
    let (from, to, value) = match &frame.frame_input {
        FrameInput::Call(call) => match call.value {
            CallValue::Transfer(value) => (call.caller, Some(call.target_address), value),
            CallValue::Apparent(_) => return Ok(None),
        },
        FrameInput::Create(create) => (create.caller(), None, create.value()),
        FrameInput::Empty => return Ok(None),
    };
    if value.is_zero() || frame.depth > CALL_STACK_LIMIT as usize {
        return Ok(None);
    }
    let journal = &mut evm.context().journaled_state;
    let payer = journal.inner.state.get(&from).map(|account| (account.info.nonce, account.info.balance));
    let to = match (&frame.frame_input, payer) {
        // The EVM reads the new contract's account only after it knows that the creator can pay and can increment its
        // nonce.
        (FrameInput::Create(create), Some((nonce, seen))) if nonce < u64::MAX => {
            let pays = journal.database.track_whole_balances().whole(from, seen) >= widen(value);
            let created = pays.then(|| create.created_address(nonce));
            if let Some(created) = created {
                journal.load_account(created)?;
            }
            created
        }
        _ => to,
    };
    journal.database.track_whole_balances().prepare_transfer(from, to, value, &mut journal.inner.state);
    Ok(Some((from, to)))
}

/// Called after a frame has begun, or has ended without running.
fn begin_whole_balances(evm: &mut AnyEvm<'_>, parties: Option<Parties>, result: Option<&FrameResult>) {
    let journal = &mut evm.context().journaled_state;
    let (balances, state) = (journal.database.track_whole_balances(), &mut journal.inner.state);
    balances.begin_frame();
    let undone = result.is_some_and(|result| !is_kept(result));
    if undone {
        balances.end_frame(true, state);
    }
    if let Some((from, to)) = parties {
        balances.keep_visible_part_nonzero(from, state);
        to.into_iter().for_each(|to| balances.keep_visible_part_nonzero(to, state));
    }
    if result.is_some() && !undone {
        balances.end_frame(false, state);
    }
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

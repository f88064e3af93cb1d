//! Instructions that native chains add or change (`docs/spec/chain.md` 5.2, overrides S, L, L').

use alloy_primitives::{Address, U256};
use revm::interpreter::{
    InstructionContext, InstructionExecResult, InstructionResult, Interpreter,
    instructions::{host, tx_info},
    interpreter::EthInterpreter,
    interpreter_types::InputsTr,
};
use tenon_native_spec::NATIVE_BASE_FEE;

use tenon_execution_interface::{BlockContext, Step};

fn push(step: Step<'_>, value: U256) -> InstructionExecResult {
    if step.interpreter.stack.push(value) { Ok(()) } else { Err(InstructionResult::StackOverflow) }
}

/// BASEFEE: 12.5 gwei; the base fee of the header is ignored.
pub(super) fn base_fee(step: Step<'_>) -> InstructionExecResult {
    push(step, U256::from(NATIVE_BASE_FEE))
}

/// DIFFICULTY: the hash of the block number.
pub(super) fn random(step: Step<'_>) -> InstructionExecResult {
    let value = step.host.block.prevrandao.unwrap_or_default();
    push(step, value.into())
}

/// PUSH0.
pub(super) fn push0(step: Step<'_>) -> InstructionExecResult {
    push(step, U256::ZERO)
}

/// BALANCE: the low 256 bits (`docs/spec/chain.md` 8.1).
pub(super) fn balance(step: Step<'_>) -> InstructionExecResult {
    let InstructionContext { interpreter, host } = step;
    let address = Address::from_word(interpreter.stack.peek(0)?.into());
    host::balance(InstructionContext { interpreter: &mut *interpreter, host: &mut *host })?;
    add_hidden(interpreter, host, address)
}

/// SELFBALANCE, likewise.
pub(super) fn self_balance(step: Step<'_>) -> InstructionExecResult {
    let InstructionContext { interpreter, host } = step;
    host::selfbalance(InstructionContext { interpreter: &mut *interpreter, host: &mut *host })?;
    let address = interpreter.input.target_address();
    add_hidden(interpreter, host, address)
}

fn add_hidden(
    interpreter: &mut Interpreter<EthInterpreter>,
    host: &mut BlockContext,
    address: Address,
) -> InstructionExecResult {
    let Some(balances) = host.journaled_state.database.whole_balances_mut() else { return Ok(()) };
    let seen = interpreter.stack.peek(0)?;
    interpreter.stack.set(0, seen.wrapping_add(balances.hidden_low(address)))
}

/// SELFDESTRUCT moves the whole balance (`docs/spec/chain.md` 8.1).
pub(super) fn self_destruct(step: Step<'_>) -> InstructionExecResult {
    let InstructionContext { interpreter, host } = step;
    let heir = interpreter.stack.peek(0).ok().map(|word| Address::from_word(word.into()));
    let contract = interpreter.input.target_address();
    let moved = host.journaled_state.inner.state.get(&contract).map(|account| account.info.balance);
    let result = host::selfdestruct(InstructionContext { interpreter, host: &mut *host });
    let journal = &mut host.journaled_state;
    if let (Err(InstructionResult::SelfDestruct), Some(heir), Some(moved), Some(balances)) =
        (&result, heir, moved, journal.database.whole_balances_mut())
    {
        balances.after_destruction(contract, heir, moved, &mut journal.inner.state);
    }
    result
}

/// GASPRICE: the transaction's own price if it exceeds the EVM's 128 bits.
pub(super) fn gas_price(step: Step<'_>) -> InstructionExecResult {
    let price = step.host.journaled_state.database.whole_balances_mut().and_then(|balances| balances.price());
    match price {
        Some(price) => push(step, price),
        None => tx_info::gasprice(step),
    }
}

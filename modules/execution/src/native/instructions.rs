//! Instructions that native chains add or change (`docs/spec/chain.md` 5.2, overrides S, L, L').

use alloy_primitives::{Address, U256};
use revm::{
    bytecode::opcode,
    handler::instructions::EthInstructions,
    interpreter::{
        CallValue, FrameInput, Instruction, InstructionContext, InstructionExecResult, InstructionResult, Interpreter,
        InterpreterAction,
        instructions::{contract, host, tx_info},
        interpreter::EthInterpreter,
        interpreter_types::{InputsTr, LoopControl, RuntimeFlag},
    },
};
use tenon_chain::spec::NATIVE_BASE_FEE;

use crate::block::{BlockContext, Step};

/// Differences of a block's instructions from those of its fork.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent changes")]
pub(crate) struct InstructionChanges {
    /// Whether BASEFEE exists and pushes 12.5 gwei, whatever the header says.
    pub(crate) base_fee_is_constant: bool,
    /// Whether 0x44 pushes the hash of the block number.
    pub(crate) difficulty_is_random: bool,
    /// Whether balances and prices may have more than 256 bits, of which instructions see the low ones.
    pub(crate) has_whole_balances: bool,
    /// Whether PUSH0 exists.
    pub(crate) has_push0: bool,
    /// Whether STATICCALL neither forbids state changes nor touches its target (`docs/spec/chain.md` 5.3).
    pub(crate) static_calls_may_write: bool,
}

impl InstructionChanges {
    /// Installs the changed instructions in the table of a block.
    pub(crate) fn install(self, instructions: &mut EthInstructions<EthInterpreter, BlockContext>) {
        let table = instructions.instruction_table_mut();
        let mut replace = |opcode: u8, function| table[usize::from(opcode)] = Instruction::new(function);
        if self.base_fee_is_constant {
            replace(opcode::BASEFEE, base_fee);
        }
        if self.difficulty_is_random {
            replace(opcode::DIFFICULTY, random);
        }
        if self.has_push0 {
            replace(opcode::PUSH0, push0);
        }
        if self.has_whole_balances {
            replace(opcode::BALANCE, balance);
            replace(opcode::SELFBALANCE, self_balance);
            replace(opcode::SELFDESTRUCT, self_destruct);
            replace(opcode::GASPRICE, gas_price);
        }
        if self.static_calls_may_write {
            replace(opcode::STATICCALL, writing_static_call);
        }
    }
}

fn push(step: Step<'_>, value: U256) -> InstructionExecResult {
    if step.interpreter.stack.push(value) { Ok(()) } else { Err(InstructionResult::StackOverflow) }
}

fn base_fee(step: Step<'_>) -> InstructionExecResult {
    push(step, U256::from(NATIVE_BASE_FEE))
}

fn random(step: Step<'_>) -> InstructionExecResult {
    let value = step.host.block.prevrandao.unwrap_or_default();
    push(step, value.into())
}

fn push0(step: Step<'_>) -> InstructionExecResult {
    push(step, U256::ZERO)
}

/// BALANCE: the low 256 bits (`docs/spec/chain.md` 8.1).
fn balance(step: Step<'_>) -> InstructionExecResult {
    let InstructionContext { interpreter, host } = step;
    let address = Address::from_word(interpreter.stack.peek(0)?.into());
    host::balance(InstructionContext { interpreter: &mut *interpreter, host: &mut *host })?;
    add_hidden(interpreter, host, address)
}

/// SELFBALANCE, likewise.
fn self_balance(step: Step<'_>) -> InstructionExecResult {
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
    let Some(rich) = host.journaled_state.database.rich_mut() else { return Ok(()) };
    let seen = interpreter.stack.peek(0)?;
    interpreter.stack.set(0, seen.wrapping_add(rich.hidden_low(address)))
}

/// SELFDESTRUCT moves the whole balance (`docs/spec/chain.md` 8.1).
fn self_destruct(step: Step<'_>) -> InstructionExecResult {
    let InstructionContext { interpreter, host } = step;
    let heir = interpreter.stack.peek(0).ok().map(|word| Address::from_word(word.into()));
    let contract = interpreter.input.target_address();
    let moved = host.journaled_state.inner.state.get(&contract).map(|account| account.info.balance);
    let result = host::selfdestruct(InstructionContext { interpreter, host: &mut *host });
    let journal = &mut host.journaled_state;
    if let (Err(InstructionResult::SelfDestruct), Some(heir), Some(moved), Some(rich)) =
        (&result, heir, moved, journal.database.rich_mut())
    {
        rich.after_destruction(contract, heir, moved, &mut journal.inner.state);
    }
    result
}

/// GASPRICE: the low 256 bits of a price that is beyond those of the EVM.
fn gas_price(step: Step<'_>) -> InstructionExecResult {
    let price = step.host.journaled_state.database.rich_mut().and_then(|rich| rich.price());
    match price {
        Some(price) => push(step, price),
        None => tx_info::gasprice(step),
    }
}

/// STATICCALL before `tipXDCXCancellationFee`: a call without value whose frame may change the state.
pub(crate) fn writing_static_call(step: Step<'_>) -> InstructionExecResult {
    let InstructionContext { interpreter, host } = step;
    let inherited = interpreter.runtime_flag.is_static();
    let result = contract::call::<{ opcode::STATICCALL }, _, _>(InstructionContext { interpreter, host });
    if let Some(InterpreterAction::NewFrame(FrameInput::Call(inputs))) = interpreter.bytecode.action() {
        inputs.is_static = inherited;
        // Even a transfer of zero would touch the target.
        inputs.value = CallValue::Apparent(U256::ZERO);
    }
    result
}

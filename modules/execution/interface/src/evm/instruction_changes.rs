//! Instructions of a block that differ from those of its fork.

use alloy_primitives::U256;
use revm::{
    bytecode::opcode,
    handler::instructions::EthInstructions,
    interpreter::{
        CallValue, FrameInput, Instruction, InstructionContext, InstructionExecResult, InterpreterAction,
        instructions::contract,
        interpreter::EthInterpreter,
        interpreter_types::{LoopControl, RuntimeFlag},
    },
};

use super::context::{BlockContext, Step};

/// The function of an instruction. Its static gas is that of the instruction that it replaces.
pub type InstructionFunction = fn(Step<'_>) -> InstructionExecResult;

/// Differences of a block's instructions from those of its fork.
#[derive(Clone, Copy, Default)]
pub struct InstructionChanges {
    /// BASEFEE, if it differs or is not in the fork.
    pub base_fee: Option<InstructionFunction>,
    /// DIFFICULTY, likewise.
    pub difficulty: Option<InstructionFunction>,
    /// PUSH0, likewise.
    pub push0: Option<InstructionFunction>,
    /// BALANCE, if it differs.
    pub balance: Option<InstructionFunction>,
    /// SELFBALANCE, if it differs and the fork has it.
    pub self_balance: Option<InstructionFunction>,
    /// SELFDESTRUCT, if it differs.
    pub self_destruct: Option<InstructionFunction>,
    /// GASPRICE, if it differs.
    pub gas_price: Option<InstructionFunction>,
    /// Whether STATICCALL neither forbids state changes nor touches its target (`docs/spec/chain.md` 5.3).
    pub static_calls_may_write: bool,
}

impl InstructionChanges {
    /// Installs the changed instructions in the table of a block.
    pub(super) fn install(self, instructions: &mut EthInstructions<EthInterpreter, BlockContext>) {
        let table = instructions.instruction_table_mut();
        let static_call = self.static_calls_may_write.then_some(writing_static_call as InstructionFunction);
        let changed = [
            (opcode::BASEFEE, self.base_fee),
            (opcode::DIFFICULTY, self.difficulty),
            (opcode::PUSH0, self.push0),
            (opcode::BALANCE, self.balance),
            (opcode::SELFBALANCE, self.self_balance),
            (opcode::SELFDESTRUCT, self.self_destruct),
            (opcode::GASPRICE, self.gas_price),
            (opcode::STATICCALL, static_call),
        ];
        for (opcode, function) in changed {
            if let Some(function) = function {
                table[usize::from(opcode)] = Instruction::new(function);
            }
        }
    }
}

/// STATICCALL on chains where it may write: a call without value whose frame may change the state.
pub(super) fn writing_static_call(step: Step<'_>) -> InstructionExecResult {
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

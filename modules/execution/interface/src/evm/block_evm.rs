//! The EVM of this node: revm's, over our state, with a few changed instructions.

use alloy_primitives::{Address, U256};
use revm::{
    Context,
    bytecode::opcode,
    context::{BlockEnv, Evm, FrameStack},
    context_interface::context::ContextError,
    handler::{EthFrame, instructions::EthInstructions},
    interpreter::{
        Instruction, InstructionContext, InstructionExecResult, InstructionResult, Interpreter, Stack,
        instructions::{arithmetic, contract, control, gas_table_spec, host, instruction_table, memory, system},
        interpreter::EthInterpreter,
    },
    state::AccountInfo,
};
use tenon_api::EMPTY_CODE_HASH;

use super::{
    context::{BlockContext, Step},
    instruction_changes::{InstructionChanges, writing_static_call},
    interrupt::{CountdownResult, Interrupt},
    precompiles::Precompiles,
    rules::{BlockRules, NET_METERED_OPCODE},
    used_memory,
};
use crate::{
    run_memory::RunMemory,
    state::{BlockState, CODE_HASH_OF_STORAGE_ALONE},
};

/// An EVM over a [`BlockState`], with an inspector `I` (`()` for none).
pub type BlockEvm<I = ()> =
    Evm<BlockContext, I, EthInstructions<EthInterpreter, BlockContext>, Precompiles, EthFrame<EthInterpreter>>;

/// An EVM for a block with these rules.
pub fn build_evm<I>(
    rules: &BlockRules,
    block: BlockEnv,
    mut state: BlockState,
    interrupt: Interrupt,
    inspector: I,
) -> BlockEvm<I> {
    let spec_id = rules.spec_id();
    state.set_storage_prevents_creation(rules.storage_prevents_creation);
    state.set_delegations(rules.has_delegations);
    let (is_interruptible, is_attempt) = (interrupt.is_armed(), interrupt.is_attempt());
    let asks_before_growth =
        is_interruptible && !is_attempt && state.memory().is_some_and(RunMemory::asks_before_growth);
    let mut context: BlockContext = Context::new(state, spec_id);
    context.cfg = rules.cfg.clone();
    context.block = block;
    context.chain = interrupt;
    let mut instructions = EthInstructions::new(instruction_table(), gas_table_spec(spec_id), spec_id);
    if rules.has_net_gas_metering_1283 {
        instructions.instruction_table_mut()[usize::from(NET_METERED_OPCODE)] = Instruction::new(sstore_1283);
    }
    if rules.storage_prevents_creation {
        instructions.instruction_table_mut()[usize::from(opcode::EXTCODEHASH)] = Instruction::new(code_hash);
    }
    rules.instructions.install(&mut instructions);
    if is_interruptible {
        make_interruptible(&mut instructions, rules.instructions, rules.has_net_gas_metering_1283);
    }
    if asks_before_growth {
        ask_before_growth(&mut instructions, rules.instructions.static_calls_may_write);
    }
    if is_attempt {
        bound_single_instructions(&mut instructions);
    }
    Evm {
        ctx: context,
        inspector,
        instruction: instructions,
        precompiles: Precompiles::new(rules.precompiles),
        // Frames are allocated when they are entered: each has a stack of 32 KiB, and most calls need one or two.
        frame_stack: FrameStack::new(),
    }
}

/// Cost of a call, in units of a jump.
const CALL_WEIGHT: u32 = 32;
/// Cost of a write to storage, in units of a jump, because of the memory that it keeps.
const STORE_WEIGHT: u32 = 8;
/// Number of bytes of a log that cost as much as a jump.
const LOGGED_BYTES_PER_JUMP: usize = 128;
/// Number of bytes that are hashed in the time of a jump.
const HASHED_BYTES_PER_JUMP: usize = 16;

/// Makes jumps, calls, storage writes and hashes check the clock. Every loop contains a jump, so this bounds every run.
/// An inspector could do the same, but would cost a call for each instruction. Hashes are included because they can
/// take long without a loop.
fn make_interruptible(
    instructions: &mut EthInstructions<EthInterpreter, BlockContext>,
    changes: InstructionChanges,
    has_own_sstore: bool,
) {
    use opcode::{CALL, CALLCODE, CREATE, CREATE2, DELEGATECALL, JUMP, JUMPI, KECCAK256, SSTORE, STATICCALL, TSTORE};
    let table = instructions.instruction_table_mut();
    let mut replace = |opcode: u8, function| table[usize::from(opcode)] = Instruction::new(function);
    replace(JUMP, |step| interruptible(step, 1, control::jump));
    replace(JUMPI, |step| interruptible(step, 1, control::jumpi));
    replace(CALL, |step| interruptible(step, CALL_WEIGHT, contract::call::<CALL, _, _>));
    replace(CALLCODE, |step| interruptible(step, CALL_WEIGHT, contract::call::<CALLCODE, _, _>));
    replace(DELEGATECALL, |step| interruptible(step, CALL_WEIGHT, contract::call::<DELEGATECALL, _, _>));
    replace(CREATE, |step| interruptible(step, CALL_WEIGHT, contract::create::<false, _, _>));
    replace(CREATE2, |step| interruptible(step, CALL_WEIGHT, contract::create::<true, _, _>));
    replace(KECCAK256, hash);
    // TSTORE and SSTORE allocate memory, and code without jumps can contain many of them.
    replace(TSTORE, |step| interruptible(step, STORE_WEIGHT, host::tstore));
    if !has_own_sstore {
        replace(SSTORE, |step| interruptible(step, STORE_WEIGHT, host::sstore));
    }
    if changes.static_calls_may_write {
        replace(STATICCALL, |step| interruptible(step, CALL_WEIGHT, writing_static_call));
    } else {
        replace(STATICCALL, |step| interruptible(step, CALL_WEIGHT, contract::call::<STATICCALL, _, _>));
    }
}

fn interruptible(
    step: Step<'_>,
    weight: u32,
    instruction: fn(Step<'_>) -> InstructionExecResult,
) -> InstructionExecResult {
    match step.host.chain.count_down(weight) {
        CountdownResult::NotYet => instruction(step),
        CountdownResult::Continue if fits(step.host, 0) => instruction(step),
        CountdownResult::Continue | CountdownResult::Stop => interrupt(step),
    }
}

/// Returns whether the client's share of memory suffices for the run's memory and `more` bytes. If not, records the
/// exhausted limit.
#[cold]
fn fits(context: &mut BlockContext, more: usize) -> bool {
    let Some(memory) = context.journaled_state.database.memory() else { return true };
    match used_memory::count(memory, context, more) {
        Ok(()) => true,
        Err(refused) => {
            context.chain.refuse_memory(refused);
            false
        }
    }
}

/// The memory range that an instruction uses, by the stack positions of its operands.
#[derive(Clone, Copy)]
enum Used {
    /// Stack position of the offset, and a fixed number of bytes.
    Fixed(usize, usize),
    /// Stack positions of the offset and of the length.
    Range(usize, usize),
}

impl Used {
    /// The end of the range; `None` if an operand is missing or too large, which the instruction itself reports.
    fn end(self, stack: &Stack) -> Option<usize> {
        let at = |position| stack.peek(position).ok().and_then(|value: U256| usize::try_from(value).ok());
        match self {
            Self::Fixed(from, bytes) => at(from)?.checked_add(bytes),
            Self::Range(from, length) => match at(length)? {
                0 => Some(0),
                length => at(from)?.checked_add(length),
            },
        }
    }
}

/// Growth of memory by a single instruction that needs no check.
const UNCHECKED_GROWTH: usize = 64 << 10;

/// Whether a frame's remaining gas pays for memory up to `end`, in addition to the memory that it has already paid for.
/// Memory costs three gas per word, and the square of the words divided by 512 (Yellow Paper, appendix H).
fn is_paid(interpreter: &Interpreter<EthInterpreter>, end: usize) -> bool {
    let cost = |bytes: usize| {
        let words = (bytes as u64).div_ceil(32);
        words.saturating_mul(3).saturating_add(words.saturating_mul(words) / 512)
    };
    cost(end).saturating_sub(cost(interpreter.memory.len())) <= interpreter.gas.remaining()
}

/// Runs an instruction that uses memory, unless the client's memory does not suffice for its growth.
fn growing(step: Step<'_>, used: &[Used], instruction: fn(Step<'_>) -> InstructionExecResult) -> InstructionExecResult {
    let end = used.iter().filter_map(|used| used.end(&step.interpreter.stack)).max().unwrap_or_default();
    let growth = end.saturating_sub(step.interpreter.memory.len());
    // The instruction itself refuses growth that its gas does not pay for. The buffer grows by doubling.
    if growth > UNCHECKED_GROWTH && is_paid(step.interpreter, end) && !fits(step.host, growth.saturating_mul(2)) {
        return interrupt(step);
    }
    instruction(step)
}

/// Makes instructions check the client's memory before they grow memory. With a high or unlimited gas limit a single
/// instruction could otherwise allocate all memory of the machine.
fn ask_before_growth(instructions: &mut EthInstructions<EthInterpreter, BlockContext>, writing_static_calls: bool) {
    use Used::{Fixed, Range};
    use opcode::{
        CALL, CALLCODE, CALLDATACOPY, CODECOPY, CREATE, CREATE2, DELEGATECALL, EXTCODECOPY, KECCAK256, LOG0, LOG1,
        LOG2, LOG3, LOG4, MCOPY, MLOAD, MSTORE, MSTORE8, RETURN, RETURNDATACOPY, REVERT, STATICCALL,
    };
    let table = instructions.instruction_table_mut();
    let mut replace = |opcode: u8, function| table[usize::from(opcode)] = Instruction::new(function);
    replace(MLOAD, |step| growing(step, &[Fixed(0, 32)], memory::mload));
    replace(MSTORE, |step| growing(step, &[Fixed(0, 32)], memory::mstore));
    replace(MSTORE8, |step| growing(step, &[Fixed(0, 1)], memory::mstore8));
    replace(MCOPY, |step| growing(step, &[Range(0, 2), Range(1, 2)], memory::mcopy));
    replace(CALLDATACOPY, |step| growing(step, &[Range(0, 2)], system::calldatacopy));
    replace(CODECOPY, |step| growing(step, &[Range(0, 2)], system::codecopy));
    replace(EXTCODECOPY, |step| growing(step, &[Range(1, 3)], host::extcodecopy));
    replace(RETURNDATACOPY, |step| growing(step, &[Range(0, 2)], system::returndatacopy));
    replace(RETURN, |step| growing(step, &[Range(0, 1)], control::ret));
    replace(REVERT, |step| growing(step, &[Range(0, 1)], control::revert));
    replace(KECCAK256, |step| growing(step, &[Range(0, 1)], hash));
    replace(LOG0, |step| growing(step, &[Range(0, 1)], |step| log(step, host::log::<0, BlockContext>)));
    replace(LOG1, |step| growing(step, &[Range(0, 1)], |step| log(step, host::log::<1, BlockContext>)));
    replace(LOG2, |step| growing(step, &[Range(0, 1)], |step| log(step, host::log::<2, BlockContext>)));
    replace(LOG3, |step| growing(step, &[Range(0, 1)], |step| log(step, host::log::<3, BlockContext>)));
    replace(LOG4, |step| growing(step, &[Range(0, 1)], |step| log(step, host::log::<4, BlockContext>)));
    replace(CREATE, |step| {
        growing(step, &[Range(1, 2)], |step| interruptible(step, CALL_WEIGHT, contract::create::<false, _, _>))
    });
    replace(CREATE2, |step| {
        growing(step, &[Range(1, 2)], |step| interruptible(step, CALL_WEIGHT, contract::create::<true, _, _>))
    });
    replace(CALL, |step| {
        growing(step, &WITH_VALUE, |step| interruptible(step, CALL_WEIGHT, contract::call::<CALL, _, _>))
    });
    replace(CALLCODE, |step| {
        growing(step, &WITH_VALUE, |step| interruptible(step, CALL_WEIGHT, contract::call::<CALLCODE, _, _>))
    });
    replace(DELEGATECALL, |step| {
        growing(step, &WITHOUT_VALUE, |step| interruptible(step, CALL_WEIGHT, contract::call::<DELEGATECALL, _, _>))
    });
    if writing_static_calls {
        replace(STATICCALL, |step| {
            growing(step, &WITHOUT_VALUE, |step| interruptible(step, CALL_WEIGHT, writing_static_call))
        });
    } else {
        replace(STATICCALL, |step| {
            growing(step, &WITHOUT_VALUE, |step| interruptible(step, CALL_WEIGHT, contract::call::<STATICCALL, _, _>))
        });
    }
}

/// Memory ranges of calls: their data and their output.
const WITH_VALUE: [Used; 2] = [Used::Range(3, 4), Used::Range(5, 6)];
const WITHOUT_VALUE: [Used; 2] = [Used::Range(2, 3), Used::Range(4, 5)];

/// A log keeps a copy of its data, so the weight of the instruction grows with the length of the data.
fn log(step: Step<'_>, instruction: fn(Step<'_>) -> InstructionExecResult) -> InstructionExecResult {
    let bytes: usize = step.interpreter.stack.peek(1).unwrap_or_default().saturating_to();
    interruptible(step, u32::try_from(bytes / LOGGED_BYTES_PER_JUMP).unwrap_or(u32::MAX), instruction)
}

fn hash(step: Step<'_>) -> InstructionExecResult {
    // If the stack is too short, the instruction itself reports it.
    let bytes: usize = step.interpreter.stack.peek(1).unwrap_or_default().saturating_to();
    interruptible(step, u32::try_from(bytes / HASHED_BYTES_PER_JUMP).unwrap_or(u32::MAX), system::keccak256)
}

fn interrupt(step: Step<'_>) -> InstructionExecResult {
    step.host.error = Err(ContextError::Custom(Interrupt::MARK.to_owned()));
    Err(InstructionResult::FatalExternalError)
}

/// Maximum bytes that one instruction of an attempt hashes or copies.
const MAX_BYTES_OF_ATTEMPT: U256 = U256::from_limbs([32 << 10, 0, 0, 0]);

/// In an attempt, instructions that may take long without a jump read the clock each time, and stop the attempt if they
/// have to process many bytes. Reads of the state are bounded separately (`modules/simulation/src/call/attempt.rs`).
fn bound_single_instructions(instructions: &mut EthInstructions<EthInterpreter, BlockContext>) {
    use opcode::{
        CALLDATACOPY, CODECOPY, CREATE, CREATE2, EXP, EXTCODECOPY, KECCAK256, LOG0, LOG1, LOG2, LOG3, LOG4, MCOPY,
        RETURNDATACOPY,
    };
    let table = instructions.instruction_table_mut();
    let mut replace = |opcode: u8, function| table[usize::from(opcode)] = Instruction::new(function);
    replace(KECCAK256, |step| bounded(step, Some(1), system::keccak256));
    replace(CALLDATACOPY, |step| bounded(step, Some(2), system::calldatacopy));
    replace(CODECOPY, |step| bounded(step, Some(2), system::codecopy));
    replace(EXTCODECOPY, |step| bounded(step, Some(3), host::extcodecopy));
    replace(RETURNDATACOPY, |step| bounded(step, Some(2), system::returndatacopy));
    replace(MCOPY, |step| bounded(step, Some(2), memory::mcopy));
    replace(LOG0, |step| bounded(step, Some(1), host::log::<0, BlockContext>));
    replace(LOG1, |step| bounded(step, Some(1), host::log::<1, BlockContext>));
    replace(LOG2, |step| bounded(step, Some(1), host::log::<2, BlockContext>));
    replace(LOG3, |step| bounded(step, Some(1), host::log::<3, BlockContext>));
    replace(LOG4, |step| bounded(step, Some(1), host::log::<4, BlockContext>));
    replace(CREATE, |step| bounded(step, Some(2), contract::create::<false, _, _>));
    replace(CREATE2, |step| bounded(step, Some(2), contract::create::<true, _, _>));
    replace(EXP, |step| bounded(step, None, arithmetic::exp));
}

/// Runs an instruction of an attempt. `length` is the stack position of the number of bytes it processes.
fn bounded(
    step: Step<'_>,
    length: Option<usize>,
    instruction: fn(Step<'_>) -> InstructionExecResult,
) -> InstructionExecResult {
    // A stack underflow is reported by the instruction itself.
    let bytes = length.and_then(|position| step.interpreter.stack.peek(position).ok()).unwrap_or_default();
    if bytes > MAX_BYTES_OF_ATTEMPT || step.host.chain.reason().is_some() {
        return interrupt(step);
    }
    instruction(step)
}

fn sstore_1283(step: Step<'_>) -> InstructionExecResult {
    host::sstore_with_gas_accounting(step, |step, _, load| {
        let gas = step.host.cfg.gas_params.sstore_dynamic_gas(true, &load.data, false);
        if !step.interpreter.gas.record_regular_cost(gas) {
            return Err(InstructionResult::OutOfGas);
        }
        step.interpreter.gas.record_refund(step.host.cfg.gas_params.sstore_refund(true, &load.data));
        Ok(())
    })
}

/// EXTCODEHASH, which must not reveal the marker of accounts with only storage.
fn code_hash(step: Step<'_>) -> InstructionExecResult {
    let address = Address::from_word(step.interpreter.stack.peek(0)?.into());
    host::extcodehash(InstructionContext { interpreter: &mut *step.interpreter, host: &mut *step.host })?;
    let account = step.host.journaled_state.state.get(&address).map(|account| &account.info);
    let is_marked = |info: &&AccountInfo| info.code_hash == CODE_HASH_OF_STORAGE_ALONE && !info.is_empty();
    if account.filter(is_marked).is_some() {
        step.interpreter.stack.set(0, EMPTY_CODE_HASH.into())?;
    }
    Ok(())
}

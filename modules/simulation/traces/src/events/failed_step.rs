//! The cost of a refused instruction, and the reference's error text.
//!
//! The EVM reports only that gas or the stack did not suffice. The reference computes the full price first, and shows
//! it.

use alloy_primitives::{Address, U256};
use revm::{
    bytecode::opcode::{
        BALANCE, CALL, CALLCODE, CALLDATACOPY, CODECOPY, CREATE, CREATE2, DELEGATECALL, EXP, EXTCODECOPY, EXTCODEHASH,
        EXTCODESIZE, KECCAK256, LOG0, LOG1, LOG2, LOG3, LOG4, MCOPY, MLOAD, MSTORE, MSTORE8, RETURN, RETURNDATACOPY,
        REVERT, SELFDESTRUCT, SLOAD, SSTORE, STATICCALL,
    },
    context_interface::context::SStoreResult,
    interpreter::{
        InstructionResult, Interpreter,
        interpreter_types::{InputsTr as _, Jumps as _},
    },
    primitives::{eip3860::MAX_INITCODE_SIZE, hardfork::SpecId},
};
use tenon_execution_interface::{BlockContext, StateError};
use tenon_simulation_interface::{HaltCause, StackBounds, instruction_name, is_known_to_the_reference};

use super::{
    accounts::{Accounts, Layered},
    gas_constants::constant_gas,
    tracer::{PredictedOutcome, Step},
};

/// Minimum gas for any SSTORE from Istanbul on.
const SSTORE_STIPEND: u64 = 2300;
/// Memory sizes above this have no price in the reference.
const MAX_MEMORY: u64 = 0x001f_ffff_ffe0;
/// Extra cost of the first access to an account, from Berlin on.
const COLD_ACCOUNT: u64 = 2_500;
/// Extra cost of the first access to a slot in a transaction.
const COLD_SLOT: u64 = 2_100;

/// Data of a step for explaining a failure, stored before it runs: when it has failed, its operands have left the
/// stack.
pub struct StepSnapshot {
    pub(super) opcode: u8,
    pub(super) gas: u64,
    pub(super) stack_length: usize,
    /// Top of the stack first.
    top: [U256; 7],
    memory_length: u64,
    /// Whether this is the first access to the account or slot.
    is_cold: bool,
    /// For SSTORE: the slot's value before the transaction, and now.
    slot: Option<(U256, U256)>,
    /// For SELFDESTRUCT: whether it sends coins to an account that does not exist. Only known before the step: the
    /// coins have moved when it fails for lack of gas.
    makes_account: bool,
}

impl StepSnapshot {
    /// Collects the data.
    ///
    /// # Errors
    /// The database failed.
    pub(super) fn capture(step: &Step<'_>, context: &mut BlockContext) -> Result<Self, StateError> {
        Self::gather(step.opcode, step.gas, step.stack, step.memory.len(), step.contract, context)
    }

    /// Collects the data of the instruction that runs next.
    ///
    /// # Errors
    /// The database failed.
    pub fn next(interpreter: &Interpreter, context: &mut BlockContext) -> Result<Self, StateError> {
        let (opcode, gas) = (interpreter.bytecode.opcode(), interpreter.gas.remaining());
        let (stack, memory) = (interpreter.stack.data(), interpreter.memory.len());
        Self::gather(opcode, gas, stack, memory, interpreter.input.target_address(), context)
    }

    fn gather(
        opcode: u8,
        gas: u64,
        stack: &[U256],
        memory: usize,
        contract: Address,
        context: &mut BlockContext,
    ) -> Result<Self, StateError> {
        let mut top = [U256::ZERO; 7];
        for (place, item) in top.iter_mut().zip(stack.iter().rev()) {
            *place = *item;
        }
        let is_cold = match opcode {
            SLOAD | SSTORE => is_slot_cold(context, contract, top[0]),
            BALANCE | EXTCODESIZE | EXTCODECOPY | EXTCODEHASH | SELFDESTRUCT => {
                is_account_cold(context, address(top[0]))
            }
            CALL | CALLCODE | DELEGATECALL | STATICCALL => is_account_cold(context, address(top[1])),
            _ => false,
        };
        let slot = match opcode {
            SSTORE if gas > SSTORE_STIPEND || !is_istanbul(context) => Some(slot(context, contract, top[0])?),
            _ => None,
        };
        Ok(Self {
            opcode,
            gas,
            stack_length: stack.len(),
            top,
            memory_length: memory as u64,
            is_cold,
            slot,
            makes_account: opcode == SELFDESTRUCT && makes_account(context, contract, address(top[0]))?,
        })
    }

    /// Why the step failed.
    ///
    /// # Errors
    /// The database failed.
    pub fn halt_cause(&self, result: InstructionResult, context: &mut BlockContext) -> Result<HaltCause, StateError> {
        let refusal = self.refusal(result, context)?;
        Ok(refusal.map_or_else(|| HaltCause::Other(self.failure_text(result).into()), |(cause, _)| cause))
    }

    /// Why the reference refuses this step, and its cost; `None` if it runs and then fails.
    ///
    /// # Errors
    /// The database failed.
    pub(super) fn refusal(
        &self,
        result: InstructionResult,
        context: &mut BlockContext,
    ) -> Result<Option<(HaltCause, u64)>, StateError> {
        use InstructionResult as Is;
        let is_about_gas = matches!(
            result,
            Is::OutOfGas
                | Is::MemoryOOG
                | Is::MemoryLimitOOG
                | Is::InvalidOperandOOG
                | Is::ReentrancySentryOOG
                | Is::CreateInitCodeSizeLimit
        );
        // The reference computes the price before it checks whether state changes are allowed, and whether the returned
        // data is long enough.
        let is_late =
            matches!(result, Is::CallNotAllowedInsideStatic | Is::StateChangeDuringStaticCall | Is::OutOfOffset);
        if !is_about_gas && !is_late && !matches!(result, Is::StackUnderflow | Is::StackOverflow) {
            return Ok(None);
        }
        let constant = constant_gas(self.opcode, context.cfg.spec);
        if let Some(text) = self.stack_refusal() {
            return Ok(Some((HaltCause::Other(text.into()), constant)));
        }
        if self.gas < constant {
            return Ok(Some((HaltCause::OutOfGas, constant)));
        }
        let Some(memory) = self.grown_memory() else {
            return Ok(Some((HaltCause::Other("gas uint64 overflow".into()), constant)));
        };
        let dynamic = self.dynamic_gas(memory, context)?;
        let price = constant.saturating_add(dynamic.unwrap_or_default());
        let is_payable = dynamic.is_some() && price <= self.gas && !self.lacks_the_stipend(context);
        Ok((!is_late || !is_payable).then_some((HaltCause::OutOfGas, price)))
    }

    /// The outcome of SSTORE or SELFDESTRUCT before it runs. Neither touches memory.
    ///
    /// # Errors
    /// The database failed.
    pub(super) fn ahead(&self, context: &mut BlockContext) -> Result<PredictedOutcome, StateError> {
        let constant = constant_gas(self.opcode, context.cfg.spec);
        if let Some(text) = self.stack_refusal() {
            return Ok(PredictedOutcome { cost: constant, error: Some(text) });
        }
        let out_of_gas = || Some("out of gas".to_owned());
        if self.gas < constant {
            return Ok(PredictedOutcome { cost: constant, error: out_of_gas() });
        }
        let dynamic = self.dynamic_gas(0, context)?;
        let cost = constant.saturating_add(dynamic.unwrap_or_default());
        let is_payable = dynamic.is_some() && cost <= self.gas && !self.lacks_the_stipend(context);
        Ok(PredictedOutcome { cost, error: if is_payable { None } else { out_of_gas() } })
    }

    /// The cost of an instruction that ran and failed.
    ///
    /// # Errors
    /// The database failed.
    pub(super) fn price(&self, result: InstructionResult, context: &mut BlockContext) -> Result<u64, StateError> {
        use InstructionResult as Is;
        if matches!(result, Is::OpcodeNotFound | Is::NotActivated | Is::InvalidFEOpcode) {
            return Ok(0);
        }
        let dynamic = match self.grown_memory() {
            Some(memory) => self.dynamic_gas(memory, context)?.unwrap_or_default(),
            None => 0,
        };
        Ok(constant_gas(self.opcode, context.cfg.spec).saturating_add(dynamic))
    }

    fn lacks_the_stipend(&self, context: &BlockContext) -> bool {
        self.opcode == SSTORE && self.gas <= SSTORE_STIPEND && is_istanbul(context)
    }

    fn stack_refusal(&self) -> Option<String> {
        // An instruction unknown to the reference can run out of gas in the EVM; the reference has no stack bounds for
        // it.
        let bounds = StackBounds::of(self.opcode).filter(|_| is_known_to_the_reference(self.opcode))?;
        let length = self.stack_length;
        if length < bounds.min {
            return Some(bounds.underflow_text(length));
        }
        (length > bounds.max).then(|| bounds.overflow_text(length))
    }

    /// The error text of an instruction that ran and failed.
    pub(super) fn failure_text(&self, result: InstructionResult) -> String {
        use InstructionResult as Is;
        match result {
            Is::OpcodeNotFound | Is::NotActivated | Is::InvalidFEOpcode => {
                format!("invalid opcode: {}", instruction_name(self.opcode))
            }
            Is::InvalidJump => "invalid jump destination".to_owned(),
            Is::CallNotAllowedInsideStatic | Is::StateChangeDuringStaticCall => "write protection".to_owned(),
            Is::OutOfOffset => "return data out of bounds".to_owned(),
            other => format!("{other:?}"),
        }
    }

    /// Memory size that this step needs, bytes; `None` beyond 64 bits.
    fn grown_memory(&self) -> Option<u64> {
        let end = |offset: usize, length: usize| memory_end(self.top[offset], self.top[length]);
        let fixed = |length: u64| memory_end(self.top[0], U256::from(length));
        match self.opcode {
            KECCAK256 | RETURN | REVERT | LOG0..=LOG4 => end(0, 1),
            CALLDATACOPY | CODECOPY | RETURNDATACOPY => end(0, 2),
            EXTCODECOPY => end(1, 3),
            MCOPY => Some(end(0, 2)?.max(end(1, 2)?)),
            MLOAD | MSTORE => fixed(32),
            MSTORE8 => fixed(1),
            CREATE | CREATE2 => end(1, 2),
            CALL | CALLCODE => Some(end(3, 4)?.max(end(5, 6)?)),
            DELEGATECALL | STATICCALL => Some(end(2, 3)?.max(end(4, 5)?)),
            _ => Some(0),
        }
    }

    /// The price beyond the constant part; `None` if the reference's computation overflows.
    fn dynamic_gas(&self, memory: u64, context: &mut BlockContext) -> Result<Option<u64>, StateError> {
        let Some(expansion) = self.expansion_gas(memory) else { return Ok(None) };
        let fork = context.cfg.spec;
        let cold = |price: u64| if fork.is_enabled_in(SpecId::BERLIN) && self.is_cold { price } else { 0 };
        let words = |item: usize| self.top[item].saturating_to::<u64>().div_ceil(32);
        let log = |topics: u64| 375 * (topics + 1) + 8 * self.top[1].saturating_to::<u64>();
        Ok(Some(match self.opcode {
            KECCAK256 => expansion.saturating_add(words(1).saturating_mul(6)),
            CALLDATACOPY | CODECOPY | RETURNDATACOPY | MCOPY => expansion.saturating_add(words(2).saturating_mul(3)),
            EXTCODECOPY => expansion.saturating_add(words(3).saturating_mul(3)).saturating_add(cold(COLD_ACCOUNT)),
            LOG0 => expansion.saturating_add(log(0)),
            LOG1 => expansion.saturating_add(log(1)),
            LOG2 => expansion.saturating_add(log(2)),
            LOG3 => expansion.saturating_add(log(3)),
            LOG4 => expansion.saturating_add(log(4)),
            EXP => 10 + self.exponent_bytes() * if fork.is_enabled_in(SpecId::SPURIOUS_DRAGON) { 50 } else { 10 },
            CREATE | CREATE2 => return Ok(self.creation_gas(expansion, fork)),
            SLOAD if fork.is_enabled_in(SpecId::BERLIN) => {
                if self.is_cold {
                    COLD_SLOT
                } else {
                    100
                }
            }
            SSTORE => self.store_gas(context),
            BALANCE | EXTCODESIZE | EXTCODEHASH => cold(COLD_ACCOUNT),
            SELFDESTRUCT => cold(COLD_ACCOUNT + 100).saturating_add(if self.makes_account { 25_000 } else { 0 }),
            CALL | CALLCODE | DELEGATECALL | STATICCALL => {
                return self.call_gas(expansion, cold(COLD_ACCOUNT), context);
            }
            _ => expansion,
        }))
    }

    fn exponent_bytes(&self) -> u64 {
        self.top[1].bit_len().div_ceil(8) as u64
    }

    fn expansion_gas(&self, memory: u64) -> Option<u64> {
        if memory > MAX_MEMORY {
            return None;
        }
        let price = |words: u64| words * 3 + words * words / 512;
        Some(price(memory.div_ceil(32)).saturating_sub(price(self.memory_length.div_ceil(32))))
    }

    fn creation_gas(&self, expansion: u64, fork: SpecId) -> Option<u64> {
        let length = self.top[2].saturating_to::<u64>();
        let is_metered = fork.is_enabled_in(SpecId::SHANGHAI);
        if is_metered && length > MAX_INITCODE_SIZE as u64 {
            return None;
        }
        let hashed = if self.opcode == CREATE2 { 6 } else { 0 };
        let per_word = hashed + if is_metered { 2 } else { 0 };
        Some(expansion.saturating_add(length.div_ceil(32).saturating_mul(per_word)))
    }

    fn store_gas(&self, context: &BlockContext) -> u64 {
        let Some((original_value, present_value)) = self.slot else { return 0 };
        let result = SStoreResult { original_value, present_value, new_value: self.top[1] };
        let prices = &context.cfg.gas_params;
        prices.sstore_static_gas().saturating_add(prices.sstore_dynamic_gas(
            is_istanbul(context),
            &result,
            self.is_cold,
        ))
    }

    /// The price of a call, including the gas passed on, which the remaining gas limits. As in the reference, the
    /// subtraction wraps: if the other costs exceed the remaining gas, there is no limit.
    fn call_gas(&self, expansion: u64, cold: u64, context: &mut BlockContext) -> Result<Option<u64>, StateError> {
        let has_value = matches!(self.opcode, CALL | CALLCODE) && !self.top[2].is_zero();
        let left = self.gas - constant_gas(self.opcode, context.cfg.spec);
        let Some(left) = left.checked_sub(cold) else { return Ok(None) };
        let mut base = expansion;
        if self.opcode == CALL && has_value && is_empty(&mut Layered::during(context), address(self.top[1]))? {
            base = base.saturating_add(25_000);
        }
        if has_value {
            base = base.saturating_add(9_000);
        }
        let available = left.wrapping_sub(base);
        let max = available - available / 64;
        let handed_over = u64::try_from(self.top[0]).map_or(max, |asked| asked.min(max));
        Ok(base.checked_add(handed_over).and_then(|gas| gas.checked_add(cold)))
    }
}

fn address(word: U256) -> Address {
    Address::from_word(word.into())
}

/// Returns whether a self-destruction sends its balance to an account that does not exist.
fn makes_account(context: &mut BlockContext, contract: Address, heir: Address) -> Result<bool, StateError> {
    let mut accounts = Layered::during(context);
    Ok(is_empty(&mut accounts, heir)? && !accounts.balance(contract)?.is_zero())
}

fn is_istanbul(context: &BlockContext) -> bool {
    context.cfg.spec.is_enabled_in(SpecId::ISTANBUL)
}

/// End of a memory range; `None` beyond 64 bits.
fn memory_end(offset: U256, length: U256) -> Option<u64> {
    if length.is_zero() {
        return Some(0);
    }
    let end = u64::try_from(offset).ok()?.checked_add(u64::try_from(length).ok()?)?;
    // Memory grows by whole words.
    end.checked_next_multiple_of(32).map(|_| end)
}

fn is_empty(accounts: &mut Layered<'_>, address: Address) -> Result<bool, StateError> {
    Ok(accounts.balance(address)?.is_zero() && accounts.nonce(address)? == 0 && accounts.code(address)?.is_empty())
}

fn is_account_cold(context: &BlockContext, address: Address) -> bool {
    let journal = &context.journaled_state.inner;
    let is_loaded = journal.state.get(&address);
    is_loaded.is_none_or(|account| account.is_cold_transaction_id(journal.transaction_id))
        && journal.warm_addresses.is_cold(&address)
}

fn is_slot_cold(context: &BlockContext, address: Address, slot: U256) -> bool {
    let journal = &context.journaled_state.inner;
    let known = journal.state.get(&address).and_then(|account| account.storage.get(&slot));
    known.is_none_or(|slot| slot.is_cold_transaction_id(journal.transaction_id))
        && !journal.warm_addresses.is_storage_warm(&address, &slot)
}

/// The slot's value before the transaction, and now.
fn slot(context: &mut BlockContext, address: Address, slot: U256) -> Result<(U256, U256), StateError> {
    let account = context.journaled_state.inner.state.get(&address);
    if let Some(known) = account.and_then(|account| account.storage.get(&slot)) {
        return Ok((known.original_value, known.present_value));
    }
    let value = Layered::during(context).slot(address, slot)?;
    Ok((value, value))
}

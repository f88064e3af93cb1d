//! The EVM handler of native transactions, with other steps for fees before and after execution.

use std::marker::PhantomData;

use alloy_primitives::U256;
use revm::{
    ExecuteEvm, Inspector,
    context::{
        Cfg, ContextSetters, ContextTr, JournalTr, Transaction, TxEnv,
        journaled_state::account::JournaledAccountTr,
        result::{EVMError, ExecResultAndState, ExecutionResult, HaltReason, InvalidTransaction},
    },
    handler::{EvmTr, FrameResult, Handler, post_execution, pre_execution, validation},
    inspector::InspectorHandler,
    interpreter::{InitialAndFloorGas, interpreter::EthInterpreter, interpreter_action::FrameInit},
    primitives::hardfork::SpecId,
    state::EvmState,
};
use tenon_chain::floor_gas;

use super::{Change, Fees, frames::FrameRunner, whole_fees};
use crate::block::{BlockEvm, EvmFailure, widen};

/// The EVM's result of a transaction.
pub(crate) type Outcome = ExecResultAndState<ExecutionResult, EvmState>;

/// Executes a transaction with these fees; like Ethereum if `None`.
pub(crate) fn transact<I>(evm: &mut BlockEvm<I>, env: TxEnv, fees: Option<&Fees>) -> Result<Outcome, EvmFailure> {
    let Some(fees) = fees else { return evm.transact(env) };
    evm.ctx.set_tx(env);
    let result = NativeHandler::new(fees).run(evm);
    let state = evm.finalize();
    Ok(ExecResultAndState::new(result?, state))
}

/// Like [`transact`], with the EVM's inspector.
pub(crate) fn inspect<I: Inspector<crate::block::BlockContext, EthInterpreter>>(
    evm: &mut BlockEvm<I>,
    env: TxEnv,
    fees: Option<&Fees>,
) -> Result<Outcome, EvmFailure> {
    use revm::InspectEvm;
    let Some(fees) = fees else { return evm.inspect_tx(env) };
    evm.ctx.set_tx(env);
    let result = NativeHandler::new(fees).inspect_run(evm);
    let state = evm.finalize();
    Ok(ExecResultAndState::new(result?, state))
}

struct NativeHandler<'a, I> {
    fees: &'a Fees,
    evm: PhantomData<I>,
}

impl<'a, I> NativeHandler<'a, I> {
    const fn new(fees: &'a Fees) -> Self {
        Self { fees, evm: PhantomData }
    }
}

impl<I> Handler for NativeHandler<'_, I> {
    type Evm = BlockEvm<I>;
    type Error = EvmFailure;
    type HaltReason = HaltReason;

    fn validate_env(&self, evm: &mut Self::Evm) -> Result<(), EvmFailure> {
        let configured = evm.ctx.cfg.disable_base_fee;
        evm.ctx.cfg.disable_base_fee |= self.fees.is_exempt_from_base_fee;
        let result = validation::validate_env(evm.ctx());
        evm.ctx.cfg.disable_base_fee = configured;
        result
    }

    /// The floor counts four tokens for a nonzero byte, whose intrinsic gas is not Ethereum's (`docs/spec/upgrades.md`
    /// 7.4), so that the EVM crate can't compute it.
    fn validate_initial_tx_gas(&self, evm: &mut Self::Evm) -> Result<InitialAndFloorGas, EvmFailure> {
        let (tx, cfg) = (&evm.ctx.tx, &evm.ctx.cfg);
        let gas = validation::validate_initial_tx_gas_with_gas_params(
            tx,
            *cfg.spec(),
            cfg.gas_params(),
            cfg.is_eip7623_disabled(),
            false,
            cfg.tx_gas_limit_cap(),
            None,
        )?;
        if !cfg.spec().is_enabled_in(SpecId::PRAGUE) {
            return Ok(gas);
        }
        let gas_floor = floor_gas(&tx.data);
        if tx.gas_limit < gas_floor {
            let lacking = InvalidTransaction::GasFloorMoreThanGasLimit { gas_floor, gas_limit: tx.gas_limit };
            return Err(EVMError::Transaction(lacking));
        }
        Ok(gas.with_floor_gas(gas_floor))
    }

    fn validate_against_state_and_deduct_caller(
        &self,
        evm: &mut Self::Evm,
        _gas: &mut InitialAndFloorGas,
    ) -> Result<(), EvmFailure> {
        if let Some(rich) = evm.ctx.db_mut().rich_mut() {
            rich.set_price(None);
        }
        if self.fees.is_beyond_the_evm() {
            return whole_fees::validate_and_deduct(self.fees, evm);
        }
        let result = self.deduct_within_256_bits(evm);
        let journal = &mut evm.ctx.journaled_state;
        let Some(rich) = journal.database.rich_mut() else { return result };
        match result {
            Err(EVMError::Transaction(
                InvalidTransaction::LackOfFundForMaxFee { .. } | InvalidTransaction::OverflowPaymentInTransaction,
            )) => whole_fees::validate_and_deduct(self.fees, evm),
            result => {
                rich.show_something(evm.ctx.tx.caller, &mut journal.inner.state);
                result
            }
        }
    }

    fn reimburse_caller(&self, evm: &mut Self::Evm, result: &mut FrameResult) -> Result<(), EvmFailure> {
        if self.fees.sponsor.is_some() {
            return Ok(());
        }
        if self.fees.is_beyond_the_evm() || evm.ctx.db_mut().rich_mut().is_some() {
            return whole_fees::reimburse(self.fees, evm, result.gas());
        }
        Ok(post_execution::reimburse_caller(evm.ctx(), result.gas(), U256::ZERO)?)
    }

    fn run_exec_loop(&mut self, evm: &mut Self::Evm, first: FrameInit) -> Result<FrameResult, EvmFailure> {
        FrameRunner::plain().run_all(evm, first)
    }

    fn reward_beneficiary(&self, evm: &mut Self::Evm, result: &mut FrameResult) -> Result<(), EvmFailure> {
        if evm.ctx.cfg.is_fee_charge_disabled() {
            return Ok(());
        }
        if let Some((receiver, price)) = self.fees.receiver {
            let used = U256::from(result.gas().used());
            let amount = price.checked_mul(used);
            let mut account = evm.ctx.journal_mut().load_account_mut(receiver)?;
            if !amount.is_some_and(|amount| account.incr_balance(amount)) {
                whole_fees::credit(evm, receiver, widen(price) * widen(used))?;
            }
            // Also for a payment of zero, which the EVM does not report before EIP-158.
            if let Some(marks) = evm.ctx.db_mut().dirty_marks_mut() {
                marks.record(receiver, Change::Write);
            }
        }
        Ok(())
    }
}

impl<I> NativeHandler<'_, I> {
    /// Checks the sender and deducts the price of all gas, in the EVM's numbers.
    fn deduct_within_256_bits(&self, evm: &mut BlockEvm<I>) -> Result<(), EvmFailure> {
        if self.fees.sponsor.is_none() {
            return pre_execution::validate_against_state_and_deduct_caller(evm.ctx());
        }
        let (_, transaction, cfg, journal, ..) = evm.ctx.all_mut();
        let mut caller = journal.load_account_with_code_mut(transaction.caller)?.data;
        let info = &caller.account().info;
        pre_execution::validate_account_nonce_and_code(
            info,
            transaction.nonce,
            cfg.is_eip3607_disabled(),
            cfg.is_nonce_check_disabled(),
        )?;
        if transaction.value > info.balance {
            let lacking = InvalidTransaction::LackOfFundForMaxFee {
                fee: Box::new(transaction.value),
                balance: Box::new(info.balance),
            };
            return Err(EVMError::Transaction(lacking));
        }
        if transaction.kind().is_call() {
            caller.bump_nonce();
        }
        Ok(())
    }
}

impl<I: Inspector<crate::block::BlockContext, EthInterpreter>> InspectorHandler for NativeHandler<'_, I> {
    type IT = EthInterpreter;

    fn inspect_run_exec_loop(&mut self, evm: &mut Self::Evm, first: FrameInit) -> Result<FrameResult, EvmFailure> {
        FrameRunner::inspected().run_all(evm, first)
    }
}

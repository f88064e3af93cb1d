//! The EVM handler of native transactions, with other steps for fees before and after execution.

use std::marker::PhantomData;

use alloy_primitives::U256;
use revm::{
    context::{
        Cfg, ContextTr, JournalTr, Transaction, TxEnv,
        journaled_state::account::JournaledAccountTr,
        result::{EVMError, HaltReason, InvalidTransaction},
    },
    handler::{EvmTr, FrameResult, Handler, post_execution, pre_execution, validation},
    interpreter::{GasTracker, InitialAndFloorGas, interpreter_action::FrameInit},
    primitives::hardfork::SpecId,
};
use tenon_chain::floor_gas;

use super::{frames, whole_fees};
use tenon_execution_interface::{AnyEvm, Change, EvmFailure, Fees, Outcome, apply_authorizations, run_with, widen};

/// Executes a transaction with these fees.
pub(super) fn transact(evm: &mut AnyEvm<'_>, env: TxEnv, fees: &Fees) -> Result<Outcome, EvmFailure> {
    run_with(NativeHandler { fees, evm: PhantomData }, evm, env)
}

struct NativeHandler<'a, 'e> {
    fees: &'a Fees,
    evm: PhantomData<AnyEvm<'e>>,
}

impl<'e> Handler for NativeHandler<'_, 'e> {
    type Evm = AnyEvm<'e>;
    type Error = EvmFailure;
    type HaltReason = HaltReason;

    fn validate_env(&self, evm: &mut Self::Evm) -> Result<(), EvmFailure> {
        let context = evm.context();
        let configured = context.cfg.disable_base_fee;
        context.cfg.disable_base_fee |= self.fees.is_exempt_from_base_fee;
        let result = validation::validate_env(&mut *context);
        context.cfg.disable_base_fee = configured;
        result
    }

    /// Computes the floor gas here. It counts four tokens per nonzero byte, as on Ethereum, but the intrinsic gas of
    /// that byte differs (`docs/spec/upgrades.md` 7.4), so the EVM crate cannot compute both.
    fn validate_initial_tx_gas(&self, evm: &mut Self::Evm) -> Result<InitialAndFloorGas, EvmFailure> {
        let context = evm.context();
        let (tx, cfg) = (&context.tx, &context.cfg);
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
        if let Some(balances) = evm.context().db_mut().whole_balances_mut() {
            balances.set_price(None);
        }
        if self.fees.exceeds_evm_price() {
            return whole_fees::validate_and_deduct(self.fees, evm);
        }
        let result = self.deduct_within_256_bits(evm);
        let context = evm.context();
        let journal = &mut context.journaled_state;
        let Some(balances) = journal.database.whole_balances_mut() else { return result };
        match result {
            Err(EVMError::Transaction(
                InvalidTransaction::LackOfFundForMaxFee { .. } | InvalidTransaction::OverflowPaymentInTransaction,
            )) => whole_fees::validate_and_deduct(self.fees, evm),
            result => {
                balances.keep_visible_part_nonzero(context.tx.caller, &mut journal.inner.state);
                result
            }
        }
    }

    fn apply_eip7702_auth_list(&self, evm: &mut Self::Evm, gas: &mut GasTracker) -> Result<Option<u64>, EvmFailure> {
        apply_authorizations(evm, gas)
    }

    fn reimburse_caller(&self, evm: &mut Self::Evm, result: &mut FrameResult) -> Result<(), EvmFailure> {
        if self.fees.sponsor.is_some() {
            return Ok(());
        }
        if self.fees.exceeds_evm_price() || evm.context().db_mut().whole_balances_mut().is_some() {
            return whole_fees::reimburse(self.fees, evm, result.gas());
        }
        Ok(post_execution::reimburse_caller(evm.ctx(), result.gas(), U256::ZERO)?)
    }

    fn run_exec_loop(&mut self, evm: &mut Self::Evm, first: FrameInit) -> Result<FrameResult, EvmFailure> {
        frames::run_all(evm, first)
    }

    fn reward_beneficiary(&self, evm: &mut Self::Evm, result: &mut FrameResult) -> Result<(), EvmFailure> {
        if evm.context().cfg.is_fee_charge_disabled() {
            return Ok(());
        }
        if let Some((receiver, price)) = self.fees.receiver {
            let used = U256::from(result.gas().used());
            let amount = price.checked_mul(used);
            let mut account = evm.context().journal_mut().load_account_mut(receiver)?;
            if !amount.is_some_and(|amount| account.incr_balance(amount)) {
                whole_fees::credit(evm, receiver, widen(price) * widen(used))?;
            }
            // Also for a payment of zero, which the EVM does not report before EIP-158.
            if let Some(marks) = evm.context().db_mut().dirty_marks_mut() {
                marks.record(receiver, Change::Write);
            }
        }
        Ok(())
    }
}

impl NativeHandler<'_, '_> {
    /// Checks the sender and deducts the price of all gas, with the EVM's 256-bit numbers.
    fn deduct_within_256_bits(&self, evm: &mut AnyEvm<'_>) -> Result<(), EvmFailure> {
        if self.fees.sponsor.is_none() {
            return pre_execution::validate_against_state_and_deduct_caller(evm.ctx());
        }
        let (_, transaction, cfg, journal, ..) = evm.context().all_mut();
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

//! Gas estimates: searches the smallest sufficient gas limit, like go-ethereum.

use alloy_primitives::U256;
use revm::{
    Database,
    context::{
        ContextTr, TxEnv,
        result::{ExecutionResult, HaltReason},
    },
    primitives::{TxKind, eip4844::GAS_PER_BLOB, eip7825::TX_GAS_LIMIT_CAP, hardfork::SpecId},
};
use tenon_api::{Failure, SealedHeader, messages::EstimateGas};

use super::{CallEnd, CallEnvironment, Calls, RunFailure, attempt, prepare};
use crate::block::{BlockEvm, BlockState, Interrupt, StateError};

/// Gas of a plain transfer.
const TRANSFER_GAS: u64 = 21_000;
/// Extra gas for the receiver of a call with value.
const CALL_STIPEND: u64 = 2_300;
/// The search ends when the bounds differ by at most this much, in thousandths.
const TOLERANCE_PER_MILLE: u64 = 15;

impl Calls {
    /// `eth_estimateGas` over a state.
    pub(super) fn estimate_over(
        &self,
        estimate: &EstimateGas,
        header: &SealedHeader,
        mut state: BlockState,
        interrupt: Interrupt,
    ) -> Result<u64, CallEnd> {
        if self.executor.spec().native.is_some() {
            return self.estimate_natively_over(estimate, header, state, interrupt);
        }
        let is_attempt = interrupt.is_attempt();
        let environment =
            prepare(self, header, &mut state, &estimate.request, &estimate.state_overrides, &estimate.block_overrides)?;
        let mut evm = environment.evm(state, interrupt, ());
        let ceiling = self.ceiling(&environment, estimate.request.gas, &mut evm)?;
        if is_attempt && ceiling > attempt::MAX_GAS {
            return Err(CallEnd::GaveUp);
        }
        let search = Search { calls: self, environment: &environment };
        match search.run(&mut evm, ceiling)? {
            Found::Gas(gas) => Ok(gas),
            // The text needs a second run, for which an attempt may not have the time.
            Found::Failure(_) if is_attempt => Err(CallEnd::GaveUp),
            Found::Failure(result) => {
                let message = TxEnv { gas_limit: ceiling, ..environment.transaction.clone() };
                environment.output_or_failure(result, message, evm)?;
                Err(exceeds_allowance(ceiling).into())
            }
        }
    }

    /// Maximum gas limit of the call: the requested one, or the block's; never more than the caps allow and the sender
    /// can pay.
    fn ceiling(&self, environment: &CallEnvironment, asked: Option<u64>, evm: &mut BlockEvm) -> Result<u64, Failure> {
        let mut ceiling = asked.filter(|gas| *gas >= TRANSFER_GAS).unwrap_or(environment.block.gas_limit);
        if environment.rules.spec_id().is_enabled_in(SpecId::OSAKA) {
            ceiling = ceiling.min(TX_GAS_LIMIT_CAP);
        }
        if environment.transaction.gas_price > 0 {
            ceiling = ceiling.min(affordable_gas(&environment.transaction, evm)?);
        }
        if self.limits.call_gas_cap > 0 {
            ceiling = ceiling.min(self.limits.call_gas_cap);
        }
        Ok(ceiling)
    }
}

fn affordable_gas(transaction: &TxEnv, evm: &mut BlockEvm) -> Result<u64, Failure> {
    let account = evm.ctx.db_mut().basic(transaction.caller).map_err(|StateError(error)| Failure::from(error))?;
    let balance = account.map_or(U256::ZERO, |account| account.balance);
    let caller = transaction.caller;
    let blob_gas = GAS_PER_BLOB.saturating_mul(transaction.blob_hashes.len() as u64);
    let blob_cost = U256::from(blob_gas).saturating_mul(U256::from(transaction.max_fee_per_blob_gas));
    let rest = balance
        .checked_sub(transaction.value)
        .ok_or_else(|| Failure::server(format!("insufficient funds for transfer: address {caller}")))?
        .checked_sub(blob_cost)
        .ok_or_else(|| Failure::server(format!("insufficient funds for gas * price + value: address {caller}")))?;
    Ok((rest / U256::from(transaction.gas_price)).saturating_to())
}

/// Result of a trial with some gas limit.
enum Trial {
    /// It succeeds.
    Enough(ExecutionResult),
    /// It fails, and more gas may help.
    TooLittle,
    /// It fails for another reason.
    Failed(ExecutionResult),
}

/// Result of a search.
enum Found {
    /// The smallest sufficient gas limit.
    Gas(u64),
    /// The call fails for another reason even with the maximum gas.
    Failure(ExecutionResult),
}

struct Search<'a> {
    calls: &'a Calls,
    environment: &'a CallEnvironment,
}

impl Search<'_> {
    fn run(&self, evm: &mut BlockEvm, ceiling: u64) -> Result<Found, Failure> {
        if self.is_plain_transfer(evm)? && matches!(self.try_gas(evm, TRANSFER_GAS), Ok(Trial::Enough(_))) {
            return Ok(Found::Gas(TRANSFER_GAS));
        }
        let result = match self.try_gas(evm, ceiling)? {
            Trial::Enough(result) => result,
            Trial::TooLittle => return Err(exceeds_allowance(ceiling)),
            Trial::Failed(result) => return Ok(Found::Failure(result)),
        };
        let gas = result.gas();
        let mut too_little = gas.tx_gas_used().saturating_sub(1);
        let mut enough = ceiling;
        // Most calls succeed with their peak use and another 64th of it for inner calls.
        let peak = gas.total_gas_spent().max(gas.floor_gas());
        let guess = peak.saturating_add(CALL_STIPEND).saturating_mul(64) / 63;
        if guess < enough {
            self.narrow(evm, guess, &mut too_little, &mut enough)?;
        }
        while too_little + 1 < enough && (enough - too_little) * 1000 >= enough.saturating_mul(TOLERANCE_PER_MILLE) {
            // Calls rarely need much more than they use, so the search prefers the lower end.
            let middle = (too_little + (enough - too_little) / 2).min(too_little.saturating_mul(2).max(1));
            self.narrow(evm, middle, &mut too_little, &mut enough)?;
        }
        Ok(Found::Gas(enough))
    }

    fn narrow(&self, evm: &mut BlockEvm, gas: u64, too_little: &mut u64, enough: &mut u64) -> Result<(), Failure> {
        match self.try_gas(evm, gas)? {
            Trial::Enough(_) => *enough = gas,
            Trial::TooLittle | Trial::Failed(_) => *too_little = gas,
        }
        Ok(())
    }

    fn try_gas(&self, evm: &mut BlockEvm, gas_limit: u64) -> Result<Trial, Failure> {
        let transaction = TxEnv { gas_limit, ..self.environment.transaction.clone() };
        match self.environment.run(evm, transaction) {
            Ok(result @ ExecutionResult::Success { .. }) => Ok(Trial::Enough(result)),
            Ok(ExecutionResult::Halt { reason: HaltReason::OutOfGas(_), .. }) => Ok(Trial::TooLittle),
            Ok(result) => Ok(Trial::Failed(result)),
            Err(failure) if failure.is_intrinsic_gas() => Ok(Trial::TooLittle),
            Err(failure) => Err(self.failure(failure, gas_limit)),
        }
    }

    fn failure(&self, failure: RunFailure, gas_limit: u64) -> Failure {
        failure.for_call(self.environment, gas_limit, self.calls.limits.call_timeout)
    }

    fn is_plain_transfer(&self, evm: &mut BlockEvm) -> Result<bool, Failure> {
        let TxKind::Call(receiver) = self.environment.transaction.kind else { return Ok(false) };
        if !self.environment.transaction.data.is_empty() {
            return Ok(false);
        }
        let account = evm.ctx.db_mut().basic(receiver).map_err(|StateError(error)| Failure::from(error))?;
        Ok(account.is_none_or(|account| account.is_empty_code_hash()))
    }
}

pub(super) fn exceeds_allowance(ceiling: u64) -> Failure {
    Failure::server(format!("gas required exceeds allowance ({ceiling})"))
}

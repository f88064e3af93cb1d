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
use tenon_api::{
    Bytes, SealedHeader, StoreError,
    messages::{CallFailure, EstimateGas},
};
use tenon_execution_interface::{BlockEvm, BlockState, Interrupt, StateError};
use tenon_simulation_interface::{CallEnd, CallEnvironment, CallError, MAX_ATTEMPTED_GAS, RunFailure, Trials};

use super::{Calls, prepare, run::output_of};

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
        let family = &self.family;
        let is_attempt = interrupt.is_attempt();
        let overrides = family.estimate_overrides(estimate);
        let environment = prepare(self, header, &mut state, &estimate.request, &estimate.state_overrides, &overrides)?;
        let evm = environment.evm(state, interrupt, ());
        let trials = CallTrials { calls: self, environment: &environment, evm, is_attempt };
        family.estimate(estimate, Box::new(trials))
    }
}

/// The runs of one call in its environment.
struct CallTrials<'a> {
    calls: &'a Calls,
    environment: &'a CallEnvironment,
    evm: BlockEvm,
    is_attempt: bool,
}

impl Trials for CallTrials<'_> {
    fn is_attempt(&self) -> bool {
        self.is_attempt
    }

    fn spec_id(&self) -> SpecId {
        self.environment.rules.spec_id()
    }

    fn block_gas_limit(&self) -> u64 {
        self.environment.block.gas_limit
    }

    fn gas_cap(&self) -> Option<u64> {
        Some(self.calls.limits.call_gas_cap).filter(|cap| *cap > 0)
    }

    fn message(&self) -> &TxEnv {
        &self.environment.transaction
    }

    fn state(&mut self) -> &mut BlockState {
        self.evm.ctx.db_mut()
    }

    fn run(&mut self, gas_limit: u64) -> Result<ExecutionResult, RunFailure> {
        let message = TxEnv { gas_limit, ..self.environment.transaction.clone() };
        self.environment.run(&mut self.evm, message)
    }

    fn error(&self, failure: RunFailure, gas_limit: u64) -> CallError {
        self.environment.error_of(failure, gas_limit, self.calls.limits.call_timeout)
    }

    fn output(self: Box<Self>, result: ExecutionResult, gas_limit: u64) -> Result<Bytes, CallError> {
        let message = TxEnv { gas_limit, ..self.environment.transaction.clone() };
        output_of(self.environment, result, &message, self.evm)
    }
}

/// Searches the gas that a call needs, like go-ethereum.
///
/// # Errors
/// The call fails with every gas limit, or the search was stopped.
pub(crate) fn search_gas(estimate: &EstimateGas, trials: Box<dyn Trials + '_>) -> Result<u64, CallEnd> {
    let mut search = Search { trials };
    let ceiling = search.ceiling(estimate.request.gas)?;
    let is_attempt = search.trials.is_attempt();
    if is_attempt && ceiling > MAX_ATTEMPTED_GAS {
        return Err(CallEnd::GaveUp);
    }
    match search.smallest_gas(ceiling)? {
        Found::Gas(gas) => Ok(gas),
        // The failure's text needs a second run, for which an attempt may not have enough time.
        Found::Failed(_) if is_attempt => Err(CallEnd::GaveUp),
        Found::Failed(result) => {
            search.trials.output(result, ceiling)?;
            Err(CallError::from(CallFailure::AllowanceExceeded { allowance: ceiling }).into())
        }
    }
}

fn affordable_gas(transaction: &TxEnv, state: &mut BlockState) -> Result<u64, CallError> {
    let account = state.basic(transaction.caller).map_err(|StateError(error)| error)?;
    let balance = account.map_or(U256::ZERO, |account| account.balance);
    let sender = transaction.caller;
    let blob_gas = GAS_PER_BLOB.saturating_mul(transaction.blob_hashes.len() as u64);
    let blob_cost = U256::from(blob_gas).saturating_mul(U256::from(transaction.max_fee_per_blob_gas));
    let rest = balance
        .checked_sub(transaction.value)
        .ok_or(CallFailure::ValueNotCovered { sender })?
        .checked_sub(blob_cost)
        .ok_or(CallFailure::BlobsNotCovered { sender })?;
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
    Failed(ExecutionResult),
}

/// The search of one call's gas.
struct Search<'a> {
    trials: Box<dyn Trials + 'a>,
}

impl Search<'_> {
    /// Maximum gas limit of the call: the requested one, or the block's; never more than the caps allow and the sender
    /// can pay.
    fn ceiling(&mut self, asked: Option<u64>) -> Result<u64, CallError> {
        let mut ceiling = asked.filter(|gas| *gas >= TRANSFER_GAS).unwrap_or(self.trials.block_gas_limit());
        if self.trials.spec_id().is_enabled_in(SpecId::OSAKA) {
            ceiling = ceiling.min(TX_GAS_LIMIT_CAP);
        }
        if self.trials.message().gas_price > 0 {
            let message = self.trials.message().clone();
            ceiling = ceiling.min(affordable_gas(&message, self.trials.state())?);
        }
        Ok(ceiling.min(self.trials.gas_cap().unwrap_or(u64::MAX)))
    }

    fn smallest_gas(&mut self, ceiling: u64) -> Result<Found, CallError> {
        if self.is_plain_transfer()? && matches!(self.try_gas(TRANSFER_GAS), Ok(Trial::Enough(_))) {
            return Ok(Found::Gas(TRANSFER_GAS));
        }
        let result = match self.try_gas(ceiling)? {
            Trial::Enough(result) => result,
            Trial::TooLittle => return Err(CallFailure::AllowanceExceeded { allowance: ceiling }.into()),
            Trial::Failed(result) => return Ok(Found::Failed(result)),
        };
        let gas = result.gas();
        let mut too_little = gas.tx_gas_used().saturating_sub(1);
        let mut enough = ceiling;
        // Most calls succeed with their peak use and another 64th of it for inner calls.
        let peak = gas.total_gas_spent().max(gas.floor_gas());
        let guess = peak.saturating_add(CALL_STIPEND).saturating_mul(64) / 63;
        if guess < enough {
            self.narrow(guess, &mut too_little, &mut enough)?;
        }
        while too_little + 1 < enough && (enough - too_little) * 1000 >= enough.saturating_mul(TOLERANCE_PER_MILLE) {
            // Calls rarely need much more than they use, so the search prefers the lower end.
            let middle = (too_little + (enough - too_little) / 2).min(too_little.saturating_mul(2).max(1));
            self.narrow(middle, &mut too_little, &mut enough)?;
        }
        Ok(Found::Gas(enough))
    }

    fn narrow(&mut self, gas: u64, too_little: &mut u64, enough: &mut u64) -> Result<(), CallError> {
        match self.try_gas(gas)? {
            Trial::Enough(_) => *enough = gas,
            Trial::TooLittle | Trial::Failed(_) => *too_little = gas,
        }
        Ok(())
    }

    fn try_gas(&mut self, gas_limit: u64) -> Result<Trial, CallError> {
        match self.trials.run(gas_limit) {
            Ok(result @ ExecutionResult::Success { .. }) => Ok(Trial::Enough(result)),
            Ok(ExecutionResult::Halt { reason: HaltReason::OutOfGas(_), .. }) => Ok(Trial::TooLittle),
            Ok(result) => Ok(Trial::Failed(result)),
            Err(failure) if failure.is_intrinsic_gas() => Ok(Trial::TooLittle),
            Err(failure) => Err(self.trials.error(failure, gas_limit)),
        }
    }

    fn is_plain_transfer(&mut self) -> Result<bool, StoreError> {
        let TxKind::Call(receiver) = self.trials.message().kind else { return Ok(false) };
        if !self.trials.message().data.is_empty() {
            return Ok(false);
        }
        let account = self.trials.state().basic(receiver).map_err(|StateError(error)| error)?;
        Ok(account.is_none_or(|account| account.is_empty_code_hash()))
    }
}

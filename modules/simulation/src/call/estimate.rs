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
use tenon_api::{Bytes, Failure, SealedHeader, messages::EstimateGas};
use tenon_execution_interface::{BlockEvm, BlockState, Interrupt, StateError};

use super::{CallEnd, CallEnvironment, Calls, RunFailure, attempt, prepare};

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
        family.estimate(estimate, Trials { calls: self, environment: &environment, evm, is_attempt })
    }
}

/// Runs of one call with different gas limits.
pub struct Trials<'a> {
    calls: &'a Calls,
    environment: &'a CallEnvironment,
    evm: BlockEvm,
    is_attempt: bool,
}

impl Trials<'_> {
    /// Returns whether the estimate is only attempted: it must give up before anything that takes long.
    pub const fn is_attempt(&self) -> bool {
        self.is_attempt
    }

    /// The block's gas limit.
    pub const fn block_gas_limit(&self) -> u64 {
        self.environment.block.gas_limit
    }

    /// Maximum gas of a call by this node's settings.
    pub fn gas_cap(&self) -> Option<u64> {
        Some(self.calls.limits.call_gas_cap).filter(|cap| *cap > 0)
    }

    /// The state before the call.
    pub fn state(&mut self) -> &mut BlockState {
        self.evm.ctx.db_mut()
    }

    /// Runs the call with this gas limit.
    ///
    /// # Errors
    /// Why it could not run, or why the run was stopped.
    pub fn run(&mut self, gas_limit: u64) -> Result<ExecutionResult, RunFailure> {
        let message = TxEnv { gas_limit, ..self.environment.transaction.clone() };
        self.environment.run(&mut self.evm, message)
    }

    /// Converts the failure of a run for the caller.
    pub fn failure(&self, failure: RunFailure, gas_limit: u64) -> Failure {
        failure.for_call(self.environment, gas_limit, self.calls.limits.call_timeout)
    }

    /// The output of a run with this gas limit.
    ///
    /// # Errors
    /// Why it failed, with the text of `eth_call`.
    pub fn output_or_failure(self, result: ExecutionResult, gas_limit: u64) -> Result<Bytes, Failure> {
        let message = TxEnv { gas_limit, ..self.environment.transaction.clone() };
        self.environment.output_or_failure(result, message, self.evm)
    }
}

/// Searches the gas that a call needs, like go-ethereum.
///
/// # Errors
/// The call fails with any gas, or was stopped.
pub(crate) fn search_gas(estimate: &EstimateGas, mut trials: Trials<'_>) -> Result<u64, CallEnd> {
    let ceiling = trials.ceiling(estimate.request.gas)?;
    if trials.is_attempt && ceiling > attempt::MAX_GAS {
        return Err(CallEnd::GaveUp);
    }
    match trials.search(ceiling)? {
        Found::Gas(gas) => Ok(gas),
        // The text needs a second run, for which an attempt may not have the time.
        Found::Failure(_) if trials.is_attempt => Err(CallEnd::GaveUp),
        Found::Failure(result) => {
            trials.output_or_failure(result, ceiling)?;
            Err(exceeds_allowance(ceiling).into())
        }
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

impl Trials<'_> {
    /// Maximum gas limit of the call: the requested one, or the block's; never more than the caps allow and the sender
    /// can pay.
    fn ceiling(&mut self, asked: Option<u64>) -> Result<u64, Failure> {
        let mut ceiling = asked.filter(|gas| *gas >= TRANSFER_GAS).unwrap_or(self.block_gas_limit());
        if self.environment.rules.spec_id().is_enabled_in(SpecId::OSAKA) {
            ceiling = ceiling.min(TX_GAS_LIMIT_CAP);
        }
        if self.environment.transaction.gas_price > 0 {
            ceiling = ceiling.min(affordable_gas(&self.environment.transaction, &mut self.evm)?);
        }
        Ok(ceiling.min(self.gas_cap().unwrap_or(u64::MAX)))
    }

    fn search(&mut self, ceiling: u64) -> Result<Found, Failure> {
        if self.is_plain_transfer()? && matches!(self.try_gas(TRANSFER_GAS), Ok(Trial::Enough(_))) {
            return Ok(Found::Gas(TRANSFER_GAS));
        }
        let result = match self.try_gas(ceiling)? {
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
            self.narrow(guess, &mut too_little, &mut enough)?;
        }
        while too_little + 1 < enough && (enough - too_little) * 1000 >= enough.saturating_mul(TOLERANCE_PER_MILLE) {
            // Calls rarely need much more than they use, so the search prefers the lower end.
            let middle = (too_little + (enough - too_little) / 2).min(too_little.saturating_mul(2).max(1));
            self.narrow(middle, &mut too_little, &mut enough)?;
        }
        Ok(Found::Gas(enough))
    }

    fn narrow(&mut self, gas: u64, too_little: &mut u64, enough: &mut u64) -> Result<(), Failure> {
        match self.try_gas(gas)? {
            Trial::Enough(_) => *enough = gas,
            Trial::TooLittle | Trial::Failed(_) => *too_little = gas,
        }
        Ok(())
    }

    fn try_gas(&mut self, gas_limit: u64) -> Result<Trial, Failure> {
        match self.run(gas_limit) {
            Ok(result @ ExecutionResult::Success { .. }) => Ok(Trial::Enough(result)),
            Ok(ExecutionResult::Halt { reason: HaltReason::OutOfGas(_), .. }) => Ok(Trial::TooLittle),
            Ok(result) => Ok(Trial::Failed(result)),
            Err(failure) if failure.is_intrinsic_gas() => Ok(Trial::TooLittle),
            Err(failure) => Err(self.failure(failure, gas_limit)),
        }
    }

    fn is_plain_transfer(&mut self) -> Result<bool, Failure> {
        let TxKind::Call(receiver) = self.environment.transaction.kind else { return Ok(false) };
        if !self.environment.transaction.data.is_empty() {
            return Ok(false);
        }
        let account = self.state().basic(receiver).map_err(|StateError(error)| Failure::from(error))?;
        Ok(account.is_none_or(|account| account.is_empty_code_hash()))
    }
}

/// The error of a call that fails for lack of gas with the maximum gas limit.
pub fn exceeds_allowance(ceiling: u64) -> Failure {
    Failure::server(format!("gas required exceeds allowance ({ceiling})"))
}

//! Gas estimates on native chains: the reference's exact search (`docs/spec/rpc-eth.md` 10.3), including a quirk: if a
//! call looks like a plain transfer and its run with 21,000 gas fails, it returns 21,000 without a search. State
//! overrides apply to every trial, as the interface document says; in the reference they apply to none.

use revm::{Database, context::result::ExecutionResult};
use tenon_api::{
    StoreError,
    messages::{CallFailure, EstimateGas},
};
use tenon_execution_interface::{BlockState, StateError};
use tenon_simulation_interface::{CallEnd, CallError, MAX_ATTEMPTED_GAS, Trials};

/// Gas of a plain transfer.
const TRANSFER_GAS: u64 = 21_000;

/// Result of a trial.
enum Trial {
    /// The call succeeds.
    Enough,
    /// It fails.
    Failed(ExecutionResult),
    /// The gas does not cover the intrinsic gas.
    Unpaid,
}

/// Searches the gas that a call needs.
pub(super) fn search(estimate: &EstimateGas, mut trials: Box<dyn Trials + '_>) -> Result<u64, CallEnd> {
    let looks_like_transfer =
        estimate.has_no_data && is_without_code(estimate, trials.state()).map_err(CallError::from)?;
    let asked = estimate.request.gas.filter(|gas| *gas >= TRANSFER_GAS);
    let ceiling = asked.unwrap_or(trials.block_gas_limit()).min(trials.gas_cap().unwrap_or(u64::MAX));
    if trials.is_attempt() && ceiling > MAX_ATTEMPTED_GAS {
        return Err(CallEnd::GaveUp);
    }

    if looks_like_transfer && matches!(try_gas(&mut *trials, TRANSFER_GAS), Ok(Trial::Failed(_) | Trial::Unpaid)) {
        return Ok(TRANSFER_GAS);
    }
    let (mut too_little, mut enough) = (TRANSFER_GAS - 1, ceiling);
    while too_little + 1 < enough {
        let middle = too_little + (enough - too_little) / 2;
        match try_gas(&mut *trials, middle)? {
            Trial::Enough => enough = middle,
            Trial::Failed(_) | Trial::Unpaid => too_little = middle,
        }
    }
    if enough < ceiling {
        return Ok(enough);
    }
    let exceeded = CallFailure::AllowanceExceeded { allowance: ceiling };
    match try_gas(&mut *trials, ceiling)? {
        Trial::Enough => Ok(ceiling),
        // The failure's text needs a second run, for which an attempt may not have enough time.
        Trial::Failed(_) if trials.is_attempt() => Err(CallEnd::GaveUp),
        Trial::Failed(result) => match trials.output(result, ceiling) {
            // The reference reports only failures other than lack of gas as such.
            Ok(_) | Err(CallError::Failed(CallFailure::OutOfGas)) => Err(CallError::from(exceeded).into()),
            Err(error) => Err(error.into()),
        },
        Trial::Unpaid => Err(CallError::from(exceeded).into()),
    }
}

fn try_gas(trials: &mut (dyn Trials + '_), gas_limit: u64) -> Result<Trial, CallError> {
    match trials.run(gas_limit) {
        Ok(ExecutionResult::Success { .. }) => Ok(Trial::Enough),
        Ok(result) => Ok(Trial::Failed(result)),
        Err(failure) if failure.is_intrinsic_gas() => Ok(Trial::Unpaid),
        Err(failure) => Err(trials.error(failure, gas_limit)),
    }
}

fn is_without_code(estimate: &EstimateGas, state: &mut BlockState) -> Result<bool, StoreError> {
    let Some(receiver) = estimate.request.to else { return Ok(false) };
    let account = state.basic(receiver).map_err(|StateError(error)| error)?;
    Ok(account.is_none_or(|account| account.is_empty_code_hash()))
}

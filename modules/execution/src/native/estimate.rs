//! Gas estimates on native chains: the reference's exact search (`docs/spec/rpc-eth.md` 10.3), including its quirk that
//! a call that looks like a plain transfer returns 21,000 exactly if that is not enough. State overrides apply to every
//! trial, as the interface document says; in the reference they apply to none.

use revm::{
    Database,
    context::{TxEnv, result::ExecutionResult},
};
use tenon_api::{
    Failure, SealedHeader,
    messages::{BlockOverrides, EstimateGas},
};

use super::{CallEnd, CallEnvironment, Calls, attempt, estimate::exceeds_allowance, prepare};
use crate::block::{BlockEvm, BlockState, Interrupt, StateError};

/// Gas of a plain transfer.
const TRANSFER_GAS: u64 = 21_000;
/// Error of a run that lacked gas.
const OUT_OF_GAS: &str = "out of gas";

/// Result of a trial.
enum Trial {
    /// The call succeeds.
    Enough,
    /// It fails.
    Failed(ExecutionResult),
    /// The gas does not even cover the message itself.
    Unpaid,
}

impl Calls {
    /// `eth_estimateGas` on a native chain.
    pub(super) fn estimate_natively_over(
        &self,
        estimate: &EstimateGas,
        header: &SealedHeader,
        mut state: BlockState,
        interrupt: Interrupt,
    ) -> Result<u64, CallEnd> {
        let is_attempt = interrupt.is_attempt();
        let overrides = &estimate.state_overrides;
        let environment = prepare(self, header, &mut state, &estimate.request, overrides, &BlockOverrides::default())?;
        let looks_like_transfer = estimate.has_no_data && is_without_code(estimate, &mut state)?;
        let mut evm = environment.evm(state, interrupt, ());
        let asked = estimate.request.gas.filter(|gas| *gas >= TRANSFER_GAS);
        let cap = if self.limits.call_gas_cap == 0 { u64::MAX } else { self.limits.call_gas_cap };
        let ceiling = asked.unwrap_or(header.header().gas_limit).min(cap);
        if is_attempt && ceiling > attempt::MAX_GAS {
            return Err(CallEnd::GaveUp);
        }

        if looks_like_transfer {
            let trial = self.try_gas(&environment, &mut evm, TRANSFER_GAS);
            if matches!(trial, Ok(Trial::Failed(_) | Trial::Unpaid)) {
                return Ok(TRANSFER_GAS);
            }
        }
        let (mut too_little, mut enough) = (TRANSFER_GAS - 1, ceiling);
        while too_little + 1 < enough {
            let middle = too_little + (enough - too_little) / 2;
            match self.try_gas(&environment, &mut evm, middle)? {
                Trial::Enough => enough = middle,
                Trial::Failed(_) | Trial::Unpaid => too_little = middle,
            }
        }
        if enough < ceiling {
            return Ok(enough);
        }
        match self.try_gas(&environment, &mut evm, ceiling)? {
            Trial::Enough => Ok(ceiling),
            // The text needs a second run, for which an attempt may not have the time.
            Trial::Failed(_) if is_attempt => Err(CallEnd::GaveUp),
            Trial::Failed(result) => {
                let message = TxEnv { gas_limit: ceiling, ..environment.transaction.clone() };
                match environment.output_or_failure(result, message, evm) {
                    // To the reference, only failures other than lack of gas have a text of their own.
                    Err(failure) if failure.message != OUT_OF_GAS => Err(failure.into()),
                    _ => Err(exceeds_allowance(ceiling).into()),
                }
            }
            Trial::Unpaid => Err(exceeds_allowance(ceiling).into()),
        }
    }

    fn try_gas(&self, environment: &CallEnvironment, evm: &mut BlockEvm, gas_limit: u64) -> Result<Trial, Failure> {
        let message = TxEnv { gas_limit, ..environment.transaction.clone() };
        match environment.run(evm, message) {
            Ok(ExecutionResult::Success { .. }) => Ok(Trial::Enough),
            Ok(result) => Ok(Trial::Failed(result)),
            Err(failure) if failure.is_intrinsic_gas() => Ok(Trial::Unpaid),
            Err(failure) => Err(failure.for_call(environment, gas_limit, self.limits.call_timeout)),
        }
    }
}

fn is_without_code(estimate: &EstimateGas, state: &mut BlockState) -> Result<bool, Failure> {
    let Some(receiver) = estimate.request.to else { return Ok(false) };
    let account = state.basic(receiver).map_err(|StateError(error)| Failure::from(error))?;
    Ok(account.is_none_or(|account| account.is_empty_code_hash()))
}

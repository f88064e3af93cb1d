//! The runs by which an estimate finds the gas of a call.

use revm::{
    context::{TxEnv, result::ExecutionResult},
    primitives::hardfork::SpecId,
};
use tenon_api::Bytes;
use tenon_execution_interface::BlockState;

use crate::{CallError, RunFailure};

/// Maximum gas limit of an attempted call: memory is paid for with gas, and expanding it is a single instruction.
pub const MAX_ATTEMPTED_GAS: u64 = 100_000_000;

/// Runs of one call with different gas limits. A trait object, because an indirect call costs nothing compared to a
/// run.
pub trait Trials {
    /// Returns whether the estimate is only attempted: it must give up before anything that takes long.
    fn is_attempt(&self) -> bool;

    /// The EVM's fork.
    fn spec_id(&self) -> SpecId;

    /// The block's gas limit.
    fn block_gas_limit(&self) -> u64;

    /// Maximum gas of a call by this node's settings.
    fn gas_cap(&self) -> Option<u64>;

    /// The call's message. Runs replace its gas limit.
    fn message(&self) -> &TxEnv;

    /// The state before the call.
    fn state(&mut self) -> &mut BlockState;

    /// Runs the call with this gas limit.
    ///
    /// # Errors
    /// Why it could not run, or why the run was stopped.
    fn run(&mut self, gas_limit: u64) -> Result<ExecutionResult, RunFailure>;

    /// Converts the failure of a run for the caller.
    fn error(&self, failure: RunFailure, gas_limit: u64) -> CallError;

    /// Returns the output of a run with this gas limit.
    ///
    /// # Errors
    /// Why it failed, as for `eth_call`.
    fn output(self: Box<Self>, result: ExecutionResult, gas_limit: u64) -> Result<Bytes, CallError>;
}

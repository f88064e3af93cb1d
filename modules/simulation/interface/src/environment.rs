//! The environment of a call: everything that its run needs, except the state's cache and the clock.

use std::{sync::Arc, time::Duration};

use revm::{
    Inspector,
    context::{BlockEnv, TxEnv, result::ExecutionResult},
    interpreter::interpreter::EthInterpreter,
};
use tenon_api::messages::CallFailure;
use tenon_execution_interface::{
    AnyEvm, BlockContext, BlockEvm, BlockRules, BlockState, ContractRecords, Interrupt, MovedPrecompiles, Stopped,
    build_evm,
};

use crate::{CallError, CallRules, RunFailure, invalid_transaction_text};

/// The environment of a call, except the state's cache and the clock.
pub struct CallEnvironment {
    /// The rules of the block.
    pub rules: BlockRules,
    /// The block.
    pub block: BlockEnv,
    /// The message.
    pub transaction: TxEnv,
    /// The addresses of precompiled contracts.
    pub precompiles: MovedPrecompiles,
    /// The rules under which the message runs.
    pub call_rules: Box<dyn CallRules>,
    /// Chain data that precompiled contracts of the chain's family read.
    pub records: Option<Arc<dyn ContractRecords>>,
}

impl CallEnvironment {
    /// The EVM for this call. It never commits, so it can run the call repeatedly.
    pub fn evm<I>(&self, state: BlockState, interrupt: Interrupt, inspector: I) -> BlockEvm<I> {
        let mut evm = build_evm(&self.rules, self.block.clone(), state, interrupt, inspector);
        evm.precompiles.apply(&self.precompiles);
        evm.precompiles.set_records(self.records.clone());
        evm
    }

    /// Converts the failure of a run for the caller of `eth_call`.
    pub fn error_of(&self, failure: RunFailure, gas_limit: u64, timeout: Duration) -> CallError {
        match failure {
            RunFailure::Stopped(Stopped::TimedOut) => CallFailure::TimeLimitReached { timeout }.into(),
            RunFailure::Stopped(Stopped::CallerGone) => CallError::CallerGone,
            RunFailure::Message(invalid) => {
                let reason = invalid_transaction_text(&invalid, &self.transaction, &self.block);
                CallFailure::InvalidMessage { reason, gas_limit }.into()
            }
            RunFailure::Refused(reason) => CallFailure::InvalidMessage { reason, gas_limit }.into(),
            RunFailure::OutOfMemory(refused) => refused.into(),
            RunFailure::Store(error) => error.into(),
            RunFailure::Other(text) => CallError::Evm(text),
        }
    }

    /// Runs a message and discards its changes.
    ///
    /// # Errors
    /// Why it may not run, or why the run was stopped.
    pub fn run(&self, evm: &mut BlockEvm, message: TxEnv) -> Result<ExecutionResult, RunFailure> {
        self.call_rules.run(&mut AnyEvm::plain(evm), message)
    }

    /// Like [`CallEnvironment::run`], with the EVM's inspector.
    ///
    /// # Errors
    /// Like [`CallEnvironment::run`].
    pub fn inspect<I: Inspector<BlockContext, EthInterpreter>>(
        &self,
        evm: &mut BlockEvm<I>,
        message: TxEnv,
    ) -> Result<ExecutionResult, RunFailure> {
        AnyEvm::with_inspected(evm, |evm| self.call_rules.run(evm, message))
    }
}

//! Running the EVM for an answer instead of a block.

mod access_list;
mod environment;
mod estimate;
mod estimate_native;
mod failing_step;
mod native_message;
mod overrides;
mod run;
mod words;

use std::sync::Arc;

use tenon_api::{BlockId, Bytes, ChainReader, ConsensusEngine, Failure, SealedHeader, messages::Call};
use tenon_bus::CallContext;

use crate::{ExecutionLimits, Executor, block::BlockState, trace::RecordingMemory};

pub(crate) use environment::{CallEnvironment, prepare};
pub(crate) use native_message::Payer;
pub(crate) use overrides::{apply_account_overrides, apply_block_overrides};
pub(crate) use run::RunFailure;
pub(crate) use words::{duration_text, halt_text, invalid_transaction_text};

/// Answers calls, estimates, access lists and traces over the states of one chain. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Calls {
    pub(crate) executor: Executor,
    pub(crate) chain: Arc<dyn ChainReader>,
    pub(crate) engine: Arc<dyn ConsensusEngine>,
    pub(crate) limits: ExecutionLimits,
    pub(crate) recording_memory: RecordingMemory,
}

impl Calls {
    /// The block after which something is to run, and the state after it. Only states of canonical blocks are kept.
    pub(crate) fn base(&self, block: BlockId) -> Result<(Arc<SealedHeader>, BlockState), Failure> {
        let header = tenon_chain::require_block(&*self.chain, block)?;
        let state = self.state_after(&header)?;
        Ok((header, state))
    }

    pub(crate) fn state_after(&self, header: &SealedHeader) -> Result<BlockState, Failure> {
        let number = header.number;
        if self.chain.canonical_hash(number.into())? != Some(header.hash()) {
            return Err(Failure::server(format!("block {number} is not canonical: its state is not kept")));
        }
        Ok(self.executor.state_after(&*self.chain, number.into())?)
    }

    /// Nobody has sealed a native chain's first block, and the reference asks who did before it runs a call
    /// (`spec/rpc-eth.md` 21).
    pub(crate) fn require_author(&self, header: &SealedHeader) -> Result<(), Failure> {
        if header.number == 0 && self.executor.spec().native.is_some() {
            return Err(Failure::server("recovery failed"));
        }
        Ok(())
    }

    /// `eth_call`: what the call returns.
    pub(crate) fn call(&self, call: &Call, caller: &CallContext) -> Result<Bytes, Failure> {
        let (header, mut state) = self.base(call.block)?;
        let environment =
            prepare(self, &header, &mut state, &call.request, &call.state_overrides, &call.block_overrides)?;
        self.require_author(&header)?;
        let mut evm = environment.evm(state, self.interrupt(caller), ());
        let message = environment.transaction.clone();
        let result = environment
            .run(&mut evm, message.clone())
            .map_err(|failure| failure.for_call(&environment, message.gas_limit, self.limits.call_timeout))?;
        environment.output_or_failure(result, message, evm)
    }
}

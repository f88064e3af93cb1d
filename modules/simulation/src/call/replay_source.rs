//! The calls as a source of replays.

use std::{sync::Arc, time::Instant};

use alloy_primitives::Address;
use tenon_api::{
    BlockId, ChainReader, ConsensusEngine, SealedHeader,
    messages::{AccountOverride, BlockOverrides, CallRequest},
};
use tenon_bus::CallContext;
use tenon_execution_interface::{BlockState, ChainFamily};
use tenon_javascript::ScriptHost;
use tenon_simulation_interface::{CallEnvironment, CallError, CallLimits};
use tenon_traces::{RecordingMemory, ReplaySource};

use super::{Calls, prepare};

impl ReplaySource for Calls {
    fn chain(&self) -> &Arc<dyn ChainReader> {
        &self.chain
    }

    fn engine(&self) -> &Arc<dyn ConsensusEngine> {
        &self.engine
    }

    fn family(&self) -> &Arc<dyn ChainFamily> {
        self.executor.family()
    }

    fn limits(&self) -> &CallLimits {
        &self.limits
    }

    fn recording_memory(&self) -> &RecordingMemory {
        &self.recording_memory
    }

    fn scripts(&self) -> &ScriptHost {
        &self.scripts
    }

    fn state_after(&self, header: &SealedHeader, caller: &CallContext) -> Result<BlockState, CallError> {
        Self::state_after(self, header, caller)
    }

    fn base(
        &self,
        block: BlockId,
        caller: &CallContext,
        attempt_ends: Option<Instant>,
    ) -> Result<(Arc<SealedHeader>, BlockState), CallError> {
        match attempt_ends {
            Some(end) => self.base_in_time(block, end),
            None => Self::base(self, block, caller),
        }
    }

    fn prepare(
        &self,
        header: &SealedHeader,
        state: &mut BlockState,
        request: &CallRequest,
        account_overrides: &[(Address, AccountOverride)],
        block_overrides: &BlockOverrides,
    ) -> Result<CallEnvironment, CallError> {
        prepare(self, header, state, request, account_overrides, block_overrides)
    }
}

//! Access lists of calls.

use std::time::Instant;

use revm::context::{TxEnv, result::ExecutionResult, transaction::AccessList};
use revm_inspectors::access_list::AccessListInspector;
use tenon_api::{
    SealedHeader,
    messages::{AccessListReply, BlockOverrides, CallFailure, CallRequest, CreateAccessList},
};
use tenon_bus::CallContext;
use tenon_execution_interface::{BlockEvm, BlockState, Interrupt};
use tenon_simulation_interface::{
    CallEnd, CallEnvironment, CallError, ListFailure, MAX_ATTEMPTED_GAS, RunFailure, access_list_items,
};

use super::{Calls, Kind, prepare, run::halt_cause_of};

/// Maximum number of rounds. Each adds at least one access, so only a contract made for this purpose gets near.
const MAX_ROUNDS: usize = 64;

impl Calls {
    /// `eth_createAccessList`: repeats the call with the list from its last run until the list no longer changes.
    pub(crate) fn create_access_list(
        &self,
        request: &CreateAccessList,
        caller: &CallContext,
    ) -> Result<AccessListReply, CallError> {
        let begun = Instant::now();
        let (header, state) = self.base(request.block, caller)?;
        let reply = self.access_list_over(request, &header, state, self.interrupt(caller))?;
        self.forget_if_short(Kind::AccessList, &request.request, begun);
        Ok(reply)
    }

    /// `eth_createAccessList` over a state.
    pub(super) fn access_list_over(
        &self,
        request: &CreateAccessList,
        header: &SealedHeader,
        mut state: BlockState,
        interrupt: Interrupt,
    ) -> Result<AccessListReply, CallEnd> {
        let is_attempt = interrupt.is_attempt();
        let overrides = BlockOverrides::default();
        let mut environment =
            prepare(self, header, &mut state, &request.request, &request.state_overrides, &overrides)?;
        let payer = self.family.access_list_payer(request.request.to, &mut state).map_err(CallError::from)?;
        environment.call_rules.pay_by(payer);
        let mut evm = environment.evm(state, interrupt, AccessListInspector::default());
        let mut message = environment.transaction.clone();
        if is_attempt && message.gas_limit > MAX_ATTEMPTED_GAS {
            return Err(CallEnd::GaveUp);
        }
        message.access_list = environment.call_rules.first_access_list(&message);
        for _ in 0..MAX_ROUNDS {
            let given = message.access_list.clone();
            evm.inspector = AccessListInspector::new(given.clone());
            let result = environment
                .inspect(&mut evm, message.clone())
                .map_err(|failure| self.message_error(failure, &environment, &request.request, &message))?;
            let mut found = evm.inspector.access_list();
            environment.call_rules.complete_access_list(&given, &mut found);
            if is_attempt && !result.is_success() {
                // The failure's text may need a second run, for which an attempt may not have enough time.
                return Err(CallEnd::GaveUp);
            }
            if is_same(&found, &given) {
                return Ok(reply(&found, &result, &environment, message, evm));
            }
            environment.call_rules.set_access_list(&mut message, found);
        }
        Err(CallError::UnsettledList { runs: MAX_ROUNDS }.into())
    }

    /// Why a message could not run.
    fn message_error(
        &self,
        failure: RunFailure,
        environment: &CallEnvironment,
        request: &CallRequest,
        message: &TxEnv,
    ) -> CallError {
        let (block, chain_id) = (&environment.block, self.executor.spec().chain_id);
        let place = ListFailure { request, message, block, chain_id };
        let listed = environment.call_rules.access_list_failure(failure, &place);
        listed.map_or_else(
            |failure| environment.error_of(failure, message.gas_limit, self.limits.call_timeout),
            CallError::from,
        )
    }
}

fn is_same(found: &AccessList, given: &AccessList) -> bool {
    let sorted = |list: &AccessList| {
        let mut items: Vec<_> = list.0.clone();
        items.iter_mut().for_each(|item| item.storage_keys.sort_unstable());
        items.sort_unstable_by_key(|item| item.address);
        items
    };
    sorted(found) == sorted(given)
}

fn reply(
    list: &AccessList,
    result: &ExecutionResult,
    environment: &CallEnvironment,
    message: TxEnv,
    evm: BlockEvm<AccessListInspector>,
) -> AccessListReply {
    let failure = match result {
        ExecutionResult::Success { .. } => None,
        // Clients receive no reason and no output here.
        ExecutionResult::Revert { .. } => Some(CallFailure::RevertedWithoutData),
        ExecutionResult::Halt { reason, .. } => Some(halt_cause_of(environment, reason, &message, evm).into()),
    };
    AccessListReply { access_list: access_list_items(list), gas_used: result.tx_gas_used(), failure }
}

//! The accesses that a call makes.

use revm::{InspectEvm, context::result::ExecutionResult};
use revm_inspectors::access_list::AccessListInspector;
use tenon_api::{
    AccessListItem, Failure,
    messages::{AccessListReply, BlockOverrides, CreateAccessList},
};
use tenon_bus::CallContext;

use super::{Calls, RunFailure, halt_text, prepare};
use crate::block::AccessList;

/// How often the list may grow before the search is given up. Each round adds at least one access, so only a
/// contract made for it gets near.
const MAX_ROUNDS: usize = 64;

impl Calls {
    /// `eth_createAccessList`: runs the call with the list that its last run gave, until that changes nothing.
    pub(crate) fn create_access_list(
        &self,
        request: &CreateAccessList,
        caller: &CallContext,
    ) -> Result<AccessListReply, Failure> {
        let (header, mut state) = self.base(request.block)?;
        let overrides = BlockOverrides::default();
        let environment = prepare(self, &header, &mut state, &request.request, &request.state_overrides, &overrides)?;
        let mut evm = environment.evm(state, self.interrupt(caller), AccessListInspector::default());
        let mut transaction = environment.transaction.clone();
        for _ in 0..MAX_ROUNDS {
            let given = transaction.access_list.clone();
            let outcome = evm.inspect(transaction.clone(), AccessListInspector::new(given.clone()));
            let result = outcome.map(|outcome| outcome.result).map_err(|failure| {
                let failure = RunFailure::from_evm(failure, &evm.ctx.chain);
                failure.for_call(&environment, transaction.gas_limit, self.limits.call_timeout)
            })?;
            let found = evm.inspector.access_list();
            if is_same(&found, &given) {
                return Ok(reply(&found, &result));
            }
            transaction.access_list = found;
        }
        Err(Failure::limit(format!("the access list did not settle in {MAX_ROUNDS} runs")))
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

fn reply(list: &AccessList, result: &ExecutionResult) -> AccessListReply {
    let error = match result {
        ExecutionResult::Success { .. } => None,
        ExecutionResult::Revert { .. } => Some("execution reverted".to_owned()),
        ExecutionResult::Halt { reason, .. } => Some(halt_text(reason).into_owned()),
    };
    let item = |item: &revm::context::transaction::AccessListItem| AccessListItem {
        address: item.address,
        storage_keys: item.storage_keys.clone(),
    };
    AccessListReply { access_list: list.0.iter().map(item).collect(), gas_used: result.tx_gas_used(), error }
}

//! Access lists of calls.

use std::time::Instant;

use revm::{
    InspectEvm,
    context::{TxEnv, result::ExecutionResult},
};
use revm_inspectors::access_list::AccessListInspector;
use tenon_api::{
    AccessListItem, B256, Failure, SealedHeader, Transaction, TransactionPayload, TransactionSignature,
    TransactionType, U256,
    messages::{AccessListReply, BlockOverrides, CallRequest, CreateAccessList},
};
use tenon_bus::CallContext;

use super::{
    CallEnd, CallEnvironment, Calls, Kind, RunFailure, attempt, invalid_transaction_text,
    native_message::{NativeTerms, Payer},
    prepare,
};
use crate::{
    block::{AccessList, BlockEvm, BlockState, Interrupt},
    native::capacity_of,
};

/// Maximum number of rounds. Each adds at least one access, so only a contract made for this purpose gets near.
const MAX_ROUNDS: usize = 64;

impl Calls {
    /// `eth_createAccessList`: repeats the call with the list from its last run until the list no longer changes.
    pub(crate) fn create_access_list(
        &self,
        request: &CreateAccessList,
        caller: &CallContext,
    ) -> Result<AccessListReply, Failure> {
        let begun = Instant::now();
        let (header, state) = self.base(request.block, caller)?;
        let reply = self.access_list_over(request, &header, state, self.interrupt(caller)).map_err(Failure::from)?;
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
        let payer = self.payer(&request.request, &mut state)?;
        environment.native = environment.native.take().map(|terms| terms.paid_by(payer));
        let mut evm = environment.evm(state, interrupt, AccessListInspector::default());
        let mut message = environment.transaction.clone();
        if is_attempt && message.gas_limit > attempt::MAX_GAS {
            return Err(CallEnd::GaveUp);
        }
        if environment.native.is_some() {
            // The reference's first run uses the given list without entries that are always warm.
            message.access_list = given_list(&message);
        }
        for _ in 0..MAX_ROUNDS {
            let given = message.access_list.clone();
            evm.inspector = AccessListInspector::new(given.clone());
            let result = inspect(&environment, &mut evm, message.clone())
                .map_err(|failure| self.message_failure(failure, &environment, &request.request, &message))?;
            let mut found = evm.inspector.access_list();
            if environment.native.is_some() {
                keep_given_slots(&given, &mut found);
            }
            if is_attempt && !result.is_success() {
                // The text may need a second run, for which an attempt may not have the time.
                return Err(CallEnd::GaveUp);
            }
            if is_same(&found, &given) {
                return Ok(reply(&found, &result, &environment, message, evm));
            }
            message.access_list = found;
            if environment.native.is_some() {
                // A message without a list was of type 0, for which the EVM would ignore it.
                message.tx_type = TransactionType::AccessList as u8;
            }
        }
        Err(Failure::limit(format!("the access list did not settle in {MAX_ROUNDS} runs")).into())
    }

    /// The payer on a native chain: the deposit of the token that is called, otherwise the sender.
    fn payer(&self, request: &CallRequest, state: &mut BlockState) -> Result<Payer, Failure> {
        let Some(native) = &self.executor.spec().native else { return Ok(Payer::None) };
        let capacity = capacity_of(request.to, native.contracts.trc21_issuer, state)?;
        Ok(capacity.map_or(Payer::Sender, Payer::Token))
    }

    /// Why a message could not run. The reference's text contains the hash of the corresponding unsigned transaction.
    fn message_failure(
        &self,
        failure: RunFailure,
        environment: &CallEnvironment,
        request: &CallRequest,
        message: &TxEnv,
    ) -> Failure {
        let text = match failure {
            RunFailure::Refused(text) if environment.native.is_some() => text,
            RunFailure::Message(invalid) if environment.native.is_some() => {
                invalid_transaction_text(&invalid, message, &environment.block)
            }
            failure => return failure.for_call(environment, message.gas_limit, self.limits.call_timeout),
        };
        let hash = unsigned_hash(request, message, self.executor.spec().chain_id);
        Failure::server(format!("failed to apply transaction: {hash} err: {text}"))
    }
}

fn inspect(
    environment: &CallEnvironment,
    evm: &mut BlockEvm<AccessListInspector>,
    message: TxEnv,
) -> Result<ExecutionResult, RunFailure> {
    if let Some(terms) = &environment.native {
        return NativeTerms::inspect(terms, evm, message);
    }
    let outcome = evm.inspect_tx(message).map(|outcome| outcome.result);
    outcome.map_err(|failure| RunFailure::from_evm(failure, &evm.ctx.chain))
}

/// The list with which a native call begins. Sender and receiver are always warm; their slots stay.
fn given_list(message: &TxEnv) -> AccessList {
    let is_warm = |address| address == message.caller || message.kind.to() == Some(&address);
    let items = message.access_list.0.iter();
    AccessList(items.filter(|item| !is_warm(item.address) || !item.storage_keys.is_empty()).cloned().collect())
}

/// Restores slots that were given for always warm addresses.
fn keep_given_slots(given: &AccessList, found: &mut AccessList) {
    for item in given.0.iter().filter(|item| !item.storage_keys.is_empty()) {
        match found.0.iter_mut().find(|other| other.address == item.address) {
            None => found.0.push(item.clone()),
            Some(other) => {
                let missing = item.storage_keys.iter().filter(|key| !other.storage_keys.contains(key));
                let missing: Vec<B256> = missing.copied().collect();
                other.storage_keys.extend(missing);
            }
        }
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
    let error = match result {
        ExecutionResult::Success { .. } => None,
        ExecutionResult::Revert { .. } => Some("execution reverted".to_owned()),
        ExecutionResult::Halt { reason, .. } => Some(environment.halt_text(reason, message, evm).into_owned()),
    };
    AccessListReply { access_list: items(list), gas_used: result.tx_gas_used(), error }
}

fn items(list: &AccessList) -> Vec<AccessListItem> {
    let item = |item: &revm::context::transaction::AccessListItem| AccessListItem {
        address: item.address,
        storage_keys: item.storage_keys.clone(),
    };
    list.0.iter().map(item).collect()
}

fn unsigned_hash(request: &CallRequest, message: &TxEnv, chain_id: u64) -> B256 {
    let access_list = items(&message.access_list);
    let payload = match request.max_fee_per_gas {
        Some(max_fee_per_gas) => TransactionPayload::DynamicFee {
            max_fee_per_gas,
            max_priority_fee_per_gas: request.max_priority_fee_per_gas.unwrap_or_default(),
            access_list,
        },
        None => TransactionPayload::AccessList { gas_price: request.gas_price.unwrap_or_default(), access_list },
    };
    tenon_chain::transaction_hash(&Transaction {
        hash: B256::ZERO,
        chain_id: Some(request.chain_id.unwrap_or(chain_id)),
        nonce: request.nonce.unwrap_or_default(),
        gas_limit: request.gas.unwrap_or(message.gas_limit),
        to: request.to,
        value: message.value,
        input: message.data.clone(),
        payload,
        signature: TransactionSignature { v: 0, r: U256::ZERO, s: U256::ZERO },
    })
}

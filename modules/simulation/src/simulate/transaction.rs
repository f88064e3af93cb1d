//! One transaction of a simulated block: from a call object to its results.

use alloy_primitives::Address;
use revm::{
    context::{
        ContextTr, TxEnv,
        result::{ExecutionResult, HaltReason},
    },
    context_interface::block::BlobExcessGasAndPrice,
    primitives::TxKind,
};
use tenon_api::{
    Bytes, Header, Transaction, TransactionPayload, TransactionSignature, TransactionType, U256,
    messages::{CallRequest, SimulatedCall, SimulatedFailure, SimulatedLog, SimulationFailure},
};
use tenon_execution_block::Prepared;
use tenon_execution_interface::{ExtraPrecompiles, Fees, access_list, inspect};
use tenon_simulation_interface::{CallError, HaltCause, halt_cause, precompile_failure};

use super::{SimulateError, Simulation, block::OpenBlock, error::check_transaction};

use crate::call::check_consistency;

/// The gas that a transaction gets.
#[derive(Clone, Copy)]
struct GasLimit {
    gas: u64,
    /// Whether it is less than the requested gas.
    is_capped: bool,
}

/// A transaction as the EVM takes it.
struct Message {
    env: TxEnv,
    fees: Option<Fees>,
    blob_gas: u64,
}

impl Simulation<'_> {
    /// Runs a call as the next transaction of a block.
    pub(super) fn run_call(
        &mut self,
        block: &mut OpenBlock,
        request: CallRequest,
    ) -> Result<(Transaction, Address, SimulatedCall), SimulateError> {
        let chain_id = self.calls.executor.spec().chain_id;
        check_consistency(&request, chain_id).map_err(CallError::from)?;
        let sender = request.from.unwrap_or_default();
        let account_nonce = block.execution.evm_mut().ctx.db_mut().nonce(sender).map_err(CallError::from)?;
        let limit = self.gas_limit(&request, block.execution.gas_left())?;
        let announced = request.access_list.clone().filter(|list| !list.is_empty());
        let nonce = request.nonce.unwrap_or(account_nonce);
        let transaction = unsigned_transaction(request, nonce, limit.gas, chain_id, &block.header);
        self.check_rules(&transaction, sender, account_nonce, &block.header)?;
        let Some(mut message) = self.prepare(block, &transaction, sender)? else {
            let done = run_intercepted(block, &transaction, sender)?;
            return Ok((transaction, sender, done));
        };
        if let Some(list) = announced.filter(|_| message.env.tx_type == TransactionType::Legacy as u8) {
            // go-ethereum also warms an access list given together with `gasPrice`, but shows a transaction without the
            // list.
            message.env.tx_type = TransactionType::AccessList as u8;
            message.env.access_list = access_list(&list);
        }
        let done = self.execute(block, &transaction, sender, message, limit)?;
        Ok((transaction, sender, done))
    }

    /// The gas limit of a call: the requested gas, or the block's remaining gas; at most what remains for all calls
    /// together.
    fn gas_limit(&self, request: &CallRequest, left: u64) -> Result<GasLimit, SimulateError> {
        let asked = request.gas.unwrap_or(left);
        if asked > left {
            return Err(SimulationFailure::BlockGasUsedUp { left, asked }.into());
        }
        Ok(GasLimit { gas: asked.min(self.gas_left), is_capped: self.gas_left < asked })
    }

    fn check_rules(
        &self,
        transaction: &Transaction,
        sender: Address,
        account_nonce: u64,
        header: &Header,
    ) -> Result<(), SimulateError> {
        let nonce = self.rules.validates.then_some(account_nonce);
        let has_price = !self.is_free(transaction);
        check_transaction(transaction, sender, nonce, has_price.then_some(header))
    }

    /// Whether a call with zero gas prices is exempt from paying for gas.
    fn is_free(&self, transaction: &Transaction) -> bool {
        !self.rules.validates
            && transaction.max_fee_per_gas().is_zero()
            && transaction.max_priority_fee_per_gas().is_zero()
    }

    /// Whether a call with blobs and a zero blob price is exempt from paying for them.
    fn is_free_of_blob_fee(&self, transaction: &Transaction) -> bool {
        let TransactionPayload::Blob { max_fee_per_blob_gas, .. } = &transaction.payload else { return false };
        !self.rules.validates && max_fee_per_blob_gas.is_zero()
    }

    /// Prepares a transaction for the EVM; `None` if the block handles it without the EVM.
    fn prepare(
        &self,
        block: &mut OpenBlock,
        transaction: &Transaction,
        sender: Address,
    ) -> Result<Option<Message>, SimulateError> {
        let rejected = |rejection| SimulateError::rejected(rejection, transaction.gas_limit);
        let fees_of_message = self.calls.family.simulated_fees().filter(|_| !self.rules.validates);
        let mut message = if let Some(fees) = fees_of_message {
            let env = self.calls.executor.family().transaction_env(transaction, sender).map_err(rejected)?;
            Message { env, fees: Some(fees), blob_gas: 0 }
        } else {
            match block.execution.prepare(transaction, sender).map_err(rejected)? {
                Prepared::Intercepted => return Ok(None),
                Prepared::Executed { env, fees, blob_gas } => Message { env, fees, blob_gas },
            }
        };
        let blobs = block.blobs.map(|blobs| match self.is_free_of_blob_fee(transaction) {
            true => BlobExcessGasAndPrice { blob_gasprice: 0, ..blobs },
            false => blobs,
        });
        let context = &mut block.execution.evm_mut().ctx;
        context.cfg.disable_base_fee = self.is_free(transaction);
        context.block.blob_excess_gas_and_price = blobs;
        message.env.chain_id = transaction.chain_id;
        Ok(Some(message))
    }

    fn execute(
        &mut self,
        block: &mut OpenBlock,
        transaction: &Transaction,
        sender: Address,
        message: Message,
        limit: GasLimit,
    ) -> Result<SimulatedCall, SimulateError> {
        let Message { env, fees, blob_gas } = message;
        let evm = block.execution.evm_mut();
        let family = &**self.calls.executor.family();
        let outcome = inspect(family, evm, env.clone(), fees.as_ref()).map_err(|failure| {
            SimulateError::of_run(failure, &evm.ctx.chain, &env, &evm.ctx.block, &self.calls.limits)
        })?;
        let logs = evm.inspector.take();
        let extras = evm.precompiles.places().extras();
        let done = simulated_call(&outcome.result, logs, &env, extras, limit.is_capped);
        self.gas_left = self.gas_left.saturating_sub(done.gas_used);
        let kept = block.execution.complete(transaction, sender, fees.as_ref(), blob_gas, outcome);
        kept.map_err(|rejection| SimulateError::rejected(rejection, transaction.gas_limit))?;
        Ok(done)
    }
}

/// Runs a transaction that the block handles without the EVM.
fn run_intercepted(
    block: &mut OpenBlock,
    transaction: &Transaction,
    sender: Address,
) -> Result<SimulatedCall, SimulateError> {
    let done = block.execution.run_transaction(transaction, sender);
    done.map_err(|rejection| SimulateError::rejected(rejection, transaction.gas_limit))?;
    // The receipt's log is not emitted by a contract, so the recorder has not seen it.
    let logs = block.execution.receipts().last().map(|receipt| receipt.logs.clone()).unwrap_or_default();
    let recorder = &mut block.execution.evm_mut().inspector;
    logs.into_iter().for_each(|log| recorder.record(log));
    Ok(SimulatedCall { returned: Bytes::new(), logs: recorder.take(), gas_used: 0, max_gas_used: 0, failure: None })
}

fn simulated_call(
    result: &ExecutionResult,
    logs: Vec<SimulatedLog>,
    message: &TxEnv,
    extras: Option<&'static dyn ExtraPrecompiles>,
    is_capped: bool,
) -> SimulatedCall {
    let (gas, returned, failure) = match result {
        ExecutionResult::Success { gas, output, .. } => (gas, output.data().clone(), None),
        ExecutionResult::Revert { gas, output, .. } => {
            (gas, Bytes::new(), Some(SimulatedFailure::Reverted { output: output.clone() }))
        }
        ExecutionResult::Halt { gas, reason, .. } => {
            let cause = cause_of(reason, message, extras).into_text().into_owned();
            (gas, Bytes::new(), Some(SimulatedFailure::Halted { cause, is_gas_capped: is_capped }))
        }
    };
    let max_gas_used = gas.total_gas_spent().max(gas.floor_gas());
    SimulatedCall { returned, logs, gas_used: result.tx_gas_used(), max_gas_used, failure }
}

/// Why a transaction halted.
fn cause_of(reason: &HaltReason, message: &TxEnv, extras: Option<&'static dyn ExtraPrecompiles>) -> HaltCause {
    if let (HaltReason::PrecompileError | HaltReason::PrecompileErrorWithContext(_), TxKind::Call(contract)) =
        (reason, message.kind)
        && let Some(cause) = precompile_failure(extras, contract, &message.data)
    {
        return cause;
    }
    halt_cause(reason)
}

/// The unsigned transaction that represents a call in the block, of the type that its prices require.
fn unsigned_transaction(
    request: CallRequest,
    nonce: u64,
    gas_limit: u64,
    chain_id: u64,
    header: &Header,
) -> Transaction {
    let CallRequest { to, value, input, .. } = request.clone();
    let payload = payload(request, header);
    let is_legacy = matches!(payload, TransactionPayload::Legacy { .. });
    let mut transaction = Transaction {
        hash: alloy_primitives::B256::ZERO,
        chain_id: (!is_legacy).then_some(chain_id),
        nonce,
        gas_limit,
        to,
        value: value.unwrap_or_default(),
        input,
        payload,
        signature: TransactionSignature { v: 0, r: U256::ZERO, s: U256::ZERO },
    };
    transaction.hash = tenon_chain::transaction_hash(&transaction);
    transaction
}

fn payload(request: CallRequest, header: &Header) -> TransactionPayload {
    if request.gas_price.is_some() || header.base_fee_per_gas.is_none() {
        return TransactionPayload::Legacy { gas_price: request.gas_price.unwrap_or_default() };
    }
    let max_fee_per_gas = request.max_fee_per_gas.unwrap_or_default();
    let max_priority_fee_per_gas = request.max_priority_fee_per_gas.unwrap_or_default();
    let access_list = request.access_list.unwrap_or_default();
    if let Some(authorization_list) = request.authorization_list {
        return TransactionPayload::SetCode {
            max_fee_per_gas,
            max_priority_fee_per_gas,
            access_list,
            authorization_list,
        };
    }
    if let Some(blob_versioned_hashes) = request.blob_versioned_hashes {
        let max_fee_per_blob_gas = request.max_fee_per_blob_gas.unwrap_or_default();
        return TransactionPayload::Blob {
            max_fee_per_gas,
            max_priority_fee_per_gas,
            access_list,
            max_fee_per_blob_gas,
            blob_versioned_hashes,
        };
    }
    TransactionPayload::DynamicFee { max_fee_per_gas, max_priority_fee_per_gas, access_list }
}

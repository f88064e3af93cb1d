//! Codes and texts of a simulation's errors, as in go-ethereum.

use std::time::Duration;

use alloy_primitives::Address;
use revm::context::{BlockEnv, TxEnv, result::InvalidTransaction};
use tenon_api::{Failure, FailureCode, Header, Transaction, duration_text};
use tenon_execution_interface::{EvmFailure, Interrupt, Stopped, TransactionRejection};
use tenon_simulation_interface::{RunFailure, invalid_transaction_text};

const NONCE_TOO_LOW: FailureCode = FailureCode(-38010);
const NONCE_TOO_HIGH: FailureCode = FailureCode(-38011);
const BASE_FEE_TOO_LOW: FailureCode = FailureCode(-38012);
const INTRINSIC_GAS: FailureCode = FailureCode(-38013);
const INSUFFICIENT_FUNDS: FailureCode = FailureCode(-38014);
pub(super) const BLOCK_GAS_LIMIT_REACHED: FailureCode = FailureCode(-38015);
pub(super) const BLOCK_NUMBER_INVALID: FailureCode = FailureCode(-38020);
pub(super) const BLOCK_TIMESTAMP_INVALID: FailureCode = FailureCode(-38021);
const MAX_INIT_CODE_SIZE_EXCEEDED: FailureCode = FailureCode(-38025);
const CLIENT_LIMIT_EXCEEDED: FailureCode = FailureCode(-38026);
/// A transaction ran and failed, but did not revert.
pub(super) const VM_ERROR: FailureCode = FailureCode(-32015);

pub(super) fn of(code: FailureCode, message: impl Into<String>) -> Failure {
    Failure { code, message: message.into(), data: None }
}

/// A bound of the simulation is reached.
pub(super) fn limit(message: impl Into<String>) -> Failure {
    of(CLIENT_LIMIT_EXCEEDED, message)
}

/// The time limit has passed, or the caller has disconnected.
pub(super) fn stopped(stopped: Stopped, timeout: Duration) -> Failure {
    match stopped {
        Stopped::TimedOut => Failure::server(format!("execution aborted (timeout = {})", duration_text(timeout))),
        Stopped::CallerGone => Failure::limit("request timed out"),
    }
}

/// A transaction that is refused before the EVM checks it.
pub(super) fn rejected(rejection: TransactionRejection, gas_limit: u64) -> Failure {
    let code = match &rejection {
        TransactionRejection::Store(error) => return error.clone().into(),
        TransactionRejection::BlockGas { .. } | TransactionRejection::BlockBlobGas { .. } => BLOCK_GAS_LIMIT_REACHED,
        TransactionRejection::Rule(text) if text.starts_with("insufficient funds") => INSUFFICIENT_FUNDS,
        TransactionRejection::Rule(_) => FailureCode::INVALID_PARAMS,
        TransactionRejection::Unsupported(_) => FailureCode::SERVER,
    };
    of(code, supplied(rejection, gas_limit))
}

/// The failure for a run of the EVM without a result.
pub(super) fn of_evm(
    failure: EvmFailure,
    interrupt: &Interrupt,
    message: &TxEnv,
    block: &BlockEnv,
    timeout: Duration,
) -> Failure {
    match RunFailure::from_evm(failure, interrupt) {
        RunFailure::Stopped(reason) => stopped(reason, timeout),
        RunFailure::Message(invalid) => {
            let text = invalid_transaction_text(&invalid, message, block);
            of(code_of(&invalid), supplied(text, message.gas_limit))
        }
        RunFailure::Refused(text) => of(FailureCode::INVALID_PARAMS, supplied(text, message.gas_limit)),
        RunFailure::OutOfMemory(refused) => refused.into(),
        RunFailure::Store(error) => error.into(),
        RunFailure::Other(text) => Failure::server(text),
    }
}

/// For errors without a code here go-ethereum uses -32603. That code means an internal error, but here the arguments
/// are wrong.
const fn code_of(invalid: &InvalidTransaction) -> FailureCode {
    match invalid {
        InvalidTransaction::NonceTooLow { .. } => NONCE_TOO_LOW,
        InvalidTransaction::NonceTooHigh { .. } => NONCE_TOO_HIGH,
        InvalidTransaction::GasPriceLessThanBasefee => BASE_FEE_TOO_LOW,
        InvalidTransaction::CallGasCostMoreThanGasLimit { .. }
        | InvalidTransaction::GasFloorMoreThanGasLimit { .. } => INTRINSIC_GAS,
        InvalidTransaction::LackOfFundForMaxFee { .. } | InvalidTransaction::OverflowPaymentInTransaction => {
            INSUFFICIENT_FUNDS
        }
        InvalidTransaction::CreateInitCodeSizeLimit => MAX_INIT_CODE_SIZE_EXCEEDED,
        _ => FailureCode::INVALID_PARAMS,
    }
}

/// Checks nonce and fee caps in go-ethereum's order, which differs from the EVM's.
///
/// # Errors
/// The first rule that the transaction breaks.
pub(super) fn check_transaction(
    transaction: &Transaction,
    sender: Address,
    account_nonce: Option<u64>,
    fees: Option<&Header>,
) -> Result<(), Failure> {
    let refused = |code, text| Err(of(code, supplied(text, transaction.gas_limit)));
    let nonce = transaction.nonce;
    match account_nonce {
        Some(state) if nonce < state => {
            return refused(NONCE_TOO_LOW, format!("nonce too low: address {sender}, tx: {nonce} state: {state}"));
        }
        Some(state) if nonce > state => {
            return refused(NONCE_TOO_HIGH, format!("nonce too high: address {sender}, tx: {nonce} state: {state}"));
        }
        _ => {}
    }
    let Some(base_fee) = fees.and_then(|header| header.base_fee_per_gas) else { return Ok(()) };
    let (cap, tip) = (transaction.max_fee_per_gas(), transaction.max_priority_fee_per_gas());
    if tip > cap {
        let text = format!(
            "max priority fee per gas higher than max fee per gas: address {sender}, \
             maxPriorityFeePerGas: {tip}, maxFeePerGas: {cap}"
        );
        return refused(FailureCode::INVALID_PARAMS, text);
    }
    if cap < alloy_primitives::U256::from(base_fee) {
        let text = format!(
            "max fee per gas less than block base fee: address {sender}, maxFeePerGas: {cap}, baseFee: {base_fee}"
        );
        return refused(BASE_FEE_TOO_LOW, text);
    }
    Ok(())
}

fn supplied(text: impl std::fmt::Display, gas_limit: u64) -> String {
    format!("err: {text} (supplied gas {gas_limit})")
}

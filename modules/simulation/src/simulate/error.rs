//! Why a simulation has no result, with go-ethereum's rules.

use alloy_primitives::{Address, U256};
use revm::context::{BlockEnv, TxEnv, result::InvalidTransaction};
use tenon_api::{
    BusError, Header, Transaction,
    messages::{CallFailure, SimulationFailure, TransactionRule},
};
use tenon_chain::TrieError;
use tenon_execution_interface::{EvmFailure, Interrupt, Stopped, TransactionRejection};
use tenon_simulation_interface::{CallError, RunFailure, invalid_transaction_text};

use crate::CallLimits;

/// Why a simulation has no result.
#[derive(Debug, derive_more::From, thiserror::Error)]
pub(crate) enum SimulateError {
    /// The simulation itself has failed. Plugins write the text for clients.
    #[error("the simulation itself failed")]
    #[from(SimulationFailure)]
    Failed(SimulationFailure),
    /// The memory of traces, or of the client, is used up.
    #[error("out of memory: the node has no memory left for this simulation; simulate fewer calls, or try again later")]
    OutOfMemory,
    /// The state of the previous block is still in use. This is a bug of the simulation.
    #[error("simulation failed: its state is still in use")]
    StateInUse,
    /// The trie of a state could not be read.
    #[error(transparent)]
    Trie(Box<TrieError>),
    /// An error that a call can have too.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl SimulateError {
    /// The answer of a simulation on the bus: the failure of the simulation itself is a reply. There is no other
    /// conversion into a [`BusError`], which would send its text for logs to clients.
    ///
    /// # Errors
    /// If the node could not run the simulation.
    pub(crate) fn reply<T>(outcome: Result<T, Self>) -> Result<Result<T, SimulationFailure>, BusError> {
        outcome.map(Ok).or_else(|error| match error {
            Self::Failed(failure) => Ok(Err(failure)),
            Self::Call(error) => CallError::reply(Err(error)).map(|reply| reply.map_err(SimulationFailure::Call)),
            Self::Trie(error) => Err((*error).into()),
            Self::OutOfMemory => Err(BusError::limit_reached(error)),
            Self::StateInUse => Err(BusError::failed(error)),
        })
    }

    const fn invalid(kind: TransactionRule, reason: String, gas_limit: u64) -> Self {
        Self::Failed(SimulationFailure::InvalidTransaction { kind, reason, gas_limit })
    }

    /// A transaction that is refused before the EVM checks it.
    pub(super) fn rejected(rejection: TransactionRejection, gas_limit: u64) -> Self {
        let reason = rejection.to_string();
        let kind = match rejection {
            TransactionRejection::Store(error) => return CallError::from(error).into(),
            TransactionRejection::Trie(error) => return Self::Trie(error),
            TransactionRejection::BlockGas { .. } | TransactionRejection::BlockBlobGas { .. } => {
                TransactionRule::BlockGasLimit
            }
            TransactionRejection::InsufficientFunds(_) => TransactionRule::InsufficientFunds,
            TransactionRejection::Rule(_) | TransactionRejection::Token(_) => TransactionRule::Other,
            TransactionRejection::Unsupported(_) | TransactionRejection::NoResult(_) => TransactionRule::Unsupported,
        };
        Self::invalid(kind, reason, gas_limit)
    }

    /// A run of the EVM without a result.
    pub(super) fn of_run(
        failure: EvmFailure,
        interrupt: &Interrupt,
        message: &TxEnv,
        block: &BlockEnv,
        limits: &CallLimits,
    ) -> Self {
        let gas_limit = message.gas_limit;
        match RunFailure::from_evm(failure, interrupt) {
            RunFailure::Stopped(reason) => stopped(reason, limits).into(),
            RunFailure::Message(invalid) => {
                let reason = invalid_transaction_text(&invalid, message, block);
                Self::invalid(kind_of(&invalid), reason, gas_limit)
            }
            RunFailure::Refused(reason) => Self::invalid(TransactionRule::Other, reason, gas_limit),
            RunFailure::OutOfMemory(refused) => CallError::from(refused).into(),
            RunFailure::Store(error) => CallError::from(error).into(),
            RunFailure::Other(text) => CallError::Evm(text).into(),
        }
    }
}

/// The error of a simulation whose time limit has passed or whose caller has disconnected.
pub(super) fn stopped(reason: Stopped, limits: &CallLimits) -> CallError {
    match reason {
        Stopped::TimedOut => CallFailure::TimeLimitReached { timeout: limits.call_timeout }.into(),
        Stopped::CallerGone => CallError::CallerGone,
    }
}

const fn kind_of(invalid: &InvalidTransaction) -> TransactionRule {
    match invalid {
        InvalidTransaction::NonceTooLow { .. } => TransactionRule::NonceTooLow,
        InvalidTransaction::NonceTooHigh { .. } => TransactionRule::NonceTooHigh,
        InvalidTransaction::GasPriceLessThanBasefee => TransactionRule::BaseFeeTooLow,
        InvalidTransaction::CallGasCostMoreThanGasLimit { .. }
        | InvalidTransaction::GasFloorMoreThanGasLimit { .. } => TransactionRule::IntrinsicGas,
        InvalidTransaction::LackOfFundForMaxFee { .. } | InvalidTransaction::OverflowPaymentInTransaction => {
            TransactionRule::InsufficientFunds
        }
        InvalidTransaction::CreateInitCodeSizeLimit => TransactionRule::InitCodeSize,
        _ => TransactionRule::Other,
    }
}

/// Checks nonce and fee caps in go-ethereum's order, which differs from the EVM's.
///
/// # Errors
/// [`SimulationFailure::InvalidTransaction`] with the first rule that the transaction breaks.
pub(super) fn check_transaction(
    transaction: &Transaction,
    sender: Address,
    account_nonce: Option<u64>,
    fees: Option<&Header>,
) -> Result<(), SimulateError> {
    let gas_limit = transaction.gas_limit;
    let refused = |kind, reason| Err(SimulateError::invalid(kind, reason, gas_limit));
    let nonce = transaction.nonce;
    match account_nonce {
        Some(state) if nonce < state => {
            let text = format!("nonce too low: address {sender}, tx: {nonce} state: {state}");
            return refused(TransactionRule::NonceTooLow, text);
        }
        Some(state) if nonce > state => {
            let text = format!("nonce too high: address {sender}, tx: {nonce} state: {state}");
            return refused(TransactionRule::NonceTooHigh, text);
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
        return refused(TransactionRule::Other, text);
    }
    if cap < U256::from(base_fee) {
        let text = format!(
            "max fee per gas less than block base fee: address {sender}, maxFeePerGas: {cap}, baseFee: {base_fee}"
        );
        return refused(TransactionRule::BaseFeeTooLow, text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloy_primitives::B256;
    use tenon_api::StoreError;

    use super::*;

    #[test]
    fn a_rejected_transaction_shows_the_rule_that_it_breaks() {
        let cases = [
            (
                TransactionRejection::InsufficientFunds("insufficient funds for gas"),
                TransactionRule::InsufficientFunds,
                "insufficient funds for gas",
            ),
            (
                TransactionRejection::BlockGas { gas_limit: 9, available: 8 },
                TransactionRule::BlockGasLimit,
                "gas limit 9 exceeds the 8 that the block has left",
            ),
            (TransactionRejection::Rule("other".to_owned()), TransactionRule::Other, "other"),
            (TransactionRejection::Rule("insufficient funds".to_owned()), TransactionRule::Other, "insufficient funds"),
            (
                TransactionRejection::Unsupported("blobs"),
                TransactionRule::Unsupported,
                "this node does not execute blobs",
            ),
        ];
        for (rejection, kind, reason) in cases {
            let reply = SimulateError::reply::<()>(Err(SimulateError::rejected(rejection, 9)));

            let reason = reason.to_owned();
            let failure = SimulationFailure::InvalidTransaction { kind, reason, gas_limit: 9 };
            assert_eq!(reply, Ok(Err(failure)));
        }
    }

    #[test]
    fn a_state_that_cannot_be_read_is_not_the_transactions_fault() {
        let lost = TrieError::Missing { owner: None, path: Vec::new(), hash: B256::ZERO };

        let stopped = SimulateError::rejected(StoreError::Stopped.into(), 9);
        let unreadable = SimulateError::rejected(lost.clone().into(), 9);

        assert_eq!(SimulateError::reply::<()>(Err(stopped)), Err(BusError::TimedOut));
        assert!(matches!(&unreadable, SimulateError::Trie(error) if **error == lost), "{unreadable:?}");
        assert_eq!(SimulateError::reply::<()>(Err(unreadable)), Err(lost.into()));
    }
}

//! Why a simulation has no result, with go-ethereum's texts and rules.

use alloy_primitives::{Address, U256};
use revm::context::{BlockEnv, TxEnv, result::InvalidTransaction};
use tenon_api::{BusError, Header, RequestError, SimulationRule, Transaction};
use tenon_chain::TrieError;
use tenon_execution_interface::{EvmFailure, Interrupt, Stopped, TransactionRejection};
use tenon_simulation_interface::{CallError, RunFailure, invalid_transaction_text};

use super::plan::{MAX_CALLS, MAX_CALLS_PER_BLOCK, MAX_CHANGES};

use crate::CallLimits;

/// Why a simulation has no result. Texts of errors that go-ethereum has are go-ethereum's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SimulateError {
    /// There are no blocks.
    #[error("empty input")]
    NoBlocks,
    /// The simulation has too many blocks. Empty blocks that fill gaps between heights count.
    #[error("too many blocks")]
    TooManyBlocks,
    /// A block has too many calls.
    #[error("too many calls in block: {calls} > {MAX_CALLS_PER_BLOCK}")]
    TooManyCallsInBlock {
        /// Its calls.
        calls: usize,
    },
    /// The blocks together have too many calls.
    #[error("too many calls: {calls} > {MAX_CALLS}")]
    TooManyCalls {
        /// The calls of all blocks.
        calls: usize,
    },
    /// The blocks together have too many overrides and withdrawals.
    #[error("too many accounts and slots overridden, and withdrawals: {changes} > {MAX_CHANGES}")]
    TooManyChanges {
        /// Overridden accounts and slots, and withdrawals, of all blocks.
        changes: usize,
    },
    /// The answer is too long.
    #[error("the answer is longer than {max} bytes; simulate fewer calls")]
    AnswerTooLong {
        /// Maximum length, bytes.
        max: u64,
    },
    /// The heights of the blocks do not ascend.
    #[error("block numbers must be in order: {given} <= {previous}")]
    NumberNotAscending {
        /// The height.
        given: u64,
        /// The height of the block before it.
        previous: u64,
    },
    /// The times of the blocks do not ascend.
    #[error("block timestamps must be in order: {given} <= {previous}")]
    TimestampNotAscending {
        /// The time.
        given: u64,
        /// The time of the block before it.
        previous: u64,
    },
    /// The timestamp of the previous block plus twelve seconds is above 2^64 - 1.
    #[error("block timestamps must be in order: the time after the last one is above 2^64 - 1")]
    TimestampTooLarge,
    /// The overridden base fee has too many bits.
    #[error("baseFeePerGas {wei} is above 2^64 - 1")]
    BaseFeeTooLarge {
        /// The base fee, wei.
        wei: U256,
    },
    /// A call requests more gas than its block has left.
    #[error("block gas limit reached: remaining: {left}, required: {asked}")]
    BlockGasUsedUp {
        /// The block's remaining gas.
        left: u64,
        /// The requested gas.
        asked: u64,
    },
    /// A transaction is not valid.
    #[error("err: {reason} (supplied gas {gas_limit})")]
    InvalidTransaction {
        /// The kind of error that the client receives.
        kind: RefusalKind,
        /// The broken rule.
        reason: String,
        /// The transaction's gas limit.
        gas_limit: u64,
    },
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

/// The kind of error that a client receives for a transaction that is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalKind {
    /// It breaks this rule.
    Rule(SimulationRule),
    /// It breaks a rule without a code. go-ethereum uses -32603, which means an internal error, but here the arguments
    /// are wrong.
    InvalidArgument,
    /// This node does not execute it.
    Unsupported,
}

impl From<SimulateError> for BusError {
    fn from(error: SimulateError) -> Self {
        let rule = match error {
            SimulateError::Call(error) => return error.into(),
            SimulateError::Trie(error) => return (*error).into(),
            SimulateError::OutOfMemory => return Self::limit_reached(error),
            SimulateError::NoBlocks
            | SimulateError::BaseFeeTooLarge { .. }
            | SimulateError::InvalidTransaction { kind: RefusalKind::InvalidArgument, .. } => {
                return Self::invalid_argument(error);
            }
            SimulateError::StateInUse | SimulateError::InvalidTransaction { kind: RefusalKind::Unsupported, .. } => {
                return Self::failed(error);
            }
            SimulateError::InvalidTransaction { kind: RefusalKind::Rule(rule), .. } => rule,
            SimulateError::TooManyBlocks
            | SimulateError::TooManyCallsInBlock { .. }
            | SimulateError::TooManyCalls { .. }
            | SimulateError::TooManyChanges { .. }
            | SimulateError::AnswerTooLong { .. } => SimulationRule::ClientLimit,
            SimulateError::NumberNotAscending { .. } => SimulationRule::BlockNumber,
            SimulateError::TimestampNotAscending { .. } | SimulateError::TimestampTooLarge => {
                SimulationRule::BlockTimestamp
            }
            SimulateError::BlockGasUsedUp { .. } => SimulationRule::BlockGasLimit,
        };
        RequestError::Simulation { rule, message: error.to_string() }.into()
    }
}

impl SimulateError {
    /// A transaction that is refused before the EVM checks it.
    pub(super) fn rejected(rejection: TransactionRejection, gas_limit: u64) -> Self {
        let reason = rejection.to_string();
        let kind = match rejection {
            TransactionRejection::Store(error) => return CallError::from(error).into(),
            TransactionRejection::Trie(error) => return Self::Trie(error),
            TransactionRejection::BlockGas { .. } | TransactionRejection::BlockBlobGas { .. } => {
                RefusalKind::Rule(SimulationRule::BlockGasLimit)
            }
            TransactionRejection::InsufficientFunds(_) => RefusalKind::Rule(SimulationRule::InsufficientFunds),
            TransactionRejection::Rule(_) | TransactionRejection::Token(_) => RefusalKind::InvalidArgument,
            TransactionRejection::Unsupported(_) | TransactionRejection::NoResult(_) => RefusalKind::Unsupported,
        };
        Self::InvalidTransaction { kind, reason, gas_limit }
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
                Self::InvalidTransaction { kind: kind_of(&invalid), reason, gas_limit }
            }
            RunFailure::Refused(reason) => {
                Self::InvalidTransaction { kind: RefusalKind::InvalidArgument, reason, gas_limit }
            }
            RunFailure::OutOfMemory(refused) => CallError::from(refused).into(),
            RunFailure::Store(error) => CallError::from(error).into(),
            RunFailure::Other(text) => CallError::Evm(text).into(),
        }
    }
}

/// The error of a simulation whose time limit has passed or whose caller has disconnected.
pub(super) const fn stopped(reason: Stopped, limits: &CallLimits) -> CallError {
    match reason {
        Stopped::TimedOut => CallError::TimeLimitReached { timeout: limits.call_timeout },
        Stopped::CallerGone => CallError::CallerGone,
    }
}

const fn kind_of(invalid: &InvalidTransaction) -> RefusalKind {
    RefusalKind::Rule(match invalid {
        InvalidTransaction::NonceTooLow { .. } => SimulationRule::NonceTooLow,
        InvalidTransaction::NonceTooHigh { .. } => SimulationRule::NonceTooHigh,
        InvalidTransaction::GasPriceLessThanBasefee => SimulationRule::BaseFeeTooLow,
        InvalidTransaction::CallGasCostMoreThanGasLimit { .. }
        | InvalidTransaction::GasFloorMoreThanGasLimit { .. } => SimulationRule::IntrinsicGas,
        InvalidTransaction::LackOfFundForMaxFee { .. } | InvalidTransaction::OverflowPaymentInTransaction => {
            SimulationRule::InsufficientFunds
        }
        InvalidTransaction::CreateInitCodeSizeLimit => SimulationRule::InitCodeSize,
        _ => return RefusalKind::InvalidArgument,
    })
}

/// Checks nonce and fee caps in go-ethereum's order, which differs from the EVM's.
///
/// # Errors
/// [`SimulateError::InvalidTransaction`] with the first rule that the transaction breaks.
pub(super) fn check_transaction(
    transaction: &Transaction,
    sender: Address,
    account_nonce: Option<u64>,
    fees: Option<&Header>,
) -> Result<(), SimulateError> {
    let gas_limit = transaction.gas_limit;
    let refused = |kind, reason| Err(SimulateError::InvalidTransaction { kind, reason, gas_limit });
    let nonce = transaction.nonce;
    match account_nonce {
        Some(state) if nonce < state => {
            let text = format!("nonce too low: address {sender}, tx: {nonce} state: {state}");
            return refused(RefusalKind::Rule(SimulationRule::NonceTooLow), text);
        }
        Some(state) if nonce > state => {
            let text = format!("nonce too high: address {sender}, tx: {nonce} state: {state}");
            return refused(RefusalKind::Rule(SimulationRule::NonceTooHigh), text);
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
        return refused(RefusalKind::InvalidArgument, text);
    }
    if cap < U256::from(base_fee) {
        let text = format!(
            "max fee per gas less than block base fee: address {sender}, maxFeePerGas: {cap}, baseFee: {base_fee}"
        );
        return refused(RefusalKind::Rule(SimulationRule::BaseFeeTooLow), text);
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
        let rejected = |rejection| BusError::from(SimulateError::rejected(rejection, 9));
        let broken = |rule, message: &str| RequestError::Simulation { rule, message: message.to_owned() }.into();

        assert_eq!(
            rejected(TransactionRejection::InsufficientFunds("insufficient funds for gas")),
            broken(SimulationRule::InsufficientFunds, "err: insufficient funds for gas (supplied gas 9)")
        );
        assert_eq!(
            rejected(TransactionRejection::BlockGas { gas_limit: 9, available: 8 }),
            broken(
                SimulationRule::BlockGasLimit,
                "err: gas limit 9 exceeds the 8 that the block has left (supplied gas 9)"
            )
        );
        for text in ["other", "insufficient funds"] {
            let expected = BusError::invalid_argument(format!("err: {text} (supplied gas 9)"));
            assert_eq!(rejected(TransactionRejection::Rule(text.to_owned())), expected);
        }
        assert_eq!(
            rejected(TransactionRejection::Unsupported("blobs")),
            BusError::failed("err: this node does not execute blobs (supplied gas 9)")
        );
    }

    #[test]
    fn a_state_that_cannot_be_read_is_not_the_transactions_fault() {
        let lost = TrieError::Missing { owner: None, path: Vec::new(), hash: B256::ZERO };

        let stopped = SimulateError::rejected(StoreError::Stopped.into(), 9);
        let unreadable = SimulateError::rejected(lost.clone().into(), 9);

        assert_eq!(BusError::from(stopped), BusError::TimedOut);
        assert!(matches!(&unreadable, SimulateError::Trie(error) if **error == lost), "{unreadable:?}");
        assert_eq!(BusError::from(unreadable), BusError::failed(lost));
    }
}

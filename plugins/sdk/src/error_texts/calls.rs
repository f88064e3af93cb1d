//! Failures of calls, estimates, access lists and simulations, in the words of go-ethereum and the reference
//! (`docs/spec/rpc-eth.md` 10.1, 10.2).

use std::borrow::Cow;

use crate::{Failure, FailureCode};
use alloy_primitives::{U256, hex};
use tenon_api::{
    duration_text,
    messages::{CallContradiction, CallFailure, SimulationFailure, TransactionRule},
};

use super::{Refusal, pool::native_address};

/// Selector of `Error(string)`.
const ERROR_SELECTOR: [u8; 4] = hex!("08c379a0");
/// Selector of `Panic(uint256)`.
const PANIC_SELECTOR: [u8; 4] = hex!("4e487b71");

impl Refusal for CallFailure {
    /// A revert has its output as data, any other failure only a text.
    fn into_failure(self) -> Failure {
        let message = call_failure_text(&self);
        match self {
            Self::Reverted { output } => {
                Failure { code: FailureCode::REVERTED, message, data: Some(format!("\"{output}\"")) }
            }
            _ => Failure::server(message),
        }
    }
}

/// The text for a call that failed.
pub fn call_failure_text(failure: &CallFailure) -> String {
    match failure {
        CallFailure::TimeLimitReached { timeout } => {
            format!("execution aborted (timeout = {})", duration_text(*timeout))
        }
        CallFailure::Contradiction(contradiction) => contradiction_text(contradiction),
        CallFailure::InvalidMessage { reason, gas_limit } => invalid_message_text(reason, *gas_limit),
        CallFailure::InvalidListMessage { hash, reason } => {
            format!("failed to apply transaction: {hash} err: {reason}")
        }
        CallFailure::Reverted { output } => revert_text(output),
        CallFailure::RevertedWithoutData => revert_text(&[]),
        CallFailure::OutOfGas => "out of gas".to_owned(),
        CallFailure::Halted(cause) => cause.to_string(),
        CallFailure::AllowanceExceeded { allowance } => format!("gas required exceeds allowance ({allowance})"),
        CallFailure::ValueNotCovered { sender } => format!("insufficient funds for transfer: address {sender}"),
        CallFailure::BlobsNotCovered { sender } => {
            format!("insufficient funds for gas * price + value: address {sender}")
        }
    }
}

/// The text for a call object or overrides that contradict themselves, or the chain (`docs/spec/rpc-eth.md` 4.8 on
/// native chains).
fn contradiction_text(contradiction: &CallContradiction) -> String {
    match contradiction {
        CallContradiction::BothPrices => {
            "both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified".to_owned()
        }
        CallContradiction::PriceTooHigh => "insufficient funds: the price of gas is above 2^128 - 1 wei".to_owned(),
        CallContradiction::WrongChain { given, chain_id } => {
            format!("chainId does not match node's (have={given}, want={chain_id})")
        }
        CallContradiction::NoBlobs => "need at least 1 blob for a blob transaction".to_owned(),
        CallContradiction::NoReceiver => "missing \"to\" in blob or set-code transaction".to_owned(),
        CallContradiction::NotPrecompile { address } => format!("account {address} is not a precompile"),
        CallContradiction::AlreadyOverridden { target } => format!("account {target} is already overridden"),
        CallContradiction::BothStates { address } => format!("account {address} has both 'state' and 'stateDiff'"),
        CallContradiction::BothStatesOnNative { address } => {
            format!("account {} has both 'state' and 'stateDiff'", native_address(*address))
        }
    }
}

/// Says that a call reverted, and the reason if the output follows Solidity's convention.
pub fn revert_text(output: &[u8]) -> String {
    match revert_reason(output) {
        Some(reason) => format!("execution reverted: {reason}"),
        None => "execution reverted".to_owned(),
    }
}

/// The text for a message that is not valid.
fn invalid_message_text(reason: &str, gas_limit: u64) -> String {
    format!("err: {reason} (supplied gas {gas_limit})")
}

/// The reason in Solidity's `Error(string)` or `Panic(uint256)`.
fn revert_reason(output: &[u8]) -> Option<Cow<'static, str>> {
    let (selector, arguments) = output.split_at_checked(4)?;
    if selector == PANIC_SELECTOR {
        return Some(panic_reason(U256::from_be_slice(arguments.get(..32)?)));
    }
    if selector != ERROR_SELECTOR {
        return None;
    }
    let offset = small_word(arguments, 0)?;
    let length = small_word(arguments, offset)?;
    let start = offset.checked_add(32)?;
    let text = arguments.get(start..start.checked_add(length)?)?;
    Some(Cow::Owned(String::from_utf8_lossy(text).into_owned()))
}

fn small_word(bytes: &[u8], offset: usize) -> Option<usize> {
    usize::try_from(U256::from_be_slice(bytes.get(offset..offset.checked_add(32)?)?)).ok()
}

fn panic_reason(code: U256) -> Cow<'static, str> {
    let known = match code.saturating_to::<u64>() {
        0x00 => "generic panic",
        0x01 => "assert(false)",
        0x11 => "arithmetic underflow or overflow",
        0x12 => "division or modulo by zero",
        0x21 => "enum overflow",
        0x22 => "invalid encoded storage byte array accessed",
        0x31 => "out-of-bounds array access; popping on an empty array",
        0x32 => "out-of-bounds access of an array or bytesN",
        0x41 => "out of memory",
        0x51 => "uninitialized function",
        _ => return Cow::Owned(format!("unknown panic code: {code:#x}")),
    };
    Cow::Borrowed(known)
}

impl Refusal for SimulationFailure {
    /// The codes are go-ethereum's, except that a broken rule without a code has -32602: go-ethereum's -32603 means an
    /// internal error, but the arguments are wrong.
    fn into_failure(self) -> Failure {
        match self {
            Self::NoBlocks => Failure::invalid_params("empty input"),
            Self::TooManyBlocks => beyond_limit("too many blocks".to_owned()),
            Self::TooManyCallsInBlock { calls, max } => {
                beyond_limit(format!("too many calls in block: {calls} > {max}"))
            }
            Self::TooManyCalls { calls, max } => beyond_limit(format!("too many calls: {calls} > {max}")),
            Self::TooManyChanges { changes, max } => {
                beyond_limit(format!("too many accounts and slots overridden, and withdrawals: {changes} > {max}"))
            }
            Self::AnswerTooLong { max } => {
                beyond_limit(format!("the answer is longer than {max} bytes; simulate fewer calls"))
            }
            Self::NumberNotAscending { given, previous } => {
                with_code(-38020, format!("block numbers must be in order: {given} <= {previous}"))
            }
            Self::TimestampNotAscending { given, previous } => {
                with_code(-38021, format!("block timestamps must be in order: {given} <= {previous}"))
            }
            Self::TimestampTooLarge => {
                let text = "block timestamps must be in order: the time after the last one is above 2^64 - 1";
                with_code(-38021, text.to_owned())
            }
            Self::BaseFeeTooLarge { wei } => Failure::invalid_params(format!("baseFeePerGas {wei} is above 2^64 - 1")),
            Self::BlockGasUsedUp { left, asked } => {
                with_code(-38015, format!("block gas limit reached: remaining: {left}, required: {asked}"))
            }
            Self::InvalidTransaction { kind, reason, gas_limit } => {
                Failure { code: code_of_rule(kind), message: invalid_message_text(&reason, gas_limit), data: None }
            }
            Self::Call(failure) => failure.into_failure(),
        }
    }
}

/// The failure of a simulation that exceeds a limit for one client.
fn beyond_limit(message: String) -> Failure {
    Failure { code: FailureCode::CLIENT_LIMIT, message, data: None }
}

const fn with_code(code: i32, message: String) -> Failure {
    Failure { code: FailureCode(code), message, data: None }
}

const fn code_of_rule(rule: TransactionRule) -> FailureCode {
    FailureCode(match rule {
        TransactionRule::NonceTooLow => -38010,
        TransactionRule::NonceTooHigh => -38011,
        TransactionRule::BaseFeeTooLow => -38012,
        TransactionRule::IntrinsicGas => -38013,
        TransactionRule::InsufficientFunds => -38014,
        TransactionRule::BlockGasLimit => -38015,
        TransactionRule::InitCodeSize => -38025,
        TransactionRule::Other => return FailureCode::INVALID_PARAMS,
        TransactionRule::Unsupported => return FailureCode::SERVER,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use alloy_primitives::{Address, Bytes};

    use super::*;

    fn solidity_error(text: &str) -> Vec<u8> {
        let mut data = ERROR_SELECTOR.to_vec();
        data.extend(U256::from(32).to_be_bytes::<32>());
        data.extend(U256::from(text.len()).to_be_bytes::<32>());
        data.extend(text.as_bytes());
        data
    }

    #[test]
    fn a_revert_with_a_reason_shows_it() {
        assert_eq!(revert_text(&solidity_error("not the owner")), "execution reverted: not the owner");
    }

    #[test]
    fn a_revert_without_output_has_no_reason() {
        assert_eq!(revert_text(&[]), "execution reverted");
    }

    #[test]
    fn a_reason_with_a_false_length_is_ignored() {
        let mut data = solidity_error("short");
        data[4 + 32..4 + 64].fill(0xff);

        assert_eq!(revert_reason(&data), None);
    }

    #[test]
    fn a_reverted_call_has_its_output_as_data() {
        let reverted = CallFailure::Reverted { output: Bytes::from_static(&[1, 2]) }.into_failure();
        let silent = CallFailure::RevertedWithoutData.into_failure();

        assert_eq!((reverted.code.0, reverted.message.as_str()), (3, "execution reverted"));
        assert_eq!(reverted.data.as_deref(), Some("\"0x0102\""));
        assert_eq!(silent, Failure::server("execution reverted"));
    }

    #[test]
    fn other_failures_of_calls_have_the_general_code_and_a_text() {
        let cases = [
            (CallFailure::OutOfGas, "out of gas"),
            (CallFailure::Halted("invalid opcode".into()), "invalid opcode"),
            (CallFailure::TimeLimitReached { timeout: Duration::from_secs(5) }, "execution aborted (timeout = 5s)"),
            (CallFailure::AllowanceExceeded { allowance: 7 }, "gas required exceeds allowance (7)"),
            (
                CallFailure::InvalidMessage { reason: "nonce too low".to_owned(), gas_limit: 9 },
                "err: nonce too low (supplied gas 9)",
            ),
        ];
        for (failure, text) in cases {
            assert_eq!(failure.into_failure(), Failure::server(text));
        }
    }

    #[test]
    fn contradictory_calls_have_the_texts_of_go_ethereum_and_the_reference() {
        let (address, target) = (Address::ZERO, Address::ZERO);
        let zeros = "0".repeat(40);
        let cases = [
            (
                CallContradiction::BothPrices,
                "both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified".to_owned(),
            ),
            (CallContradiction::PriceTooHigh, "insufficient funds: the price of gas is above 2^128 - 1 wei".to_owned()),
            (
                CallContradiction::WrongChain { given: 1, chain_id: 50 },
                "chainId does not match node's (have=1, want=50)".to_owned(),
            ),
            (CallContradiction::NoBlobs, "need at least 1 blob for a blob transaction".to_owned()),
            (CallContradiction::NoReceiver, "missing \"to\" in blob or set-code transaction".to_owned()),
            (CallContradiction::NotPrecompile { address }, format!("account 0x{zeros} is not a precompile")),
            (CallContradiction::AlreadyOverridden { target }, format!("account 0x{zeros} is already overridden")),
            (CallContradiction::BothStates { address }, format!("account 0x{zeros} has both 'state' and 'stateDiff'")),
            (
                CallContradiction::BothStatesOnNative { address },
                format!("account xdc{zeros} has both 'state' and 'stateDiff'"),
            ),
        ];
        for (contradiction, text) in cases {
            assert_eq!(CallFailure::from(contradiction).into_failure(), Failure::server(text));
        }
    }

    #[test]
    fn a_broken_rule_of_a_simulation_has_the_code_of_go_ethereum() {
        let cases = [
            (TransactionRule::NonceTooLow, -38010),
            (TransactionRule::NonceTooHigh, -38011),
            (TransactionRule::BaseFeeTooLow, -38012),
            (TransactionRule::IntrinsicGas, -38013),
            (TransactionRule::InsufficientFunds, -38014),
            (TransactionRule::BlockGasLimit, -38015),
            (TransactionRule::InitCodeSize, -38025),
            (TransactionRule::Other, -32602),
            (TransactionRule::Unsupported, -32000),
        ];
        for (kind, code) in cases {
            let failure = SimulationFailure::InvalidTransaction { kind, reason: "why".to_owned(), gas_limit: 9 };
            let expected =
                Failure { code: FailureCode(code), message: "err: why (supplied gas 9)".to_owned(), data: None };
            assert_eq!(failure.into_failure(), expected);
        }
    }

    #[test]
    fn the_form_of_a_simulation_has_the_texts_of_go_ethereum() {
        let order = SimulationFailure::NumberNotAscending { given: 54, previous: 54 };
        let times = SimulationFailure::TimestampNotAscending { given: 540, previous: 540 };
        let cases = [
            (SimulationFailure::NoBlocks, -32602, "empty input"),
            (SimulationFailure::TooManyBlocks, -38026, "too many blocks"),
            (
                SimulationFailure::TooManyCallsInBlock { calls: 5001, max: 5000 },
                -38026,
                "too many calls in block: 5001 > 5000",
            ),
            (SimulationFailure::TooManyCalls { calls: 12_000, max: 10_000 }, -38026, "too many calls: 12000 > 10000"),
            (
                SimulationFailure::TooManyChanges { changes: 50_001, max: 50_000 },
                -38026,
                "too many accounts and slots overridden, and withdrawals: 50001 > 50000",
            ),
            (order, -38020, "block numbers must be in order: 54 <= 54"),
            (times, -38021, "block timestamps must be in order: 540 <= 540"),
            (
                SimulationFailure::BlockGasUsedUp { left: 1, asked: 2 },
                -38015,
                "block gas limit reached: remaining: 1, required: 2",
            ),
        ];
        for (failure, code, text) in cases {
            let failure = failure.into_failure();
            assert_eq!((failure.code.0, failure.message.as_str(), failure.data), (code, text, None));
        }
    }
}

//! Error texts of go-ethereum and the reference (`docs/spec/rpc-eth.md` 10.1, 10.2).

use std::borrow::Cow;

use alloy_primitives::{U256, hex};
use revm::{
    context::{
        BlockEnv, TxEnv,
        result::{HaltReason, InvalidTransaction, OutOfGasError},
    },
    primitives::eip3860::MAX_INITCODE_SIZE,
};

/// Selector of `Error(string)`.
const ERROR_SELECTOR: [u8; 4] = hex!("08c379a0");
/// Selector of `Panic(uint256)`.
const PANIC_SELECTOR: [u8; 4] = hex!("4e487b71");

/// Says that a call reverted, and the reason if the output follows Solidity's convention.
pub fn revert_text(output: &[u8]) -> String {
    match revert_reason(output) {
        Some(reason) => format!("execution reverted: {reason}"),
        None => "execution reverted".to_owned(),
    }
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

/// Why a frame halted, as far as callers tell it apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HaltCause {
    /// It ran out of gas.
    OutOfGas,
    /// Another cause, with its error text.
    Other(Cow<'static, str>),
}

impl HaltCause {
    /// The error text.
    pub fn into_text(self) -> Cow<'static, str> {
        match self {
            Self::OutOfGas => Cow::Borrowed("out of gas"),
            Self::Other(text) => text,
        }
    }
}

/// Why a frame halted.
pub fn halt_cause(reason: &HaltReason) -> HaltCause {
    HaltCause::Other(Cow::Borrowed(match reason {
        HaltReason::OutOfGas(OutOfGasError::InvalidOperand) => "gas uint64 overflow",
        HaltReason::OutOfGas(_) => return HaltCause::OutOfGas,
        HaltReason::OpcodeNotFound | HaltReason::NotActivated => "invalid opcode",
        HaltReason::InvalidFEOpcode => "invalid opcode: INVALID",
        HaltReason::InvalidJump => "invalid jump destination",
        HaltReason::StackUnderflow => "stack underflow",
        HaltReason::StackOverflow => "stack limit reached 1024 (1023)",
        HaltReason::OutOfOffset => "return data out of bounds",
        HaltReason::CreateCollision => "contract address collision",
        HaltReason::NonceOverflow => "nonce uint64 overflow",
        HaltReason::CreateContractSizeLimit => "max code size exceeded",
        HaltReason::CreateContractStartingWithEF => "invalid code: must not begin with 0xef",
        HaltReason::CreateInitCodeSizeLimit => "max initcode size exceeded",
        HaltReason::StateChangeDuringStaticCall | HaltReason::CallNotAllowedInsideStatic => "write protection",
        HaltReason::OutOfFunds | HaltReason::OverflowPayment => "insufficient balance for transfer",
        HaltReason::CallTooDeep => "max call depth exceeded",
        HaltReason::PrecompileError => "precompile failed",
        HaltReason::PrecompileErrorWithContext(text) => {
            return HaltCause::Other(Cow::Owned(precompile_text(text).to_owned()));
        }
    }))
}

/// go-ethereum's texts for failures of precompiled contracts, where the texts of the library differ. The library does
/// not distinguish a coordinate above the modulus from one equal to it.
fn precompile_text(text: &str) -> &str {
    match text {
        "wrong input length for blake2" => "invalid input length",
        "wrong final indicator flag for blake2" => "invalid final flag",
        "bn254 invalid pair length" => "bad elliptic curve pairing size",
        "field point not a member of bn254 curve" => "bn256: coordinate exceeds modulus",
        "failed to create affine g point for bn254 curve" => "bn256: malformed point",
        text => text,
    }
}

/// Why a message is not valid.
pub fn invalid_transaction_text(invalid: &InvalidTransaction, message: &TxEnv, block: &BlockEnv) -> String {
    let address = message.caller;
    let (fee_cap, base_fee) = (message.gas_price, block.basefee);
    match invalid {
        InvalidTransaction::CallGasCostMoreThanGasLimit { initial_gas, gas_limit } => {
            format!("intrinsic gas too low: have {gas_limit}, want {initial_gas}")
        }
        InvalidTransaction::GasFloorMoreThanGasLimit { gas_floor, gas_limit } => {
            format!("insufficient gas for floor data gas cost: have {gas_limit}, want {gas_floor}")
        }
        InvalidTransaction::GasPriceLessThanBasefee => format!(
            "max fee per gas less than block base fee: address {address}, maxFeePerGas: {fee_cap}, baseFee: {base_fee}"
        ),
        InvalidTransaction::PriorityFeeGreaterThanMaxFee => {
            let tip = message.gas_priority_fee.unwrap_or_default();
            format!(
                "max priority fee per gas higher than max fee per gas: address {address}, \
                 maxPriorityFeePerGas: {tip}, maxFeePerGas: {fee_cap}"
            )
        }
        InvalidTransaction::LackOfFundForMaxFee { fee, balance } => {
            format!("insufficient funds for gas * price + value: address {address} have {balance} want {fee}")
        }
        InvalidTransaction::OverflowPaymentInTransaction => {
            format!("insufficient funds for gas * price + value: address {address}")
        }
        InvalidTransaction::CreateInitCodeSizeLimit => {
            format!("max initcode size exceeded: code size {} limit {MAX_INITCODE_SIZE}", message.data.len())
        }
        InvalidTransaction::BlobGasPriceGreaterThanMax { block_blob_gas_price, tx_max_fee_per_blob_gas } => format!(
            "max fee per blob gas less than block blob gas fee: address {address} \
             blobGasFeeCap: {tx_max_fee_per_blob_gas}, blobBaseFee: {block_blob_gas_price}"
        ),
        InvalidTransaction::NonceTooLow { tx, state } => {
            format!("nonce too low: address {address}, tx: {tx} state: {state}")
        }
        InvalidTransaction::NonceTooHigh { tx, state } => {
            format!("nonce too high: address {address}, tx: {tx} state: {state}")
        }
        InvalidTransaction::NonceOverflowInTransaction => "nonce has max value".to_owned(),
        InvalidTransaction::RejectCallerWithCode => format!("sender not an eoa: address {address}"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn solidity_error(text: &str) -> Vec<u8> {
        let mut data = ERROR_SELECTOR.to_vec();
        data.extend(U256::from(32).to_be_bytes::<32>());
        data.extend(U256::from(text.len()).to_be_bytes::<32>());
        data.extend(text.as_bytes());
        data
    }

    #[test]
    fn a_lack_of_gas_is_told_apart_from_operands_that_are_too_large() {
        let cases = [
            (OutOfGasError::Basic, HaltCause::OutOfGas),
            (OutOfGasError::Memory, HaltCause::OutOfGas),
            (OutOfGasError::Precompile, HaltCause::OutOfGas),
            (OutOfGasError::InvalidOperand, HaltCause::Other(Cow::Borrowed("gas uint64 overflow"))),
        ];
        for (reason, expected) in cases {
            assert_eq!(halt_cause(&HaltReason::OutOfGas(reason)), expected);
        }
        assert_eq!(HaltCause::OutOfGas.into_text(), "out of gas");
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
}

//! Why frames halt and messages are not valid, in the words of go-ethereum and the reference (`docs/spec/rpc-eth.md`
//! 10.1, 10.2). Traces record these texts, and calls fail with the same ones.

use std::borrow::Cow;

use revm::{
    context::{
        BlockEnv, TxEnv,
        result::{HaltReason, InvalidTransaction, OutOfGasError},
    },
    primitives::eip3860::MAX_INITCODE_SIZE,
};

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
}

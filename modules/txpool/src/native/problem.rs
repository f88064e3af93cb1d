use tenon_api::Address;

use crate::PoolError;

/// Why a native chain's pool refuses a transaction, in the reference's words (`docs/spec/chain.md` 9.2, 9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NativeProblem {
    /// A type that the chain does not have, or not yet.
    #[error("transaction type not supported")]
    Type,
    /// Longer than 64 KiB.
    #[error("oversized data")]
    Oversized,
    /// The sender may not send.
    #[error("reject transaction with sender in black-list: {}", native_text(*.0))]
    DeniedSender(Address),
    /// The receiver may not receive.
    #[error("reject transaction with receiver in black-list: {}", native_text(*.0))]
    DeniedReceiver(Address),
    /// More gas than the head's limit.
    #[error("exceeds block gas limit")]
    BlockGasLimit,
    /// The tip is above the fee cap.
    #[error("max priority fee per gas higher than max fee per gas")]
    TipAboveFeeCap,
    /// The signature gives no sender on this chain.
    #[error("invalid sender")]
    Sender,
    /// Below the base fee, or below what this pool asks, or cheaper than all that fill it.
    #[error("transaction underpriced")]
    Underpriced,
    /// The account is past this nonce.
    #[error("nonce too low")]
    NonceTooLow,
    /// Too far above the next pending nonce.
    #[error("nonce too high")]
    NonceTooHigh,
    /// Neither the sender nor its token can pay.
    #[error("insufficient funds for gas * price + value")]
    Funds,
    /// Not enough gas to begin with.
    #[error("intrinsic gas too low")]
    IntrinsicGas,
    /// No price at all.
    #[error("zero gas price")]
    ZeroGasPrice,
    /// Below the chain's least price.
    #[error("under min gas price")]
    MinGasPrice,
    /// A masternode's transaction with this nonce waits already.
    #[error("duplicate a special transaction")]
    DuplicateSpecial,
    /// Transactions of masternodes come from masternodes, not from users.
    #[error("don't allow transaction sent to BlockSigners & RandomizeSMC smart contract via API")]
    SpecialByInterface,
}

/// The same refusal in the words of a native chain, where it has words of its own.
pub(crate) fn in_native_words(error: PoolError) -> PoolError {
    match error {
        PoolError::TypeNotActive(_) => NativeProblem::Type.into(),
        PoolError::NonceTooLow { .. } => NativeProblem::NonceTooLow.into(),
        PoolError::InsufficientFunds { .. } => NativeProblem::Funds.into(),
        PoolError::Underpriced { .. } => NativeProblem::Underpriced.into(),
        other => other,
    }
}

/// An address as the reference prints it in texts: `xdc` and the digits in EIP-55 case.
fn native_text(address: Address) -> String {
    address.to_checksum(None).replacen("0x", "xdc", 1)
}

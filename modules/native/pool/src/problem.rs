//! Refusals of native chains, in the reference's words.

use tenon_api::Address;
use tenon_txpool_interface::PoolError;

/// Why a native chain's pool refuses a transaction, with the reference's texts (`docs/spec/chain.md` 9.2, 9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NativeProblem {
    /// The chain does not have this type, or not yet.
    #[error("transaction type not supported")]
    Type,
    /// A set-code transaction before Prague, on a chain that will have it (`docs/spec/upgrades.md` 7.2).
    #[error("transaction type not supported: type 4 rejected, pool not yet in Prague")]
    TypeBeforePrague,
    /// A set-code transaction without authorizations.
    #[error("EIP-7702 transaction with empty auth list")]
    NoAuthorizations,
    /// The gas limit is below the floor for the data (EIP-7623).
    #[error("insufficient gas for floor data gas cost: have {have}, want {want}")]
    FloorGas {
        /// The gas limit.
        have: u64,
        /// The floor.
        want: u64,
    },
    /// Longer than 64 KiB.
    #[error("oversized data")]
    Oversized,
    /// The sender is on the denylist.
    #[error("reject transaction with sender in black-list: {}", native_text(*.0))]
    DeniedSender(Address),
    /// The receiver is on the denylist.
    #[error("reject transaction with receiver in black-list: {}", native_text(*.0))]
    DeniedReceiver(Address),
    /// More gas than the head's limit.
    #[error("exceeds block gas limit")]
    BlockGasLimit,
    /// The tip is above the fee cap.
    #[error("max priority fee per gas higher than max fee per gas")]
    TipAboveFeeCap,
    /// No sender on this chain can be recovered from the signature.
    #[error("invalid sender")]
    Sender,
    /// Below the base fee, below the pool's minimum, or below every transaction of a full pool.
    #[error("transaction underpriced")]
    Underpriced,
    /// The account's nonce is already higher.
    #[error("nonce too low")]
    NonceTooLow,
    /// Too far above the next pending nonce.
    #[error("nonce too high")]
    NonceTooHigh,
    /// Neither the sender nor its token can pay.
    #[error("insufficient funds for gas * price + value")]
    Funds,
    /// The gas limit is below the intrinsic gas.
    #[error("intrinsic gas too low")]
    IntrinsicGas,
    /// The gas price is zero.
    #[error("zero gas price")]
    ZeroGasPrice,
    /// Below the chain's minimum gas price.
    #[error("under min gas price")]
    MinGasPrice,
    /// Special transactions must come from masternodes, not through an interface.
    #[error("don't allow transaction sent to BlockSigners & RandomizeSMC smart contract via API")]
    SpecialByInterface,
}

impl From<NativeProblem> for PoolError {
    fn from(problem: NativeProblem) -> Self {
        Self::Policy(problem.to_string())
    }
}

/// Translates an error into the native chain's text, if there is one.
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

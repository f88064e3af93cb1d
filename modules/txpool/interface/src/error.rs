//! Errors of the pool.

use alloy_primitives::utils::format_ether;
use tenon_api::{Address, BusError, StoreError, TransactionType, U256};
use tenon_chain::{DecodeError, DecodeProblem, RecoverError};

/// Why a transaction is refused. The texts start with the words that clients match (`docs/spec/rpc-eth.md` 12.3;
/// current go-ethereum on the Ethereum profile).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The bytes are not a transaction.
    #[error("{}", decode_error_text(.0))]
    Decode(DecodeError),
    /// It is already in the pool.
    #[error("already known")]
    AlreadyKnown,
    /// Its fork is not active yet.
    #[error("transaction type not supported: type {} rejected at the present fork", *.0 as u8)]
    TypeNotActive(TransactionType),
    /// It has no chain id, so it could be replayed on any chain.
    #[error("only replay-protected (EIP-155) transactions allowed over RPC")]
    Unprotected,
    /// Its gas could cost more than the operator's limit.
    #[error("tx fee ({} ether) exceeds the configured cap ({} ether)", short_ether(*fee), short_ether(*cap))]
    FeeCap {
        /// Wei that its gas may cost.
        fee: U256,
        /// Wei allowed.
        cap: U256,
    },
    /// Too many bytes.
    #[error("oversized data: transaction size {size}, limit {limit}")]
    Oversized {
        /// Bytes of its canonical encoding.
        size: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The init code is too long (EIP-3860).
    #[error("max initcode size exceeded: code size {size}, limit {limit}")]
    InitCodeTooLong {
        /// Bytes.
        size: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// Its gas limit exceeds the maximum per transaction from Osaka on (EIP-7825).
    #[error("transaction gas limit too high (cap: {cap}, tx: {gas_limit})")]
    GasLimitTooHigh {
        /// Its gas limit.
        gas_limit: u64,
        /// The cap.
        cap: u64,
    },
    /// Its gas limit exceeds the block's.
    #[error("exceeds block gas limit")]
    ExceedsBlockGasLimit,
    /// The tip is above the fee cap.
    #[error("max priority fee per gas higher than max fee per gas (maxPriorityFeePerGas: {tip}, maxFeePerGas: {fee})")]
    TipAboveFeeCap {
        /// Wei per gas.
        tip: U256,
        /// Wei per gas.
        fee: U256,
    },
    /// No sender can be recovered from the signature.
    #[error("invalid sender: {0}")]
    InvalidSender(RecoverError),
    /// Its nonce is the last possible one.
    #[error("nonce has max value")]
    NonceAtEnd,
    /// Its gas limit is below the intrinsic gas.
    #[error("intrinsic gas too low: gas {gas_limit}, minimum needed {needed}")]
    IntrinsicGas {
        /// Its gas limit.
        gas_limit: u64,
        /// Gas needed.
        needed: u64,
    },
    /// Its gas limit is below the floor for its data (EIP-7623).
    #[error("insufficient gas for floor data gas cost: gas {gas_limit}, minimum needed {needed}")]
    FloorDataGas {
        /// Its gas limit.
        gas_limit: u64,
        /// Gas needed.
        needed: u64,
    },
    /// The tip is below the pool's minimum, or below those of all transactions in a full pool.
    #[error("transaction underpriced: gas tip cap {tip}, minimum needed {needed}")]
    Underpriced {
        /// Wei per gas.
        tip: U256,
        /// Wei per gas.
        needed: U256,
    },
    /// A set-code transaction without authorizations.
    #[error("set code tx must have at least one authorization tuple")]
    NoAuthorizations,
    /// Its blobs are invalid.
    #[error("{0}")]
    Blobs(BlobProblem),
    /// The account's nonce is already higher.
    #[error("nonce too low: next nonce {next}, tx nonce {found}")]
    NonceTooLow {
        /// The account's nonce.
        next: u64,
        /// The transaction's.
        found: u64,
    },
    /// The account cannot pay for it, alone or together with its pending transactions.
    #[error(
        "insufficient funds for gas * price + value: balance {balance}, queued cost {queued}, tx cost {cost}, overshot {}",
        queued.saturating_add(*cost).saturating_sub(*balance)
    )]
    InsufficientFunds {
        /// Wei.
        balance: U256,
        /// Maximum cost of the sender's pending transactions, wei.
        queued: U256,
        /// Maximum cost of this transaction, wei.
        cost: U256,
    },
    /// Its nonce is that of a pooled transaction, and its price increase is too small.
    #[error("replacement transaction underpriced")]
    ReplacementUnderpriced,
    /// An account with delegated code may have one transaction in the pool at a time.
    #[error("in-flight transaction limit reached for delegated accounts")]
    DelegatedInFlight,
    /// An account with delegated code may not leave a nonce gap.
    #[error("gapped-nonce tx from delegated accounts")]
    DelegatedGap,
    /// The sender has used all its slots.
    #[error("account limit exceeded: sender {sender} has {limit} slots already")]
    AccountLimit {
        /// The sender.
        sender: Address,
        /// The limit.
        limit: u64,
    },
    /// The pool is full of transactions that may not be evicted.
    #[error("txpool is full")]
    Full,
    /// A privileged transaction with this nonce is already in the pool.
    #[error("duplicate a special transaction")]
    DuplicatePrivileged,
    /// A rule of the chain's family, with its error text.
    #[error("{0}")]
    Policy(String),
    /// The chain could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why the blobs of a type 3 transaction are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlobProblem {
    /// It has no blob hashes.
    #[error("blobless blob transaction")]
    None,
    /// It has too many blob hashes.
    #[error("too many blobs in transaction: have {found}, permitted {limit}")]
    TooMany {
        /// Number of hashes.
        found: usize,
        /// Maximum.
        limit: u64,
    },
    /// A blob transaction may not create a contract.
    #[error("blob transaction of type create")]
    Creation,
    /// It has no sidecar.
    #[error("missing sidecar in blob transaction")]
    NoSidecar,
    /// The sidecar's proofs are of another fork's version.
    #[error("unexpected sidecar version, want: {wanted}, got: {found}")]
    Version {
        /// The sidecar's.
        found: u8,
        /// The current fork's.
        wanted: u8,
    },
    /// Counts or commitments do not match the transaction's hashes.
    #[error("sidecar does not match the blob hashes of the transaction")]
    Mismatch,
    /// A proof is invalid.
    #[error("invalid blob proof")]
    Proof,
    /// Its blob fee cap is below the protocol's minimum.
    #[error("transaction underpriced: blob fee cap {found}, minimum needed {wanted}")]
    Underpriced {
        /// Wei per blob gas.
        found: U256,
        /// Wei per blob gas.
        wanted: u64,
    },
}

impl From<PoolError> for BusError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Store(error) => error.into(),
            error => Self::failed(error),
        }
    }
}

/// Ether with two decimals, truncated.
fn short_ether(wei: U256) -> String {
    let text = format_ether(wei);
    let end = text.find('.').map_or(text.len(), |point| (point + 3).min(text.len()));
    text.get(..end).unwrap_or_default().to_owned()
}

/// The text of the reference's decoder, if it has one for the problem.
fn decode_error_text(error: &DecodeError) -> String {
    let what = error.what;
    match error.problem {
        DecodeProblem::TypedTooShort => "typed transaction too short".to_owned(),
        DecodeProblem::UnsupportedType { .. } => "transaction type not supported".to_owned(),
        DecodeProblem::TooShort => "rlp: value size exceeds available input length".to_owned(),
        DecodeProblem::NotMinimal => "rlp: non-canonical size information".to_owned(),
        DecodeProblem::LeadingZero => {
            format!("rlp: non-canonical integer (leading zero bytes) for {what}")
        }
        DecodeProblem::UnexpectedList => format!("rlp: expected input string or byte for {what}"),
        DecodeProblem::UnexpectedString => format!("rlp: expected input list for {what}"),
        DecodeProblem::TooLarge => format!("rlp: input string too long for {what}"),
        DecodeProblem::TrailingBytes { .. } => "rlp: input contains more than one value".to_owned(),
        _ => format!("rlp: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fees_are_shown_with_two_digits() {
        let fee = U256::from(1_239_000_000_000_000_000_u64);
        let cap = U256::from(1_000_000_000_000_000_000_u64);

        let text = PoolError::FeeCap { fee, cap }.to_string();

        assert_eq!(text, "tx fee (1.23 ether) exceeds the configured cap (1.00 ether)");
    }

    #[test]
    fn an_error_of_the_database_keeps_its_kind() {
        assert_eq!(BusError::from(PoolError::Store(StoreError::Stopped)), BusError::TimedOut);
        assert_eq!(BusError::from(PoolError::Full), BusError::failed("txpool is full"));
    }

    #[test]
    fn undecodable_bytes_get_the_references_error_text() {
        let cases: [(&[u8], &str); 4] = [
            (&[], "typed transaction too short"),
            (&[0x02], "typed transaction too short"),
            (&[0x05, 0xc0], "transaction type not supported"),
            (&[0xc9, 0x01], "rlp: value size exceeds available input length"),
        ];
        for (bytes, wanted) in cases {
            let error = tenon_chain::decode_pooled_transaction(bytes).unwrap_err();

            assert_eq!(PoolError::Decode(error).to_string(), wanted, "{bytes:02x?}");
        }
    }
}

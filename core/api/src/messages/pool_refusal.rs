//! Why the pool refuses a transaction.

use std::borrow::Cow;

use alloy_primitives::{Address, U256};
use serde::{Deserialize, Serialize};

use crate::{DecodeProblem, TransactionType};

/// Why the pool refuses a transaction. The texts are for logs; plugins write those for clients
/// (`tenon_sdk::error_texts`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum PoolRefusal {
    /// The bytes are not a transaction.
    #[error("{what} at byte {offset}: {problem}")]
    Undecodable {
        /// The field or object that was being read.
        what: Cow<'static, str>,
        /// Offset in bytes.
        offset: usize,
        /// The error in its encoding.
        problem: DecodeProblem,
    },
    /// It is already in the pool.
    #[error("it is already in the pool")]
    AlreadyKnown,
    /// The fork that introduces its type is not active yet.
    #[error("transaction type {} is not active yet", *.0 as u8)]
    TypeNotActive(TransactionType),
    /// It has no chain id, so it could be replayed on any chain.
    #[error("it has no chain id")]
    Unprotected,
    /// Its gas could cost more than the operator's limit.
    #[error("its gas could cost {fee} wei, and the limit is {cap}")]
    FeeCap {
        /// Wei that its gas may cost.
        fee: U256,
        /// Wei allowed.
        cap: U256,
    },
    /// Too many bytes.
    #[error("it has {size} bytes, and the limit is {limit}")]
    Oversized {
        /// Bytes of its canonical encoding.
        size: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The init code is too long (EIP-3860).
    #[error("its init code has {size} bytes, and the limit is {limit}")]
    InitCodeTooLong {
        /// Bytes.
        size: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// Its gas limit exceeds the maximum per transaction from Osaka on (EIP-7825).
    #[error("its gas limit is {gas_limit}, and the maximum of a transaction is {cap}")]
    GasLimitTooHigh {
        /// Its gas limit.
        gas_limit: u64,
        /// The cap.
        cap: u64,
    },
    /// Its gas limit exceeds the block's.
    #[error("its gas limit exceeds the block's")]
    ExceedsBlockGasLimit,
    /// The tip is above the fee cap.
    #[error("its tip of {tip} wei per gas is above its fee cap of {fee}")]
    TipAboveFeeCap {
        /// Wei per gas.
        tip: U256,
        /// Wei per gas.
        fee: U256,
    },
    /// No sender can be recovered from the signature.
    #[error("it has no valid sender: {0}")]
    InvalidSender(SenderProblem),
    /// Its nonce is the last possible one.
    #[error("its nonce is the last possible one")]
    NonceAtEnd,
    /// Its gas limit is below the intrinsic gas.
    #[error("its gas limit is {gas_limit}, and it needs {needed}")]
    IntrinsicGas {
        /// Its gas limit.
        gas_limit: u64,
        /// Gas needed.
        needed: u64,
    },
    /// Its gas limit is below the floor for its data (EIP-7623).
    #[error("its gas limit is {gas_limit}, and its data needs {needed}")]
    FloorDataGas {
        /// Its gas limit.
        gas_limit: u64,
        /// Gas needed.
        needed: u64,
    },
    /// The tip is below the pool's minimum, or below those of all transactions in a full pool.
    #[error("its tip is {tip} wei per gas, and the minimum is {needed}")]
    Underpriced {
        /// Wei per gas.
        tip: U256,
        /// Wei per gas.
        needed: U256,
    },
    /// A set-code transaction without authorizations.
    #[error("it has no authorizations")]
    NoAuthorizations,
    /// Its blobs are invalid.
    #[error("{0}")]
    Blobs(BlobProblem),
    /// The account's nonce is already higher.
    #[error("its nonce is {found}, and the next one of the account is {next}")]
    NonceTooLow {
        /// The account's nonce.
        next: u64,
        /// The transaction's.
        found: u64,
    },
    /// The account cannot pay for it, alone or together with its pending transactions.
    #[error(
        "it costs {cost} wei and the pending transactions of its sender cost {queued}, but the balance is {balance}"
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
    #[error("it pays too little to replace the transaction with its nonce")]
    ReplacementUnderpriced,
    /// An account with delegated code may have one transaction in the pool at a time.
    #[error("its sender has delegated code and already has a transaction in the pool")]
    DelegatedInFlight,
    /// An account with delegated code may not leave a nonce gap.
    #[error("its sender has delegated code, and its nonce leaves a gap")]
    DelegatedGap,
    /// The sender has used all its slots.
    #[error("its sender {sender} already has {limit} transactions in the pool")]
    AccountLimit {
        /// The sender.
        sender: Address,
        /// The limit.
        limit: u64,
    },
    /// The pool is full of transactions that may not be evicted.
    #[error("the pool is full")]
    Full,
    /// A privileged transaction with this nonce is already in the pool.
    #[error("a privileged transaction with its nonce is already in the pool")]
    DuplicatePrivileged,
    /// A rule of native chains.
    #[error("{0}")]
    Native(NativePoolRefusal),
}

/// Why a transaction has no valid sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum SenderProblem {
    /// `v`, `r` or `s` is out of range, or `s` is high and only low is allowed.
    #[error("the signature is out of range")]
    InvalidSignature,
    /// The numbers are in range but match no public key.
    #[error("the signature matches no public key")]
    InvalidPublicKey,
    /// It was signed for another chain.
    #[error("it was signed for chain {found}, and this is chain {wanted}")]
    WrongChain {
        /// The transaction's chain id.
        found: u64,
        /// This chain's id.
        wanted: u64,
    },
    /// Its type is not active at this height.
    #[error("its type is not active at this height")]
    UnsupportedType,
}

/// Why the blobs of a type 3 transaction are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum BlobProblem {
    /// It has no blob hashes.
    #[error("a blob transaction has no blobs")]
    None,
    /// It has too many blob hashes.
    #[error("it has {found} blobs, and the limit is {limit}")]
    TooMany {
        /// Number of hashes.
        found: usize,
        /// Maximum.
        limit: u64,
    },
    /// A blob transaction may not create a contract.
    #[error("a blob transaction creates a contract")]
    Creation,
    /// It has no sidecar.
    #[error("a blob transaction has no sidecar")]
    NoSidecar,
    /// The sidecar's proofs are of another fork's version.
    #[error("its sidecar has version {found} instead of {wanted}")]
    Version {
        /// The sidecar's.
        found: u8,
        /// The current fork's.
        wanted: u8,
    },
    /// Counts or commitments do not match the transaction's hashes.
    #[error("its sidecar does not match its blob hashes")]
    Mismatch,
    /// A proof is invalid.
    #[error("its sidecar has an invalid proof")]
    Proof,
    /// Its blob fee cap is below the protocol's minimum.
    #[error("its blob fee cap is {found} wei per blob gas, and the minimum is {wanted}")]
    Underpriced {
        /// Wei per blob gas.
        found: U256,
        /// Wei per blob gas.
        wanted: u64,
    },
}

/// Why a native chain's pool refuses a transaction (`docs/spec/chain.md` 9.2, 9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum NativePoolRefusal {
    /// The chain does not have this type, or not yet.
    #[error("the chain does not have its type, or not yet")]
    Type,
    /// A set-code transaction before Prague, on a chain that will have it (`docs/spec/upgrades.md` 7.2).
    #[error("its type is not active before Prague")]
    TypeBeforePrague,
    /// A set-code transaction without authorizations.
    #[error("it has no authorizations")]
    NoAuthorizations,
    /// The gas limit is below the floor for the data (EIP-7623).
    #[error("its gas limit is {have}, and its data needs {want}")]
    FloorGas {
        /// The gas limit.
        have: u64,
        /// The floor.
        want: u64,
    },
    /// Longer than 64 KiB.
    #[error("it is longer than 64 KiB")]
    Oversized,
    /// The sender is on the denylist.
    #[error("its sender {0} is on the denylist")]
    DeniedSender(Address),
    /// The receiver is on the denylist.
    #[error("its receiver {0} is on the denylist")]
    DeniedReceiver(Address),
    /// More gas than the head's limit.
    #[error("its gas limit exceeds the head's")]
    BlockGasLimit,
    /// The tip is above the fee cap.
    #[error("its tip is above its fee cap")]
    TipAboveFeeCap,
    /// No sender on this chain can be recovered from the signature.
    #[error("it has no valid sender")]
    Sender,
    /// Below the base fee, below the pool's minimum, or below every transaction of a full pool.
    #[error("its price is too low")]
    Underpriced,
    /// The account's nonce is already higher.
    #[error("its nonce is below the account's")]
    NonceTooLow,
    /// Too far above the next pending nonce.
    #[error("its nonce is too far above the next pending one")]
    NonceTooHigh,
    /// Neither the sender nor its token can pay.
    #[error("neither its sender nor a token can pay for it")]
    Funds,
    /// The gas limit is below the intrinsic gas.
    #[error("its gas limit is below the intrinsic gas")]
    IntrinsicGas,
    /// The gas price is zero.
    #[error("its gas price is zero")]
    ZeroGasPrice,
    /// Below the chain's minimum gas price.
    #[error("its gas price is below the chain's minimum")]
    MinGasPrice,
    /// Special transactions must come from masternodes, not through an interface.
    #[error("special transactions are accepted from masternodes only")]
    SpecialByInterface,
}

//! Why the pool refuses a transaction.

use std::borrow::Cow;

use alloy_primitives::{Address, U256};
use serde::{Deserialize, Serialize};

use crate::{DecodeProblem, TransactionType};

/// Why the pool refuses a transaction. Plugins write the text for clients (`tenon_sdk::error_texts`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoolRefusal {
    /// The bytes are not a transaction.
    Undecodable {
        /// The field or object that was being read.
        what: Cow<'static, str>,
        /// Offset in bytes.
        offset: usize,
        /// What is wrong with its encoding.
        problem: DecodeProblem,
    },
    /// It is already in the pool.
    AlreadyKnown,
    /// The fork that introduces its type is not active yet.
    TypeNotActive(TransactionType),
    /// It has no chain id, so it could be replayed on any chain.
    Unprotected,
    /// Its gas could cost more than the operator's limit.
    FeeCap {
        /// Wei that its gas may cost.
        fee: U256,
        /// Wei allowed.
        cap: U256,
    },
    /// Too many bytes.
    Oversized {
        /// Bytes of its canonical encoding.
        size: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The init code is too long (EIP-3860).
    InitCodeTooLong {
        /// Bytes.
        size: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// Its gas limit exceeds the maximum per transaction from Osaka on (EIP-7825).
    GasLimitTooHigh {
        /// Its gas limit.
        gas_limit: u64,
        /// The cap.
        cap: u64,
    },
    /// Its gas limit exceeds the block's.
    ExceedsBlockGasLimit,
    /// The tip is above the fee cap.
    TipAboveFeeCap {
        /// Wei per gas.
        tip: U256,
        /// Wei per gas.
        fee: U256,
    },
    /// No sender can be recovered from the signature.
    InvalidSender(SenderProblem),
    /// Its nonce is the last possible one.
    NonceAtEnd,
    /// Its gas limit is below the intrinsic gas.
    IntrinsicGas {
        /// Its gas limit.
        gas_limit: u64,
        /// Gas needed.
        needed: u64,
    },
    /// Its gas limit is below the floor for its data (EIP-7623).
    FloorDataGas {
        /// Its gas limit.
        gas_limit: u64,
        /// Gas needed.
        needed: u64,
    },
    /// The tip is below the pool's minimum, or below those of all transactions in a full pool.
    Underpriced {
        /// Wei per gas.
        tip: U256,
        /// Wei per gas.
        needed: U256,
    },
    /// A set-code transaction without authorizations.
    NoAuthorizations,
    /// Its blobs are invalid.
    Blobs(BlobProblem),
    /// The account's nonce is already higher.
    NonceTooLow {
        /// The account's nonce.
        next: u64,
        /// The transaction's.
        found: u64,
    },
    /// The account cannot pay for it, alone or together with its pending transactions.
    InsufficientFunds {
        /// Wei.
        balance: U256,
        /// Maximum cost of the sender's pending transactions, wei.
        queued: U256,
        /// Maximum cost of this transaction, wei.
        cost: U256,
    },
    /// Its nonce is that of a pooled transaction, and its price increase is too small.
    ReplacementUnderpriced,
    /// An account with delegated code may have one transaction in the pool at a time.
    DelegatedInFlight,
    /// An account with delegated code may not leave a nonce gap.
    DelegatedGap,
    /// The sender has used all its slots.
    AccountLimit {
        /// The sender.
        sender: Address,
        /// The limit.
        limit: u64,
    },
    /// The pool is full of transactions that may not be evicted.
    Full,
    /// A privileged transaction with this nonce is already in the pool.
    DuplicatePrivileged,
    /// A rule of native chains.
    Native(NativePoolRefusal),
}

/// Why a transaction has no valid sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SenderProblem {
    /// `v`, `r` or `s` is out of range, or `s` is high and only low is allowed.
    InvalidSignature,
    /// The numbers are in range but match no public key.
    InvalidPublicKey,
    /// It was signed for another chain.
    WrongChain {
        /// The transaction's chain id.
        found: u64,
        /// This chain's id.
        wanted: u64,
    },
    /// Its type is not active at this height.
    UnsupportedType,
}

/// Why the blobs of a type 3 transaction are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlobProblem {
    /// It has no blob hashes.
    None,
    /// It has too many blob hashes.
    TooMany {
        /// Number of hashes.
        found: usize,
        /// Maximum.
        limit: u64,
    },
    /// A blob transaction may not create a contract.
    Creation,
    /// It has no sidecar.
    NoSidecar,
    /// The sidecar's proofs are of another fork's version.
    Version {
        /// The sidecar's.
        found: u8,
        /// The current fork's.
        wanted: u8,
    },
    /// Counts or commitments do not match the transaction's hashes.
    Mismatch,
    /// A proof is invalid.
    Proof,
    /// Its blob fee cap is below the protocol's minimum.
    Underpriced {
        /// Wei per blob gas.
        found: U256,
        /// Wei per blob gas.
        wanted: u64,
    },
}

/// Why a native chain's pool refuses a transaction (`docs/spec/chain.md` 9.2, 9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NativePoolRefusal {
    /// The chain does not have this type, or not yet.
    Type,
    /// A set-code transaction before Prague, on a chain that will have it (`docs/spec/upgrades.md` 7.2).
    TypeBeforePrague,
    /// A set-code transaction without authorizations.
    NoAuthorizations,
    /// The gas limit is below the floor for the data (EIP-7623).
    FloorGas {
        /// The gas limit.
        have: u64,
        /// The floor.
        want: u64,
    },
    /// Longer than 64 KiB.
    Oversized,
    /// The sender is on the denylist.
    DeniedSender(Address),
    /// The receiver is on the denylist.
    DeniedReceiver(Address),
    /// More gas than the head's limit.
    BlockGasLimit,
    /// The tip is above the fee cap.
    TipAboveFeeCap,
    /// No sender on this chain can be recovered from the signature.
    Sender,
    /// Below the base fee, below the pool's minimum, or below every transaction of a full pool.
    Underpriced,
    /// The account's nonce is already higher.
    NonceTooLow,
    /// Too far above the next pending nonce.
    NonceTooHigh,
    /// Neither the sender nor its token can pay.
    Funds,
    /// The gas limit is below the intrinsic gas.
    IntrinsicGas,
    /// The gas price is zero.
    ZeroGasPrice,
    /// Below the chain's minimum gas price.
    MinGasPrice,
    /// Special transactions must come from masternodes, not through an interface.
    SpecialByInterface,
}

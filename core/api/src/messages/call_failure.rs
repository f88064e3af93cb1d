//! Why a call or a simulation has no result.

use std::{borrow::Cow, time::Duration};

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};

/// Why a call, an estimate or an access list has no result, if the cause is the call itself and not the node. Plugins
/// write the text and the code for clients (`tenon_sdk::error_texts`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallFailure {
    /// The time limit of calls has passed.
    TimeLimitReached {
        /// The limit.
        timeout: Duration,
    },
    /// The call object or its overrides contradict themselves, or the chain.
    Contradiction(CallContradiction),
    /// The message is not valid.
    InvalidMessage {
        /// The broken rule, in the words that traces show too.
        reason: String,
        /// The message's gas limit.
        gas_limit: u64,
    },
    /// The message is not valid, and the error text contains the hash of the unsigned transaction. Only for access
    /// lists on native chains.
    InvalidListMessage {
        /// The hash.
        hash: B256,
        /// The broken rule, in the words that traces show too.
        reason: String,
    },
    /// The call reverted.
    Reverted {
        /// Its output.
        output: Bytes,
    },
    /// The call reverted, and clients receive neither a reason nor data: in the reply for an access list, and on native
    /// chains if there is no output.
    RevertedWithoutData,
    /// The call ran out of gas.
    OutOfGas,
    /// The EVM halted for another reason, in the words that traces show too.
    Halted(Cow<'static, str>),
    /// The call runs out of gas even with the maximum gas limit.
    AllowanceExceeded {
        /// The maximum.
        allowance: u64,
    },
    /// The sender cannot pay the value.
    ValueNotCovered {
        /// The sender.
        sender: Address,
    },
    /// The sender can pay the value, but not the blobs.
    BlobsNotCovered {
        /// The sender.
        sender: Address,
    },
}

impl CallFailure {
    /// Memory of the output and the texts in it, bytes, approximately.
    pub fn size(&self) -> usize {
        match self {
            Self::InvalidMessage { reason, .. } | Self::InvalidListMessage { reason, .. } => reason.len(),
            Self::Reverted { output } => output.len(),
            Self::Halted(cause) => cause.len(),
            Self::TimeLimitReached { .. }
            | Self::Contradiction(_)
            | Self::RevertedWithoutData
            | Self::OutOfGas
            | Self::AllowanceExceeded { .. }
            | Self::ValueNotCovered { .. }
            | Self::BlobsNotCovered { .. } => 0,
        }
    }
}

/// A contradiction in a call object or its overrides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallContradiction {
    /// Both kinds of prices are given.
    BothPrices,
    /// A price has more than 128 bits.
    PriceTooHigh,
    /// The call is for another chain.
    WrongChain {
        /// The call's chain id.
        given: u64,
        /// The id of this chain.
        chain_id: u64,
    },
    /// The list of blobs is empty.
    NoBlobs,
    /// Blobs or authorizations are given without a receiver.
    NoReceiver,
    /// A precompiled contract is moved from an address that has none.
    NotPrecompile {
        /// The address.
        address: Address,
    },
    /// A precompiled contract is moved to an account with an override.
    AlreadyOverridden {
        /// The account.
        target: Address,
    },
    /// One override replaces the whole storage of an account and single slots of it.
    BothStates {
        /// The account.
        address: Address,
    },
    /// The same on native chains, whose addresses have another form in texts. A variant instead of a field with the
    /// family: only few files compare families (`scripts/check-family.py`).
    BothStatesOnNative {
        /// The account.
        address: Address,
    },
}

impl From<CallContradiction> for CallFailure {
    fn from(contradiction: CallContradiction) -> Self {
        Self::Contradiction(contradiction)
    }
}

/// Why a simulation has no result, if the cause is the simulation itself and not the node. Plugins write the text and
/// the code for clients (`tenon_sdk::error_texts`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SimulationFailure {
    /// There are no blocks.
    NoBlocks,
    /// The simulation has too many blocks. Empty blocks that fill gaps between heights count.
    TooManyBlocks,
    /// A block has too many calls.
    TooManyCallsInBlock {
        /// Its calls.
        calls: u64,
        /// Maximum.
        max: u64,
    },
    /// The blocks together have too many calls.
    TooManyCalls {
        /// The calls of all blocks.
        calls: u64,
        /// Maximum.
        max: u64,
    },
    /// The blocks together have too many overrides and withdrawals.
    TooManyChanges {
        /// Overridden accounts and slots, and withdrawals, of all blocks.
        changes: u64,
        /// Maximum.
        max: u64,
    },
    /// The answer is too long.
    AnswerTooLong {
        /// Maximum length, bytes.
        max: u64,
    },
    /// The heights of the blocks do not ascend.
    NumberNotAscending {
        /// The height.
        given: u64,
        /// The height of the block before it.
        previous: u64,
    },
    /// The times of the blocks do not ascend.
    TimestampNotAscending {
        /// The time.
        given: u64,
        /// The time of the block before it.
        previous: u64,
    },
    /// The timestamp of the previous block plus twelve seconds is above 2^64 - 1.
    TimestampTooLarge,
    /// The overridden base fee has too many bits.
    BaseFeeTooLarge {
        /// The base fee, wei.
        wei: U256,
    },
    /// A call requests more gas than its block has left.
    BlockGasUsedUp {
        /// The block's remaining gas.
        left: u64,
        /// The requested gas.
        asked: u64,
    },
    /// A transaction is not valid.
    InvalidTransaction {
        /// The kind of rule.
        kind: TransactionRule,
        /// The broken rule, in the words that traces show too.
        reason: String,
        /// The transaction's gas limit.
        gas_limit: u64,
    },
    /// A failure that a call can have too.
    Call(CallFailure),
}

/// A rule for transactions of simulated blocks, as far as clients tell rules apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransactionRule {
    /// The nonce was used before.
    NonceTooLow,
    /// The nonce leaves a gap.
    NonceTooHigh,
    /// The transaction pays less than the block's base fee.
    BaseFeeTooLow,
    /// The gas limit does not cover the gas that every such transaction uses.
    IntrinsicGas,
    /// The sender cannot pay for value and gas.
    InsufficientFunds,
    /// The transactions need more gas than the block has.
    BlockGasLimit,
    /// The init code is too long.
    InitCodeSize,
    /// Another rule.
    Other,
    /// The transaction needs a rule that this node does not implement.
    Unsupported,
}

//! Errors of executing blocks.

use alloy_primitives::{Address, B256};
use tenon_api::{BlockNumber, BusError, ConsensusError, RefusalCause, StoreError};
use tenon_chain::TrieError;

/// Why a block cannot be executed, or does not match its header.
#[derive(Debug, thiserror::Error)]
pub enum ExecutionError {
    /// The block was executed, and a result differs from the header; the first difference is reported.
    #[error("block {number}: {what} is {computed}, the header says {expected}")]
    Mismatch {
        /// Height of the block.
        number: BlockNumber,
        /// The differing value: `gas used`, `state root` …
        what: &'static str,
        /// The computed value.
        computed: String,
        /// The header's value.
        expected: String,
    },
    /// A transaction is not valid at its position, or its validity is unknown.
    #[error("block {number}: transaction {index} ({hash}) {}: {reason}", verdict_of(reason))]
    Transaction {
        /// Height of the block.
        number: BlockNumber,
        /// Position of the transaction.
        index: usize,
        /// Its hash.
        hash: B256,
        /// The broken rule.
        reason: TransactionRejection,
    },
    /// The block needs a rule that this node does not implement; its validity is unknown.
    #[error("block {number} requires something that this node does not support: {what}")]
    Unsupported {
        /// Height of the block.
        number: BlockNumber,
        /// The rule.
        what: String,
    },
    /// The header lacks an item that its fork requires.
    #[error("block {number}: the header has no {what}")]
    MissingItem {
        /// Height of the block.
        number: BlockNumber,
        /// The item.
        what: &'static str,
    },
    /// A system contract whose output is part of the block failed (EIP-7002, EIP-7251).
    #[error("block {number}: system call to {contract} failed: {reason}")]
    SystemCall {
        /// Height of the block.
        number: BlockNumber,
        /// The contract.
        contract: Address,
        /// The EVM's error.
        reason: String,
    },
    /// A log of the deposit contract does not have the layout of EIP-6110.
    #[error("block {number}: deposit log: {reason}")]
    DepositLog {
        /// Height of the block.
        number: BlockNumber,
        /// The problem.
        reason: &'static str,
    },
    /// The historic exchange's result differs from the block's, or an order is not valid (`docs/spec/chain.md` 6.1).
    /// The reason has the reference's text.
    #[error("block {number}: {reason}")]
    Exchange {
        /// Height of the block.
        number: BlockNumber,
        /// The broken rule.
        reason: String,
    },
    /// Consensus could not determine the receiver of a payment.
    #[error(transparent)]
    Consensus(#[from] ConsensusError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The trie could not be updated.
    #[error("block {number}: {source}")]
    Trie {
        /// Height of the block.
        number: BlockNumber,
        /// The cause.
        source: TrieError,
    },
}

impl ExecutionError {
    /// Returns whether the block itself is invalid, as opposed to data or rules missing on this node.
    pub fn is_block_invalid(&self) -> bool {
        match self {
            Self::Mismatch { .. }
            | Self::MissingItem { .. }
            | Self::SystemCall { .. }
            | Self::DepositLog { .. }
            | Self::Exchange { .. } => true,
            Self::Transaction { reason, .. } => !reason.is_validity_unknown(),
            Self::Consensus(error) => error.cause == RefusalCause::BrokenRule,
            Self::Unsupported { .. } | Self::Store(_) | Self::Trie { .. } => false,
        }
    }
}

/// Why a transaction cannot be executed at its position in this block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransactionRejection {
    /// The transaction's gas limit exceeds the block's remaining gas.
    #[error("gas limit {gas_limit} exceeds the {available} that the block has left")]
    BlockGas {
        /// The transaction's limit.
        gas_limit: u64,
        /// Remaining gas.
        available: u64,
    },
    /// The transaction's blob gas exceeds the block's remaining blob gas.
    #[error("blob gas {blob_gas} exceeds the {available} that the block has left")]
    BlockBlobGas {
        /// The transaction's blob gas.
        blob_gas: u64,
        /// Remaining blob gas.
        available: u64,
    },
    /// It needs a rule that this node does not implement; its validity is unknown.
    #[error("this node does not execute {0}")]
    Unsupported(&'static str),
    /// A rule on the transaction itself or its sender's account.
    #[error("{0}")]
    Rule(String),
    /// The token that the transaction registers does not answer as required (`docs/spec/chain.md` 3.6). The test uses
    /// random numbers, so it may pass at another time.
    #[error("{0}")]
    Token(String),
    /// A precompiled contract that it calls has no defined result, or could not compute it. The validity of the
    /// transaction is unknown.
    #[error("{0}")]
    NoResult(String),
    /// Sender or sponsor cannot pay. The text is that of the family's clients if they have one.
    #[error("{0}")]
    InsufficientFunds(&'static str),
    /// The state could not be read. The validity of the transaction is unknown.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The state root after the transaction could not be computed (receipts before Byzantium have it). The validity of
    /// the transaction is unknown.
    #[error(transparent)]
    Trie(Box<TrieError>),
}

impl From<TrieError> for TransactionRejection {
    fn from(error: TrieError) -> Self {
        match error {
            TrieError::Store(error) => Self::Store(error),
            error => Self::Trie(Box::new(error)),
        }
    }
}

fn verdict_of(reason: &TransactionRejection) -> &'static str {
    if reason.is_validity_unknown() { "cannot be executed" } else { "is not valid" }
}

impl TransactionRejection {
    /// Returns whether this node could not decide whether the transaction is valid.
    pub const fn is_validity_unknown(&self) -> bool {
        matches!(self, Self::Unsupported(_) | Self::NoResult(_) | Self::Store(_) | Self::Trie(_))
    }

    /// Returns whether only the remaining gas of this block is too low. A later block may then include the transaction.
    pub const fn is_out_of_block_gas(&self) -> bool {
        matches!(self, Self::BlockGas { .. } | Self::BlockBlobGas { .. })
    }

    /// Returns the rejection if the transaction is the cause.
    ///
    /// # Errors
    /// [`ExecutionError`] if this node could not read the state or its trie during the execution of block `number`.
    pub fn unless_unreadable(self, number: BlockNumber) -> Result<Self, ExecutionError> {
        match self {
            Self::Store(error) => Err(error.into()),
            Self::Trie(source) => Err(ExecutionError::Trie { number, source: *source }),
            rejection => Ok(rejection),
        }
    }
}

impl ExecutionError {
    /// The refused block; `None` if the database failed.
    pub const fn block(&self) -> Option<BlockNumber> {
        match self {
            Self::Mismatch { number, .. }
            | Self::Transaction { number, .. }
            | Self::Unsupported { number, .. }
            | Self::MissingItem { number, .. }
            | Self::SystemCall { number, .. }
            | Self::DepositLog { number, .. }
            | Self::Exchange { number, .. }
            | Self::Trie { number, .. } => Some(*number),
            Self::Consensus(error) => Some(error.number),
            Self::Store(_) => None,
        }
    }
}

impl From<ExecutionError> for BusError {
    fn from(error: ExecutionError) -> Self {
        match error {
            ExecutionError::Store(error) => error.into(),
            // The text for a damaged node names the block.
            ExecutionError::Trie { source: TrieError::Corrupt { .. }, .. } => Self::failed(error),
            ExecutionError::Trie { source, .. } => source.into(),
            error => Self::failed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use tenon_api::{DecodeProblem, RequestError, TriePosition};
    use tenon_chain::DecodeError;

    use super::*;

    #[test]
    fn an_error_of_the_database_keeps_its_kind() {
        let number = BlockNumber(7);
        let trie = |source| ExecutionError::Trie { number, source };
        let lost = TrieError::Missing { owner: None, path: Vec::new(), hash: B256::ZERO };
        let source = DecodeError { what: "trie node", offset: 0, problem: DecodeProblem::NotMinimal };
        let position = Box::new(TriePosition { owner: None, path: Vec::new() });
        let damaged = TrieError::Corrupt { position, hash: B256::ZERO, source };
        let full = StoreError::OutOfMemory { reason: "full".to_owned() };
        let cases = [
            (ExecutionError::Store(StoreError::Stopped), BusError::TimedOut),
            (ExecutionError::Store(full.clone()), BusError::limit_reached("full")),
            (ExecutionError::Store(StoreError::Engine("disk".to_owned())), BusError::failed("database: disk")),
            (trie(StoreError::Stopped.into()), BusError::TimedOut),
            (trie(full.into()), BusError::limit_reached("full")),
            (trie(lost), RequestError::MissingTrieNode { hash: B256::ZERO, path: Vec::new() }.into()),
            (trie(damaged.clone()), BusError::failed(format!("block 7: {damaged}"))),
            (
                ExecutionError::MissingItem { number, what: "blob gas" },
                BusError::failed("block 7: the header has no blob gas"),
            ),
        ];
        for (error, expected) in cases {
            let text = format!("{error:?}");

            assert_eq!(BusError::from(error), expected, "{text}");
        }
    }
}

//! Errors of the store's answers.

use alloy_primitives::Address;
use tenon_api::{BlockNumber, BusError, RequestError, StoreError, UnresolvedBlock};
use tenon_chain::{ResolveError, StateUnavailable, TrieError};

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AnswerError {
    /// The database failed, or the caller has disconnected.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The request's block id cannot be resolved to a block.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// A trie lacks a node, or has a damaged one.
    #[error(transparent)]
    Trie(TrieError),
    /// There is no block with the request's hash.
    #[error("no block has the hash of the request")]
    UnknownBlock,
    /// The database does not have the state after the block.
    #[error(transparent)]
    StateUnavailable(#[from] StateUnavailable),
    /// The request exceeds one of the [`StoreLimits`](super::StoreLimits).
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
}

/// An error of the database becomes [`AnswerError::Store`], because a read that fails with
/// [`StoreError::Reorganised`] is repeated.
impl From<TrieError> for AnswerError {
    fn from(error: TrieError) -> Self {
        match error {
            TrieError::Store(error) => Self::Store(error),
            error => Self::Trie(error),
        }
    }
}

impl From<AnswerError> for BusError {
    fn from(error: AnswerError) -> Self {
        match error {
            AnswerError::Store(error) => error.into(),
            AnswerError::Resolve(error) => error.into(),
            AnswerError::Trie(error) => error.into(),
            AnswerError::UnknownBlock => RequestError::from(UnresolvedBlock::Unknown).into(),
            AnswerError::StateUnavailable(error) => error.into(),
            AnswerError::Limit(limit) => Self::limit_reached(limit),
        }
    }
}

/// The limit that a request exceeds; `max` is its value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LimitExceeded {
    /// A block that the client saw last is too far from the canonical chain.
    #[error("block is more than {max} blocks off the canonical chain")]
    BranchLength { max: u64 },
    /// A query for logs spans too many blocks.
    #[error("log query spans more than {max} blocks; narrow the range")]
    LogBlocks { max: u64 },
    /// A query finds too many logs.
    #[error("query returned more than {max} results; {}", log_advice(*fitting))]
    Logs {
        max: usize,
        /// The first and the last block of the query's beginning that one answer can cover; `None` if it can cover no
        /// block.
        fitting: Option<(BlockNumber, BlockNumber)>,
    },
    /// A proof covers too many slots.
    #[error("a proof of {requested} slots was requested, and at most {max} are allowed")]
    ProofSlots { max: usize, requested: usize },
    /// An account to dump has too many slots.
    #[error("account {address:x} has more than {max} slots: its state is too large to dump")]
    DumpedSlots { max: usize, address: Address },
    /// There are too many accounts to sort by the hash of their address.
    #[error("the database has more than {max} accounts, which are too many to sort by hash")]
    SortedAccounts { max: usize },
    /// Two states to compare have too many blocks between them.
    #[error("the blocks are more than {max} apart")]
    ComparedBlocks { max: u64 },
    /// Two states to compare may differ in too many accounts.
    #[error("the blocks changed more than {max} accounts")]
    ChangedAccounts { max: usize },
}

fn log_advice(fitting: Option<(BlockNumber, BlockNumber)>) -> String {
    match fitting {
        Some((from, to)) => format!("request blocks {from} to {to} first"),
        None => "request fewer addresses or topics".to_owned(),
    }
}

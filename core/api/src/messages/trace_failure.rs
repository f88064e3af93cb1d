//! Why a trace, or another request that executes a block again, has no result.

use std::borrow::Cow;

use alloy_primitives::{Address, B256};
use serde::{Deserialize, Serialize};

use super::{CallFailure, SenderProblem, TracerDialect};
use crate::{BlockId, DecodeProblem, UnresolvedBlock};

/// Why a trace, or another request that executes a block again, has no result, if the cause is the request itself and
/// not the node. Plugins write the text and the code for clients (`tenon_sdk::error_texts`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TraceFailure {
    /// Something that the request names, or needs, is unknown.
    Missing {
        /// The unknown item.
        item: MissingItem,
        /// Client whose error texts are used.
        dialect: TracerDialect,
    },
    /// Block 0 has no parent, so its transactions cannot be executed again.
    Genesis,
    /// The bytes of a block cannot be decoded.
    UndecodableBlock {
        /// The outermost item of the bytes.
        outermost: OutermostItem,
        /// The field or object that was being read.
        what: Cow<'static, str>,
        /// Offset in bytes.
        offset: usize,
        /// The error in its encoding.
        problem: DecodeProblem,
        /// Client whose error texts are used.
        dialect: TracerDialect,
    },
    /// The parent of a supplied block is unknown.
    UnknownAncestor,
    /// A transaction of a supplied block has no valid sender.
    InvalidSender(SenderProblem),
    /// The chain's family has no such tracer.
    NoSuchTracer,
    /// The requested tracer cannot be used. The text is the request's ([`Tracer::Unusable`](super::Tracer::Unusable)),
    /// or that of the library that records calls and instructions.
    UnusableTracer {
        /// The text.
        reason: String,
    },
    /// The tracer's options name an instruction that the EVM does not have.
    UnknownInstruction {
        /// The name, or the beginning of a long one.
        name: String,
    },
    /// The tracer's own options are not valid.
    InvalidTracerConfig,
    /// The transaction or call could not be run under a tracer.
    NotTraced {
        /// The broken rule, in the words that traces show too.
        reason: String,
    },
    /// The tracer has no result for this run.
    NoResult(NoTraceResult),
    /// The script failed.
    Script {
        /// Its own error, or that of the engine that ran it.
        error: String,
    },
    /// A transaction before the traced one is not valid at its position.
    EarlierTransaction {
        /// The transaction.
        hash: B256,
        /// The broken rule, in the words that traces show too.
        reason: String,
        /// Client whose error texts are used.
        dialect: TracerDialect,
    },
    /// A transaction of a block is not valid at its position, so that no later one can be traced.
    InvalidTransaction {
        /// The broken rule, in the words that traces show too.
        reason: String,
    },
    /// This node cannot execute a transaction of a block, so that no later one can be traced.
    NotExecuted {
        /// What the node cannot do, in the words that traces show too.
        reason: String,
    },
    /// The time limit of the trace has passed.
    TimedOut,
    /// A failure that a call can have too.
    Call(CallFailure),
    /// Only in the traces of a block: the database does not have a state that the transaction needs.
    StateUnavailable {
        /// The root of the state.
        state_root: B256,
    },
    /// Only in the traces of a block: the database lacks a node of a trie that the transaction needs.
    MissingTrieNode {
        /// The node's hash.
        hash: B256,
        /// Its path, one nibble a byte.
        path: Vec<u8>,
    },
    /// Only in the traces of a block: a block that the transaction needs is unknown.
    UnresolvedBlock(UnresolvedBlock),
    /// Only in the traces of a block: the node could not trace this transaction, for example because its trace is too
    /// large.
    Node {
        /// The node's error.
        error: String,
    },
}

/// Something that a request about an executed block names, or needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MissingItem {
    /// The transaction with this hash.
    Transaction(B256),
    /// The block with this hash: that of the requested transaction, or that of a range of storage.
    BlockByHash(B256),
    /// A block.
    Block(BlockId),
    /// The parent of a block, by its hash.
    Parent(B256),
    /// A transaction of a block that has fewer transactions.
    Index {
        /// The index. Negative only for a range of storage.
        index: i128,
        /// Hash of the block.
        block: B256,
    },
    /// An account in the middle of a block.
    Account(Address),
}

/// Form of the outermost RLP item of bytes that are not a block. For every form but the last, Go's decoder has a text
/// of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutermostItem {
    /// There are no bytes.
    None,
    /// It claims to be longer than the bytes.
    Truncated,
    /// It is not a list.
    NotList,
    /// It is an empty list.
    EmptyList,
    /// A list with items, or an item whose length cannot be read.
    Other,
}

/// Why a tracer has no result for a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoTraceResult {
    /// The transaction or call ended before its outermost frame began.
    NoFrame,
    /// No instruction ran. Only of the reference's older tracer of accounts, which reads them at an instruction.
    NoInstruction {
        /// The sender.
        sender: Address,
    },
    /// The library that records calls and instructions has none.
    Library {
        /// The library's text.
        error: String,
    },
}

impl TraceFailure {
    /// Memory of the texts and lists in it, bytes, approximately.
    pub fn size(&self) -> usize {
        match self {
            Self::UnusableTracer { reason: text }
            | Self::UnknownInstruction { name: text }
            | Self::NotTraced { reason: text }
            | Self::NoResult(NoTraceResult::Library { error: text })
            | Self::Script { error: text }
            | Self::EarlierTransaction { reason: text, .. }
            | Self::InvalidTransaction { reason: text }
            | Self::NotExecuted { reason: text }
            | Self::Node { error: text } => text.len(),
            Self::UndecodableBlock { what, .. } => what.len(),
            Self::Call(failure) => failure.size(),
            Self::MissingTrieNode { path, .. } => path.len(),
            Self::Missing { .. }
            | Self::Genesis
            | Self::UnknownAncestor
            | Self::InvalidSender(_)
            | Self::NoSuchTracer
            | Self::InvalidTracerConfig
            | Self::NoResult(_)
            | Self::TimedOut
            | Self::StateUnavailable { .. }
            | Self::UnresolvedBlock(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_failure_covers_its_texts() {
        let text = || "why".to_owned();
        let undecodable = TraceFailure::UndecodableBlock {
            outermost: OutermostItem::Other,
            what: text().into(),
            offset: 3,
            problem: DecodeProblem::TooLarge,
            dialect: TracerDialect::Ethereum,
        };
        let cases = [
            TraceFailure::Script { error: text() },
            TraceFailure::NotExecuted { reason: text() },
            TraceFailure::Call(CallFailure::Halted(text().into())),
            TraceFailure::Call(CallFailure::InvalidMessage { reason: text(), gas_limit: 9 }),
            TraceFailure::Call(CallFailure::Reverted { output: vec![0; 3].into() }),
            TraceFailure::MissingTrieNode { hash: B256::ZERO, path: vec![0; 3] },
            undecodable,
        ];
        for failure in cases {
            assert_eq!(failure.size(), 3, "{failure:?}");
        }
        assert_eq!(TraceFailure::Genesis.size(), 0);
    }
}

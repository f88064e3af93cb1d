//! Why a trace, or another request that executes a block again, has no result.

use std::borrow::Cow;

use alloy_primitives::{Address, B256};
use serde::{Deserialize, Serialize};

use super::{CallFailure, SenderProblem, TracerDialect};
use crate::{BlockId, DecodeProblem};

/// Why a trace, or another request that executes a block again, has no result, if the cause is the request itself and
/// not the node. Plugins write the text and the code for clients (`tenon_sdk::error_texts`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TraceFailure {
    /// Something that the request names, or needs, is unknown.
    Missing {
        /// What is unknown.
        item: MissingItem,
        /// Whose words clients receive.
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
        /// What is wrong with its encoding.
        problem: DecodeProblem,
        /// Whose words clients receive.
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
        /// The name.
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
        /// Whose words clients receive.
        dialect: TracerDialect,
    },
    /// A transaction of a block is not valid at its position, so that no later one can be traced.
    InvalidTransaction {
        /// The broken rule, in the words that traces show too.
        reason: String,
    },
    /// The time limit of the trace has passed.
    TimedOut,
    /// A failure that a call can have too.
    Call(CallFailure),
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
    /// The block, by its hash, that contains the transaction of the request.
    BlockOfTransaction(B256),
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

/// The outermost RLP item of bytes that are not a block, as far as Go's decoder reports it instead of a field.
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
    /// A list with items.
    List,
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
    /// Memory of the texts in it, bytes, approximately.
    pub fn size(&self) -> usize {
        match self {
            Self::UnusableTracer { reason: text }
            | Self::UnknownInstruction { name: text }
            | Self::NotTraced { reason: text }
            | Self::NoResult(NoTraceResult::Library { error: text })
            | Self::Script { error: text }
            | Self::EarlierTransaction { reason: text, .. }
            | Self::InvalidTransaction { reason: text }
            | Self::Node { error: text } => text.len(),
            Self::Missing { .. }
            | Self::Genesis
            | Self::UndecodableBlock { .. }
            | Self::UnknownAncestor
            | Self::InvalidSender(_)
            | Self::NoSuchTracer
            | Self::InvalidTracerConfig
            | Self::NoResult(_)
            | Self::TimedOut
            | Self::Call(_) => 0,
        }
    }
}

//! Why a request for a trace, or another one about an executed block, failed.

use std::fmt::Display;

use alloy_primitives::{Address, B256};
use tenon_api::{BlockId, BusError, ConsensusError, StoreError};
use tenon_chain::{RecoverError, ResolveError, TrieError};
use tenon_execution_interface::{ExecutionError, Stopped, TransactionRejection};
use tenon_javascript::ScriptError;
use tenon_simulation_interface::{CallError, RunFailure};

/// Why a request for a trace, or another one about an executed block, failed.
#[derive(Debug, derive_more::From, thiserror::Error)]
pub enum TraceError {
    /// The call to be traced, or the state on which the block builds, has an error.
    #[error(transparent)]
    // derive_more implements `From` for these types, through `CallError`; `#[from]` on the field is thiserror's.
    #[from(ConsensusError, ExecutionError, ResolveError, StoreError)]
    Call(#[from] CallError),
    /// A block, transaction or account is unknown; this is the text of the family.
    #[error("{0}")]
    NotFound(String),
    /// Block 0 has no parent.
    #[error("genesis is not traceable")]
    Genesis,
    /// The bytes of a block cannot be decoded; this is the text of the family.
    #[error("could not decode block: {0}")]
    UndecodableBlock(String),
    /// The parent of a supplied block is unknown.
    #[error("unknown ancestor")]
    UnknownAncestor,
    /// A transaction of a supplied block has no valid signature.
    #[error(transparent)]
    Sender(#[from] RecoverError),
    /// The chain's family has no such tracer.
    #[error("the chain has no such tracer")]
    NoSuchTracer,
    /// The requested tracer cannot be used. The text is the request's (`Tracer::Unusable`), or that of the library that
    /// records calls and instructions.
    #[error("{0}")]
    UnusableTracer(String),
    /// The tracer's options name an instruction that the EVM does not have.
    #[error("opcode {0} not defined")]
    UnknownInstruction(String),
    /// The tracer's own options are not valid.
    #[error("invalid tracerConfig")]
    InvalidTracerConfig,
    /// The transaction or call could not be traced.
    #[error("tracing failed: {0}")]
    TracingFailed(String),
    /// The tracer has no result; this is the reference's text, or that of the library that records calls and
    /// instructions.
    #[error("{0}")]
    NoResult(String),
    /// A script could not run, or failed.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// A transaction before the traced one is not valid at its position.
    #[error("{name} failed: {reason}")]
    Transaction {
        /// The transaction, as the family names it.
        name: String,
        /// The broken rule.
        reason: TransactionRejection,
    },
    /// A transaction of a block is not valid at its position, so that no later one can be traced.
    #[error(transparent)]
    Rejected(TransactionRejection),
    /// Like [`TraceError::Rejected`], but found by the EVM. The text is the reference's.
    #[error("{0}")]
    InvalidMessage(String),
    /// A trie could not be read.
    #[error(transparent)]
    Trie(Box<TrieError>),
    /// A contract has too many slots to sort them.
    #[error("account {contract:x} has more than {max} slots, which are too many to sort")]
    TooManySlots {
        /// The contract.
        contract: Address,
        /// Maximum number of slots.
        max: usize,
    },
    /// The time limit of the trace has passed.
    #[error("execution timeout")]
    TimedOut,
    /// The results are too long.
    #[error("the trace records more than {max} bytes")]
    TooLong {
        /// Maximum length, bytes.
        max: u64,
    },
    /// The recording has too many instructions, or needs too much memory.
    #[error(
        "the trace records more than {max_steps} steps or more memory than is left for traces; set \"limit\", disable \
         what is not needed, or use callTracer"
    )]
    TooLarge {
        /// Maximum number of instructions.
        max_steps: u64,
    },
    /// The target of the trace is not a call.
    #[error("not a call")]
    NotCall,
    /// The trace cannot be attempted. This is never reported.
    #[error("the trace is not attempted")]
    NotAttempted,
}

impl From<TraceError> for BusError {
    fn from(error: TraceError) -> Self {
        match error {
            TraceError::Call(error) => error.into(),
            TraceError::Trie(error) => (*error).into(),
            TraceError::Script(ScriptError::CallerGone) => Self::TimedOut,
            TraceError::TooLong { .. }
            | TraceError::TooLarge { .. }
            | TraceError::TooManySlots { .. }
            | TraceError::NotAttempted
            | TraceError::Script(ScriptError::TooMany { .. } | ScriptError::NoMemory { .. }) => {
                Self::limit_reached(error)
            }
            TraceError::NotFound(_)
            | TraceError::Genesis
            | TraceError::UndecodableBlock(_)
            | TraceError::UnknownAncestor
            | TraceError::Sender(_)
            | TraceError::NoSuchTracer
            | TraceError::UnusableTracer(_)
            | TraceError::UnknownInstruction(_)
            | TraceError::InvalidTracerConfig
            | TraceError::TracingFailed(_)
            | TraceError::NoResult(_)
            | TraceError::Script(_)
            | TraceError::Transaction { .. }
            | TraceError::Rejected(_)
            | TraceError::InvalidMessage(_)
            | TraceError::TimedOut
            | TraceError::NotCall => Self::failed(error),
        }
    }
}

impl TraceError {
    /// The error of a transaction or call that could not be traced.
    pub fn tracing_failed(reason: impl Display) -> Self {
        Self::TracingFailed(reason.to_string())
    }

    /// The error of a block that is unknown, in the words of go-ethereum.
    pub fn unknown_block(id: BlockId) -> Self {
        Self::NotFound(unknown_block_text(id))
    }

    /// The error of a block whose parent is unknown, in the words of go-ethereum.
    pub fn unknown_parent(hash: B256) -> Self {
        Self::NotFound(format!("parent {hash} not found"))
    }
}

/// The text for a block that is unknown, in the words of go-ethereum.
pub fn unknown_block_text(id: BlockId) -> String {
    match id {
        BlockId::Hash { hash, .. } => format!("block {hash} not found"),
        BlockId::Number(number) => format!("block #{number} not found"),
        BlockId::Tag(_) => "block not found".to_owned(),
    }
}

impl From<TransactionRejection> for TraceError {
    fn from(rejection: TransactionRejection) -> Self {
        match rejection {
            TransactionRejection::Store(error) => error.into(),
            TransactionRejection::Trie(error) => Self::Trie(error),
            rejection => Self::Rejected(rejection),
        }
    }
}

impl From<TrieError> for TraceError {
    fn from(error: TrieError) -> Self {
        match error {
            TrieError::Store(error) => error.into(),
            error => Self::Trie(Box::new(error)),
        }
    }
}

/// Why a traced message has no outcome.
impl From<RunFailure> for TraceError {
    fn from(failure: RunFailure) -> Self {
        match failure {
            RunFailure::Stopped(Stopped::TimedOut) => Self::TimedOut,
            RunFailure::Stopped(Stopped::CallerGone) => Self::Call(CallError::CallerGone),
            RunFailure::OutOfMemory(refused) => Self::Call(refused.into()),
            RunFailure::Store(error) => error.into(),
            RunFailure::Refused(text) | RunFailure::Other(text) => Self::TracingFailed(text),
            RunFailure::Message(invalid) => Self::tracing_failed(invalid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_told_apart_from_other_errors() {
        let cases = [
            (TraceError::TimedOut, false, "execution timeout"),
            (TraceError::TooLong { max: 9 }, true, "the trace records more than 9 bytes"),
            (
                TraceError::TooLarge { max_steps: 7 },
                true,
                "the trace records more than 7 steps or more memory than is left for traces; set \"limit\", disable \
                 what is not needed, or use callTracer",
            ),
            (
                TraceError::TooManySlots { contract: Address::ZERO, max: 2_000_000 },
                true,
                "account 0000000000000000000000000000000000000000 has more than 2000000 slots, which are too many to \
                 sort",
            ),
            (ScriptError::TimedOut.into(), false, "execution timeout"),
            (
                ScriptError::TooMany { max: 2 }.into(),
                true,
                "2 scripts are running, which is the limit of this node; try again later",
            ),
            (TransactionRejection::Rule("no".to_owned()).into(), false, "no"),
            (TraceError::tracing_failed("no tracer"), false, "tracing failed: no tracer"),
        ];
        for (error, is_limit, text) in cases {
            let expected = if is_limit { BusError::limit_reached(text) } else { BusError::failed(text) };
            assert_eq!(BusError::from(error), expected);
        }
        for error in [TraceError::from(ScriptError::CallerGone), StoreError::Stopped.into()] {
            assert_eq!(BusError::from(error), BusError::TimedOut);
        }
    }
}

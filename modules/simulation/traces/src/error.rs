//! Why a request for a trace, or another one about an executed block, failed.

use std::fmt::Display;

use alloy_primitives::{Address, B256};
use tenon_api::{
    BlockId, BusError, ConsensusError, StoreError,
    messages::{CallFailure, MissingItem, TraceFailure, TracerDialect},
};
use tenon_chain::{RecoverError, ResolveError, StateUnavailable, TrieError};
use tenon_execution_interface::{ExecutionError, Stopped, TransactionRejection};
use tenon_javascript::ScriptError;
use tenon_simulation_interface::{CallError, RunFailure};

/// Why a request for a trace, or another one about an executed block, failed.
#[derive(Debug, derive_more::From, thiserror::Error)]
pub enum TraceError {
    /// The trace itself has failed. Plugins write the text for clients.
    #[error("the trace itself failed")]
    #[from(TraceFailure)]
    Failed(TraceFailure),
    /// The state on which the block or call builds has an error.
    #[error(transparent)]
    #[from(ConsensusError, ExecutionError, ResolveError, StoreError)]
    Call(CallError),
    /// A script could not run.
    #[error(transparent)]
    Script(ScriptError),
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

impl TraceError {
    /// The answer of a trace on the bus: the failure of the trace itself is a reply. There is no other conversion into
    /// a [`BusError`], which would send its text for logs to clients.
    ///
    /// # Errors
    /// If the node could not make the trace.
    pub fn reply<T>(outcome: Result<T, Self>) -> Result<Result<T, TraceFailure>, BusError> {
        outcome.map(Ok).or_else(|error| match error {
            Self::Failed(failure) => Ok(Err(failure)),
            Self::Call(error) => CallError::reply(Err(error)).map(|reply| reply.map_err(TraceFailure::Call)),
            Self::Trie(error) => Err((*error).into()),
            Self::Script(ScriptError::CallerGone) => Err(BusError::TimedOut),
            Self::TooLong { .. }
            | Self::TooLarge { .. }
            | Self::TooManySlots { .. }
            | Self::NotAttempted
            | Self::Script(ScriptError::TooMany { .. } | ScriptError::NoMemory { .. }) => {
                Err(BusError::limit_reached(error))
            }
            Self::Script(_) | Self::NotCall => Err(BusError::failed(error)),
        })
    }

    /// Why one transaction of a traced block has no trace.
    pub fn into_failure(self) -> TraceFailure {
        match self {
            Self::Failed(failure) => failure,
            Self::Call(CallError::StateUnavailable(StateUnavailable { state_root })) => {
                TraceFailure::StateUnavailable { state_root }
            }
            Self::Call(CallError::Resolve(ResolveError::Unresolved(problem))) => TraceFailure::UnresolvedBlock(problem),
            error => match error.trie_error() {
                Some(TrieError::Missing { hash, path, .. }) => {
                    TraceFailure::MissingTrieNode { hash: *hash, path: path.clone() }
                }
                _ => TraceFailure::Node { error: error.to_string() },
            },
        }
    }

    /// The error of a trie that is the cause, if there is one.
    fn trie_error(&self) -> Option<&TrieError> {
        match self {
            Self::Trie(error) => Some(error),
            Self::Call(CallError::Block(error)) => match &**error {
                ExecutionError::Trie { source, .. } => Some(source),
                _ => None,
            },
            _ => None,
        }
    }

    /// The error of a transaction or call that could not be run under a tracer.
    pub fn not_traced(reason: impl Display) -> Self {
        Self::Failed(TraceFailure::NotTraced { reason: reason.to_string() })
    }

    /// The error of something that is unknown.
    pub const fn missing(item: MissingItem, dialect: TracerDialect) -> Self {
        Self::Failed(TraceFailure::Missing { item, dialect })
    }

    /// The error of a block that is unknown, in the words of go-ethereum.
    pub const fn unknown_block(id: BlockId) -> Self {
        Self::missing(MissingItem::Block(id), TracerDialect::Ethereum)
    }

    /// The error of a block whose parent is unknown, in the words of go-ethereum.
    pub const fn unknown_parent(hash: B256) -> Self {
        Self::missing(MissingItem::Parent(hash), TracerDialect::Ethereum)
    }
}

/// The failure of a traced call itself, for example of its overrides, is one of the trace.
impl From<CallError> for TraceError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Failed(failure) => failure.into(),
            error => Self::Call(error),
        }
    }
}

impl From<CallFailure> for TraceError {
    fn from(failure: CallFailure) -> Self {
        Self::Failed(TraceFailure::Call(failure))
    }
}

impl From<ScriptError> for TraceError {
    fn from(error: ScriptError) -> Self {
        match error {
            ScriptError::Script(error) => Self::Failed(TraceFailure::Script { error }),
            ScriptError::TimedOut => Self::Failed(TraceFailure::TimedOut),
            error => Self::Script(error),
        }
    }
}

/// The error of a supplied block with a transaction that has no sender.
impl From<RecoverError> for TraceError {
    fn from(error: RecoverError) -> Self {
        Self::Failed(TraceFailure::InvalidSender(error.into()))
    }
}

impl From<TransactionRejection> for TraceError {
    fn from(rejection: TransactionRejection) -> Self {
        match rejection {
            TransactionRejection::Store(error) => error.into(),
            TransactionRejection::Trie(error) => Self::Trie(error),
            TransactionRejection::Unsupported(_) | TransactionRejection::NoResult(_) => {
                Self::Failed(TraceFailure::NotExecuted { reason: rejection.to_string() })
            }
            rejection => Self::Failed(TraceFailure::InvalidTransaction { reason: rejection.to_string() }),
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
            RunFailure::Stopped(Stopped::TimedOut) => Self::Failed(TraceFailure::TimedOut),
            RunFailure::Stopped(Stopped::CallerGone) => Self::Call(CallError::CallerGone),
            RunFailure::OutOfMemory(refused) => Self::Call(refused.into()),
            RunFailure::Store(error) => error.into(),
            RunFailure::Refused(text) | RunFailure::Other(text) => Self::not_traced(text),
            RunFailure::Message(invalid) => Self::not_traced(invalid),
        }
    }
}

#[cfg(test)]
mod tests {
    use tenon_api::{BlockNumber, UnresolvedBlock};

    use super::*;

    #[test]
    fn limits_are_told_apart_from_other_errors() {
        let cases = [
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
            (
                ScriptError::TooMany { max: 2 }.into(),
                true,
                "2 scripts are running, which is the limit of this node; try again later",
            ),
            (ScriptError::State.into(), false, "the state cannot be read"),
        ];
        for (error, is_limit, text) in cases {
            let expected = if is_limit { BusError::limit_reached(text) } else { BusError::failed(text) };
            assert_eq!(TraceError::reply::<()>(Err(error)), Err(expected));
        }
        for error in [TraceError::from(ScriptError::CallerGone), StoreError::Stopped.into()] {
            assert_eq!(TraceError::reply::<()>(Err(error)), Err(BusError::TimedOut));
        }
    }

    #[test]
    fn a_failure_of_the_trace_is_a_reply() {
        let reason = || "no".to_owned();
        let cases = [
            (TraceError::from(ScriptError::TimedOut), TraceFailure::TimedOut),
            (ScriptError::Script(reason()).into(), TraceFailure::Script { error: reason() }),
            (RunFailure::Stopped(Stopped::TimedOut).into(), TraceFailure::TimedOut),
            (TransactionRejection::Rule(reason()).into(), TraceFailure::InvalidTransaction { reason: reason() }),
            (TransactionRejection::NoResult(reason()).into(), TraceFailure::NotExecuted { reason: reason() }),
            (TraceError::not_traced("no"), TraceFailure::NotTraced { reason: reason() }),
            (CallError::Failed(CallFailure::OutOfGas).into(), TraceFailure::Call(CallFailure::OutOfGas)),
        ];
        for (error, failure) in cases {
            assert_eq!(TraceError::reply::<()>(Err(error)), Ok(Err(failure)));
        }
    }

    #[test]
    fn a_transaction_of_a_block_without_trace_has_the_text_of_the_nodes_error() {
        let error = "the trace records more than 9 bytes".to_owned();

        assert_eq!(TraceError::TooLong { max: 9 }.into_failure(), TraceFailure::Node { error });
        assert_eq!(TraceError::from(ScriptError::TimedOut).into_failure(), TraceFailure::TimedOut);
        let state_root = B256::repeat_byte(7);
        let unavailable = TraceError::from(CallError::from(StateUnavailable { state_root }));
        assert_eq!(unavailable.into_failure(), TraceFailure::StateUnavailable { state_root });
        let lost = TrieError::Missing { owner: None, path: vec![1], hash: state_root };
        let missing = || TraceFailure::MissingTrieNode { hash: state_root, path: vec![1] };
        let of_block = ExecutionError::Trie { number: BlockNumber(7), source: lost.clone() };
        assert_eq!(TraceError::from(lost).into_failure(), missing());
        assert_eq!(TraceError::from(of_block).into_failure(), missing());
        let unresolved = TraceError::from(ResolveError::from(UnresolvedBlock::NoSafeBlock));
        assert_eq!(unresolved.into_failure(), TraceFailure::UnresolvedBlock(UnresolvedBlock::NoSafeBlock));
    }
}

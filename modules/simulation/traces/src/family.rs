//! What a family of chains decides about traces.

use std::sync::Arc;

use tenon_api::{
    Block, BlockId, RecoveredBlock,
    messages::{TraceOptions, TraceResult, TraceTarget, TracerDialect, TransactionTrace},
};

use crate::{Replay, ReplayedBlock, TraceError};

/// The tracers of a family, for one chain.
pub trait TraceFamily: Send + Sync {
    /// Determines the form of results, and the words of errors.
    fn dialect(&self) -> TracerDialect;

    /// The tracing of one request, over its replay.
    ///
    /// # Errors
    /// The options name no tracer of the family, or contradict it.
    fn tracing<'a>(&self, replay: Replay<'a>, options: &'a TraceOptions) -> Result<Box<dyn Tracing + 'a>, TraceError>;
}

/// One trace request, answered by a family's tracers.
pub trait Tracing {
    /// The replay of this request.
    fn replay(&self) -> &Replay<'_>;

    /// Returns whether the tracer records calls only. Only such a trace is attempted on the caller's task: the time
    /// limit of an attempt bounds its depth, so that it needs no deep stack.
    fn records_calls_only(&self) -> bool;

    /// A block that may be traced.
    ///
    /// # Errors
    /// It is unknown or may not be traced.
    fn block(&self, id: BlockId) -> Result<Arc<RecoveredBlock>, TraceError> {
        self.replay().block(id)
    }

    /// Checks a block that the caller supplied.
    ///
    /// # Errors
    /// It may not be traced.
    fn check_raw_block(&self, block: &Block) -> Result<(), TraceError>;

    /// Traces one transaction of a block whose earlier transactions were executed.
    ///
    /// # Errors
    /// The transaction could not be traced.
    fn trace_transaction(
        &self,
        execution: &mut ReplayedBlock,
        block: &RecoveredBlock,
        index: usize,
    ) -> Result<TraceResult, TraceError>;

    /// Traces a whole block.
    ///
    /// # Errors
    /// The block cannot be executed, or the results are too large. A failed trace of one transaction is a result.
    fn trace_block(&self, block: &RecoveredBlock) -> Result<Vec<TransactionTrace>, TraceError>;

    /// Traces a call.
    ///
    /// # Errors
    /// The call could not be traced.
    fn trace_call(&self, target: &TraceTarget) -> Result<TraceResult, TraceError>;
}

//! Memory of large answers, from the run that produced them until their message is answered.

use tenon_api::{BusError, Bytes, RequestError, messages::TraceReply};
use tenon_bus::{CallContext, MemoryUse};

use super::Calls;

/// Smaller answers are not charged: their call already accounts for them.
const UNCOUNTED: usize = 128 << 10;

/// The memory of an answer on its way to the client, bytes: the typed value, a frame for the plugin, and JSON unless
/// the plugin counts that itself.
pub(crate) trait AnswerLength {
    /// The sum of its copies.
    fn copies(&self) -> usize;
}

impl AnswerLength for Bytes {
    fn copies(&self) -> usize {
        // In JSON a byte is two digits.
        self.len().saturating_mul(4)
    }
}

/// A gas estimate is short. Only its error can be long: the output of a reverted call.
impl AnswerLength for u64 {
    fn copies(&self) -> usize {
        size_of::<Self>()
    }
}

impl AnswerLength for TraceReply {
    fn copies(&self) -> usize {
        self.size().saturating_mul(2)
    }
}

impl Calls {
    /// Charges a large answer, or the output of a reverted call, to the caller's client until its message is answered.
    ///
    /// # Errors
    /// The error of the answer, or the client's share of memory is used up.
    pub(crate) fn charged<T: AnswerLength, E: Into<BusError>>(
        &self,
        answer: Result<T, E>,
        caller: &CallContext,
    ) -> Result<T, BusError> {
        let answer = answer.map_err(E::into);
        let bytes = match &answer {
            Ok(answer) => answer.copies(),
            Err(BusError::Module(RequestError::Reverted { message, output })) => message.len() + output.copies(),
            Err(_) => 0,
        };
        if bytes >= UNCOUNTED {
            caller.keep(self.memory.client(caller.origin().client).reserve(MemoryUse::Calls, bytes)?);
        }
        answer
    }
}

//! Memory of large answers, from the run that produced them until their message is answered.

use alloy_primitives::hex;
use tenon_api::{
    BusError, Bytes,
    messages::{CallFailure, TraceFailure, TraceReply},
};
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

/// A gas estimate is short. Only its failure can be long.
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

/// A failure can have a text of the client or of its script, which may be long.
impl AnswerLength for Result<TraceReply, TraceFailure> {
    fn copies(&self) -> usize {
        match self {
            Ok(reply) => reply.copies(),
            Err(failure) => failure.size().saturating_mul(2),
        }
    }
}

/// Of the failures only a reverted call's is long: its output, and the reason in it.
impl<T: AnswerLength> AnswerLength for Result<T, CallFailure> {
    fn copies(&self) -> usize {
        match self {
            Ok(answer) => answer.copies(),
            Err(CallFailure::Reverted { output }) => reason_length(output) + output.copies(),
            Err(_) => 0,
        }
    }
}

/// Upper bound for the length of the reason in a reverted call's error text, bytes: the length of the output if it is
/// Solidity's `Error(string)`, otherwise 0.
pub(crate) fn reason_length(output: &[u8]) -> usize {
    const ERROR_SELECTOR: [u8; 4] = hex!("08c379a0");
    /// A byte that is not UTF-8 becomes U+FFFD, which has three.
    const REPLACEMENT: usize = char::REPLACEMENT_CHARACTER.len_utf8();
    if output.starts_with(&ERROR_SELECTOR) { output.len().saturating_mul(REPLACEMENT) } else { 0 }
}

impl Calls {
    /// Charges a large answer to the caller's client until its message is answered.
    ///
    /// # Errors
    /// The error of the answer, or the client's share of memory is used up.
    pub(crate) fn charged<T: AnswerLength>(
        &self,
        answer: Result<T, BusError>,
        caller: &CallContext,
    ) -> Result<T, BusError> {
        let bytes = answer.as_ref().map_or(0, T::copies);
        if bytes >= UNCOUNTED {
            caller.keep(self.memory.client(caller.origin().client).reserve(MemoryUse::Calls, bytes)?);
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_failed_trace_is_counted() {
        let failed: Result<TraceReply, _> = Err(TraceFailure::Script { error: "thrown".to_owned() });

        assert_eq!(failed.copies(), 2 * "thrown".len());
    }

    #[test]
    fn the_reason_of_a_reverted_call_is_at_most_as_long_as_counted() {
        let selector = hex!("08c379a0");
        let not_utf8 = [&selector[..], &[0xff; 5]].concat();
        let shown = String::from_utf8_lossy(&not_utf8[selector.len()..]).len();

        assert_eq!(shown, 15);
        assert!(reason_length(&not_utf8) >= shown);
        assert_eq!(reason_length(&[0xff; 9]), 0);
    }
}

//! Decoding errors.

pub use tenon_api::DecodeProblem;

/// Why bytes are not a valid encoding: the item, its position, and the problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {offset}: {problem}")]
pub struct DecodeError {
    /// The field or object that was being read.
    pub what: &'static str,
    /// Offset in bytes from the start of the caller's input.
    pub offset: usize,
    /// The problem.
    pub problem: DecodeProblem,
}

impl DecodeError {
    pub(crate) const fn new(what: &'static str, offset: usize, problem: DecodeProblem) -> Self {
        Self { what, offset, problem }
    }

    /// The same error for an input that begins `bytes` earlier.
    pub(crate) const fn shifted(self, bytes: usize) -> Self {
        Self { what: self.what, offset: self.offset + bytes, problem: self.problem }
    }
}

//! What happens with a request.

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is signed.
    Allow,
    /// A person is asked.
    Ask,
    /// It is refused.
    Deny,
}

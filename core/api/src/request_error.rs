//! What a module reports over the bus if it cannot answer a request.

/// Why a module cannot answer a request. A caller can tell the variants apart; the text is for its user.
///
/// Each module has an error enum of its own and converts it into a [`BusError`](crate::BusError) where it answers
/// requests. The SDK gives each variant its JSON-RPC code (`tenon_sdk::Failure`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Something that the request names is unknown, an action is refused, or something that the module needs has
    /// failed.
    #[error("{0}")]
    Failed(String),
    /// An argument is wrong.
    #[error("{0}")]
    InvalidArgument(String),
    /// A limit of this node is reached: memory, queue, time or size.
    #[error("{0}")]
    LimitReached(String),
}

//! The one error type that handlers return to their callers.

use serde::{Deserialize, Serialize};

/// JSON-RPC error codes that clients of this chain family know (`docs/spec/rpc-eth.md` 3.3).
///
/// A newtype, not an enum: a plugin may return a code of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FailureCode(pub i32);

impl FailureCode {
    /// Any error that a method returns: `-32000`.
    pub const SERVER: Self = Self(-32000);
    /// The request is not a call: `-32600`.
    pub const INVALID_REQUEST: Self = Self(-32600);
    /// The text is not JSON: `-32700`.
    pub const PARSE: Self = Self(-32700);
    /// No such method or subscription: `-32601`.
    pub const METHOD_NOT_FOUND: Self = Self(-32601);
    /// Arguments are missing, too many or malformed: `-32602`.
    pub const INVALID_PARAMS: Self = Self(-32602);
    /// A limit of this node was reached (queue, time, size): `-32005`.
    pub const LIMIT_EXCEEDED: Self = Self(-32005);
    /// Execution reverted with return data, which travels in `data`: `3`.
    pub const REVERTED: Self = Self(3);
}

/// Why a call failed, with the text and code that the JSON-RPC client receives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The JSON-RPC error code.
    pub code: FailureCode,
    /// What happened, to which thing, and where it helps, what to do.
    pub message: String,
    /// The JSON text of the error's `data` member, if it has one.
    pub data: Option<String>,
}

impl Failure {
    /// An ordinary failure, code `-32000`.
    pub fn server(message: impl Into<String>) -> Self {
        Self { code: FailureCode::SERVER, message: message.into(), data: None }
    }

    /// A failure of the arguments, code `-32602`.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self { code: FailureCode::INVALID_PARAMS, message: message.into(), data: None }
    }

    /// A limit was reached, code `-32005`.
    pub fn limit(message: impl Into<String>) -> Self {
        Self { code: FailureCode::LIMIT_EXCEEDED, message: message.into(), data: None }
    }

    /// Adds the JSON text that becomes the `data` member.
    #[must_use]
    pub fn with_data(mut self, json: impl Into<String>) -> Self {
        self.data = Some(json.into());
        self
    }
}

impl From<crate::StoreError> for Failure {
    fn from(error: crate::StoreError) -> Self {
        match error {
            crate::StoreError::OutOfMemory { reason } => Self::limit(reason),
            crate::StoreError::Stopped => Self::limit(error.to_string()),
            error => Self::server(error.to_string()),
        }
    }
}

//! Errors about the form of a JSON text, with their position.

use derive_more::Display;
use tenon_api::shown_json_problem;

/// A JSON text of the wrong form, and the position of the error.
#[derive(Debug, Display)]
#[display("{message} at line {line} column {column}")]
pub struct FormError {
    /// The problem.
    pub message: String,
    /// Line of the text, counted from 1.
    pub line: usize,
    /// Column of that line, counted from 1.
    pub column: usize,
}

impl From<&serde_json::Error> for FormError {
    fn from(error: &serde_json::Error) -> Self {
        Self { message: message_of(error), line: error.line(), column: error.column() }
    }
}

/// The text of an error without its position.
pub(super) fn message_of(error: &serde_json::Error) -> String {
    let text = error.to_string();
    shown_json_problem(&text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message))
}

//! Errors about the form of a JSON text, in the words of JSON. The parser names types of the program.

use derive_more::Display;

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

/// What the parser expects, as it names the types of a program, and in the words of JSON.
const EXPECTED: [(&str, &str); 14] = [
    ("a map", OBJECT),
    ("a sequence", "an array"),
    ("u8", "a whole number from 0 to 255"),
    ("u16", "a whole number from 0 to 65535"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u64", "a whole number"),
    ("usize", "a whole number"),
    ("i8", "a whole number"),
    ("i16", "a whole number"),
    ("i32", "a whole number"),
    ("i64", "a whole number"),
    ("isize", "a whole number"),
    ("f32", "a number"),
    ("f64", "a number"),
];

const OBJECT: &str = "an object";

/// The text of an error without its position.
pub(super) fn message_of(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    let Some((found, expected)) = text.rsplit_once(", expected ") else { return text.to_owned() };
    let of_type = || EXPECTED.iter().find(|(name, _)| *name == expected).map_or(expected, |(_, words)| words);
    let expected = if expected.starts_with("struct ") { OBJECT } else { of_type() };
    // The parser takes an array for the members of an object in order, and counts them.
    if expected == OBJECT && (found.starts_with("invalid length ") || found == "invalid type: sequence") {
        return format!("an array instead of {OBJECT}");
    }
    format!("{found}, expected {expected}")
}

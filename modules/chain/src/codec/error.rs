//! Decoding errors.

use std::fmt;

/// The problem of an encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeProblem {
    /// The item claims to be longer than the input.
    TooShort,
    /// A length or a single byte is not in its shortest form.
    NotMinimal,
    /// An integer begins with a zero byte.
    LeadingZero,
    /// An integer does not fit its field.
    TooLarge,
    /// A list instead of a byte string.
    UnexpectedList,
    /// A byte string instead of a list.
    UnexpectedString,
    /// A field of fixed length has another length.
    WrongLength {
        /// Length of the field.
        wanted: usize,
        /// Length found.
        found: usize,
    },
    /// A list has too few or too many items.
    WrongItemCount {
        /// Items counted before the decoder stopped.
        found: usize,
    },
    /// Bytes follow the end of the object.
    TrailingBytes {
        /// Their number.
        count: usize,
    },
    /// A transaction or receipt type that this chain family does not have.
    UnsupportedType {
        /// The type byte.
        found: u8,
    },
    /// A typed transaction has no payload.
    TypedTooShort,
    /// The object is longer than the reader's limit.
    OverBound {
        /// The object's length in bytes.
        length: u64,
        /// The limit in bytes.
        bound: u64,
    },
    /// A value that is invalid for its field, such as a signature parity of 7.
    InvalidValue,
}

impl fmt::Display for DecodeProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort => formatter.write_str("input ends inside the item"),
            Self::NotMinimal => formatter.write_str("length or byte is not in its shortest form"),
            Self::LeadingZero => formatter.write_str("integer begins with a zero byte"),
            Self::TooLarge => formatter.write_str("integer does not fit"),
            Self::UnexpectedList => formatter.write_str("a list instead of a byte string"),
            Self::UnexpectedString => formatter.write_str("a byte string instead of a list"),
            Self::WrongLength { wanted, found } => write!(formatter, "{found} bytes instead of {wanted}"),
            Self::WrongItemCount { found } => write!(formatter, "wrong number of items ({found})"),
            Self::TrailingBytes { count } => write!(formatter, "{count} bytes follow the end"),
            Self::UnsupportedType { found } => write!(formatter, "type 0x{found:02x} is not supported"),
            Self::TypedTooShort => formatter.write_str("typed transaction too short"),
            Self::OverBound { length, bound } => write!(formatter, "{length} bytes, more than the bound of {bound}"),
            Self::InvalidValue => formatter.write_str("value is not allowed"),
        }
    }
}

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

//! What is wrong with the encoding of a chain object.

use serde::{Deserialize, Serialize};

/// The problem of an encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, derive_more::Display)]
pub enum DecodeProblem {
    /// The item claims to be longer than the input.
    #[display("input ends inside the item")]
    TooShort,
    /// A length or a single byte is not in its shortest form.
    #[display("length or byte is not in its shortest form")]
    NotMinimal,
    /// An integer begins with a zero byte.
    #[display("integer begins with a zero byte")]
    LeadingZero,
    /// An integer does not fit its field.
    #[display("integer does not fit")]
    TooLarge,
    /// A list instead of a byte string.
    #[display("a list instead of a byte string")]
    UnexpectedList,
    /// A byte string instead of a list.
    #[display("a byte string instead of a list")]
    UnexpectedString,
    /// A field of fixed length has another length.
    #[display("{found} bytes instead of {wanted}")]
    WrongLength {
        /// Length of the field.
        wanted: usize,
        /// Length found.
        found: usize,
    },
    /// A list has too few or too many items.
    #[display("wrong number of items ({found})")]
    WrongItemCount {
        /// Items counted before the decoder stopped.
        found: usize,
    },
    /// Bytes follow the end of the object.
    #[display("{count} bytes follow the end")]
    TrailingBytes {
        /// Their number.
        count: usize,
    },
    /// A transaction or receipt type that this chain family does not have.
    #[display("type 0x{found:02x} is not supported")]
    UnsupportedType {
        /// The type byte.
        found: u8,
    },
    /// A typed transaction has no payload.
    #[display("typed transaction too short")]
    TypedTooShort,
    /// The object is longer than the reader's limit.
    #[display("{length} bytes, more than the bound of {bound}")]
    OverBound {
        /// The object's length in bytes.
        length: u64,
        /// The limit in bytes.
        bound: u64,
    },
    /// A value that is invalid for its field, such as a signature parity of 7.
    #[display("value is not allowed")]
    InvalidValue,
}

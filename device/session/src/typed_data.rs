//! Typed data (EIP-712) by structure, as devices of the Model T line query it.

use std::collections::BTreeMap;

use alloy_primitives::B256;

/// The type of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberType {
    /// `uintN`, with its length in bytes.
    Unsigned(u32),
    /// `intN`, with its length in bytes.
    Signed(u32),
    /// `bytesN`, or `bytes`.
    Bytes(Option<u32>),
    /// `string`.
    Text,
    /// `bool`.
    Bool,
    /// `address`.
    Address,
    /// `T[]`, or `T[N]`.
    Array(Box<MemberType>, Option<u32>),
    /// Another structure.
    Structure(String),
}

/// A member of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The name.
    pub name: String,
    /// The type.
    pub kind: MemberType,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The bytes to send to a device: for a number, its type's length in big-endian; for a string, its UTF-8; for a
    /// boolean, one byte.
    Plain(Vec<u8>),
    /// The items of an array, or the members of a structure in the order of its definition.
    Parts(Vec<Value>),
}

/// Typed data with the two hashes that are signed. The caller must have computed the hashes from the same definitions
/// and values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedData {
    /// The structures by name, including `EIP712Domain`.
    pub structures: BTreeMap<String, Vec<Member>>,
    /// Name of the message's structure.
    pub primary_type: String,
    /// The values of the domain.
    pub domain: Value,
    /// The values of the message.
    pub message: Value,
    /// Hash of the domain.
    pub domain_separator: B256,
    /// Hash of the message; `None` if only the domain is signed.
    pub message_hash: Option<B256>,
}

impl TypedData {
    /// The value at a path. The first element selects the domain (0) or the message (1).
    pub(crate) fn value(&self, path: &[u32]) -> Option<&Value> {
        let (root, path) = path.split_first()?;
        let root = match root {
            0 => &self.domain,
            1 => &self.message,
            _ => return None,
        };
        path.iter().try_fold(root, |value, index| match value {
            Value::Parts(parts) => parts.get(*index as usize),
            Value::Plain(_) => None,
        })
    }
}

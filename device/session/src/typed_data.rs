//! Typed data (EIP-712) by their structure, as devices of the Model T line ask for them.

use std::collections::BTreeMap;

use alloy_primitives::B256;

/// The type of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberType {
    /// `uintN`; bytes of it.
    Unsigned(u32),
    /// `intN`; bytes of it.
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
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: MemberType,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The bytes that a device is given: of a number as many as its type has, big endian; of a text its UTF-8; one of a
    /// boolean.
    Plain(Vec<u8>),
    /// The items of an array, or the members of a structure in the order of its definition.
    Parts(Vec<Value>),
}

/// Typed data with the two hashes that a signature is over. Whoever makes it has computed the hashes from the same
/// definitions and values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedData {
    /// The structures by name, `EIP712Domain` among them.
    pub structures: BTreeMap<String, Vec<Member>>,
    /// The structure of the message.
    pub primary_type: String,
    /// The domain's values.
    pub domain: Value,
    /// The message's values.
    pub message: Value,
    /// Hash of the domain.
    pub domain_separator: B256,
    /// Hash of the message; none when the domain alone is signed.
    pub message_hash: Option<B256>,
}

impl TypedData {
    /// The value at a path: 0 leads into the domain, 1 into the message.
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

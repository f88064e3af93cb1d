//! A transaction whose data is being received, and its hash (`docs/spec/device.md 6.7`).

use alloy_primitives::keccak256;

use crate::keys::Node;

/// A confirmed transaction whose data is being received.
pub(crate) struct Signing {
    pub(crate) node: Node,
    pub(crate) transaction: Confirmed,
    pub(crate) data: Vec<u8>,
    /// Announced length of the data.
    pub(crate) data_length: usize,
}

/// The encoded members of a transaction before and after its data.
pub(crate) struct Confirmed {
    /// The type byte before the list, for typed transactions.
    pub(crate) envelope: Option<u8>,
    pub(crate) before_data: Vec<u8>,
    pub(crate) after_data: Vec<u8>,
    /// How v encodes the chain.
    pub(crate) signature_form: SignatureForm,
}

/// How v encodes the chain.
#[derive(Clone, Copy)]
pub(crate) enum SignatureForm {
    /// 27 plus the bit.
    Unprotected,
    /// 35 plus twice the chain id plus the bit.
    Chain(u64),
    /// Only the bit.
    Bit,
}

impl Signing {
    /// The hash to sign. Its headers contain the announced length of the data, even if another length was received.
    pub(crate) fn hash(&self) -> [u8; 32] {
        let Confirmed { envelope, before_data, after_data, .. } = &self.transaction;
        let data = if self.data_length == 1 && self.data[0] < 0x80 {
            vec![self.data[0]]
        } else {
            [header(0x80, self.data_length), self.data.clone()].concat()
        };
        let surplus = self.data.len().saturating_sub(self.data_length);
        let list = header(0xc0, before_data.len() + data.len() - surplus + after_data.len());
        let envelope: Vec<u8> = envelope.iter().copied().collect();
        keccak256([&envelope, &list, before_data, &data, after_data].map(Vec::as_slice).concat()).0
    }
}

/// Appends a number as an RLP string.
pub(crate) fn put_number(to: &mut Vec<u8>, number: u64) {
    let bytes = number.to_be_bytes();
    put_string(to, &bytes[number.leading_zeros() as usize / 8..]);
}

/// Appends an RLP string without changing its bytes.
pub(crate) fn put_string(to: &mut Vec<u8>, bytes: &[u8]) {
    if !matches!(bytes, [byte] if *byte < 0x80) {
        to.extend(header(0x80, bytes.len()));
    }
    to.extend_from_slice(bytes);
}

/// The header of a string (0x80) or a list (0xc0).
pub(crate) fn header(kind: u8, length: usize) -> Vec<u8> {
    if length < 56 {
        return vec![kind + length as u8];
    }
    let bytes = length.to_be_bytes();
    let bytes = &bytes[length.leading_zeros() as usize / 8..];
    [&[kind + 55 + bytes.len() as u8], bytes].concat()
}

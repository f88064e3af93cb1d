//! The identifier of a node: its public key (`docs/spec/p2p.md` 3).

use std::str::FromStr;

use alloy_primitives::{B256, hex, keccak256};
use secp256k1::PublicKey;

/// A node's public key: both coordinates, 32 bytes each, without the leading 04. Only
/// [`NodeId::public_key`] checks that it is on the curve.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display, derive_more::Debug)]
#[display("{}", hex::encode(_0))]
#[debug("NodeId({})", self.short())]
pub struct NodeId(pub [u8; 64]);

/// Why a text or a number is not a node's identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeIdError {
    /// The text has the wrong number of digits.
    #[error("the text does not have 128 hexadecimal digits")]
    Length,
    /// A character is not a hexadecimal digit.
    #[error("a character is not a hexadecimal digit")]
    Digit,
    /// The coordinates are not those of a point of the curve.
    #[error("the coordinates are not those of a point of the curve")]
    NotOnCurve,
}

impl NodeId {
    /// The identifier whose bytes are all zero. No node has it.
    pub const ZERO: Self = Self([0; 64]);

    /// The hash that distances between nodes are computed from.
    pub fn hash(&self) -> B256 {
        keccak256(self.0)
    }

    /// The identifier as a public key of the curve.
    ///
    /// # Errors
    /// [`NodeIdError::NotOnCurve`].
    pub fn public_key(&self) -> Result<PublicKey, NodeIdError> {
        let mut bytes = [4; 65];
        bytes[1..].copy_from_slice(&self.0);
        PublicKey::from_byte_array_uncompressed(bytes).map_err(|_| NodeIdError::NotOnCurve)
    }

    /// The first 8 bytes in hexadecimal, for log lines.
    pub fn short(&self) -> String {
        hex::encode(&self.0[..8])
    }
}

impl From<&PublicKey> for NodeId {
    fn from(key: &PublicKey) -> Self {
        let mut id = [0; 64];
        id.copy_from_slice(&key.serialize_uncompressed()[1..]);
        Self(id)
    }
}

impl FromStr for NodeId {
    type Err = NodeIdError;

    /// Reads 128 hexadecimal digits, with or without `0x`.
    fn from_str(text: &str) -> Result<Self, NodeIdError> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        if digits.len() != 128 {
            return Err(NodeIdError::Length);
        }
        let mut id = [0; 64];
        hex::decode_to_slice(digits, &mut id).map_err(|_| NodeIdError::Digit)?;
        Ok(Self(id))
    }
}

//! Checks of signatures and addresses that a device returns.

use alloy_primitives::{Address, B256, keccak256};
use secp256k1::ecdsa::{RecoverableSignature, RecoveryId};
use secp256k1::{Message, SECP256K1};

use crate::DeviceError;

/// Half of the curve's order, the largest s that Ethereum accepts in a signature.
const HALF_ORDER: [u8; 32] = alloy_primitives::hex!("7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0");

/// A checked signature: it is by the requested account, over the hash that was computed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// r, big-endian.
    pub r: [u8; 32],
    /// s, big-endian, in the lower half.
    pub s: [u8; 32],
    /// The parity of the nonce's point.
    pub is_odd: bool,
}

impl Signature {
    /// Encodes as `r ‖ s ‖ 27 + parity`, the format of message signatures.
    pub fn to_bytes(self) -> [u8; 65] {
        let mut bytes = [0; 65];
        bytes[..32].copy_from_slice(&self.r);
        bytes[32..64].copy_from_slice(&self.s);
        bytes[64] = 27 + u8::from(self.is_odd);
        bytes
    }
}

/// Checks the parts of a signature and its signer.
pub(crate) fn signature(r: &[u8], s: &[u8], bit: u64, hash: B256, expected: Address) -> Result<Signature, DeviceError> {
    let invalid = DeviceError::InvalidSignature;
    let r: [u8; 32] = r.try_into().map_err(|_| invalid.clone())?;
    let s: [u8; 32] = s.try_into().map_err(|_| invalid.clone())?;
    if s > HALF_ORDER || bit > 1 {
        return Err(invalid);
    }
    let mut compact = [0; 64];
    compact[..32].copy_from_slice(&r);
    compact[32..].copy_from_slice(&s);
    // Rejects zero and values that are not below the order.
    let id = RecoveryId::try_from(bit as i32).map_err(|_| invalid.clone())?;
    let recoverable = RecoverableSignature::from_compact(&compact, id).map_err(|_| invalid.clone())?;
    let key = SECP256K1.recover_ecdsa(Message::from_digest(hash.0), &recoverable).map_err(|_| invalid)?;
    let got = Address::from_slice(&keccak256(&key.serialize_uncompressed()[1..])[12..]);
    if got != expected {
        return Err(DeviceError::SignerMismatch { expected, got });
    }
    Ok(Signature { r, s, is_odd: bit == 1 })
}

/// Checks a signature of 65 bytes and the address that comes with it.
pub(crate) fn signature_of_65(
    bytes: &[u8],
    address: Option<Address>,
    hash: B256,
    expected: Address,
) -> Result<Signature, DeviceError> {
    if bytes.is_empty() {
        return Err(DeviceError::LacksSignature);
    }
    if let Some(got) = address.filter(|got| *got != expected) {
        return Err(DeviceError::SignerMismatch { expected, got });
    }
    let [rs @ .., v] = bytes else { return Err(DeviceError::InvalidSignature) };
    let bit = if *v >= 27 { *v - 27 } else { *v };
    let (r, s) = rs.split_at_checked(32).ok_or(DeviceError::InvalidSignature)?;
    signature(r, s, u64::from(bit), hash, expected)
}

/// Parses an address: 20 bytes from old firmware, or a text with or without `0x`.
pub(crate) fn address(binary: &[u8], text: &str) -> Result<Address, DeviceError> {
    if !binary.is_empty() {
        return Address::try_from(binary).map_err(|_| DeviceError::InvalidAddress);
    }
    if text.is_empty() {
        return Err(DeviceError::MissingAddress);
    }
    if !matches!(text.len(), 40 | 42) {
        return Err(DeviceError::InvalidAddress);
    }
    text.parse().map_err(|_| DeviceError::InvalidAddress)
}

//! Recovery of single signatures with the C library, to which every batch result must be equal.

use secp256k1::{
    Message, SECP256K1,
    ecdsa::{RecoverableSignature, RecoveryId},
};

use crate::{PublicKey, RecoveryError, Signature};

/// The key that signed a hash.
pub(crate) fn recover(hash: &[u8; 32], signature: &Signature) -> Result<PublicKey, RecoveryError> {
    let id = RecoveryId::try_from(i32::from(signature.recovery_id)).map_err(|_| RecoveryError::RecoveryId)?;
    let mut compact = [0; 64];
    compact[..32].copy_from_slice(&signature.r);
    compact[32..].copy_from_slice(&signature.s);
    // The library rejects numbers above the group's order here, and zero during recovery.
    let parsed = RecoverableSignature::from_compact(&compact, id).map_err(|_| RecoveryError::OutOfRange)?;
    if signature.r == [0; 32] || signature.s == [0; 32] {
        return Err(RecoveryError::OutOfRange);
    }
    let key = SECP256K1.recover_ecdsa(Message::from_digest(*hash), &parsed).map_err(|_| RecoveryError::NoPublicKey)?;
    let mut bytes = [0; 64];
    bytes.copy_from_slice(&key.serialize_uncompressed()[1..]);
    Ok(PublicKey(bytes))
}

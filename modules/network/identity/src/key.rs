//! Secret keys of nodes: the static key of this node and the ephemeral ones of a handshake.

use alloy_primitives::B256;
use rand::{TryRngCore, rngs::OsRng};
use secp256k1::{
    Message, PublicKey, SECP256K1, SecretKey, ecdh,
    ecdsa::{RecoverableSignature, RecoveryId},
};
use zeroize::Zeroizing;

use crate::NodeId;

/// A secret key of the curve. The secret is wiped on drop.
pub struct NodeKey {
    /// Boxed, so that moving the key leaves no copy of the secret in memory.
    secret: Box<Zeroizing<[u8; 32]>>,
    id: NodeId,
}

/// Why an operation with a key failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The number is zero or not below the group's order.
    #[error("not a valid secret key of the curve")]
    InvalidSecret,
    /// The other side's key is not a point of the curve.
    #[error("invalid secp256k1 curve point")]
    NotOnCurve,
    /// No key can have made this signature.
    #[error("the signature is not valid")]
    Signature,
    /// The operating system returned no random numbers.
    #[error("the operating system returned no random numbers")]
    NoRandomNumbers,
}

impl NodeKey {
    /// The key with this secret.
    ///
    /// # Errors
    /// [`KeyError::InvalidSecret`].
    pub fn from_secret(secret: Zeroizing<[u8; 32]>) -> Result<Self, KeyError> {
        let mut key = SecretKey::from_byte_array(*secret).map_err(|_| KeyError::InvalidSecret)?;
        let id = NodeId::from(&PublicKey::from_secret_key_global(&key));
        key.non_secure_erase();
        Ok(Self { secret: Box::new(secret), id })
    }

    /// A new random key.
    ///
    /// # Errors
    /// [`KeyError::NoRandomNumbers`].
    pub fn random() -> Result<Self, KeyError> {
        loop {
            let mut secret = Zeroizing::new([0; 32]);
            OsRng.try_fill_bytes(secret.as_mut_slice()).map_err(|_| KeyError::NoRandomNumbers)?;
            // Fails for one number in 2^128.
            if let Ok(key) = Self::from_secret(secret) {
                return Ok(key);
            }
        }
    }

    /// The node's identifier: the public key.
    pub const fn id(&self) -> NodeId {
        self.id
    }

    /// The public key in the compressed form of 33 bytes that node records contain.
    ///
    /// # Errors
    /// Never fails for a key made by this type; [`KeyError::NotOnCurve`] is only passed on.
    pub fn compressed(&self) -> Result<[u8; 33], KeyError> {
        Ok(self.id.public_key().map_err(|_| KeyError::NotOnCurve)?.serialize())
    }

    /// The secret in hexadecimal digits, for the key file.
    pub(crate) fn reveal(&self) -> Zeroizing<String> {
        Zeroizing::new(alloy_primitives::hex::encode(self.secret.as_slice()))
    }

    /// Signs a hash, deterministically (RFC 6979) and with `s` in the lower half: `r ‖ s ‖ recovery id`.
    ///
    /// # Errors
    /// [`KeyError::InvalidSecret`]; never for a key made by this type.
    pub fn sign(&self, hash: B256) -> Result<[u8; 65], KeyError> {
        let mut key = SecretKey::from_byte_array(**self.secret).map_err(|_| KeyError::InvalidSecret)?;
        let signature = SECP256K1.sign_ecdsa_recoverable(Message::from_digest(hash.0), &key);
        key.non_secure_erase();
        let (recovery_id, compact) = signature.serialize_compact();
        let mut bytes = [0; 65];
        bytes[..64].copy_from_slice(&compact);
        bytes[64] = i32::from(recovery_id) as u8;
        Ok(bytes)
    }

    /// The X coordinate of the secret shared by this key and another one (ECDH): 32 bytes, padded on the left.
    ///
    /// # Errors
    /// [`KeyError::NotOnCurve`] if the other identifier is not a point of the curve.
    pub fn shared_x(&self, other: &NodeId) -> Result<Zeroizing<[u8; 32]>, KeyError> {
        let public = other.public_key().map_err(|_| KeyError::NotOnCurve)?;
        let mut key = SecretKey::from_byte_array(**self.secret).map_err(|_| KeyError::InvalidSecret)?;
        let point = Zeroizing::new(ecdh::shared_secret_point(&public, &key));
        key.non_secure_erase();
        let mut x = Zeroizing::new([0; 32]);
        x.copy_from_slice(&point[..32]);
        Ok(x)
    }
}

/// Recovers the key that signed a hash. Accepts `s` in either half, as the network does.
///
/// # Errors
/// [`KeyError::Signature`].
pub fn recover(hash: B256, signature: &[u8; 65]) -> Result<NodeId, KeyError> {
    let failed = |_| KeyError::Signature;
    let recovery_id = RecoveryId::try_from(i32::from(signature[64])).map_err(failed)?;
    let recoverable = RecoverableSignature::from_compact(&signature[..64], recovery_id).map_err(failed)?;
    let public = SECP256K1.recover_ecdsa(Message::from_digest(hash.0), &recoverable).map_err(failed)?;
    Ok(NodeId::from(&public))
}

#[cfg(test)]
mod tests {
    use alloy_primitives::hex;

    use super::*;

    fn key(secret: &str) -> NodeKey {
        let mut bytes = Zeroizing::new([0; 32]);
        hex::decode_to_slice(secret, bytes.as_mut_slice()).unwrap();
        NodeKey::from_secret(bytes).unwrap()
    }

    /// `docs/spec/p2p.md` 26.1.
    #[test]
    fn shared_secrets_are_those_of_the_specification_in_both_directions() {
        let cases = [
            (
                "7ebbc6a8358bc76dd73ebc557056702c8cfc34e5cfcd90eb83af0347575fd2ad",
                "6a3d6396903245bba5837752b9e0348874e72db0c4e11e9c485a81b4ea4353b9",
                "167ccc13ac5e8a26b131c3446030c60fbfac6aa8e31149d0869f93626a4cdf62",
            ),
            (
                "0097a076fc7fcd9208240668e31c9abee952cbb6e375d1b8febc7499d6e16f1a",
                "1adf5c18167d96a1f9a0b1ef63be8aa27eaf6032c233b2b38f7850cf5b859fd9",
                "c49580bf3cb140ba4ca0a140b1eb59f00a390dcce5132176a8bc0802856c4c3f",
            ),
        ];
        for (one, other, shared) in cases {
            let (one, other) = (key(one), key(other));

            assert_eq!(hex::encode(*one.shared_x(&other.id()).unwrap()), shared);
            assert_eq!(hex::encode(*other.shared_x(&one.id()).unwrap()), shared);
        }
    }

    #[test]
    fn a_signature_recovers_its_key_and_a_changed_one_does_not() {
        let key = key("b71c71a67e1177ad4e901695e1b4b9ee17ae16c6668d313eac2f96dbcda3f291");
        let hash = B256::repeat_byte(7);
        let mut signature = key.sign(hash).unwrap();

        assert_eq!(recover(hash, &signature), Ok(key.id()));
        assert_ne!(recover(B256::repeat_byte(8), &signature), Ok(key.id()));
        signature[64] = 4;
        assert_eq!(recover(hash, &signature), Err(KeyError::Signature));
    }

    #[test]
    fn numbers_and_points_outside_the_curve_are_refused() {
        assert_eq!(NodeKey::from_secret(Zeroizing::new([0; 32])).err(), Some(KeyError::InvalidSecret));
        assert_eq!(NodeKey::from_secret(Zeroizing::new([0xff; 32])).err(), Some(KeyError::InvalidSecret));
        let key = NodeKey::random().unwrap();
        assert_eq!(key.shared_x(&NodeId([1; 64])).err(), Some(KeyError::NotOnCurve));
        assert_eq!(key.shared_x(&NodeId::ZERO).err(), Some(KeyError::NotOnCurve));
    }
}

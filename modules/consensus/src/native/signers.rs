//! Who signed a digest (`spec/consensus.md` 1.3), with a bounded memory: a header's seal is asked for again as
//! its author, and a vote's signature again in the certificate that it became a part of.

use std::num::NonZeroUsize;

use alloy_primitives::{Address, B256, keccak256};
use lru::LruCache;
use parking_lot::Mutex;
use secp256k1::ecdsa::{RecoverableSignature, RecoveryId};
use secp256k1::{Message, SECP256K1};

/// Bytes of a signature: R, S, recovery id.
pub(crate) const SIGNATURE_BYTES: usize = 65;
/// Remembered signers; about 4 MB. Covers the certificates of more than 200 blocks with 73 signatures.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(16_384).unwrap();
/// Half of the group order: the largest S that v2 accepts.
const HALF_ORDER: [u8; 32] = alloy_primitives::hex!("7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0");

/// Why a signature names nobody. The texts are the reference's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureProblem {
    /// Not 65 bytes.
    #[error("invalid signature length")]
    Length,
    /// A recovery id of 4 or more.
    #[error("invalid signature recovery id")]
    RecoveryId,
    /// No key can have made it.
    #[error("recovery failed")]
    Recovery,
    /// S in the upper half, which v2 refuses.
    #[error("invalid signature")]
    HighS,
}

/// Whether S is at most half of the group order; false too when the length is not 65.
pub fn is_low_s(signature: &[u8]) -> bool {
    signature.len() == SIGNATURE_BYTES && signature[32..64] <= HALF_ORDER[..]
}

/// Recovers the signer of a digest. Any S is accepted, and recovery ids 0 to 3.
///
/// # Errors
/// [`SignatureProblem`], never `HighS`.
pub fn recover(digest: B256, signature: &[u8]) -> Result<Address, SignatureProblem> {
    if signature.len() != SIGNATURE_BYTES {
        return Err(SignatureProblem::Length);
    }
    let (compact, recovery_id) = signature.split_at(64);
    let id = RecoveryId::try_from(i32::from(recovery_id[0])).map_err(|_| SignatureProblem::RecoveryId)?;
    let signature = RecoverableSignature::from_compact(compact, id).map_err(|_| SignatureProblem::Recovery)?;
    let key =
        SECP256K1.recover_ecdsa(Message::from_digest(digest.0), &signature).map_err(|_| SignatureProblem::Recovery)?;
    Ok(Address::from_slice(&keccak256(&key.serialize_uncompressed()[1..])[12..]))
}

/// Recovers signers and remembers the last of them.
pub struct SignerCache {
    /// By digest and signature. Held for a look-up or an insertion only, never during a recovery.
    remembered: Mutex<LruCache<(B256, [u8; SIGNATURE_BYTES]), Address>>,
}

impl Default for SignerCache {
    fn default() -> Self {
        Self { remembered: Mutex::new(LruCache::new(REMEMBERED)) }
    }
}

impl SignerCache {
    /// The signer under v1's rule: any S.
    ///
    /// # Errors
    /// [`SignatureProblem`], never `HighS`.
    pub fn recover(&self, digest: B256, signature: &[u8]) -> Result<Address, SignatureProblem> {
        let bytes: [u8; SIGNATURE_BYTES] = signature.try_into().map_err(|_| SignatureProblem::Length)?;
        let key = (digest, bytes);
        if let Some(signer) = self.remembered.lock().get(&key) {
            return Ok(*signer);
        }
        let signer = recover(digest, signature)?;
        self.remembered.lock().put(key, signer);
        Ok(signer)
    }

    /// The signer under v2's rule: a high S is refused.
    ///
    /// # Errors
    /// [`SignatureProblem`].
    pub fn recover_low_s(&self, digest: B256, signature: &[u8]) -> Result<Address, SignatureProblem> {
        if signature.len() == SIGNATURE_BYTES && !is_low_s(signature) {
            return Err(SignatureProblem::HighS);
        }
        self.recover(digest, signature)
    }
}

//! Who signed a digest (`docs/spec/consensus.md` 1.3), with a bounded memory: a header's seal is asked for again as
//! its author, and a vote's signature again in the certificate that it became a part of.

use std::{num::NonZeroUsize, thread};

use alloy_primitives::{Address, B256, keccak256};
use lru::LruCache;
use parking_lot::Mutex;
use secp256k1::ecdsa::{RecoverableSignature, RecoveryId};
use secp256k1::{Message, SECP256K1};

/// Bytes of a signature: R, S, recovery id.
pub(crate) const SIGNATURE_BYTES: usize = 65;
/// Remembered signers for each core, about 2 MB. An import recovers the signers of at most 96 headers a core ahead of their
/// verification; with the 74 signatures of a public network's header that is less, so that none is recovered twice.
const REMEMBERED_A_CORE: usize = 8_192;
/// The most that are remembered on a machine of many cores.
const MOST_REMEMBERED: usize = 262_144;
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
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self::remembering(cores.saturating_add(1).saturating_mul(REMEMBERED_A_CORE).min(MOST_REMEMBERED))
    }
}

impl SignerCache {
    fn remembering(most: usize) -> Self {
        Self { remembered: Mutex::new(LruCache::new(NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN))) }
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::recorded_chain::{address_of, key, sign};

    #[test]
    fn a_signer_is_remembered_for_its_digest_and_signature_alone() {
        let (cache, [one, other]) = (SignerCache::default(), [keccak256("one"), keccak256("other")]);
        let signature = sign(one, &key(0));
        let mut spoilt = signature.clone();
        spoilt[64] ^= 1;

        for _ in 0..2 {
            assert_eq!(cache.recover(one, &signature), Ok(address_of(&key(0))));
            assert_ne!(cache.recover(other, &signature), Ok(address_of(&key(0))));
            assert_ne!(cache.recover(one, &spoilt), Ok(address_of(&key(0))));
            assert_eq!(cache.recover(one, &[0; 65]), Err(SignatureProblem::Recovery));
            assert_eq!(cache.recover(one, &signature[..64]), Err(SignatureProblem::Length));
        }
        // What names nobody is not remembered, so that nobody can push good signatures out with it for nothing.
        assert!(cache.remembered.lock().len() <= 3);
    }

    #[test]
    fn a_high_s_is_refused_also_when_its_signer_is_remembered() {
        let (cache, digest) = (SignerCache::default(), keccak256("digest"));
        let signature = sign(digest, &key(0));
        let order = alloy_primitives::U256::from_be_bytes(alloy_primitives::hex!(
            "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"
        ));
        let high = order - alloy_primitives::U256::from_be_slice(&signature[32..64]);
        let mirrored = [&signature[..32], &high.to_be_bytes::<32>(), &[signature[64] ^ 1]].concat();

        assert_eq!(cache.recover(digest, &mirrored), Ok(address_of(&key(0))));
        assert_eq!(cache.recover_low_s(digest, &mirrored), Err(SignatureProblem::HighS));
    }

    #[test]
    fn no_more_are_remembered_than_the_bound_and_the_oldest_go_first() {
        let cache = SignerCache::remembering(4);
        let digests: Vec<B256> = (0..10_u8).map(|number| keccak256([number])).collect();
        for digest in &digests {
            cache.recover(*digest, &sign(*digest, &key(0))).unwrap();
        }

        let remembered: Vec<B256> = cache.remembered.lock().iter().map(|((digest, _), _)| *digest).collect();
        assert_eq!(remembered, digests[6..].iter().rev().copied().collect::<Vec<_>>());
    }
}

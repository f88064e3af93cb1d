//! Recovers the signers of digests (`docs/spec/consensus.md` 1.3), with a bounded cache: a header's seal is needed
//! again for its author, and a vote's signature again in its certificate.

use std::{
    collections::{HashMap, HashSet},
    num::NonZeroUsize,
    thread,
};

use alloy_primitives::{Address, B256};
use lru::LruCache;
use parking_lot::Mutex;
use tenon_recovery::{RecoveryError, Signature};

/// Length of a signature: R, S, recovery id.
pub(crate) const SIGNATURE_BYTES: usize = 65;
/// Cached signers per core, about 2 MB. An import recovers the signers of at most 96 headers per core ahead of their
/// verification. At 74 signatures per header on a public network they fit, so that no signature is recovered twice.
const CACHE_SIZE_PER_CORE: usize = 8_192;
/// Maximum on a machine with many cores.
const MAX_CACHE_SIZE: usize = 262_144;
/// Half of the group order: the maximum S in v2.
const HALF_ORDER: [u8; 32] = alloy_primitives::hex!("7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0");

/// The signers of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderSigners {
    /// The maker of the block.
    pub author: Address,
    /// The voters of its certificate (v2), without duplicates, ascending; the second signer of a v1 header.
    pub others: Vec<Address>,
}

/// Why no signer can be recovered. The texts are the reference's.
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
    /// S is in the upper half, which v2 refuses.
    #[error("invalid signature")]
    HighS,
}

impl From<RecoveryError> for SignatureProblem {
    fn from(error: RecoveryError) -> Self {
        match error {
            RecoveryError::RecoveryId => Self::RecoveryId,
            RecoveryError::OutOfRange | RecoveryError::NoPublicKey => Self::Recovery,
        }
    }
}

/// Returns whether S is at most half of the group order; false if the length is not 65.
pub fn is_low_s(signature: &[u8]) -> bool {
    signature.len() == SIGNATURE_BYTES && signature[32..64] <= HALF_ORDER[..]
}

/// Recovers the signer of a digest. Any S is accepted, and recovery ids 0 to 3.
///
/// # Errors
/// [`SignatureProblem`], never `HighS`.
pub fn recover(digest: B256, signature: &[u8]) -> Result<Address, SignatureProblem> {
    let bytes: &[u8; SIGNATURE_BYTES] = signature.try_into().map_err(|_| SignatureProblem::Length)?;
    Ok(tenon_recovery::recover(&digest.0, &Signature::from(bytes))?)
}

/// Recovers signers and caches the latest.
pub struct SignerCache {
    /// By digest and signature. Locked for look-ups and insertions only, never during a recovery.
    signers: Mutex<LruCache<(B256, [u8; SIGNATURE_BYTES]), Address>>,
}

impl Default for SignerCache {
    fn default() -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self::with_capacity(cores.saturating_add(1).saturating_mul(CACHE_SIZE_PER_CORE).min(MAX_CACHE_SIZE))
    }
}

impl SignerCache {
    fn with_capacity(max: usize) -> Self {
        Self { signers: Mutex::new(LruCache::new(NonZeroUsize::new(max).unwrap_or(NonZeroUsize::MIN))) }
    }

    /// The signer under v1's rule: any S.
    ///
    /// # Errors
    /// [`SignatureProblem`], never `HighS`.
    pub fn recover(&self, digest: B256, signature: &[u8]) -> Result<Address, SignatureProblem> {
        let bytes: [u8; SIGNATURE_BYTES] = signature.try_into().map_err(|_| SignatureProblem::Length)?;
        let key = (digest, bytes);
        if let Some(signer) = self.signers.lock().get(&key) {
            return Ok(*signer);
        }
        let signer = recover(digest, signature)?;
        self.signers.lock().put(key, signer);
        Ok(signer)
    }

    /// The signers of many digests under v1's rule, in order. Signers that are not cached are recovered in one batch.
    pub fn recover_each(&self, signed: &[(B256, &[u8])]) -> Vec<Result<Address, SignatureProblem>> {
        let keyed = |(digest, signature): &(B256, &[u8])| {
            let bytes: [u8; SIGNATURE_BYTES] = (*signature).try_into().map_err(|_| SignatureProblem::Length)?;
            Ok((*digest, bytes))
        };
        let keys: Vec<Result<_, SignatureProblem>> = signed.iter().map(keyed).collect();
        let mut signers: Vec<Option<Result<Address, SignatureProblem>>> = {
            let mut cached = self.signers.lock();
            let known = |key: &Result<_, _>| match key {
                Ok(key) => cached.get(key).map(|signer| Ok(*signer)),
                Err(problem) => Some(Err(*problem)),
            };
            keys.iter().map(known).collect()
        };
        let unknown = keys.iter().zip(&signers).filter(|(_, signer)| signer.is_none());
        // Without duplicates.
        let unknown: HashSet<_> = unknown.filter_map(|(key, _)| key.ok()).collect();
        let unknown: Vec<_> = unknown.into_iter().collect();
        let batch: Vec<_> = unknown.iter().map(|(digest, bytes)| (digest.0, Signature::from(bytes))).collect();
        let recovered = tenon_recovery::recover_batch(&batch);
        let mut cached = self.signers.lock();
        for (key, signer) in unknown.iter().zip(&recovered) {
            if let Ok(signer) = signer {
                cached.put(*key, *signer);
            }
        }
        drop(cached);
        let recovered: HashMap<_, _> = unknown.into_iter().zip(recovered).collect();
        for (place, key) in signers.iter_mut().zip(&keys).filter(|(place, _)| place.is_none()) {
            *place = key.ok().and_then(|key| recovered.get(&key)).map(|signer| Ok((*signer)?));
        }
        // All entries are filled: those that were not cached were in the batch.
        signers.into_iter().map(|signer| signer.unwrap_or(Err(SignatureProblem::Recovery))).collect()
    }

    /// The signers of many digests under v2's rule, in order: a high S is refused.
    pub fn recover_each_low_s(&self, signed: &[(B256, &[u8])]) -> Vec<Result<Address, SignatureProblem>> {
        let is_high = |signature: &[u8]| signature.len() == SIGNATURE_BYTES && !is_low_s(signature);
        // Refused signatures are replaced by empty ones, which cost no recovery.
        let asked: Vec<(B256, &[u8])> =
            signed.iter().map(|(digest, bytes)| (*digest, if is_high(bytes) { &[][..] } else { bytes })).collect();
        let mut signers = self.recover_each(&asked);
        for (signer, (_, signature)) in signers.iter_mut().zip(signed) {
            if is_high(signature) {
                *signer = Err(SignatureProblem::HighS);
            }
        }
        signers
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
    use alloy_primitives::keccak256;

    use super::*;
    use crate::recorded_chain::{address_of, key, sign};

    #[test]
    fn a_signer_is_cached_by_digest_and_signature() {
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
        // Failures are not cached, so that invalid signatures cannot evict valid ones.
        assert!(cache.signers.lock().len() <= 3);
    }

    #[test]
    fn a_batch_of_cached_new_and_wrong_signatures_equals_single_recoveries() {
        let mut digests: Vec<B256> = (0..40_u8).map(|number| keccak256([number])).collect();
        let mut signatures: Vec<Vec<u8>> = digests.iter().map(|digest| sign(*digest, &key(0))).collect();
        signatures[3].pop();
        signatures[4][64] = 4;
        signatures[5][..32].fill(0xff);
        signatures[6] = signatures[7].clone();
        digests[9] = digests[8];
        signatures[9] = signatures[8].clone();
        let alone = SignerCache::default();
        let expected: Vec<_> =
            digests.iter().zip(&signatures).map(|(digest, signature)| alone.recover(*digest, signature)).collect();
        let signed: Vec<(B256, &[u8])> =
            digests.iter().zip(&signatures).map(|(digest, signature)| (*digest, &signature[..])).collect();

        let cache = SignerCache::default();
        for number in [0, 4, 5, 20, 39] {
            assert_eq!(cache.recover(digests[number], &signatures[number]), expected[number]);
        }
        for _ in 0..2 {
            assert_eq!(cache.recover_each(&signed), expected);
        }
        assert_eq!(cache.signers.lock().len(), expected.iter().filter(|signer| signer.is_ok()).count() - 1);
    }

    #[test]
    fn a_high_s_is_refused_even_if_its_signer_is_cached() {
        let (cache, digest) = (SignerCache::default(), keccak256("digest"));
        let signature = sign(digest, &key(0));
        let order = alloy_primitives::U256::from_be_bytes(alloy_primitives::hex!(
            "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"
        ));
        let high = order - alloy_primitives::U256::from_be_slice(&signature[32..64]);
        let mirrored = [&signature[..32], &high.to_be_bytes::<32>(), &[signature[64] ^ 1]].concat();

        assert_eq!(cache.recover(digest, &mirrored), Ok(address_of(&key(0))));
        assert_eq!(cache.recover_low_s(digest, &mirrored), Err(SignatureProblem::HighS));
        let both = [(digest, &mirrored[..]), (digest, &signature[..])];
        assert_eq!(cache.recover_each_low_s(&both), [Err(SignatureProblem::HighS), Ok(address_of(&key(0)))]);
    }

    #[test]
    fn the_cache_is_bounded_and_evicts_the_oldest() {
        let cache = SignerCache::with_capacity(4);
        let digests: Vec<B256> = (0..10_u8).map(|number| keccak256([number])).collect();
        for digest in &digests {
            cache.recover(*digest, &sign(*digest, &key(0))).unwrap();
        }

        let signers: Vec<B256> = cache.signers.lock().iter().map(|((digest, _), _)| *digest).collect();
        assert_eq!(signers, digests[6..].iter().rev().copied().collect::<Vec<_>>());
    }
}

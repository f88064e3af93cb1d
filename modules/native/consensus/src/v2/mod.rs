//! Engine v2: rounds, epochs, certificates, headers, penalties, finality (`docs/spec/consensus.md` 3 to 8). Voting
//! (section 5) is in `native/voting`, except the certificates, which headers contain.

mod certificate;
mod epoch;
mod error;
mod finality;
mod header;
mod parole;
mod penalty;
pub(crate) mod sampling;
mod sealing;
mod snapshot;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod testing;

use std::{num::NonZeroUsize, sync::Arc};

use lru::LruCache;
use parking_lot::Mutex;
use tenon_api::{Address, B256, BlockNumber, ChainReader, SealedHeader};
use tenon_chain::ChainSpec;
use tenon_native_spec::{NativeConsensus, NativeSettings};

pub use certificate::reaches_threshold;
pub use epoch::{
    EpochInfo, epoch_number, epoch_start, extra_of, gap_number, is_epoch_switch, leader, round_of, would_open_epoch,
};
pub use error::V2Error;
pub use penalty::EpochLists;
pub use sampling::{VERIFIED_AGE, VERIFIED_EVERY};
pub use sealing::{MasternodeKey, seal};

use super::{
    candidates::MasternodeSource,
    signers::{SignatureProblem, SignerCache},
    signing::SigningIndex,
};

/// Blocks whose epoch is cached: more than four epochs of 900, so that verification never walks far. An entry is a hash
/// and a pointer.
const BLOCK_CACHE_SIZE: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
/// Cached lists of candidates; one per gap block, some hundred addresses each.
const SNAPSHOT_CACHE_SIZE: NonZeroUsize = NonZeroUsize::new(32).unwrap();

/// The rules of engine v2. All its caches are keyed by block hash and can be recomputed from the chain passed to each
/// call.
pub struct V2Engine {
    spec: Arc<ChainSpec>,
    settings: Arc<NativeSettings>,
    signers: Arc<SignerCache>,
    source: Arc<dyn MasternodeSource>,
    signing: Arc<SigningIndex>,
    /// Epoch of a block, by the block's hash. Locked for a look-up or insertions only.
    epochs: Mutex<LruCache<B256, Arc<EpochInfo>>>,
    /// Ordered candidates, by the gap block's hash. Locked for a look-up or an insertion only.
    snapshots: Mutex<LruCache<B256, Arc<[Address]>>>,
    /// Last committed block as of a head, by the head's hash. Locked for a look-up or an insertion only.
    committed: Mutex<LruCache<B256, Option<BlockNumber>>>,
}

impl V2Engine {
    /// The rules of this chain.
    pub fn new(
        spec: Arc<ChainSpec>,
        settings: Arc<NativeSettings>,
        signers: Arc<SignerCache>,
        source: Arc<dyn MasternodeSource>,
        signing: Arc<SigningIndex>,
    ) -> Self {
        Self {
            spec,
            settings,
            signers,
            source,
            signing,
            epochs: Mutex::new(LruCache::new(BLOCK_CACHE_SIZE)),
            snapshots: Mutex::new(LruCache::new(SNAPSHOT_CACHE_SIZE)),
            committed: Mutex::new(LruCache::new(BLOCK_CACHE_SIZE)),
        }
    }

    /// The consensus parameters.
    pub fn consensus(&self) -> &NativeConsensus {
        &self.settings.consensus
    }

    /// The signer of a vote or timeout, cached: its verification needs the signer again.
    ///
    /// # Errors
    /// [`SignatureProblem`], also for a high S: anyone can derive such a second signature from a valid one without the
    /// key.
    pub fn signer(&self, digest: B256, signature: &[u8]) -> Result<Address, SignatureProblem> {
        self.signers.recover_low_s(digest, signature)
    }

    /// The cache of recovered signers.
    pub fn signers(&self) -> &SignerCache {
        &self.signers
    }

    /// The proposer of a block: the signer of its seal hash (`docs/spec/chain.md` 1.2).
    ///
    /// # Errors
    /// [`V2Error::NotNative`], [`V2Error::Signature`], [`V2Error::HighS`].
    pub fn author(&self, header: &SealedHeader) -> Result<Address, V2Error> {
        let seal = header.native_seal.as_ref().ok_or(V2Error::NotNative)?;
        Ok(self.signers.recover_low_s(super::seal_hash::v2_seal_hash(header), &seal.validator)?)
    }
}

/// A header that must be stored because one of its descendants is.
///
/// # Errors
/// [`V2Error::MissingBlock`], [`V2Error::Store`].
pub fn stored_header(chain: &dyn ChainReader, hash: B256, number: u64) -> Result<Arc<SealedHeader>, V2Error> {
    chain.header(hash)?.ok_or(V2Error::MissingBlock { number, hash })
}

#[cfg(test)]
mod tests;

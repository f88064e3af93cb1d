//! Certificates that need no signature check of their own, because a later block binds them (`sync.certificates`).
//!
//! A certificate names its block by hash, and a block its parent, so that a quorum's signatures on one block stand for
//! every block below it. Where an import knows a later header of the same epoch, the *anchor*, verifying the anchor's
//! certificate proves that a quorum has voted for a descendant of the earlier blocks. Their own certificates are then
//! checked for everything but their signatures.
//!
//! Never left out: the certificates of epoch switches, of every hundredth block, of blocks younger than a day, and of
//! the last header known, which is the anchor of those before it. If an anchor's certificate does not hold, the headers
//! bound to it are verified in full.

use std::{
    collections::HashSet,
    num::NonZeroUsize,
    sync::{Arc, OnceLock},
};

use lru::LruCache;
use parking_lot::Mutex;
use tenon_api::{B256, ChainReader, SealedHeader};
use tenon_native_spec::NativeConsensus;

use super::{EpochInfo, V2Engine, V2Error, epoch::opens_epoch, extra_of};
use crate::messages::QuorumCertificate;

/// Every block whose height is a multiple of this is verified in full.
pub const VERIFIED_EVERY: u64 = 100;
/// Blocks younger than this are verified in full, seconds.
pub const VERIFIED_AGE: u64 = 24 * 60 * 60;
/// Maximum number of headers that wait for verification: more than an import prepares ahead on a machine with up to 42
/// cores. A header that was evicted is verified in full.
const MAX_BOUND: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// A header whose certificate replaces those of earlier headers of its epoch.
#[derive(Debug)]
pub(crate) struct Anchor {
    certificate: QuorumCertificate,
    /// Its parent, which the certificate is for.
    certified: SealedHeader,
    /// Whether the certificate has the quorum; computed for the first header that is bound to it.
    holds: OnceLock<bool>,
}

/// The headers of an import that are bound to an anchor.
#[derive(Debug)]
pub(crate) struct BoundHeaders {
    /// Anchor by the hash of the header. Locked for insertions or a removal only.
    anchors: Mutex<LruCache<B256, Arc<Anchor>>>,
}

impl Default for BoundHeaders {
    fn default() -> Self {
        Self { anchors: Mutex::new(LruCache::new(MAX_BOUND)) }
    }
}

impl BoundHeaders {
    /// Notes which of these headers, in order of height, are bound to a later one of them. Returns their hashes. `now`
    /// is Unix time, seconds.
    pub(crate) fn note(&self, headers: &[&SealedHeader], consensus: &NativeConsensus, now: u64) -> HashSet<B256> {
        let mut bound = HashSet::new();
        let mut anchor: Option<Arc<Anchor>> = None;
        let mut anchors = self.anchors.lock();
        for (place, header) in headers.iter().enumerate().rev() {
            if headers.get(place + 1).is_none_or(|child| child.parent_hash != header.hash()) {
                anchor = None;
            }
            let extra = extra_of(header).ok().filter(|_| header.number > consensus.switch_block);
            let Some(extra) = extra else {
                anchor = None;
                continue;
            };
            let is_verified = opens_epoch(consensus, &extra)
                || header.number.is_multiple_of(VERIFIED_EVERY)
                || header.timestamp.saturating_add(VERIFIED_AGE) > now;
            match &anchor {
                Some(anchor) if !is_verified => {
                    anchors.put(header.hash(), Arc::clone(anchor));
                    bound.insert(header.hash());
                }
                // A header that is verified in full binds those below it.
                _ => {
                    let certified = place.checked_sub(1).and_then(|below| headers.get(below));
                    let certified = certified.filter(|parent| parent.hash() == header.parent_hash);
                    anchor = certified.map(|parent| {
                        let certified = SealedHeader::clone(parent);
                        Arc::new(Anchor { certificate: extra.quorum, certified, holds: OnceLock::new() })
                    });
                }
            }
        }
        bound
    }

    /// Removes a header's anchor and returns it. A second verification of the header is therefore a full one.
    pub(crate) fn take(&self, header: B256) -> Option<Arc<Anchor>> {
        self.anchors.lock().pop(&header)
    }
}

impl V2Engine {
    /// Checks the certificate of a header that is bound to an anchor: all but its signatures if the anchor's certificate
    /// holds, everything if not.
    ///
    /// The masternodes of `parent`'s epoch are those of the anchor's certificate: the rounds of the headers from
    /// `parent`'s child up to the anchor's parent show that none of them opens an epoch, and their own verification
    /// checks these rounds.
    pub(super) fn verify_bound_certificate(
        &self,
        certificate: &QuorumCertificate,
        anchor: &Anchor,
        parent: &SealedHeader,
        chain: &dyn ChainReader,
    ) -> Result<(), V2Error> {
        let epoch = self.epoch_info(parent, chain).map_err(|error| V2Error::CertificateEpoch(Box::new(error)))?;
        if !*anchor.holds.get_or_init(|| self.holds(anchor, &epoch)) {
            return self.verify_quorum_certificate(certificate, Some(parent), chain);
        }
        let round = certificate.block.round;
        if round > 0 && !self.is_quorum(certificate.signatures.len(), &epoch, round) {
            return Err(V2Error::CertificateThreshold);
        }
        self.check_certified(certificate, parent, &epoch)
    }

    fn holds(&self, anchor: &Anchor, epoch: &EpochInfo) -> bool {
        // A certificate of round 0 needs no signatures and binds nothing.
        let is_of_epoch = anchor.certificate.block.round >= epoch.switch.round.max(1);
        is_of_epoch && self.check_quorum(&anchor.certificate, &anchor.certified, epoch).is_ok()
    }
}

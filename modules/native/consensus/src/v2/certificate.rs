//! Verification of quorum and timeout certificates (`docs/spec/consensus.md` 3.5, 5.5, 5.6).

use rayon::prelude::*;
use tenon_api::{Address, B256, Bytes, ChainReader, SealedHeader};

use super::{EpochInfo, V2Engine, V2Error, extra_of, round_of};
use crate::{
    is_low_s,
    messages::{BlockInfo, QuorumCertificate, TimeoutCertificate},
    v2_seal_hash,
};

/// Minimum number of signatures that one thread recovers: for fewer, handing them over costs more than it saves.
const MIN_PART: usize = 8;

/// Returns whether `count` of `masternodes` signatures reach `threshold`. Uses unrounded `f64` arithmetic, as the rule
/// demands (3.5, pitfall 6).
#[allow(clippy::cast_precision_loss, reason = "the rule itself is one of doubles")]
pub fn reaches_threshold(count: usize, masternodes: usize, threshold: f64) -> bool {
    count as f64 >= masternodes as f64 * threshold
}

impl V2Engine {
    /// Checks a quorum certificate in the reference's order (5.6): signatures, their number, their signers, the gap
    /// number, and that the block has the stated height and round. With `certified`, the certificate must be for that
    /// block; without, its block must be stored.
    ///
    /// # Errors
    /// The [`V2Error`] of the first failed check.
    pub fn verify_quorum_certificate(
        &self,
        certificate: &QuorumCertificate,
        certified: Option<&SealedHeader>,
        chain: &dyn ChainReader,
    ) -> Result<(), V2Error> {
        let stored;
        let certified = match certified {
            Some(header) => header,
            None => {
                let unknown = || V2Error::InfoUnknown(certificate.block.hash);
                stored = chain.header(certificate.block.hash)?.ok_or_else(unknown)?;
                &stored
            }
        };
        let epoch = self.epoch_info(certified, chain).map_err(|error| V2Error::CertificateEpoch(Box::new(error)))?;
        self.check_quorum(certificate, certified, &epoch)
    }

    /// The same with the epoch of the certified block.
    pub(super) fn check_quorum(
        &self,
        certificate: &QuorumCertificate,
        certified: &SealedHeader,
        epoch: &EpochInfo,
    ) -> Result<(), V2Error> {
        let signers = self.unique_signers(certificate.digest(), &certificate.signatures)?;
        let round = certificate.block.round;
        // The switch block's certificate has round 0 and needs no signatures.
        if round > 0 && !self.is_quorum(signers.len(), epoch, round) {
            return Err(V2Error::CertificateThreshold);
        }
        if let Some(stranger) = signers.iter().find(|signer| !epoch.is_masternode(signer)) {
            return Err(V2Error::CertificateSigner(*stranger));
        }
        self.check_certified(certificate, certified, epoch)
    }

    /// Checks what a certificate states about its block: gap number, height and round, but not its signatures.
    pub(super) fn check_certified(
        &self,
        certificate: &QuorumCertificate,
        certified: &SealedHeader,
        epoch: &EpochInfo,
    ) -> Result<(), V2Error> {
        let wanted = epoch.gap_number(self.consensus());
        if certificate.gap_number != wanted {
            return Err(V2Error::CertificateGap { found: certificate.gap_number, wanted });
        }
        self.check_block_info(&certificate.block, certified)
    }

    /// The digests and signatures to be recovered for a header's verification: its certificate's, unless it is bound to
    /// a later one, and its seal. Malformed ones are skipped, and refused on verification.
    pub(crate) fn signed_in(header: &SealedHeader, is_bound: bool) -> Vec<(B256, Bytes)> {
        let Ok(extra) = extra_of(header) else { return Vec::new() };
        let digest = extra.quorum.digest();
        let signatures = if is_bound { Vec::new() } else { extra.quorum.signatures };
        let mut signed: Vec<_> = signatures.into_iter().map(|signature| (digest, signature)).collect();
        // A high S is refused without recovery.
        signed.retain(|(_, signature)| is_low_s(signature));
        if let Some(seal) = &header.native_seal {
            signed.push((v2_seal_hash(header), seal.validator.clone()));
        }
        signed
    }

    /// Checks a timeout certificate against the epoch of its round (5.6). Its signers need only be candidates of its
    /// gap block, while the threshold depends on the epoch's masternodes. The gap number itself is not compared
    /// (pitfall 7).
    ///
    /// # Errors
    /// The [`V2Error`] of the first failed check.
    pub fn verify_timeout_certificate(
        &self,
        certificate: &TimeoutCertificate,
        epoch: &EpochInfo,
        chain: &dyn ChainReader,
    ) -> Result<(), V2Error> {
        let candidates = self
            .candidates(certificate.gap_number, chain)
            .and_then(|candidates| candidates.ok_or(V2Error::NoGapBlock(certificate.gap_number)))
            .map_err(|error| V2Error::TimeoutSnapshot(Box::new(error)))?;
        let signers = self.unique_signers(certificate.digest(), &certificate.signatures)?;
        if !self.is_quorum(signers.len(), epoch, certificate.round) {
            return Err(V2Error::TimeoutThreshold);
        }
        match signers.iter().find(|signer| !candidates.contains(signer)) {
            Some(stranger) => Err(V2Error::TimeoutSigner(*stranger)),
            None => Ok(()),
        }
    }

    /// Returns whether this many signers are a quorum in a round of an epoch.
    pub fn is_quorum(&self, signers: usize, epoch: &EpochInfo, round: u64) -> bool {
        reaches_threshold(signers, epoch.masternodes.len(), self.consensus().at_round(round).certificate_threshold)
    }

    /// Recovers every signature and returns the signers without duplicates, ascending. A single signature that cannot
    /// be recovered or has a high S invalidates the whole certificate (pitfall 8).
    ///
    /// # Errors
    /// [`V2Error::Signature`], [`V2Error::HighS`].
    pub fn unique_signers(&self, digest: B256, signatures: &[Bytes]) -> Result<Vec<Address>, V2Error> {
        let recover = |signatures: &[Bytes]| {
            let signed: Vec<(B256, &[u8])> = signatures.iter().map(|signature| (digest, &signature[..])).collect();
            self.signers.recover_each_low_s(&signed)
        };
        let part = signatures.len().div_ceil(rayon::current_num_threads()).max(MIN_PART);
        let part = tenon_recovery::part_size(part);
        let mut signers: Vec<Address> = if signatures.len() <= part {
            recover(signatures).into_iter().collect::<Result<_, _>>()?
        } else {
            signatures.par_chunks(part).flat_map_iter(recover).collect::<Result<_, _>>()?
        };
        signers.sort_unstable();
        signers.dedup();
        Ok(signers)
    }

    /// Recovers the signers of votes or timeouts in one batch and caches them, on processors where that is faster than
    /// one by one. Signatures that no key can have made are ignored.
    pub fn recover_ahead<'a>(&self, signed: impl Iterator<Item = (B256, &'a [u8])>) {
        if !tenon_recovery::is_vectorised() {
            return;
        }
        let signed: Vec<_> = signed.collect();
        // A single signature is recovered when it is needed.
        if signed.len() > 1 {
            self.signers.recover_each_low_s(&signed);
        }
    }

    /// Checks a certificate's block info against the header (5.5).
    ///
    /// # Errors
    /// The [`V2Error`] of the first difference; [`V2Error::Extra`].
    pub fn check_block_info(&self, info: &BlockInfo, header: &SealedHeader) -> Result<(), V2Error> {
        if header.hash() != info.hash {
            return Err(V2Error::InfoHash);
        }
        if header.number != info.number {
            return Err(V2Error::InfoNumber(info.hash));
        }
        if info.number == self.consensus().switch_block && info.round != 0 {
            return Err(V2Error::InfoSwitchRound);
        }
        let round = round_of(self.consensus(), header)?;
        if info.round != round {
            return Err(V2Error::InfoRound { hash: info.hash, round, found: info.round });
        }
        Ok(())
    }
}

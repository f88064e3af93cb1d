//! Verification of a v2 header, in the reference's order (`docs/spec/consensus.md` 6), which determines the error for a
//! header with several faults.

use tenon_api::{Address, ChainReader, EMPTY_OMMERS_HASH, NativeSeal, SealedHeader, U256};

use super::epoch::opens_epoch;
use super::{V2Engine, V2Error, extra_of, leader, sampling::Anchor};
use crate::{
    extra::{ExtraFields, addresses_of, is_same_multiset},
    seal_hash::v2_seal_hash,
    signers::{HeaderSigners, SIGNATURE_BYTES},
    v1::NONCE_ADD,
};

/// Minimum gas limit.
const MIN_GAS_LIMIT: u64 = 5000;
/// The gas limit changes by less than 1 / this number of the parent's.
const GAS_LIMIT_BOUND_DIVISOR: u64 = 1024;

impl V2Engine {
    /// Checks a header against its parent. With `now`, Unix seconds, a header from the future is refused.
    ///
    /// Checks 0, 1, 2 and 11 of the specification's list concern the reference's own state and cannot fail here.
    ///
    /// # Errors
    /// The [`V2Error`] of the first failed check.
    pub fn verify_header(
        &self,
        header: &SealedHeader,
        parent: &SealedHeader,
        chain: &dyn ChainReader,
        now: Option<u64>,
    ) -> Result<(), V2Error> {
        self.verify_header_bound(header, parent, chain, now, None)
    }

    /// Like [`V2Engine::verify_header`], for a header that may be bound to a later one, whose certificate then replaces
    /// this header's.
    pub(crate) fn verify_header_bound(
        &self,
        header: &SealedHeader,
        parent: &SealedHeader,
        chain: &dyn ChainReader,
        now: Option<u64>,
        anchor: Option<&Anchor>,
    ) -> Result<(), V2Error> {
        let seal = header.native_seal.as_ref().ok_or(V2Error::NotNative)?;
        check_seal_length(seal)?;
        if now.is_some_and(|now| header.timestamp > now) {
            return Err(V2Error::FutureBlock);
        }
        if parent.number.checked_add(1) != Some(header.number) || header.parent_hash != parent.hash() {
            return Err(V2Error::UnknownAncestor);
        }
        check_gas(header, parent)?;
        let extra = extra_of(header)?;
        self.check_time(header, parent, &extra)?;
        if extra.round <= extra.quorum.block.round {
            return Err(V2Error::Round);
        }
        match anchor {
            Some(anchor) => self.verify_bound_certificate(&extra.quorum, anchor, parent, chain)?,
            None => self.verify_quorum_certificate(&extra.quorum, Some(parent), chain)?,
        }
        self.check_fixed_fields(header)?;
        let masternodes = if opens_epoch(self.consensus(), &extra) {
            self.check_epoch_switch(header, seal, parent, extra.round, chain)?
        } else {
            if !seal.validators.is_empty() || !seal.penalties.is_empty() {
                return Err(V2Error::ListsOutsideEpochSwitch);
            }
            self.epoch_info(parent, chain)?.masternodes.to_vec()
        };
        self.check_proposer(header, seal, extra.round, &masternodes)
    }

    /// The checks that need no ancestor; see
    /// [`NativeEngine::verify_without_ancestors`](crate::NativeEngine::verify_without_ancestors).
    pub(crate) fn verify_without_ancestors(
        &self,
        header: &SealedHeader,
        now: Option<u64>,
    ) -> Result<HeaderSigners, V2Error> {
        let seal = header.native_seal.as_ref().ok_or(V2Error::NotNative)?;
        check_seal_length(seal)?;
        if now.is_some_and(|now| header.timestamp > now) {
            return Err(V2Error::FutureBlock);
        }
        check_gas_of(header)?;
        let extra = extra_of(header)?;
        if extra.round <= extra.quorum.block.round {
            return Err(V2Error::Round);
        }
        let others = self.unique_signers(extra.quorum.digest(), &extra.quorum.signatures)?;
        // The certificate is always the parent's.
        if extra.quorum.block.hash != header.parent_hash {
            return Err(V2Error::InfoHash);
        }
        if extra.quorum.block.number.checked_add(1) != Some(header.number) {
            return Err(V2Error::InfoNumber(extra.quorum.block.hash));
        }
        self.check_fixed_fields(header)?;
        let author = if opens_epoch(self.consensus(), &extra) {
            let written = check_written_lists(header, seal)?;
            self.check_proposer(header, seal, extra.round, &written)?;
            header.beneficiary
        } else {
            if !seal.validators.is_empty() || !seal.penalties.is_empty() {
                return Err(V2Error::ListsOutsideEpochSwitch);
            }
            self.signers.recover_low_s(v2_seal_hash(header), &seal.validator)?
        };
        if author != header.beneficiary {
            return Err(V2Error::Coinbase);
        }
        Ok(HeaderSigners { author, others })
    }

    /// Check 12.
    fn check_time(&self, header: &SealedHeader, parent: &SealedHeader, extra: &ExtraFields) -> Result<(), V2Error> {
        let earliest = parent.timestamp.saturating_add(self.consensus().at_round(extra.round).mine_period);
        if parent.number >= self.consensus().switch_block && header.timestamp < earliest {
            return Err(V2Error::Timestamp);
        }
        Ok(())
    }

    /// Checks 15 to 19.
    fn check_fixed_fields(&self, header: &SealedHeader) -> Result<(), V2Error> {
        if !header.nonce.is_zero() && header.nonce != NONCE_ADD {
            return Err(V2Error::VoteNonce);
        }
        if !header.mix_hash.is_zero() {
            return Err(V2Error::MixDigest);
        }
        if header.ommers_hash != EMPTY_OMMERS_HASH {
            return Err(V2Error::UncleHash);
        }
        self.check_base_fee(header)?;
        if header.difficulty != U256::ONE {
            return Err(V2Error::Difficulty);
        }
        Ok(())
    }

    /// The base fee is absent before its fork, and a constant from then on (14.3).
    fn check_base_fee(&self, header: &SealedHeader) -> Result<(), V2Error> {
        let wanted = self.spec.has_base_fee(header.number).then_some(tenon_native_spec::NATIVE_BASE_FEE);
        match (header.base_fee_per_gas, wanted) {
            (found, wanted) if found == wanted => Ok(()),
            (None, _) => Err(V2Error::MissingBaseFee),
            (Some(found), wanted) => {
                let wanted = wanted.map_or_else(|| "<nil>".to_owned(), |fee| fee.to_string());
                Err(V2Error::BaseFee { found, wanted })
            }
        }
    }

    /// Checks 20 to 24. Returns the list for checking this header's proposer: the computed one, not the header's, whose
    /// order applies to all later blocks (4.4, pitfall 10). A source without state uses the header's.
    fn check_epoch_switch(
        &self,
        header: &SealedHeader,
        seal: &NativeSeal,
        parent: &SealedHeader,
        round: u64,
        chain: &dyn ChainReader,
    ) -> Result<Vec<Address>, V2Error> {
        let written = check_written_lists(header, seal)?;
        let Some(computed) = self.epoch_lists(parent, round, chain)? else { return Ok(written) };
        if !is_same_multiset(&computed.masternodes, &written) {
            return Err(V2Error::Validators);
        }
        if !is_same_multiset(&computed.penalties, &addresses_of(&seal.penalties)) {
            return Err(V2Error::Penalties);
        }
        Ok(computed.masternodes)
    }

    /// Checks 26 to 29.
    fn check_proposer(
        &self,
        header: &SealedHeader,
        seal: &NativeSeal,
        round: u64,
        masternodes: &[Address],
    ) -> Result<(), V2Error> {
        let turn = leader(self.consensus(), round, masternodes).ok_or(V2Error::NoMasternodes)?;
        let signer = self.signers.recover_low_s(v2_seal_hash(header), &seal.validator)?;
        if !masternodes.contains(&signer) {
            return Err(V2Error::NotMasternode);
        }
        if signer != header.beneficiary {
            return Err(V2Error::Coinbase);
        }
        if signer != turn {
            return Err(V2Error::NotItsTurn);
        }
        Ok(())
    }
}

/// Checks 3 and 4.
const fn check_seal_length(seal: &NativeSeal) -> Result<(), V2Error> {
    match seal.validator.0.len() {
        SIGNATURE_BYTES => Ok(()),
        0 => Err(V2Error::NoValidator),
        length => Err(V2Error::ValidatorLength(length)),
    }
}

/// Checks 7 to 9. A child of the genesis block may have any gas limit (`docs/spec/upgrades.md` 6). v2.7.0 refuses this,
/// so a network whose genesis limit differs from its block producers' target could not start.
fn check_gas(header: &SealedHeader, parent: &SealedHeader) -> Result<(), V2Error> {
    let bound = parent.gas_limit / GAS_LIMIT_BOUND_DIVISOR;
    if parent.number > 0 && parent.gas_limit.abs_diff(header.gas_limit) >= bound {
        let (found, parent) = (header.gas_limit, parent.gas_limit);
        return Err(V2Error::GasLimitStep { found, parent, bound: bound.saturating_sub(1) });
    }
    check_gas_of(header)
}

/// Checks 8 and 9.
fn check_gas_of(header: &SealedHeader) -> Result<(), V2Error> {
    if header.gas_limit < MIN_GAS_LIMIT {
        return Err(V2Error::GasLimitTooLow);
    }
    if header.gas_used > header.gas_limit {
        return Err(V2Error::GasUsed { used: header.gas_used, limit: header.gas_limit });
    }
    Ok(())
}

/// Checks 20 to 22: the form of an epoch switch's own lists. Returns its masternodes.
fn check_written_lists(header: &SealedHeader, seal: &NativeSeal) -> Result<Vec<Address>, V2Error> {
    if !header.nonce.is_zero() {
        return Err(V2Error::EpochSwitchVote);
    }
    if seal.validators.is_empty() {
        return Err(V2Error::EmptyValidators);
    }
    if !seal.validators.len().is_multiple_of(Address::len_bytes()) {
        return Err(V2Error::ValidatorsLength);
    }
    Ok(addresses_of(&seal.validators))
}

//! Makes v1 blocks (`docs/spec/consensus.md` 2.4, 2.6) as far as one key allows: if the second signer is another
//! account, the block would have to be sent to it.

use tenon_api::{
    Address, BlockSigner, ChainReader, EMPTY_OMMERS_HASH, Header, NativeSeal, SealAttributes, SealedHeader,
};
use tenon_chain::stepped_gas_limit;
use tenon_native_spec::NATIVE_BASE_FEE;

use super::{V1Engine, V1Error, checkpoint::concatenated, header::assigned_second_signer};
use crate::{
    extra::{SEAL_BYTES, VANITY_BYTES},
    v1_seal_hash,
};

impl V1Engine {
    /// The consensus fields of the block after `parent` by `creator`; roots, gas used, bloom and seals are left empty.
    /// The beneficiary of `attributes` is ignored: fees go to the creator, which the seal identifies.
    ///
    /// # Errors
    /// [`V1Error::NotTurn`] if it may not make a block at that time, [`V1Error::OtherPartner`] if another account must
    /// be the second signer, those of [`V1Engine::checkpoint_lists`].
    pub fn prepare(
        &self,
        parent: &SealedHeader,
        creator: Address,
        attributes: &SealAttributes,
        chain: &dyn ChainReader,
    ) -> Result<Header, V1Error> {
        let number = parent.number.saturating_add(1);
        let timestamp = attributes.timestamp.max(parent.timestamp.saturating_add(self.settings.consensus.period));
        let turn = self.turn(parent, creator, chain)?;
        let waited = timestamp.saturating_sub(parent.timestamp);
        if turn.wait_before_sealing(parent.number).is_none_or(|wait| wait > waited) {
            return Err(V1Error::NotTurn);
        }
        let mut header = Header {
            parent_hash: parent.hash(),
            ommers_hash: EMPTY_OMMERS_HASH,
            difficulty: turn.difficulty(),
            number,
            gas_limit: self.next_gas_limit(parent, number, attributes.gas_limit),
            timestamp,
            native_seal: Some(NativeSeal::default()),
            base_fee_per_gas: (number >= self.settings.heights.eip1559).then_some(NATIVE_BASE_FEE),
            ..Header::default()
        };
        let mut extra = vanity(&attributes.extra_data).to_vec();
        if number.is_multiple_of(self.settings.consensus.epoch) {
            let lists = self.checkpoint_lists(parent, chain)?.ok_or(V1Error::NoMasternodes)?;
            extra.extend(concatenated(&lists.masternodes));
            header.native_seal = Some(NativeSeal {
                validators: lists.validators.unwrap_or_default().into(),
                penalties: concatenated(&lists.penalties).into(),
                ..NativeSeal::default()
            });
        }
        extra.extend([0; SEAL_BYTES]);
        header.extra_data = extra.into();
        if self.is_signed_twice(number) {
            let unsealed = tenon_chain::seal(header.clone());
            let partner = assigned_second_signer(self.context(chain), &unsealed, parent, creator)?;
            if partner != creator {
                return Err(V1Error::OtherPartner { partner });
            }
        }
        Ok(header)
    }

    /// Adds the creator's signature to a finished header, and from the second epoch on a second one of the same key.
    ///
    /// # Errors
    /// [`V1Error::MissingSeal`] if the extra data is too short for it, [`V1Error::Signer`] if signing fails.
    pub fn seal(&self, mut header: Header, signer: &dyn BlockSigner) -> Result<SealedHeader, V1Error> {
        let start = header.extra_data.len().checked_sub(SEAL_BYTES).ok_or(V1Error::MissingSeal)?;
        let signature = signer.sign(v1_seal_hash(&header))?;
        header.extra_data = [&header.extra_data[..start], &signature].concat().into();
        if self.is_signed_twice(header.number) {
            header.native_seal.get_or_insert_default().validator = signature.to_vec().into();
        }
        Ok(tenon_chain::seal(header))
    }

    /// The gas limit of a block: the wanted one, and from the dynamic gas limit on a step towards it
    /// (`docs/spec/upgrades.md` 6). No v1 block is refused for its gas limit.
    fn next_gas_limit(&self, parent: &SealedHeader, number: u64, wanted: u64) -> u64 {
        let is_stepped = self.settings.heights.is_dynamic_gas_limit(number);
        if is_stepped { stepped_gas_limit(parent.gas_limit, wanted) } else { wanted }
    }

    /// Returns whether blocks of this height have a second signature.
    fn is_signed_twice(&self, number: u64) -> bool {
        number > self.settings.consensus.epoch
    }
}

/// A vanity text, truncated or zero-padded to 32 bytes.
fn vanity(text: &[u8]) -> [u8; VANITY_BYTES] {
    let mut vanity = [0; VANITY_BYTES];
    for (target, byte) in vanity.iter_mut().zip(text) {
        *target = *byte;
    }
    vanity
}

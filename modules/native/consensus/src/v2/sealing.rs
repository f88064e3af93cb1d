//! Makes blocks (`docs/spec/consensus.md` 7) as far as one key allows: certificates of several masternodes need voting,
//! which needs peers.

use secp256k1::{Message, SECP256K1, SecretKey};
use tenon_api::{
    Address, B256, BlockSigner, ChainReader, Header, NativeSeal, SealAttributes, SealedHeader, SignError,
    SignerMessage, U256,
};
use tenon_native_spec::NATIVE_BASE_FEE;

use super::{V2Engine, V2Error, leader, round_of};
use crate::{
    extra::ExtraFields,
    messages::{BlockInfo, QuorumCertificate, vote_digest},
    seal_hash::v2_seal_hash,
    signers::SIGNATURE_BYTES,
};

/// A masternode's key. It only signs digests and returns its address; its bytes are never shown.
#[derive(Clone, derive_more::Debug)]
#[debug("MasternodeKey({address})")]
pub struct MasternodeKey {
    secret: SecretKey,
    address: Address,
}

impl MasternodeKey {
    /// A key from its 32 bytes; `None` if they are zero or not below the group order.
    pub fn from_bytes(bytes: [u8; 32]) -> Option<Self> {
        let secret = SecretKey::from_byte_array(bytes).ok()?;
        let public = secret.public_key(SECP256K1).serialize_uncompressed();
        let address = Address::from_slice(&alloy_primitives::keccak256(&public[1..])[12..]);
        Some(Self { secret, address })
    }

    /// The masternode's address.
    pub const fn address(&self) -> Address {
        self.address
    }

    /// Signs a digest: R, S in the lower half, recovery id; nonces follow RFC 6979 (1.3).
    pub fn sign(&self, digest: B256) -> [u8; SIGNATURE_BYTES] {
        let signature = SECP256K1.sign_ecdsa_recoverable(Message::from_digest(digest.0), &self.secret);
        let (id, compact) = signature.serialize_compact();
        let mut bytes = [0; SIGNATURE_BYTES];
        bytes[..64].copy_from_slice(&compact);
        bytes[64] = u8::try_from(i32::from(id)).unwrap_or_default();
        bytes
    }
}

impl BlockSigner for MasternodeKey {
    fn address(&self) -> Address {
        self.address
    }

    fn sign(&self, digest: B256) -> Result<[u8; SIGNATURE_BYTES], SignError> {
        Ok(Self::sign(self, digest))
    }
}

impl V2Engine {
    /// A certificate of a block with only this masternode's vote; the switch block's needs none (5.2).
    ///
    /// # Errors
    /// [`V2Error::NotReady`] if it is not a quorum of the block's epoch, [`V2Error::Signer`] if signing fails.
    pub fn certify(
        &self,
        header: &SealedHeader,
        signer: &dyn BlockSigner,
        chain: &dyn ChainReader,
    ) -> Result<QuorumCertificate, V2Error> {
        let epoch = self.epoch_info(header, chain)?;
        let block =
            BlockInfo { hash: header.hash(), round: round_of(self.consensus(), header)?, number: header.number };
        let gap_number = epoch.gap_number(self.consensus());
        if block.round == 0 {
            return Ok(QuorumCertificate { block, signatures: Vec::new(), gap_number });
        }
        if !epoch.is_masternode(&signer.address()) || !self.is_quorum(1, &epoch, block.round) {
            return Err(V2Error::NotReady);
        }
        let vote = signer.sign(vote_digest(&block, gap_number))?;
        Ok(QuorumCertificate { block, signatures: vec![vote.to_vec().into()], gap_number })
    }

    /// The consensus fields of the block of a round on top of `parent` (7.2), for the leader of that round.
    /// Roots, gas used, bloom and the seal are left empty.
    ///
    /// # Errors
    /// [`V2Error::NotReady`] if the certificate is not the parent's; [`V2Error::NotLeader`]; those of
    /// [`V2Engine::epoch_lists`].
    pub fn prepare(
        &self,
        parent: &SealedHeader,
        round: u64,
        quorum: QuorumCertificate,
        attributes: &SealAttributes,
        chain: &dyn ChainReader,
    ) -> Result<Header, V2Error> {
        if quorum.block.hash != parent.hash() || quorum.block.round >= round {
            return Err(V2Error::NotReady);
        }
        let extra = ExtraFields { round, quorum };
        let mut seal = NativeSeal::default();
        let masternodes = if super::epoch::opens_epoch(self.consensus(), &extra) {
            let lists = self.epoch_lists(parent, round, chain)?.ok_or(V2Error::NoMasternodes)?;
            seal.validators = concatenated(&lists.masternodes);
            seal.penalties = concatenated(&lists.penalties);
            lists.masternodes.into()
        } else {
            std::sync::Arc::clone(&self.epoch_info(parent, chain)?.masternodes)
        };
        let turn = leader(self.consensus(), round, &masternodes).ok_or(V2Error::NoMasternodes)?;
        if turn != attributes.beneficiary {
            return Err(V2Error::NotLeader);
        }
        let number = parent.number.saturating_add(1);
        let earliest = parent.timestamp.saturating_add(self.consensus().at_round(round).mine_period);
        Ok(Header {
            parent_hash: parent.hash(),
            ommers_hash: tenon_api::EMPTY_OMMERS_HASH,
            beneficiary: attributes.beneficiary,
            difficulty: U256::ONE,
            number,
            // In steps at every height: before the dynamic gas limit (`docs/spec/upgrades.md` 6) the reference proposes its
            // target outright, which other nodes refuse if it is too far away (check 7).
            gas_limit: self.spec.nearest_gas_limit(parent, attributes.gas_limit),
            timestamp: attributes.timestamp.max(earliest),
            extra_data: extra.encode(),
            native_seal: Some(seal),
            base_fee_per_gas: self.spec.has_base_fee(number).then_some(NATIVE_BASE_FEE),
            ..Header::default()
        })
    }
}

/// Adds the proposer's signature to a finished header.
///
/// # Errors
/// [`SignError`].
pub fn seal(mut header: Header, signer: &dyn BlockSigner) -> Result<SealedHeader, SignError> {
    let signature = signer.sign_message(SignerMessage::Seal(&header), v2_seal_hash(&header))?;
    header.native_seal.get_or_insert_default().validator = signature.to_vec().into();
    Ok(tenon_chain::seal(header))
}

fn concatenated(addresses: &[Address]) -> alloy_primitives::Bytes {
    addresses.iter().flat_map(|address| address.0.0).collect()
}

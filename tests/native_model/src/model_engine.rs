//! Makes blocks by the model, without verifying any.

use std::sync::Arc;

use alloy_primitives::{Address, B64, Bytes, U256};
use parking_lot::Mutex;
use tenon_api::{
    Block, BlockNumber, BlockRewards, ChainReader, ConsensusEngine, ConsensusError, EMPTY_OMMERS_HASH, Head, Header,
    NativeSeal, RecoveredBlock, SealAttributes, SealedHeader,
};
use tenon_native_consensus::{BlockInfo, ExtraFields, QuorumCertificate, v1_seal_hash, v2_seal_hash, vote_digest};

use crate::{Facts, Model, Plan, network::GAS_LIMIT};

/// The base fee of every native block (`docs/spec/consensus.md` 14.3).
pub(crate) const BASE_FEE: u64 = 12_500_000_000;

/// An engine that makes the planned block.
pub struct ModelEngine {
    /// Every block so far.
    pub model: Mutex<Model>,
    next: Mutex<Option<Plan>>,
    /// Rewards of the next block in excess of the rules, wei.
    pub bonus: Mutex<U256>,
}

impl ModelEngine {
    /// An engine without a plan.
    pub fn new(model: Model) -> Self {
        Self { model: Mutex::new(model), next: Mutex::new(None), bonus: Mutex::new(U256::ZERO) }
    }

    /// Sets the plan of the next block.
    pub fn plan(&self, plan: Plan) {
        *self.next.lock() = Some(plan);
    }

    /// Records the block made.
    pub fn record(&self, block: &RecoveredBlock) -> Arc<Facts> {
        let plan = self.planned();
        self.model.lock().record(&plan, block)
    }

    /// The plan of the next block.
    pub(crate) fn planned(&self) -> Plan {
        self.next.lock().clone().unwrap()
    }

    fn sign(&self, who: Address, digest: alloy_primitives::B256) -> Bytes {
        self.model.lock().network.candidates[&who].sign(digest).to_vec().into()
    }

    /// Extra data of v2: round and certificate (`docs/spec/consensus.md` 3.2).
    fn certified(&self, plan: &Plan) -> Bytes {
        let parent = &plan.parent;
        let block = BlockInfo { hash: parent.hash, round: parent.round, number: parent.number };
        let gap_number = self.model.lock().gap_number(parent.epoch.number);
        let digest = vote_digest(&block, gap_number);
        let signatures = plan.voters.iter().map(|voter| self.sign(*voter, digest)).collect();
        ExtraFields { round: plan.round, quorum: QuorumCertificate { block, signatures, gap_number } }.encode()
    }
}

fn list(addresses: &[Address]) -> Vec<u8> {
    addresses.iter().flat_map(|address| address.0.0).collect()
}

/// Decimal text, zero-padded to four bytes (`docs/spec/consensus.md` 2.5).
fn partners(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| format!("{number:\0>4}").into_bytes()).collect()
}

impl ConsensusEngine for ModelEngine {
    fn name(&self) -> &'static str {
        "model"
    }

    fn verify_header(&self, _: &SealedHeader, _: &SealedHeader, _: &dyn ChainReader) -> Result<(), ConsensusError> {
        Ok(())
    }

    fn verify_body(&self, _: &Block, _: &dyn ChainReader) -> Result<(), ConsensusError> {
        Ok(())
    }

    fn is_better(&self, _: &SealedHeader, candidate: U256, head: &Head) -> bool {
        candidate > head.total_difficulty
    }

    fn author(&self, header: &SealedHeader) -> Result<Address, ConsensusError> {
        let made = self.model.lock().facts(header.hash());
        Ok(made.map_or_else(|| self.planned().author, |facts| facts.author))
    }

    fn rewards(&self, _: &Block, _: &dyn ChainReader) -> Result<BlockRewards, ConsensusError> {
        let mut paid = self.model.lock().rewards(&self.planned());
        let bonus = *self.bonus.lock();
        if let Some(mut first) = paid.first_entry() {
            *first.get_mut() += bonus;
        }
        Ok(paid.into_iter().collect::<Vec<_>>().into())
    }

    fn prepare(
        &self,
        parent: &SealedHeader,
        _: &SealAttributes,
        _: &dyn ChainReader,
    ) -> Result<Header, ConsensusError> {
        let plan = self.planned();
        assert_eq!(parent.hash(), plan.parent.hash, "the plan is for another head");
        let is_v2 = plan.number() > self.model.lock().network.switch_block;
        let Plan { epoch, .. } = &plan;
        let opens = plan.opens_epoch();
        let mut seal = NativeSeal::default();
        if opens {
            seal.penalties = list(&epoch.penalties).into();
            seal.validators = if is_v2 { list(&epoch.masternodes) } else { partners(&epoch.partners) }.into();
        }
        let extra_data = if is_v2 {
            self.certified(&plan)
        } else {
            let listed = if opens { list(&epoch.masternodes) } else { Vec::new() };
            [&[0; 32][..], &listed, &[0; 65]].concat().into()
        };
        Ok(Header {
            parent_hash: parent.hash(),
            ommers_hash: EMPTY_OMMERS_HASH,
            beneficiary: if is_v2 { plan.author } else { Address::ZERO },
            difficulty: U256::from(plan.difficulty),
            number: plan.number(),
            gas_limit: GAS_LIMIT,
            timestamp: plan.timestamp,
            extra_data,
            // Both are accepted, without effect (`docs/spec/consensus.md` 16 item 14).
            nonce: if is_v2 && !opens && plan.round.is_multiple_of(7) { B64::repeat_byte(0xff) } else { B64::ZERO },
            native_seal: Some(seal),
            base_fee_per_gas: Some(BASE_FEE),
            ..Header::default()
        })
    }

    fn seal(&self, mut header: Header) -> Result<SealedHeader, ConsensusError> {
        let plan = self.planned();
        if plan.number() > self.model.lock().network.switch_block {
            let signature = self.sign(plan.author, v2_seal_hash(&header));
            header.native_seal.get_or_insert_default().validator = signature;
            return Ok(tenon_chain::seal(header));
        }
        let digest = v1_seal_hash(&header);
        let start = header.extra_data.len() - 65;
        header.extra_data = [&header.extra_data[..start], &self.sign(plan.author, digest)].concat().into();
        let second = self.model.lock().second_signer(&plan);
        if let Some(second) = second {
            header.native_seal.get_or_insert_default().validator = self.sign(second, digest);
        }
        Ok(tenon_chain::seal(header))
    }

    fn finality(&self, _: &SealedHeader, _: &dyn ChainReader) -> (Option<BlockNumber>, Option<BlockNumber>) {
        (None, None)
    }
}

//! The parameters of the chain's consensus (`docs/spec/rpc-node.md` 2.3).

use tenon_api::messages::{ConsensusParameters, RoundParameters};
use tenon_chain::VALIDATOR_CONTRACT;
use tenon_native_spec::RoundConfig;

use super::{Queries, QueryError};
use crate::v2::V2Error;

impl Queries {
    /// The parameters, with the entry that this process applied last.
    pub(super) fn parameters(&self) -> Result<ConsensusParameters, QueryError> {
        let (consensus, contracts) = (self.engine.consensus(), &self.settings.contracts);
        Ok(ConsensusParameters {
            chain_id: self.chain_id,
            validator_contract: VALIDATOR_CONTRACT,
            relayer_registration: contracts.relayer_registration,
            exchange_listing: contracts.xdcx_listing,
            token_issuer: contracts.trc21_issuer,
            lending_registration: contracts.lending_registration,
            period: consensus.period,
            epoch: consensus.epoch,
            reward: consensus.reward,
            reward_checkpoint: consensus.reward_checkpoint,
            gap: consensus.gap,
            foundation_wallet: consensus.foundation_wallet,
            skips_v1_validation: consensus.skip_v1_validation,
            switch_epoch: consensus.switch_epoch,
            switch_block: consensus.switch_block,
            rounds: consensus.rounds().iter().map(|(key, config)| (*key, public(config))).collect(),
            current: self.current_entry()?,
        })
    }

    /// The key of the entry applied at the last epoch that began while this process ran; initially the first entry's,
    /// like the reference after a start.
    fn current_entry(&self) -> Result<u64, V2Error> {
        let consensus = self.engine.consensus();
        let head = self.chain.head();
        let mut round = 0;
        if self.engine.is_v2(head.header.number) {
            let info = self.engine.v2().epoch_of(&head.header, &*self.chain)?;
            if info.switch.number > self.started_at {
                round = info.switch.round;
            }
        }
        let keys = consensus.rounds().iter().map(|(key, _)| *key);
        Ok(keys.take_while(|key| *key <= round).last().unwrap_or_default())
    }
}

fn public(config: &RoundConfig) -> RoundParameters {
    RoundParameters {
        max_masternodes: config.max_masternodes as u64,
        switch_round: config.switch_round,
        mine_period: config.mine_period,
        timeout_sync_threshold: config.timeout_sync_threshold,
        timeout_period: config.timeout_period,
        certificate_threshold: config.certificate_threshold,
        timeout_base: config.timeout_growth.base,
        timeout_max_exponent: config.timeout_growth.max_exponent,
    }
}

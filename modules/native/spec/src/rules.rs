//! The native rules in the list that is stored with a chain.

use alloy_primitives::keccak256;
use tenon_chain::spec::{RuleList, Since};

use crate::{NamedHeight, NativeSettings, RoundConfig};

impl NativeSettings {
    /// Adds the rules (`docs/spec/chain.md` 5.1, 7.1; `docs/spec/consensus.md` 12).
    pub(crate) fn list_rules(&self, list: &mut RuleList) {
        let always = Some(Since::Block(1));
        for NamedHeight { name, height } in self.heights.named() {
            list.add(&format!("native {name}"), height.map(Since::Block), "");
        }
        list.add("native laterProgram", self.heights.later_program.map(Since::Block), "");
        let consensus = &self.consensus;
        list.add("XDPoS.period", always, consensus.period);
        list.add("XDPoS.epoch", always, consensus.epoch);
        list.add("XDPoS.gap", always, consensus.gap);
        list.add("XDPoS.reward", always, consensus.reward);
        list.add("XDPoS.rewardCheckpoint", always, consensus.reward_checkpoint);
        list.add("XDPoS.foudationWalletAddr", always, consensus.foundation_wallet);
        list.add("XDPoS.skipV1Validation", always, consensus.skip_v1_validation);
        // The first block judged by the other engine is the one after the last block of engine v1.
        list.add("XDPoS.v2.switchBlock", Some(Since::Block(consensus.switch_block.saturating_add(1))), "");
        let v2 = Some(Since::Block(consensus.switch_block.saturating_add(1)));
        list.add("XDPoS.v2.switchEpoch", v2, consensus.switch_epoch);
        for (round, config) in consensus.rounds() {
            list.add(&format!("XDPoS.v2.allConfigs.{round}"), Some(Since::Round(*round)), value_of(config));
        }
        let contracts = &self.contracts;
        list.add("native trc21Issuer", always, contracts.trc21_issuer);
        list.add("native xdcxListing", always, contracts.xdcx_listing);
        list.add("native relayerRegistration", always, contracts.relayer_registration);
        list.add("native lendingRegistration", always, contracts.lending_registration);
        let increased = Some(Since::Block(self.heights.tip_increase_masternodes));
        list.add("native lateV1Masternodes", increased, self.late_v1_masternodes);
        let denied: Vec<u8> = self.denylist.iter().flat_map(|address| address.0.0).collect();
        let denied = format!("{} addresses with hash {}", self.denylist.len(), keccak256(denied));
        list.add("native denied addresses", Some(Since::Block(self.heights.denylist)), denied);
        for checkpoint in &self.unchecked_checkpoints {
            list.add(&format!("native unchecked checkpoint {checkpoint}"), Some(Since::Block(*checkpoint)), "");
        }
        if self.skips_second_signer {
            list.add("native skipsSecondSigner", always, "");
        }
    }
}

/// The parameters of a round as text. Parameters that the file does not set are omitted, so that entries of older
/// releases stay unchanged.
fn value_of(config: &RoundConfig) -> String {
    let mut value = format!(
        "{} masternodes, a block in {} s, certificates of {}",
        config.max_masternodes, config.mine_period, config.certificate_threshold
    );
    let [masternodes, protectors, observers] = config.rewards();
    let roles = (config.max_protector_nodes, config.max_observer_nodes);
    if roles != (0, 0) || config.rewards() != [0.0; 3] {
        let (max_protectors, max_observers) = roles;
        value += &format!(
            ", {max_protectors} protectors, {max_observers} observers, rewards of {masternodes}, {protectors}, {observers}"
        );
    }
    let (blocks, epochs, signings) =
        (config.minimum_miner_block_per_epoch, config.limit_penalty_epoch, config.minimum_signing_transactions);
    if (blocks, epochs, signings) != (0, 0, 0) {
        value += &format!(", {blocks} blocks or a penalty of {epochs} epochs until {signings} signing transactions");
    }
    value
}

#[cfg(test)]
mod tests {
    use tenon_chain::Rules;

    use crate::PublicNetwork;

    #[test]
    fn a_list_round_trips() {
        for network in PublicNetwork::ALL {
            let rules = network.genesis().unwrap().spec.rules();
            assert_eq!(Rules::from_bytes(&rules.to_bytes().unwrap()).unwrap(), rules);
            assert!(rules.changed_since(&rules).is_empty());
            let names: std::collections::BTreeSet<_> = rules.all().iter().map(|rule| &rule.name).collect();
            assert_eq!(names.len(), rules.all().len(), "every rule has a name of its own");
        }
    }
}

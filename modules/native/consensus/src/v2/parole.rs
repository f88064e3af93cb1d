//! Penalties from `tipUpgradePenalty` on: too few blocks, no blocks, and parole (`docs/spec/upgrades.md` 5).

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use tenon_api::{Address, B256, ChainReader, SealedHeader};

use super::{
    EpochInfo, V2Engine, V2Error, epoch_number,
    penalty::{EndedEpochBlocks, ended_epoch},
    round_of, stored_header,
};
use crate::signing::{MERGE_SIGN_RANGE, SigningTransactionFilter};

impl V2Engine {
    /// The addresses penalised by the epoch that ends with `parent`. An address need not be a candidate any more, and
    /// one that two of the rules penalise is listed twice (step 4).
    ///
    /// The parameters are those of the parent's round, not of the new epoch's.
    pub(super) fn upgraded_penalties(
        &self,
        parent: &SealedHeader,
        chain: &dyn ChainReader,
    ) -> Result<Vec<Address>, V2Error> {
        let consensus = self.consensus();
        let rules = consensus.at_round(round_of(consensus, parent)?);
        let ended = self.epoch_info(parent, chain)?;
        let EndedEpochBlocks { hashes, made } = ended_epoch(parent, &ended, &self.signing, chain)?;
        let too_few = made.iter().filter(|(_, count)| **count < rules.minimum_miner_block_per_epoch);
        let mut penalties: Vec<Address> = too_few.map(|(maker, _)| *maker).collect();
        penalties.extend(ended.masternodes.iter().filter(|masternode| !made.contains_key(*masternode)));
        let number = parent.number.saturating_add(1);
        let epochs = rules.limit_penalty_epoch.max(1);
        if number > epochs.saturating_mul(consensus.epoch).saturating_add(consensus.switch_block) {
            let served = self.penalties_by_address(&ended, epochs, chain)?;
            let signed = self.signatures(number, &hashes, chain)?;
            let is_released = |address: &Address| {
                served.get(address) == Some(&epochs)
                    && signed.get(address).copied().unwrap_or_default() >= rules.minimum_signing_transactions
            };
            penalties.extend(ended.penalties.iter().filter(|address| !is_released(address)));
        }
        Ok(penalties)
    }

    /// How often each address occurs in the penalties of the ended epoch and of the epochs numbered below it, `epochs`
    /// in total. An epoch without a block has no penalties.
    fn penalties_by_address(
        &self,
        ended: &Arc<EpochInfo>,
        epochs: u64,
        chain: &dyn ChainReader,
    ) -> Result<BTreeMap<Address, u64>, V2Error> {
        let consensus = self.consensus();
        let newest = epoch_number(consensus, ended.switch.round);
        let mut occurrences: BTreeMap<Address, u64> = BTreeMap::new();
        let mut epoch = Arc::clone(ended);
        loop {
            for address in &epoch.penalties {
                *occurrences.entry(*address).or_default() += 1;
            }
            // No v2 epoch precedes the first one.
            let Some(before) = epoch.switch_parent.filter(|before| before.number > consensus.switch_block) else {
                return Ok(occurrences);
            };
            let last = stored_header(chain, before.hash, before.number)?;
            epoch = self.epoch_info(&last, chain)?;
            if newest.saturating_sub(epoch_number(consensus, epoch.switch.round)) >= epochs {
                return Ok(occurrences);
            }
        }
    }

    /// Number of signing transactions by sender in the blocks before `number`, whose hashes are given in descending
    /// order; at most one epoch of blocks is read. A transaction counts if the signed block is one of these blocks, has
    /// a number that is a multiple of 15, and is not above the block with the transaction. Unlike for rewards, several
    /// transactions for the same block count.
    fn signatures(
        &self,
        number: u64,
        hashes: &[B256],
        chain: &dyn ChainReader,
    ) -> Result<HashMap<Address, u64>, V2Error> {
        let max = usize::try_from(self.consensus().epoch).unwrap_or(usize::MAX);
        let window: Vec<_> = (0..number).rev().zip(hashes).take(max).collect();
        let (mut signable, mut signed) = (HashSet::new(), HashMap::new());
        for (number, hash) in window.into_iter().rev() {
            if number.is_multiple_of(MERGE_SIGN_RANGE) {
                signable.insert(*hash);
            }
            for signing in self.signing.of(*hash, SigningTransactionFilter::All, chain)?.iter() {
                if signable.contains(&signing.block) {
                    *signed.entry(signing.signer).or_default() += 1;
                }
            }
        }
        Ok(signed)
    }
}

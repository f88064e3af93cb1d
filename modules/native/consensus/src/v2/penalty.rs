//! Masternodes and penalties of a new epoch (`docs/spec/consensus.md` 4.4, 4.5).

use std::collections::{BTreeMap, HashSet};

use tenon_api::{Address, B256, ChainReader, SealedHeader};

use super::{EpochInfo, V2Engine, V2Error, gap_number};
use crate::{
    header_link::HeaderLink,
    signing::{MERGE_SIGN_RANGE, RETURN_RANGE, SigningIndex, SigningTransactionFilter},
};

/// The lists in the header of an epoch switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochLists {
    /// The masternodes, in the order of their turns.
    pub masternodes: Vec<Address>,
    /// Candidates excluded from this epoch.
    pub penalties: Vec<Address>,
}

impl V2Engine {
    /// The lists of an epoch switch of this round on top of `parent` (4.4), from the gap block of the parent's branch;
    /// `None` if the source has no state.
    ///
    /// # Errors
    /// Those of [`V2Engine::candidates`], [`V2Error::PenaltyAncestor`].
    pub fn epoch_lists(
        &self,
        parent: &SealedHeader,
        round: u64,
        chain: &dyn ChainReader,
    ) -> Result<Option<EpochLists>, V2Error> {
        let number = parent.number + 1;
        let gap = gap_number(self.consensus(), number);
        let Some(candidates) = self.candidates_below(parent, gap, chain)? else { return Ok(None) };
        let penalties = if number == self.consensus().switch_block + 1 {
            Vec::new()
        } else {
            self.penalties_after(parent, &candidates, chain)?
        };
        let max = self.consensus().at_round(round).max_masternodes;
        let masternodes =
            candidates.iter().filter(|candidate| !penalties.contains(candidate)).take(max).copied().collect();
        Ok(Some(EpochLists { masternodes, penalties }))
    }

    /// The penalties of an epoch switch on top of `parent`, by the rule of its height.
    fn penalties_after(
        &self,
        parent: &SealedHeader,
        candidates: &[Address],
        chain: &dyn ChainReader,
    ) -> Result<Vec<Address>, V2Error> {
        if self.settings.heights.is_upgrade_penalty(parent.number.saturating_add(1)) {
            self.upgraded_penalties(parent, chain)
        } else {
            self.penalties(parent, candidates, chain)
        }
    }

    /// The candidates penalised by the epoch that ends with `parent` (4.5): masternodes that made no block in it, and
    /// those penalised before that have not returned.
    fn penalties(
        &self,
        parent: &SealedHeader,
        candidates: &[Address],
        chain: &dyn ChainReader,
    ) -> Result<Vec<Address>, V2Error> {
        let ended = self.epoch_info(parent, chain)?;
        let EndedEpochBlocks { hashes, made } = ended_epoch(parent, &ended, &self.signing, chain)?;
        let mut penalties: Vec<Address> =
            ended.masternodes.iter().filter(|masternode| !made.contains_key(*masternode)).copied().collect();
        let number = parent.number + 1;
        if number > self.consensus().switch_block + self.consensus().epoch {
            let held: Vec<Address> =
                ended.penalties.iter().filter(|address| candidates.contains(address)).copied().collect();
            for address in self.without_returned(held, number, &hashes, chain)? {
                if !penalties.contains(&address) {
                    penalties.push(address);
                }
            }
        }
        Ok(penalties)
    }

    /// Removes candidates that signed, within the last 150 blocks of the epoch, a block among them with a number that
    /// is a multiple of 15 (4.5 step 5). `hashes` begins with the block before `number`.
    fn without_returned(
        &self,
        mut held: Vec<Address>,
        number: u64,
        hashes: &[B256],
        chain: &dyn ChainReader,
    ) -> Result<Vec<Address>, V2Error> {
        let mut signable = HashSet::new();
        let window: Vec<_> = (0..number).rev().zip(hashes).take(RETURN_RANGE).collect();
        for (number, hash) in window.into_iter().rev() {
            if held.is_empty() {
                break;
            }
            if number.is_multiple_of(MERGE_SIGN_RANGE) {
                signable.insert(*hash);
            }
            for signing in self.signing.of(*hash, SigningTransactionFilter::All, chain)?.iter() {
                if signable.contains(&signing.block) {
                    held.retain(|address| *address != signing.signer);
                }
            }
        }
        Ok(held)
    }
}

/// The blocks of an ended epoch.
pub(super) struct EndedEpochBlocks {
    /// Hashes from the last block back to the epoch switch, inclusive.
    pub(super) hashes: Vec<B256>,
    /// Number of blocks after the epoch switch by their maker. The epoch switch's own producer gets no credit for it
    /// (4.5 step 2, pitfall 11).
    pub(super) made: BTreeMap<Address, u64>,
}

/// The blocks of an epoch that ends with `parent`.
pub(super) fn ended_epoch(
    parent: &SealedHeader,
    epoch: &EpochInfo,
    signing: &SigningIndex,
    chain: &dyn ChainReader,
) -> Result<EndedEpochBlocks, V2Error> {
    let mut ended = EndedEpochBlocks { hashes: vec![parent.hash()], made: BTreeMap::new() };
    let mut current = HeaderLink::new(parent);
    while current.hash != epoch.switch.hash {
        *ended.made.entry(current.beneficiary).or_default() += 1;
        let (hash, number) = (current.parent_hash, current.number.saturating_sub(1));
        ended.hashes.push(hash);
        current = signing.link(hash, chain)?.ok_or(V2Error::PenaltyAncestor { number, hash })?;
    }
    Ok(ended)
}

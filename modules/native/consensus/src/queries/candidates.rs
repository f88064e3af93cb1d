//! The candidates of an epoch and their status (`docs/spec/rpc-eth.md` 17).

use tenon_api::{
    Address, SealedHeader, StoreError, U256,
    messages::{CandidateList, CandidateStanding},
};

use super::{Queries, QueryError};
use crate::{
    addresses_of, go_sort, read_candidates,
    v1::MAX_EARLY_MASTERNODES,
    v2::{V2Error, round_of},
};

/// Number of earlier epochs whose penalties still count.
const PENALTY_EPOCHS: u64 = 4;

impl Queries {
    /// The candidates of an epoch; `None` means the current one.
    pub(super) fn candidates(&self, epoch: Option<u64>) -> Result<CandidateList, QueryError> {
        let head = self.chain.head();
        let (checkpoint, number) = match epoch {
            None => self.epoch_of(&head.header)?,
            Some(epoch) if epoch < 2 => (0, epoch),
            // The epoch's number times its length, although v2 epochs begin at rounds: the reference does the same.
            Some(epoch) => (self.engine.consensus().epoch.saturating_mul(epoch - 1), epoch),
        };
        let unknown = CandidateList { epoch: number, ..CandidateList::default() };
        let Some(header) = self.canonical_header(checkpoint)? else { return Ok(unknown) };
        let state_number = if epoch.is_none() { head.header.number } else { checkpoint };
        let state = self.chain.state_at(state_number.into())?;
        let mut candidates = read_candidates(&*state)?;
        let masternodes = self.listed_masternodes(&header);
        if candidates.is_empty() || masternodes.is_empty() {
            return Ok(CandidateList { candidates: candidate_statuses(&candidates, &[], &[]), ..unknown });
        }
        let max = self.max_masternodes(&header)?;
        if candidates.len() > max {
            go_sort::sort_by_stake_descending(&mut candidates, |(_, stake)| *stake);
        }
        let slashed = if masternodes.len() < max {
            slashed(&candidates, &self.penalised(&header)?, masternodes.len(), max)
        } else {
            Vec::new()
        };
        Ok(CandidateList {
            epoch: number,
            is_known: true,
            candidates: candidate_statuses(&candidates, &masternodes, &slashed),
        })
    }

    fn max_masternodes(&self, header: &SealedHeader) -> Result<usize, V2Error> {
        let consensus = self.engine.consensus();
        if self.engine.is_v2(header.number) {
            let round = round_of(consensus, header)?;
            return Ok(consensus.at_round(round).max_masternodes);
        }
        let is_late = header.number >= self.settings.heights.tip_increase_masternodes;
        Ok(if is_late { self.settings.late_v1_masternodes } else { MAX_EARLY_MASTERNODES })
    }

    /// All addresses penalised in this checkpoint's header or in the [`PENALTY_EPOCHS`] before it. An address penalised
    /// in several of them is listed several times.
    fn penalised(&self, header: &SealedHeader) -> Result<Vec<Address>, StoreError> {
        let epoch = self.engine.consensus().epoch;
        let mut penalised = Vec::new();
        for back in 0..=PENALTY_EPOCHS {
            let Some(number) = header.number.checked_sub(epoch.saturating_mul(back)) else { break };
            let checkpoint = self.canonical_header(number)?;
            let seal = checkpoint.as_ref().and_then(|checkpoint| checkpoint.native_seal.as_ref());
            penalised.extend(seal.map(|seal| addresses_of(&seal.penalties)).unwrap_or_default());
        }
        Ok(penalised)
    }
}

/// Penalised candidates, until the number of masternodes including them reaches the maximum.
pub(super) fn slashed(
    candidates: &[(Address, U256)],
    penalised: &[Address],
    masternodes: usize,
    max: usize,
) -> Vec<Address> {
    let mut slashed = Vec::new();
    let mut total = masternodes;
    for (candidate, _) in candidates {
        for _ in penalised.iter().filter(|penalised| *penalised == candidate) {
            slashed.push(*candidate);
            total += 1;
            if total >= max {
                return slashed;
            }
        }
    }
    slashed
}

fn candidate_statuses(
    candidates: &[(Address, U256)],
    masternodes: &[Address],
    slashed: &[Address],
) -> Vec<CandidateStanding> {
    let status = |address: Address, stake: Option<U256>| CandidateStanding {
        address,
        stake,
        is_masternode: masternodes.contains(&address),
        is_slashed: slashed.contains(&address),
    };
    let is_candidate = |address: &Address| candidates.iter().any(|(candidate, _)| candidate == address);
    let others = masternodes.iter().filter(|masternode| !is_candidate(masternode));
    let own = candidates.iter().map(|(candidate, stake)| status(*candidate, Some(*stake)));
    own.chain(others.map(|masternode| status(*masternode, None))).collect()
}

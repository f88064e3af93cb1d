//! The candidates of the voting contract (`docs/spec/consensus.md` 4.3).

use std::sync::Arc;

use alloy_primitives::{Address, B256, U256};
use tenon_api::{ChainReader, SealedHeader, StateReader, StoreError};

use tenon_chain::{VALIDATOR_CONTRACT, candidate_record};

use super::{ancestry::state_after, contract_slots::read_addresses, go_sort};

/// Slot of the candidates' array.
const CANDIDATES_SLOT: u64 = 8;

/// Source of the ordered candidates of a gap block, which separates the rules from the state: a node reads them from
/// the voting contract; a check of headers without state has none.
pub trait MasternodeSource: Send + Sync {
    /// All candidates in the state after this gap block, which may be on any branch. Sorted by stake, highest first,
    /// with equal stakes in the reference's order. `None` if the source has no state; lists that depend on it are not
    /// checked then.
    ///
    /// # Errors
    /// [`StoreError`] if the state cannot be read.
    fn candidates(&self, gap: &SealedHeader, chain: &dyn ChainReader) -> Result<Option<Arc<[Address]>>, StoreError>;
}

/// Reads candidates from the chain's stored state.
#[derive(Clone, Copy, Debug, Default)]
pub struct ContractCandidates;

impl MasternodeSource for ContractCandidates {
    fn candidates(&self, gap: &SealedHeader, chain: &dyn ChainReader) -> Result<Option<Arc<[Address]>>, StoreError> {
        let unknown = || StoreError::UnknownBlock { what: format!("{} ({})", gap.number, gap.hash()) };
        let state = state_after(chain, gap)?.ok_or_else(unknown)?;
        let mut candidates = read_candidates(&*state)?;
        // The order of equal stakes is part of consensus: it determines leaders (Appendix A).
        go_sort::sort_by_stake_descending(&mut candidates, |(_, stake)| *stake);
        Ok(Some(candidates.into_iter().map(|(candidate, _)| candidate).collect()))
    }
}

/// Every candidate with its stake in wei, in the contract's order. Entries of resigned candidates are zero and are
/// skipped; the record's own flag "is a candidate" is ignored.
///
/// # Errors
/// [`StoreError`].
pub fn read_candidates(state: &dyn StateReader) -> Result<Vec<(Address, U256)>, StoreError> {
    let candidates = read_addresses(state, VALIDATOR_CONTRACT, B256::from(U256::from(CANDIDATES_SLOT)))?;
    let present = candidates.into_iter().filter(|candidate| !candidate.is_zero());
    present.map(|candidate| Ok((candidate, read_stake(state, candidate)?))).collect()
}

/// The stake of a candidate in wei: the second word of its record.
///
/// # Errors
/// [`StoreError`].
pub(crate) fn read_stake(state: &dyn StateReader, candidate: Address) -> Result<U256, StoreError> {
    let record = U256::from_be_bytes(candidate_record(candidate).0);
    state.storage(VALIDATOR_CONTRACT, B256::from(record.wrapping_add(U256::ONE)))
}

#[cfg(test)]
mod tests {
    use tenon_native_spec::PublicNetwork;

    use super::*;
    use crate::{extra::v1_masternodes, recorded_state::RecordedState};

    #[test]
    fn the_candidates_of_the_public_genesis_states_are_the_masternodes_of_their_headers() {
        let coin = U256::from(10).pow(U256::from(18));
        for (network, count, stake) in [("mainnet", 3, 10_000_000), ("testnet", 3, 10_000_000), ("devnet", 18, 50_000)]
        {
            let genesis = PublicNetwork::by_name(network).unwrap().genesis().unwrap();

            let candidates = read_candidates(&RecordedState::of_genesis(&genesis)).unwrap();

            assert_eq!(candidates.len(), count, "{network}");
            assert!(candidates.iter().all(|(_, found)| *found == U256::from(stake) * coin), "{network}");
            let mut addresses: Vec<Address> = candidates.into_iter().map(|(candidate, _)| candidate).collect();
            addresses.sort_unstable();
            let mut masternodes = v1_masternodes(&genesis.header.extra_data);
            masternodes.sort_unstable();
            assert_eq!(addresses, masternodes, "{network}");
        }
    }
}

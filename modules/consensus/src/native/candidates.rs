//! The candidates of the voting contract (`spec/consensus.md` 4.3).

use std::sync::Arc;

use alloy_primitives::{Address, B256, U256, address, keccak256};
use tenon_api::{BlockNumber, ChainReader, SealedHeader, StateReader, StoreError};

use super::go_sort;

/// The voting contract.
pub(crate) const VALIDATOR_CONTRACT: Address = address!("0000000000000000000000000000000000000088");
/// Slot of the candidates' array.
const CANDIDATES_SLOT: u64 = 8;
/// Slot of the mapping from a candidate to its record.
const RECORDS_SLOT: u64 = 1;
/// More array entries than this are a damaged database: each costs a deposit of ten million coins.
const MOST_CANDIDATES: u64 = 1 << 20;

/// Where the ordered candidates of a gap block come from. The seam between the rules and the state: a node reads
/// them from the voting contract, a check of headers alone does not know them.
pub trait MasternodeSource: Send + Sync {
    /// All candidates in the state after this canonical gap block, by stake, highest first, in the reference's
    /// order; none if the source has no state, in which case lists that depend on it are not checked.
    ///
    /// # Errors
    /// [`StoreError`] when the state cannot be read.
    fn candidates(&self, gap: &SealedHeader, chain: &dyn ChainReader) -> Result<Option<Arc<[Address]>>, StoreError>;
}

/// Candidates from the state that the chain keeps.
#[derive(Clone, Copy, Debug, Default)]
pub struct ContractCandidates;

impl MasternodeSource for ContractCandidates {
    fn candidates(&self, gap: &SealedHeader, chain: &dyn ChainReader) -> Result<Option<Arc<[Address]>>, StoreError> {
        let state = chain.state_at(BlockNumber(gap.number))?;
        let mut candidates = read_candidates(&*state)?;
        // The order among equal stakes is consensus: it decides leaders (Appendix A).
        go_sort::sort_by_stake_descending(&mut candidates, |(_, stake)| *stake);
        Ok(Some(candidates.into_iter().map(|(candidate, _)| candidate).collect()))
    }
}

/// Every candidate with its stake in wei, in the contract's order. Entries of resigned candidates are zero and
/// are left out; whether a record says that it is a candidate is not looked at.
///
/// # Errors
/// [`StoreError`].
pub fn read_candidates(state: &dyn StateReader) -> Result<Vec<(Address, U256)>, StoreError> {
    let length = state.storage(VALIDATOR_CONTRACT, B256::from(U256::from(CANDIDATES_SLOT)))?;
    let count = u64::try_from(length).ok().filter(|count| *count <= MOST_CANDIDATES);
    let count =
        count.ok_or_else(|| StoreError::Corrupt { what: format!("{length} candidates in {VALIDATOR_CONTRACT}") })?;
    let first = U256::from_be_bytes(keccak256(B256::from(U256::from(CANDIDATES_SLOT))).0);
    let mut candidates = Vec::new();
    for index in 0..count {
        let word = state.storage(VALIDATOR_CONTRACT, B256::from(first.wrapping_add(U256::from(index))))?;
        let candidate = Address::from_word(B256::from(word));
        if !candidate.is_zero() {
            candidates.push((candidate, read_stake(state, candidate)?));
        }
    }
    Ok(candidates)
}

/// The stake of a candidate in wei: the second word of its record.
///
/// # Errors
/// [`StoreError`].
pub(crate) fn read_stake(state: &dyn StateReader, candidate: Address) -> Result<U256, StoreError> {
    let mut key = [0; 64];
    key[12..32].copy_from_slice(candidate.as_slice());
    key[32..].copy_from_slice(&U256::from(RECORDS_SLOT).to_be_bytes::<32>());
    let record = U256::from_be_bytes(keccak256(key).0);
    state.storage(VALIDATOR_CONTRACT, B256::from(record.wrapping_add(U256::ONE)))
}

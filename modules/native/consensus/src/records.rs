//! Records that the engine keeps across restarts (`docs/spec/consensus.md` 17): candidates of gap blocks, and this
//! node's voting state. The latter is here and not in `native/voting`, because the engine protects its committed block
//! from the start on, before and without voting.

use std::sync::Arc;

use alloy_primitives::{Address, B256};
use alloy_rlp::{Decodable, RlpDecodable, RlpEncodable};
use tenon_api::{ChainReader, EngineRecords, SealedHeader, StoreError};

use super::{
    ancestry::is_canonical,
    candidates::MasternodeSource,
    messages::{BlockInfo, QuorumCertificate, TimeoutCertificate},
};

/// Number of gap blocks whose candidates are kept. Verification needs at most two; a record has about 3 KB.
const MAX_RECORDED_GAP_BLOCKS: u64 = 32;
/// Name of the record of the voting state.
const VOTING: &str = "voting";
/// Name of the record of the masternode that has signed last. A record of its own, because older releases refuse a voting state
/// with an additional value.
const VOTING_SIGNER: &str = "voting-signer";

/// Candidates, recorded once they are known, in a ring indexed by epoch. A record contains the hash of its gap block,
/// so that the record of another branch is never used.
pub(super) struct RecordedCandidates {
    source: Arc<dyn MasternodeSource>,
    records: Arc<dyn EngineRecords>,
    epoch: u64,
    /// Whether results are recorded. False for queries on old gap blocks: their records would replace newer ones.
    is_recording: bool,
}

impl RecordedCandidates {
    pub(super) fn new(source: Arc<dyn MasternodeSource>, records: Arc<dyn EngineRecords>, epoch: u64) -> Self {
        Self { source, records, epoch, is_recording: true }
    }

    /// Reads the records and writes none.
    pub(super) fn reading(source: Arc<dyn MasternodeSource>, records: Arc<dyn EngineRecords>, epoch: u64) -> Self {
        Self { source, records, epoch, is_recording: false }
    }

    fn name(&self, gap: &SealedHeader) -> String {
        let epoch = gap.number.checked_div(self.epoch).unwrap_or_default();
        format!("candidates/{}", epoch % MAX_RECORDED_GAP_BLOCKS)
    }

    fn recorded(&self, gap: &SealedHeader) -> Result<Option<Arc<[Address]>>, StoreError> {
        let Some(record) = self.records.record(&self.name(gap))? else { return Ok(None) };
        let Some((hash, addresses)) = record.split_first_chunk::<32>() else { return Ok(None) };
        if B256::new(*hash) != gap.hash() {
            return Ok(None);
        }
        let (addresses, rest) = addresses.as_chunks::<20>();
        Ok(rest.is_empty().then(|| addresses.iter().copied().map(Address::new).collect()))
    }
}

impl MasternodeSource for RecordedCandidates {
    fn candidates(&self, gap: &SealedHeader, chain: &dyn ChainReader) -> Result<Option<Arc<[Address]>>, StoreError> {
        if let Some(kept) = self.recorded(gap)? {
            return Ok(Some(kept));
        }
        let found = self.source.candidates(gap, chain)?;
        // A record of another branch would replace that of the canonical chain, whose state may be pruned since.
        let is_kept = self.is_recording && is_canonical(chain, gap)?;
        if let Some(candidates) = found.as_ref().filter(|candidates| is_kept && !candidates.is_empty()) {
            let mut record = gap.hash().to_vec();
            candidates.iter().for_each(|candidate| record.extend_from_slice(candidate.as_slice()));
            self.records.put(&self.name(gap), &record)?;
        }
        Ok(found)
    }
}

/// State to keep across a restart (17), so that a node does not vote twice in a round. The reference keeps none of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VotingState {
    /// Current round.
    pub round: u64,
    /// The highest certificate seen, by round.
    pub highest_quorum: QuorumCertificate,
    /// The certificate inside the block that the highest processed certificate certifies.
    pub lock: Option<QuorumCertificate>,
    /// The highest timeout certificate seen, by round.
    pub highest_timeout: TimeoutCertificate,
    /// The last round in which this node voted.
    pub highest_voted_round: u64,
    /// The last committed block.
    pub committed: Option<BlockInfo>,
    /// The last round in which this node proposed a block.
    pub highest_proposed_round: u64,
}

/// The encoding in the database. Optional values are lists of zero or one entry.
#[derive(RlpEncodable, RlpDecodable)]
#[rlp(trailing)]
struct VotingRecord {
    round: u64,
    highest_quorum: QuorumCertificate,
    lock: Vec<QuorumCertificate>,
    highest_timeout: TimeoutCertificate,
    highest_voted_round: u64,
    committed: Vec<BlockInfo>,
    /// Since the second version of the record; it ends before this in the first.
    highest_proposed_round: Option<u64>,
}

/// The last record; the default, of a node that never voted, if there is none.
pub(super) fn voting_state(records: &dyn EngineRecords) -> Result<VotingState, StoreError> {
    let Some(record) = records.record(VOTING)? else { return Ok(VotingState::default()) };
    // A corrupt record is an error, not a missing one: a node that forgot its votes might sign a second one for the
    // same round.
    let damaged = |_| StoreError::Corrupt { what: "this node's voting record".to_owned() };
    let record = VotingRecord::decode(&mut record.as_slice()).map_err(damaged)?;
    Ok(VotingState {
        round: record.round,
        highest_quorum: record.highest_quorum,
        lock: record.lock.into_iter().next(),
        highest_timeout: record.highest_timeout,
        highest_voted_round: record.highest_voted_round,
        committed: record.committed.into_iter().next(),
        highest_proposed_round: record.highest_proposed_round.unwrap_or_default(),
    })
}

/// Replaces the record.
pub(super) fn write_voting_state(records: &dyn EngineRecords, state: &VotingState) -> Result<(), StoreError> {
    let state = state.clone();
    let record = VotingRecord {
        round: state.round,
        highest_quorum: state.highest_quorum,
        lock: state.lock.into_iter().collect(),
        highest_timeout: state.highest_timeout,
        highest_voted_round: state.highest_voted_round,
        committed: state.committed.into_iter().collect(),
        highest_proposed_round: Some(state.highest_proposed_round),
    };
    records.put(VOTING, &alloy_rlp::encode(record))
}

/// The masternode that has signed last on this node; `None` if none has, or if its key is used elsewhere too.
pub(super) fn voting_signer(records: &dyn EngineRecords) -> Result<Option<Address>, StoreError> {
    let record = records.record(VOTING_SIGNER)?.unwrap_or_default();
    if record.is_empty() {
        return Ok(None);
    }
    let damaged = |_| StoreError::Corrupt { what: "the masternode of this node's voting record".to_owned() };
    Address::try_from(record.as_slice()).map(Some).map_err(damaged)
}

/// Replaces the masternode that has signed last.
pub(super) fn write_voting_signer(records: &dyn EngineRecords, signer: Option<Address>) -> Result<(), StoreError> {
    records.put(VOTING_SIGNER, signer.as_ref().map_or(&[], |signer| signer.as_slice()))
}

#[cfg(test)]
mod tests;

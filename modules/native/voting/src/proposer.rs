//! Makes the blocks of the rounds that this node leads (`docs/spec/consensus.md` 7).

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{B256, Bytes};
use tenon_api::{Block, BlockSigner, BlockVerdict, Header, SealAttributes, SealedHeader};
use tenon_native_consensus::VotingState;
use tenon_native_consensus::v2::V2Error;

use crate::VotingPorts;
use crate::error::ProposalError;

/// Decides about this node's proposals. Its past proposals are recorded in the [`VotingState`] on disk.
///
/// A node proposes at most once in a round, but in a later round it builds again on the same parent (7.1 step 2), so
/// that rounds continue after a block without a certificate. The second block is as safe as one by another leader: the
/// voting rule (5.5), the verification of a header (6) and the commit rule (8.1) depend on round and certificate, never
/// on earlier proposals of the leader.
#[derive(Debug, Default)]
pub(crate) struct Proposer {
    /// Round and parent for which it is another masternode's turn.
    not_leading: Option<(u64, B256)>,
}

/// The decision about the current round.
pub(crate) enum RoundDecision {
    /// Nothing to do in this round, as far as this node knows.
    Nothing,
    /// The block is due after this time.
    Wait(Duration),
    /// It is this node's turn: the parent, and the header to complete.
    Propose(Arc<SealedHeader>, Box<Header>),
}

impl Proposer {
    /// Decides whether this node has to make a block now (7.1).
    ///
    /// # Errors
    /// [`V2Error`] if the round's list cannot be determined.
    pub(crate) fn next_step(
        &mut self,
        ports: &VotingPorts,
        key: &dyn BlockSigner,
        state: &VotingState,
        now: Duration,
    ) -> Result<RoundDecision, V2Error> {
        let certified = state.highest_quorum.block;
        if state.round <= state.highest_proposed_round {
            return Ok(RoundDecision::Nothing);
        }
        if self.not_leading == Some((state.round, certified.hash)) {
            return Ok(RoundDecision::Nothing);
        }
        let Some(parent) = ports.chain.header(certified.hash)? else { return Ok(RoundDecision::Nothing) };
        let engine = ports.engine.v2();
        let period = engine.consensus().at_round(state.round).mine_period;
        let due = Duration::from_secs(parent.timestamp.saturating_add(period));
        let attributes = SealAttributes {
            timestamp: now.as_secs(),
            beneficiary: key.address(),
            gas_limit: ports.gas_limit,
            extra_data: Bytes::new(),
            mix_hash: B256::ZERO,
        };
        let prepared = engine.prepare(&parent, state.round, state.highest_quorum.clone(), &attributes, &*ports.chain);
        match prepared {
            Err(V2Error::NotLeader) => {
                self.not_leading = Some((state.round, certified.hash));
                Ok(RoundDecision::Nothing)
            }
            Err(error) => Err(error),
            Ok(_) if now < due => Ok(RoundDecision::Wait(due - now)),
            Ok(header) => Ok(RoundDecision::Propose(parent, Box::new(header))),
        }
    }
}

/// Builds a block. The round must already be recorded on disk as proposed.
///
/// # Errors
/// [`ProposalError::NotBuilt`].
pub(crate) fn build(ports: &VotingPorts, parent: &SealedHeader, draft: Header) -> Result<Block, ProposalError> {
    let opens_epoch = draft.native_seal.as_ref().is_some_and(|seal| !seal.validators.is_empty());
    let transactions = match opens_epoch {
        // A block that opens an epoch has no transactions (7.2).
        true => Vec::new(),
        false => ports.pending.best(draft.base_fee_per_gas),
    };
    Ok(ports.builder.build(parent, draft, transactions, &|header| Ok(tenon_chain::seal(header)))?)
}

/// Stores a block that this node built, with its sealed header.
///
/// # Errors
/// [`ProposalError::Refused`].
pub(crate) fn store(ports: &VotingPorts, header: SealedHeader, block: Block) -> Result<Block, ProposalError> {
    let Block { transactions, ommers, withdrawals, .. } = block;
    let block = tenon_chain::assemble_block(header, transactions, ommers, withdrawals);
    match ports.blocks.insert(block.clone()) {
        BlockVerdict::Head | BlockVerdict::ExecutedOnSideBranch => Ok(block),
        verdict => Err(ProposalError::Refused(verdict)),
    }
}

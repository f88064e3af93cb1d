//! The engine of the Ethereum profile.

use std::sync::Arc;

use tenon_api::{
    Address, B256, Block, BlockNumber, BlockRewards, ChainReader, ConsensusEngine, ConsensusError, EMPTY_OMMERS_HASH,
    EMPTY_ROOT_HASH, Head, Header, SealAttributes, SealedHeader, U256,
};
use tenon_chain::{ChainSpec, EMPTY_REQUESTS_HASH, Fork};

use crate::{
    rules::{body, header, ommers, rewards},
    violation::Violation,
};

/// The rules of the Ethereum profile from Frontier on, before and after the merge.
///
/// No seal is checked: recorded chains and the public suites have none (`docs/spec/conformance.md` 3.1). A block must
/// be a merged one if and only if the total difficulty of its parent has reached the chain's terminal total difficulty.
#[derive(Clone, Debug)]
pub struct EthereumEngine {
    spec: Arc<ChainSpec>,
}

impl EthereumEngine {
    /// An engine for this chain.
    pub const fn new(spec: Arc<ChainSpec>) -> Self {
        Self { spec }
    }

    /// The engine's chain.
    pub const fn spec(&self) -> &Arc<ChainSpec> {
        &self.spec
    }

    /// Returns whether a child of `parent` belongs after the merge.
    fn child_is_merged(&self, parent: &SealedHeader, chain: &dyn ChainReader) -> Result<bool, Violation> {
        let Some(terminal) = self.spec.terminal_total_difficulty() else { return Ok(false) };
        if terminal.is_zero() || (parent.number > 0 && parent.difficulty.is_zero()) {
            return Ok(true);
        }
        let total = chain
            .total_difficulty(parent.hash())
            .map_err(|error| Violation::unreadable("terminal total difficulty", &error))?;
        match total {
            Some(total) => Ok(total >= terminal),
            None => {
                let reason = format!("the total difficulty of {} is not in the database", parent.hash());
                Err(Violation::unchecked("parent", reason))
            }
        }
    }
}

impl ConsensusEngine for EthereumEngine {
    fn name(&self) -> &'static str {
        "ethereum"
    }

    fn verify_header(
        &self,
        header: &SealedHeader,
        parent: &SealedHeader,
        chain: &dyn ChainReader,
    ) -> Result<(), ConsensusError> {
        self.child_is_merged(parent, chain)
            .and_then(|is_merged| header::verify(&self.spec, header, parent, is_merged))
            .map_err(|violation| violation.of(header))
    }

    fn verify_body(&self, block: &Block, chain: &dyn ChainReader) -> Result<(), ConsensusError> {
        body::verify(&self.spec, block)
            .and_then(|()| ommers::verify(&self.spec, block, chain))
            .map_err(|violation| violation.of(&block.header))
    }

    /// A merged block beats a mined head and never the reverse; otherwise the greater total difficulty wins, and after
    /// the merge, where it is constant, the greater height. A tie keeps the head.
    fn is_better(&self, candidate: &SealedHeader, candidate_total_difficulty: U256, head: &Head) -> bool {
        if candidate.parent_hash == head.header.hash() {
            return true;
        }
        match (is_merged(candidate), is_merged(&head.header)) {
            (true, false) => true,
            (false, true) => false,
            (false, false) => candidate_total_difficulty > head.total_difficulty,
            (true, true) => {
                (candidate_total_difficulty, candidate.number) > (head.total_difficulty, head.header.number)
            }
        }
    }

    fn author(&self, header: &SealedHeader) -> Result<Address, ConsensusError> {
        Ok(header.beneficiary)
    }

    fn rewards(&self, block: &Block, _chain: &dyn ChainReader) -> Result<BlockRewards, ConsensusError> {
        if is_merged(&block.header) {
            return Ok(BlockRewards::default());
        }
        let credits = rewards::of_mined_block(&self.spec, block);
        credits.map(BlockRewards::from).map_err(|violation| violation.of(&block.header))
    }

    /// The gas limit moves from the parent's towards the requested one, as far as the rules allow in one block.
    fn prepare(
        &self,
        parent: &SealedHeader,
        attributes: &SealAttributes,
        chain: &dyn ChainReader,
    ) -> Result<Header, ConsensusError> {
        prepare(self, parent, attributes, chain).map_err(|violation| violation.of(parent))
    }

    fn seal(&self, header: Header) -> Result<SealedHeader, ConsensusError> {
        Ok(tenon_chain::seal(header))
    }

    /// Before the merge nothing is final. After it a beacon chain would decide, but this node follows none and accepts
    /// the blocks that its operator imports. So the head counts as final, as the public suite expects of a node that
    /// was told to adopt the head (`docs/spec/conformance.md` 2.4).
    fn finality(&self, head: &SealedHeader, _chain: &dyn ChainReader) -> (Option<BlockNumber>, Option<BlockNumber>) {
        let number = is_merged(head).then_some(BlockNumber(head.number));
        (number, number)
    }
}

/// Returns whether a verified header is after the merge. Block 0 counts by its difficulty.
fn is_merged(header: &Header) -> bool {
    header.difficulty.is_zero()
}

fn prepare(
    engine: &EthereumEngine,
    parent: &SealedHeader,
    attributes: &SealAttributes,
    chain: &dyn ChainReader,
) -> Result<Header, Violation> {
    let spec = engine.spec.as_ref();
    let (number, timestamp) = (parent.number.saturating_add(1), attributes.timestamp);
    if timestamp <= parent.timestamp {
        return Err(Violation::new("timestamp of the next block", timestamp, format_args!("> {}", parent.timestamp)));
    }
    if attributes.extra_data.len() > header::MAX_EXTRA_DATA_BYTES {
        let found = format!("{} bytes", attributes.extra_data.len());
        return Err(Violation::new("extra data", found, format_args!("at most {}", header::MAX_EXTRA_DATA_BYTES)));
    }
    let is_merged = engine.child_is_merged(parent, chain)?;
    let fork = spec.fork_at(number, timestamp);
    let difficulty = if is_merged { U256::ZERO } else { spec.ethash_difficulty(parent, timestamp) };
    Ok(Header {
        parent_hash: parent.hash(),
        ommers_hash: EMPTY_OMMERS_HASH,
        beneficiary: attributes.beneficiary,
        difficulty,
        number,
        gas_limit: spec.nearest_gas_limit(parent, attributes.gas_limit),
        timestamp,
        extra_data: attributes.extra_data.clone(),
        mix_hash: if is_merged { attributes.mix_hash } else { B256::ZERO },
        base_fee_per_gas: spec.next_base_fee(parent),
        withdrawals_root: (fork >= Fork::Shanghai).then_some(EMPTY_ROOT_HASH),
        blob_gas_used: (fork >= Fork::Cancun).then_some(0),
        excess_blob_gas: (fork >= Fork::Cancun).then(|| spec.next_excess_blob_gas(parent, timestamp)).flatten(),
        parent_beacon_block_root: (fork >= Fork::Cancun).then_some(B256::ZERO),
        requests_hash: (fork >= Fork::Prague).then_some(EMPTY_REQUESTS_HASH),
        ..Header::default()
    })
}

#[cfg(test)]
mod recorded_chain;
#[cfg(test)]
mod tests;

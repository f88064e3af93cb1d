//! An engine for blocks without a seal.

use std::collections::BTreeSet;

use alloy_primitives::{Address, U256};
use tenon_api::{
    Block, BlockNumber, BlockRewards, ChainReader, ConsensusEngine, ConsensusError, Head, Header, RefusalCause,
    SealAttributes, SealedHeader,
};

/// The beneficiary is the author, and there are no rewards.
#[derive(Default)]
pub struct SealessEngine {
    /// Heights of the blocks that open an epoch.
    pub epochs: BTreeSet<u64>,
}

impl SealessEngine {
    fn refusal(header: &SealedHeader) -> ConsensusError {
        ConsensusError {
            number: header.number.into(),
            hash: header.hash(),
            cause: RefusalCause::OwnFailure,
            reason: "makes no blocks".to_owned(),
        }
    }
}

impl ConsensusEngine for SealessEngine {
    fn name(&self) -> &'static str {
        "sealess"
    }

    fn verify_header(&self, _: &SealedHeader, _: &SealedHeader, _: &dyn ChainReader) -> Result<(), ConsensusError> {
        Ok(())
    }

    fn verify_body(&self, _: &Block, _: &dyn ChainReader) -> Result<(), ConsensusError> {
        Ok(())
    }

    fn is_better(&self, _: &SealedHeader, candidate: U256, head: &Head) -> bool {
        candidate > head.total_difficulty
    }

    fn author(&self, header: &SealedHeader) -> Result<Address, ConsensusError> {
        Ok(header.beneficiary)
    }

    fn opens_epoch(&self, header: &SealedHeader) -> Result<bool, ConsensusError> {
        Ok(self.epochs.contains(&header.number))
    }

    fn rewards(&self, _: &Block, _: &dyn ChainReader) -> Result<BlockRewards, ConsensusError> {
        Ok(BlockRewards::default())
    }

    fn prepare(
        &self,
        parent: &SealedHeader,
        _: &SealAttributes,
        _: &dyn ChainReader,
    ) -> Result<Header, ConsensusError> {
        Err(Self::refusal(parent))
    }

    fn seal(&self, header: Header) -> Result<SealedHeader, ConsensusError> {
        Ok(tenon_chain::seal(header))
    }

    fn finality(&self, _: &SealedHeader, _: &dyn ChainReader) -> (Option<BlockNumber>, Option<BlockNumber>) {
        (None, None)
    }
}

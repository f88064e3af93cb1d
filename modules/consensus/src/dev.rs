//! The engine of the development network.

use std::sync::Arc;

use delegate::delegate;
use tenon_api::{
    Address, Block, BlockNumber, BlockRewards, ChainReader, ConsensusEngine, ConsensusError, Head, Header,
    SealAttributes, SealedHeader, U256,
};
use tenon_chain::ChainSpec;

use crate::{ethereum::EthereumEngine, violation::Violation};

/// The engine of the development network: the merged rules of the Ethereum profile, no seal, a single block maker, and
/// every block final.
///
/// Finality follows the head, as with `geth --dev`: with a single sealer no other branch can win, so `safe` and
/// `finalized` return the newest block instead of an error that clients of a development network do not expect.
/// `debug_setHead` moves both back with the head.
#[derive(Clone, Debug)]
pub struct DevEngine {
    rules: EthereumEngine,
}

impl DevEngine {
    /// An engine for this chain, which must have been merged from its first block on.
    ///
    /// # Errors
    /// [`Violation`] if the chain's terminal total difficulty is not zero.
    pub fn new(spec: Arc<ChainSpec>) -> Result<Self, Violation> {
        match spec.terminal_total_difficulty() {
            Some(terminal) if terminal.is_zero() => Ok(Self { rules: EthereumEngine::new(spec) }),
            Some(terminal) => Err(Violation::new("terminal total difficulty of a development chain", terminal, 0)),
            None => Err(Violation::new("terminal total difficulty of a development chain", "none", 0)),
        }
    }
}

impl ConsensusEngine for DevEngine {
    fn name(&self) -> &'static str {
        "dev"
    }

    fn finality(&self, head: &SealedHeader, _chain: &dyn ChainReader) -> (Option<BlockNumber>, Option<BlockNumber>) {
        let number = Some(BlockNumber(head.number));
        (number, number)
    }

    delegate! {
        to self.rules {
            fn verify_header(
                &self,
                header: &SealedHeader,
                parent: &SealedHeader,
                chain: &dyn ChainReader,
            ) -> Result<(), ConsensusError>;
            fn verify_body(&self, block: &Block, chain: &dyn ChainReader) -> Result<(), ConsensusError>;
            fn is_better(&self, candidate: &SealedHeader, candidate_total_difficulty: U256, head: &Head) -> bool;
            fn author(&self, header: &SealedHeader) -> Result<Address, ConsensusError>;
            fn rewards(&self, block: &Block, chain: &dyn ChainReader) -> Result<BlockRewards, ConsensusError>;
            fn prepare(
                &self,
                parent: &SealedHeader,
                attributes: &SealAttributes,
                chain: &dyn ChainReader,
            ) -> Result<Header, ConsensusError>;
            fn seal(&self, header: Header) -> Result<SealedHeader, ConsensusError>;
        }
    }
}

#[cfg(test)]
mod tests {
    use tenon_api::{EMPTY_OMMERS_HASH, Header};
    use tenon_chain::Fork;

    use super::*;
    use crate::fake_chain::chain_from;

    #[test]
    fn every_block_is_final_at_once() {
        let engine = DevEngine::new(Arc::new(ChainSpec::ethereum_at(31337, Fork::Osaka))).unwrap();
        let head = tenon_chain::seal(Header { number: 7, ommers_hash: EMPTY_OMMERS_HASH, ..Header::default() });
        let chain = chain_from(&head);

        assert_eq!(engine.finality(&head, &chain), (Some(BlockNumber(7)), Some(BlockNumber(7))));
    }

    #[test]
    fn a_chain_with_mining_is_refused() {
        let refused = DevEngine::new(Arc::new(ChainSpec::ethereum_at(1, Fork::London))).unwrap_err();

        assert_eq!(refused.to_string(), "terminal total difficulty of a development chain: found none, wanted 0");
    }
}

//! The family of Ethereum's chains.

use std::sync::Arc;

use alloy_primitives::{Address, B256};
use revm::context::BlockEnv;
use tenon_api::{Header, SealedHeader};
use tenon_chain::{ChainSpec, Fork};

use super::{ChainFamily, FamilyBlock, Opening};
use crate::{AnyEvm, BlockRules, ExecutionError, evm::ethereum_block_env};

/// Ethereum's rules, with the forks of one chain.
pub struct EthereumFamily {
    spec: Arc<ChainSpec>,
}

/// A block without steps of its family.
struct EthereumBlock;

impl FamilyBlock for EthereumBlock {}

impl EthereumFamily {
    /// The family of a chain that has no other family's rules.
    pub const fn new(spec: Arc<ChainSpec>) -> Self {
        Self { spec }
    }
}

impl ChainFamily for EthereumFamily {
    fn spec(&self) -> &Arc<ChainSpec> {
        &self.spec
    }

    fn rules(&self, header: &Header) -> Result<BlockRules, ExecutionError> {
        BlockRules::of_ethereum(&self.spec, header)
    }

    fn block_env(&self, rules: &BlockRules, header: &Header, author: Address) -> BlockEnv {
        ethereum_block_env(rules, &self.spec, header, author)
    }

    fn open(&self, _block: &Opening<'_>, _evm: &mut AnyEvm<'_>) -> Result<Box<dyn FamilyBlock>, ExecutionError> {
        Ok(Box::new(EthereumBlock))
    }

    fn complete_draft(&self, header: &mut Header, parent: &SealedHeader) {
        let fork = self.spec.fork_of(header);
        if fork >= Fork::Shanghai {
            header.withdrawals_root = Some(tenon_chain::withdrawals_root(&[]));
        }
        if fork >= Fork::Cancun {
            header.blob_gas_used = Some(0);
            header.excess_blob_gas =
                header.excess_blob_gas.or_else(|| self.spec.next_excess_blob_gas(parent, header.timestamp));
            header.parent_beacon_block_root = header.parent_beacon_block_root.or(Some(B256::ZERO));
        }
    }
}

//! The family of Ethereum's chains.

use std::sync::Arc;

use alloy_primitives::Address;
use revm::{
    context::{BlockEnv, ContextSetters, TxEnv, result::ExecResultAndState},
    handler::{Handler, MainnetHandler},
};
use tenon_api::Header;
use tenon_chain::ChainSpec;

use super::{ChainFamily, FamilyBlock, Fees, Opening, Outcome};
use crate::{
    ExecutionError,
    block::{AnyEvm, BlockRules, EvmFailure, ethereum_block_env},
};

/// Ethereum's rules, with the forks of one chain.
pub(crate) struct EthereumFamily {
    spec: Arc<ChainSpec>,
}

/// A block needs nothing beside the steps that all blocks have.
struct EthereumBlock;

impl FamilyBlock for EthereumBlock {}

impl EthereumFamily {
    /// The family of a chain without rules of another one.
    pub(crate) const fn new(spec: Arc<ChainSpec>) -> Self {
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

    /// No transaction has fees of its own here, so that they are not looked at.
    fn transact(&self, evm: &mut AnyEvm<'_>, transaction: TxEnv, _fees: &Fees) -> Result<Outcome, EvmFailure> {
        evm.context().set_tx(transaction);
        let result = MainnetHandler::<_, EvmFailure, _>::default().run(evm);
        let state = evm.take_changes();
        Ok(ExecResultAndState::new(result?, state))
    }
}

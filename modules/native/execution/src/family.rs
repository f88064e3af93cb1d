//! The decisions of a native chain about executing blocks.

use std::sync::Arc;

use alloy_primitives::Address;
use revm::context::{BlockEnv, TxEnv};
use tenon_api::{Header, Transaction};
use tenon_chain::ChainSpec;
use tenon_native_spec::NativeSettings;

use super::{block::NativeBlock, handler, schedule};
use tenon_execution_interface::{
    AnyEvm, BlockRules, BranchAnnouncement, ChainFamily, EvmFailure, ExecutionError, FamilyBlock, Fees, Opening,
    Outcome, TransactionRejection, transaction_env_at_any_price,
};

/// The rules of one native chain.
pub(crate) struct NativeFamily {
    spec: Arc<ChainSpec>,
    settings: Arc<NativeSettings>,
}

impl NativeFamily {
    /// The rules of this chain; `None` if it is not native.
    pub(crate) fn of(spec: &Arc<ChainSpec>) -> Option<Self> {
        let settings = Arc::new(NativeSettings::of(spec).cloned()?);
        Some(Self { spec: Arc::clone(spec), settings })
    }
}

impl ChainFamily for NativeFamily {
    fn spec(&self) -> &Arc<ChainSpec> {
        &self.spec
    }

    fn rules(&self, header: &Header) -> Result<BlockRules, ExecutionError> {
        schedule::rules(&self.spec, &self.settings, header)
    }

    fn block_env(&self, _rules: &BlockRules, header: &Header, author: Address) -> BlockEnv {
        schedule::block_env(header, author)
    }

    fn open(&self, block: &Opening<'_>, evm: &mut AnyEvm<'_>) -> Result<Box<dyn FamilyBlock>, ExecutionError> {
        Ok(Box::new(NativeBlock::open(&self.spec, &self.settings, block, evm)?))
    }

    /// Prices have no limit (`docs/spec/chain.md` 8.1).
    fn transaction_env(&self, transaction: &Transaction, sender: Address) -> Result<TxEnv, TransactionRejection> {
        transaction_env_at_any_price(transaction, sender)
    }

    fn transact(&self, evm: &mut AnyEvm<'_>, transaction: TxEnv, fees: &Fees) -> Result<Outcome, EvmFailure> {
        handler::transact(evm, transaction, fees)
    }

    fn branch_announcement(&self) -> BranchAnnouncement {
        BranchAnnouncement::NewestOnly
    }
}

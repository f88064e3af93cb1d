//! What gas costs: a tip to suggest, the fees of past blocks, the prices of the next one.

mod history;
mod oracle;

use std::sync::Arc;

use alloy_primitives::U256;
use parking_lot::Mutex;
use tenon_api::{ChainReader, Failure, RecoveredBlock, StoreError, messages::NextBlockFees};
use tenon_chain::ChainSpec;

use crate::ExecutionLimits;
use oracle::Suggestion;

/// Answers questions about fees. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Fees {
    spec: Arc<ChainSpec>,
    chain: Arc<dyn ChainReader>,
    limits: ExecutionLimits,
    // The suggestion for the head that was asked about last; nothing reads the database under the lock.
    suggestion: Arc<Mutex<Suggestion>>,
}

impl Fees {
    pub(crate) fn new(spec: Arc<ChainSpec>, chain: Arc<dyn ChainReader>, limits: ExecutionLimits) -> Self {
        let suggestion = Arc::new(Mutex::new(Suggestion::initial(spec.native.is_some())));
        Self { spec, chain, limits, suggestion }
    }

    /// Prices for the block after the head, taken as early as it may come.
    pub(crate) fn next_block_fees(&self) -> NextBlockFees {
        let head = self.chain.head();
        let timestamp = head.header.timestamp.saturating_add(1);
        let blob_base_fee = self
            .spec
            .blob_parameters(timestamp)
            .and_then(|parameters| Some(parameters.base_fee(self.spec.next_excess_blob_gas(&head.header, timestamp)?)));
        NextBlockFees { base_fee_per_gas: self.spec.next_base_fee(&head.header).map(U256::from), blob_base_fee }
    }

    fn canonical_block(&self, number: u64) -> Result<Arc<RecoveredBlock>, Failure> {
        let unknown = || StoreError::UnknownBlock { what: number.to_string() };
        let hash = self.chain.canonical_hash(number.into())?.ok_or_else(unknown)?;
        Ok(self.chain.block(hash)?.ok_or_else(unknown)?)
    }
}

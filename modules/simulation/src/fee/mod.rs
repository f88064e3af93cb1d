//! Gas prices: a suggested tip, the fees of past blocks, the prices of the next one.

mod error;
mod history;
mod oracle;
mod tips;

use std::sync::Arc;

use alloy_primitives::{B256, U256};
use parking_lot::Mutex;
use tenon_api::{ChainReader, RecoveredBlock, StoreError, messages::NextBlockFees};
use tenon_chain::ChainSpec;
use tenon_simulation_interface::SimulationFamily;

use crate::CallLimits;
pub(crate) use error::FeeError;
use oracle::Suggestion;
use tips::TipCache;

/// Answers queries on fees. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Fees {
    spec: Arc<ChainSpec>,
    family: Arc<dyn SimulationFamily>,
    chain: Arc<dyn ChainReader>,
    limits: CallLimits,
    // The suggestion for the last head; nothing reads the database under the lock.
    suggestion: Arc<Mutex<Suggestion>>,
    /// Cached tips of the newest blocks, so that a new head costs reading one block and not twenty.
    tips: Arc<TipCache>,
}

impl Fees {
    pub(crate) fn new(
        spec: Arc<ChainSpec>,
        family: Arc<dyn SimulationFamily>,
        chain: Arc<dyn ChainReader>,
        limits: CallLimits,
    ) -> Self {
        let suggestion = Arc::new(Mutex::new(Suggestion::initial(family.client_behaviour().initial_tip)));
        Self { spec, family, chain, limits, suggestion, tips: Arc::default() }
    }

    /// Prices for the block after the head, assuming the earliest possible time.
    pub(crate) fn next_block_fees(&self) -> NextBlockFees {
        let head = self.chain.head();
        let timestamp = head.header.timestamp.saturating_add(1);
        let spec = &self.spec;
        let blob_base_fee = spec
            .blob_parameters(timestamp)
            .and_then(|parameters| Some(parameters.base_fee(spec.next_excess_blob_gas(&head.header, timestamp)?)));
        NextBlockFees { base_fee_per_gas: spec.next_base_fee(&head.header).map(U256::from), blob_base_fee }
    }

    fn canonical_hash(&self, number: u64) -> Result<B256, StoreError> {
        self.chain.canonical_hash(number.into())?.ok_or_else(|| unknown(number))
    }

    fn block(&self, number: u64, hash: B256) -> Result<Arc<RecoveredBlock>, StoreError> {
        self.chain.block(hash)?.ok_or_else(|| unknown(number))
    }
}

fn unknown(number: u64) -> StoreError {
    StoreError::UnknownBlock { what: number.to_string() }
}

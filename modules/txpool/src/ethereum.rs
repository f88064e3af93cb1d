//! The pool's rules of the Ethereum profile.

use std::sync::Arc;

use tenon_api::{Address, TransactionPayload, messages::PoolRefusal};
use tenon_chain::ChainSpec;
use tenon_txpool_interface::{Candidate, CostAndPriority, PoolError, PoolPolicy, PoolView};

use crate::{
    blobs,
    entry::cost,
    validation::{self, Rules},
};

/// The rules of the Ethereum profile: the sender pays for everything, and no transaction has priority.
#[derive(Clone, Debug)]
pub struct EthereumPolicy {
    spec: Arc<ChainSpec>,
}

impl EthereumPolicy {
    /// The rules of this chain.
    pub const fn new(spec: Arc<ChainSpec>) -> Self {
        Self { spec }
    }
}

impl PoolPolicy for EthereumPolicy {
    fn check(&self, candidate: &Candidate<'_>, view: &PoolView<'_>) -> Result<(Address, CostAndPriority), PoolError> {
        let transaction = candidate.transaction;
        let rules = Rules::after(&self.spec, &view.chain.head().header);
        let sender = validation::check(candidate, &rules, view.senders)?;
        if let (TransactionPayload::Blob { .. }, Some(sidecar)) = (&transaction.payload, candidate.sidecar) {
            blobs::verify_sidecar(transaction, sidecar, &rules).map_err(PoolRefusal::Blobs)?;
        }
        Ok((sender, CostAndPriority { cost: cost(transaction), ..CostAndPriority::default() }))
    }
}

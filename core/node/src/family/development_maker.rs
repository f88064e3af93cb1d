//! What makes the blocks of a development network.

use std::sync::Arc;

use tenon_api::{Address, ConsensusEngine};
use tenon_consensus_interface::SealerTransactionSource;

/// The engine of a development network, and its masternode.
pub(crate) struct Development {
    /// The engine.
    pub(crate) engine: Arc<dyn ConsensusEngine>,
    /// The masternode whose key seals the blocks; `None` if blocks have no seal.
    pub(crate) masternode: Option<DevelopmentMasternode>,
}

/// The only masternode of a development network.
pub(crate) struct DevelopmentMasternode {
    /// Its address.
    pub(crate) address: Address,
    /// The transactions that the network expects from it.
    pub(crate) transaction_source: Arc<dyn SealerTransactionSource>,
    /// Lines of the start banner.
    pub(crate) about: String,
}

//! Whether the chain has this namespace: only native chains have its consensus.

use tenon_sdk::prelude::*;

use crate::ConsensusContext;

/// Refuses a method on chains that have no such consensus, as the reference does not serve the namespace there.
pub(crate) async fn require_native(context: &ConsensusContext, method: &str) -> Result<(), Failure> {
    let is_served = match context.is_served.get() {
        Some(is_served) => *is_served,
        None => {
            let is_served = context.call(GetChainInfo).await?.profile == Profile::Native;
            *context.is_served.get_or_init(|| is_served)
        }
    };
    if is_served {
        return Ok(());
    }
    Err(Failure::method_not_found(&format!("Consensus_{method}")))
}

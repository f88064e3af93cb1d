//! Checks the body's lists against the header.

use tenon_api::Block;
use tenon_chain::{ChainSpec, Fork};

use super::blobs;
use crate::violation::{Violation, require_equal};

/// Maximum size of a block from Osaka on, RLP bytes: 10 MiB minus 2 MiB for the enclosing beacon block (EIP-7934).
pub(crate) const MAX_BLOCK_BYTES: u64 = 8 * 1024 * 1024;

/// All checks that need neither execution nor other blocks.
pub(crate) fn verify(spec: &ChainSpec, block: &Block) -> Result<(), Violation> {
    verify_size(spec, block)?;
    require_equal("ommers hash", block.header.ommers_hash, tenon_chain::ommers_hash(&block.ommers))?;
    let transactions_root = tenon_chain::transactions_root(&block.transactions);
    require_equal("transactions root", block.header.transactions_root, transactions_root)?;
    verify_withdrawals(block)?;
    blobs::verify_blob_gas_of_body(block)
}

fn verify_size(spec: &ChainSpec, block: &Block) -> Result<(), Violation> {
    let is_osaka = spec.fork_of(&block.header) >= Fork::Osaka;
    if is_osaka && block.size > MAX_BLOCK_BYTES {
        return Err(Violation::new("block size", block.size, format_args!("at most {MAX_BLOCK_BYTES} bytes")));
    }
    Ok(())
}

fn verify_withdrawals(block: &Block) -> Result<(), Violation> {
    match (&block.withdrawals, block.header.withdrawals_root) {
        (None, None) => Ok(()),
        (Some(withdrawals), Some(root)) => {
            require_equal("withdrawals root", root, tenon_chain::withdrawals_root(withdrawals))
        }
        (Some(_), None) => Err(Violation::new("withdrawals", "a list", "none before Shanghai")),
        (None, Some(_)) => Err(Violation::new("withdrawals", "none", "a list from Shanghai on")),
    }
}

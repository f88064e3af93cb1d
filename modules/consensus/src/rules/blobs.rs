//! Blob gas (EIP-4844, EIP-7691, EIP-7918).

use tenon_api::{Block, Header};
use tenon_chain::{ChainSpec, Fork, blob_gas_used, spec::BLOB_GAS_PER_BLOB};

use crate::violation::{Violation, require_equal, require_presence};

/// Checks the header's blob items: presence by fork, limits, and excess.
pub(crate) fn verify_blob_fields(spec: &ChainSpec, header: &Header, parent: &Header) -> Result<(), Violation> {
    let is_cancun = spec.fork_of(header) >= Fork::Cancun;
    require_presence("blob gas used", header.blob_gas_used.as_ref(), is_cancun)?;
    require_presence("excess blob gas", header.excess_blob_gas.as_ref(), is_cancun)?;
    let (Some(used), Some(excess)) = (header.blob_gas_used, header.excess_blob_gas) else { return Ok(()) };
    let Some(parameters) = spec.blob_parameters(header.timestamp) else {
        return Err(Violation::new("blob schedule", "no entry for this time", "one from Cancun on"));
    };
    let highest = parameters.max_gas();
    if used > highest {
        return Err(Violation::new("blob gas used", used, format_args!("at most {highest}")));
    }
    if !used.is_multiple_of(BLOB_GAS_PER_BLOB) {
        return Err(Violation::new("blob gas used", used, format_args!("a multiple of {BLOB_GAS_PER_BLOB}")));
    }
    match spec.next_excess_blob_gas(parent, header.timestamp) {
        Some(wanted) => require_equal("excess blob gas", excess, wanted),
        None => Err(Violation::new("excess blob gas", excess, "a value computed from the parent, but it gives none")),
    }
}

/// Checks the header's blob gas against the blobs of its transactions.
pub(crate) fn verify_blob_gas_of_body(block: &Block) -> Result<(), Violation> {
    let used: u64 = block.transactions.iter().map(|transaction| blob_gas_used(transaction)).sum();
    match block.header.blob_gas_used {
        Some(found) => require_equal("blob gas used", found, used),
        None if used == 0 => Ok(()),
        None => Err(Violation::new("blob gas", used, "none before Cancun")),
    }
}

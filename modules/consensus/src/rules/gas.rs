//! Gas limit, gas used and base fee.

use tenon_api::Header;
use tenon_chain::{
    ChainSpec,
    spec::{GAS_LIMIT_BOUND_DIVISOR, MAX_GAS_LIMIT, MIN_GAS_LIMIT},
};

use crate::violation::{Violation, require_equal};

pub(crate) fn verify_gas_limit(spec: &ChainSpec, header: &Header, parent: &Header) -> Result<(), Violation> {
    if header.gas_limit > MAX_GAS_LIMIT {
        return Err(Violation::new("gas limit", header.gas_limit, format_args!("at most {MAX_GAS_LIMIT}")));
    }
    if header.gas_limit < MIN_GAS_LIMIT {
        return Err(Violation::new("gas limit", header.gas_limit, format_args!("at least {MIN_GAS_LIMIT}")));
    }
    let parent_limit = spec.gas_limit_baseline(parent);
    let bound = parent_limit / GAS_LIMIT_BOUND_DIVISOR;
    if parent_limit.abs_diff(header.gas_limit) >= bound {
        let wanted = format!("less than {bound} above or below {parent_limit}");
        return Err(Violation::new("gas limit", header.gas_limit, wanted));
    }
    Ok(())
}

pub(crate) fn verify_gas_used(header: &Header) -> Result<(), Violation> {
    if header.gas_used > header.gas_limit {
        return Err(Violation::new("gas used", header.gas_used, format_args!("at most {}", header.gas_limit)));
    }
    Ok(())
}

/// Checks the base fee, which every header has from London on and which depends on the parent.
pub(crate) fn verify_base_fee(spec: &ChainSpec, header: &Header, parent: &Header) -> Result<(), Violation> {
    match (spec.has_base_fee(header.number), header.base_fee_per_gas) {
        (false, None) => Ok(()),
        (false, Some(found)) => Err(Violation::new("base fee", found, "none before London")),
        (true, None) => Err(Violation::new("base fee", "none", "a value from London on")),
        (true, Some(found)) => match spec.next_base_fee(parent) {
            Some(wanted) => require_equal("base fee", found, wanted),
            None => Err(Violation::new("base fee", found, "a value computed from the parent, but it gives none")),
        },
    }
}

//! State overrides of calls on native chains (`docs/spec/rpc-eth.md` 4.8).

use alloy_primitives::Address;
use tenon_api::messages::{AccountOverride, CallContradiction};
use tenon_execution_interface::{BlockState, MovedPrecompiles, PrecompileSet};
use tenon_simulation_interface::{CallError, write_override};

/// Applies state overrides. In the reference, an override of the whole storage changes only the given slots, and
/// precompiled contracts keep working when their accounts have overrides.
///
/// # Errors
/// Contradictory overrides; the database failed, or the caller's memory is used up.
pub(super) fn apply(
    overrides: &[(Address, AccountOverride)],
    precompiles: PrecompileSet,
    state: &mut BlockState,
) -> Result<MovedPrecompiles, CallError> {
    // Decoded, they are larger than the message that they came in.
    state.hold(size_of_val(overrides))?;
    for (address, account) in overrides {
        if account.state.is_some() && account.state_diff.is_some() {
            return Err(CallContradiction::BothStatesOnNative { address: *address }.into());
        }
        write_override(*address, account, state)?;
    }
    Ok(MovedPrecompiles::new(precompiles))
}

//! The refusals that clients of native chains expect instead of the pool's own.

use tenon_api::messages::{NativePoolRefusal, PoolRefusal};

/// Translates a refusal of the pool into the native chain's, if there is one.
pub(crate) fn native_refusal(refusal: PoolRefusal) -> PoolRefusal {
    PoolRefusal::Native(match refusal {
        PoolRefusal::TypeNotActive(_) => NativePoolRefusal::Type,
        PoolRefusal::NonceTooLow { .. } => NativePoolRefusal::NonceTooLow,
        PoolRefusal::InsufficientFunds { .. } => NativePoolRefusal::Funds,
        PoolRefusal::Underpriced { .. } => NativePoolRefusal::Underpriced,
        other => return other,
    })
}

//! The time, as the log and the policy count it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970; 0 for a clock that is set before. The log never goes back behind its last entry.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

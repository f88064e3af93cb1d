//! The clock of the log and the policy.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970, or 0 if the clock is set to an earlier time. The log never uses a time before its last entry.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

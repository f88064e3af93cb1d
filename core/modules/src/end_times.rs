//! When modules that are enabled for a limited time will be disabled.

use std::{
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::ModuleError;

/// Maximum time that a module can be enabled for, in seconds: ten years.
const MAX_SECONDS: u64 = 10 * 365 * 24 * 3600;

/// When each module that is enabled for a limited time will be disabled, by name, in seconds since 1970.
pub(crate) type EndTimes = BTreeMap<String, u64>;

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The end of a module that is enabled for this many seconds from now.
pub(crate) fn end_after(seconds: u64) -> Result<u64, ModuleError> {
    if !(1..=MAX_SECONDS).contains(&seconds) {
        return Err(ModuleError::BadTime { max: MAX_SECONDS });
    }
    Ok(now() + seconds)
}

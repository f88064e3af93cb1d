//! The limits of profiles.

/// Maximum duration of the timed steps and of a recording that is never stopped, in seconds.
pub(super) const MAX_SECONDS: u64 = 600;

/// Maximum length of a profile, bytes.
pub(super) const MAX_PROFILE: usize = 256 << 20;

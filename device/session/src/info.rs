//! What a device says of itself, and what follows from it.

use std::fmt;

use tenon_proto::management::Features;
use tenon_proto::shown_text;

use crate::DeviceError;

/// The vendors that firmware tells.
const VENDORS: [&str; 2] = ["trezor.io", "bitcointrezor.com"];

/// The capability of having a passphrase typed on the device.
const PASSPHRASE_ENTRY: u32 = 17;

/// The longest message that Model One takes, bytes.
const MAX_ONE_MESSAGE: usize = 1024;

/// The longest message that is sent to other models, bytes.
const MAX_MESSAGE: usize = 16 << 10;

/// A firmware's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// What a device said of itself when it was opened. Label and id are private data: `Debug` shows the version only.
#[derive(Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The firmware's version.
    pub version: Version,
    /// Whether it is a Model One.
    pub is_model_one: bool,
    /// The label, fit to show; empty if it has none.
    pub label: String,
    /// The id, which a wipe changes.
    pub device_id: String,
    /// Whether it has a seed.
    pub is_initialized: bool,
    /// Whether a passphrase can be typed on the device.
    pub has_passphrase_entry: bool,
    /// Whether it keeps passphrases in sessions.
    pub has_sessions: bool,
}

impl DeviceInfo {
    /// Reads the answer to `Initialize`.
    pub(crate) fn new(features: &Features) -> Result<Self, DeviceError> {
        if features.bootloader_mode() {
            return Err(DeviceError::Bootloader);
        }
        if !VENDORS.contains(&features.vendor()) {
            return Err(DeviceError::Vendor);
        }
        let version = Version(features.major_version(), features.minor_version(), features.patch_version());
        Ok(Self {
            version,
            is_model_one: match features.model.as_deref() {
                Some(model) => model == "1" || model == "T1B1",
                // Firmware that tells no model is older than the second model.
                None => version.0 == 1,
            },
            label: shown_text(features.label()),
            device_id: shown_text(features.device_id().as_bytes()),
            is_initialized: features.initialized(),
            has_passphrase_entry: features.capabilities.contains(&PASSPHRASE_ENTRY),
            has_sessions: features.session_id.is_some(),
        })
    }

    /// Whether the firmware is young enough for transactions of type 2, chain ids of 64 bits and typed data.
    pub const fn is_later(&self) -> bool {
        let Version(major, minor, patch) = self.version;
        let (since_minor, since_patch) = if self.is_model_one { (11, 1) } else { (5, 1) };
        let is_line = if self.is_model_one { major == 1 } else { major == 2 };
        major > 2 || (is_line && (minor > since_minor || (minor == since_minor && patch >= since_patch)))
    }

    /// Whether a `Ping` has the device unlocked. From 1.9.0 on, Model One ignores what a `Ping` asks for and answers while it is locked
    /// (checked in the firmware, `legacy/v1.8.3` and `legacy/v1.9.0`); a Model T forgets the passphrase that a `Ping` made it ask for
    /// (`docs/spec/device.md 6.5`). Those are unlocked by asking for an address.
    pub(crate) fn unlocks_by_ping(&self) -> bool {
        self.is_model_one && self.version < Version(1, 9, 0)
    }

    /// The longest message that it signs, bytes.
    pub const fn max_message(&self) -> usize {
        if self.is_model_one { MAX_ONE_MESSAGE } else { MAX_MESSAGE }
    }
}

impl fmt::Debug for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceInfo").field("version", &self.version).finish_non_exhaustive()
    }
}

//! Features that a device reports, and what they imply.

use tenon_proto::management::Features;
use tenon_proto::shown_text;

use crate::DeviceError;

/// Vendor names that supported firmware reports.
const VENDORS: [&str; 2] = ["trezor.io", "bitcointrezor.com"];

/// The capability of entering a passphrase on the device.
const PASSPHRASE_ENTRY: u32 = 17;

/// Maximum length of a message on Model One, bytes.
const MAX_ONE_MESSAGE: usize = 1024;

/// Maximum length of a message to other models, bytes.
const MAX_MESSAGE: usize = 16 << 10;

/// A firmware version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, derive_more::Display)]
#[display("{_0}.{_1}.{_2}")]
pub struct Version(pub u32, pub u32, pub u32);

/// Features that a device reported when it was opened. Label and id are private data, so `Debug` shows only the
/// version.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("DeviceInfo({version:?})")]
pub struct DeviceInfo {
    /// The firmware's version.
    pub version: Version,
    /// Whether the device is a Model One.
    pub is_model_one: bool,
    /// The label, made safe to show; empty if there is none.
    pub label: String,
    /// The device id, which changes when the device is wiped.
    pub device_id: String,
    /// Whether the device has a seed.
    pub is_initialized: bool,
    /// Whether a passphrase can be typed on the device.
    pub has_passphrase_entry: bool,
    /// Whether the device keeps passphrases in sessions.
    pub has_sessions: bool,
}

impl DeviceInfo {
    /// Reads the response to `Initialize`.
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
                // Firmware that reports no model is older than the second model.
                None => version.0 == 1,
            },
            label: shown_text(features.label()),
            device_id: shown_text(features.device_id().as_bytes()),
            is_initialized: features.initialized(),
            has_passphrase_entry: features.capabilities.contains(&PASSPHRASE_ENTRY),
            has_sessions: features.session_id.is_some(),
        })
    }

    /// Whether the firmware is recent enough for transactions of type 2, 64-bit chain ids and typed data.
    pub const fn has_recent_firmware(&self) -> bool {
        let Version(major, minor, patch) = self.version;
        let (since_minor, since_patch) = if self.is_model_one { (11, 1) } else { (5, 1) };
        let is_line = if self.is_model_one { major == 1 } else { major == 2 };
        major > 2 || (is_line && (minor > since_minor || (minor == since_minor && patch >= since_patch)))
    }

    /// Whether a `Ping` unlocks the device. From 1.9.0 on, Model One ignores the protection flags of a `Ping` and
    /// responds while locked (checked in the firmware, `legacy/v1.8.3` and `legacy/v1.9.0`). A Model T forgets a
    /// passphrase that it asked for because of a `Ping` (`docs/spec/device.md 6.5`). These devices are unlocked by
    /// requesting an address.
    pub(crate) fn unlocks_by_ping(&self) -> bool {
        self.is_model_one && self.version < Version(1, 9, 0)
    }

    /// Maximum length of a message that the device signs, bytes.
    pub const fn max_message(&self) -> usize {
        if self.is_model_one { MAX_ONE_MESSAGE } else { MAX_MESSAGE }
    }
}

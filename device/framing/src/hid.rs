//! Writing to a HID device, with or without a report number before the packet.
//!
//! Firmware up to 1.3.5 declares numbered reports, and a packet's first byte is the report number. Later firmware
//! declares none, and the HID library then requires a zero in that place (`docs/spec/device.md 3.5`). Reading is the
//! same for both.

use zeroize::Zeroizing;

use crate::packet::{MARK, PACKET_LENGTH, Packet};

/// How the reports of a HID device are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HidVersion {
    /// Numbered: 64 bytes are written. The first one, the packet's mark, is the report number.
    One,
    /// Not numbered: 65 bytes are written. The first one is zero.
    Two,
}

impl HidVersion {
    /// The bytes to write for a packet. Writing fewer bytes is an error.
    pub fn report(self, packet: &Packet) -> HidReport {
        HidReport::new(self, packet.as_bytes())
    }
}

/// A report to write to a HID device. It is wiped on drop, and `Debug` shows only its length.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("HidReport {{ length: {} }}", self.as_bytes().len())]
pub struct HidReport {
    bytes: Zeroizing<[u8; PACKET_LENGTH + 1]>,
    version: HidVersion,
}

impl HidReport {
    fn new(version: HidVersion, packet: &[u8; PACKET_LENGTH]) -> Self {
        let mut bytes = Zeroizing::new([0; PACKET_LENGTH + 1]);
        bytes[1..].copy_from_slice(packet);
        Self { bytes, version }
    }

    /// The bytes: 64 for [`HidVersion::One`], 65 for [`HidVersion::Two`].
    pub fn as_bytes(&self) -> &[u8] {
        match self.version {
            HidVersion::One => &self.bytes[1..],
            HidVersion::Two => self.bytes.as_slice(),
        }
    }
}

/// Determines the [`HidVersion`] of a device after it was opened, by the number of bytes that a write accepts. The
/// probe reports are not the beginning of a message, so the device drops them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HidProbe {
    asked: HidVersion,
}

/// Result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeStep {
    /// The version is determined.
    Known(HidVersion),
    /// Another report must be written.
    Ask(HidProbe),
    /// Neither version works: this is not such a device, or the transport has failed.
    Unknown,
}

impl HidProbe {
    /// Creates a probe, which tries [`HidVersion::Two`] first.
    pub const fn new() -> Self {
        Self { asked: HidVersion::Two }
    }

    /// The report to write.
    pub fn report(self) -> HidReport {
        let mut packet = [0xff; PACKET_LENGTH];
        packet[0] = MARK;
        HidReport::new(self.asked, &packet)
    }

    /// Interprets the number of bytes that the write accepted; `None` if it failed.
    pub fn written(self, written: Option<usize>) -> ProbeStep {
        let is_whole = written == Some(self.report().as_bytes().len());
        match self.asked {
            asked if is_whole => ProbeStep::Known(asked),
            HidVersion::Two => ProbeStep::Ask(Self { asked: HidVersion::One }),
            HidVersion::One => ProbeStep::Unknown,
        }
    }
}

impl Default for HidProbe {
    fn default() -> Self {
        Self::new()
    }
}

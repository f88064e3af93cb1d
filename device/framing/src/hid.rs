//! How a HID device is written to: with or without the number of a report in front.
//!
//! Firmware up to 1.3.5 declares numbered reports, and the mark of a packet is the number of its report. Later firmware
//! has none, and the library below wants a zero in their place (`docs/spec/device.md 3.5`). Reading is the same for
//! both.

use std::fmt;

use zeroize::Zeroizing;

use crate::packet::{MARK, PACKET_LENGTH, Packet};

/// How the reports of a HID device are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HidVersion {
    /// Numbered: 64 bytes are written, of which the first, the packet's mark, is the number.
    One,
    /// Not numbered: 65 bytes are written, of which the first is a zero.
    Two,
}

impl HidVersion {
    /// The bytes to write for a packet. A write of fewer bytes is an error.
    pub fn report(self, packet: &Packet) -> HidReport {
        HidReport::new(self, packet.as_bytes())
    }
}

/// What is written to a HID device at once. Wiped when it is dropped; `Debug` shows its length only.
#[derive(Clone, PartialEq, Eq)]
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

impl fmt::Debug for HidReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HidReport").field("length", &self.as_bytes().len()).finish()
    }
}

/// Finds out which [`HidVersion`] a device has, once after it was opened: by how many bytes of a report are taken. No
/// message begins like the reports that it writes, so the device drops them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HidProbe {
    asked: HidVersion,
}

/// What a write has told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeStep {
    /// The version is known.
    Known(HidVersion),
    /// The next report is to be written.
    Ask(HidProbe),
    /// Neither: no device of this kind, or a fault of the transport.
    Unknown,
}

impl HidProbe {
    /// A probe; it asks for [`HidVersion::Two`] first.
    pub const fn new() -> Self {
        Self { asked: HidVersion::Two }
    }

    /// The report to write.
    pub fn report(self) -> HidReport {
        let mut packet = [0xff; PACKET_LENGTH];
        packet[0] = MARK;
        HidReport::new(self.asked, &packet)
    }

    /// What it means that `written` bytes of the report were taken; `None` when the write failed.
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

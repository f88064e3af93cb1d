//! A message cut into packets.
//!
//! ```text
//! first packet       3f 23 23  id (2)  length (4)  55 bytes of the body
//! each that follows  3f                            63 bytes of the body
//! ```
//!
//! Numbers are big endian; the last packet is filled with zeros (`docs/spec/device.md 3.1`).

use std::fmt;

use zeroize::Zeroizing;

/// The length of every packet, bytes.
pub const PACKET_LENGTH: usize = 64;

/// The first byte of every packet. On the oldest HID devices it is the number of the report.
pub(crate) const MARK: u8 = b'?';

/// What follows the mark in the first packet of a message.
pub(crate) const MAGIC: [u8; 2] = *b"##";

/// Bytes of a message in one packet: all but the mark.
pub(crate) const PIECE: usize = PACKET_LENGTH - 1;

/// What stands in front of the body: magic, id, length.
pub(crate) const HEADER: usize = 8;

/// A packet as it goes over the wire. Wiped when it is dropped; `Debug` shows none of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Packet(Zeroizing<[u8; PACKET_LENGTH]>);

impl Packet {
    /// The bytes for the wire.
    pub fn as_bytes(&self) -> &[u8; PACKET_LENGTH] {
        &self.0
    }

    /// 64 zeros: a Model One in the middle of a message forgets it, every other reader ignores the packet
    /// (`docs/spec/device.md 8.4`).
    pub fn reset() -> Self {
        Self(Zeroizing::new([0; PACKET_LENGTH]))
    }

    /// A packet that continues a message with 63 bytes `0xff`: a message that was sent in part is ended with such
    /// packets. Zeros would not do, a message cut off by zeros can be a valid one (`docs/spec/device.md 8.4`).
    pub fn filler() -> Self {
        Self::continuing(&[], 0xff)
    }

    /// A packet that continues a message with these bytes, followed by `filler`.
    fn continuing(piece: &[u8], filler: u8) -> Self {
        let mut packet = Self(Zeroizing::new([filler; PACKET_LENGTH]));
        packet.0[0] = MARK;
        packet.0[1..=piece.len()].copy_from_slice(piece);
        packet
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Packet { .. }")
    }
}

/// A body that the four bytes of a length can't express.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of {length} bytes can't be sent: its length takes more than 32 bits")]
pub struct MessageTooLong {
    /// The body's length, bytes.
    pub length: usize,
}

/// The number of packets that a message with a body of this length takes: `ceil((8 + length) / 63)`.
pub const fn packet_count(length: u32) -> u32 {
    // Cannot overflow: 2^32 / 63 packets are the most.
    ((HEADER as u64 + length as u64).div_ceil(PIECE as u64)) as u32
}

/// The packets of a message, in order.
///
/// `Debug` shows id and lengths only.
#[derive(Clone)]
pub struct Packets<'body> {
    id: u16,
    length: u32,
    rest: &'body [u8],
    is_begun: bool,
}

impl<'body> Packets<'body> {
    /// Cuts a message.
    ///
    /// # Errors
    /// [`MessageTooLong`] for a body of 4 GiB and more.
    pub fn new(id: u16, body: &'body [u8]) -> Result<Self, MessageTooLong> {
        let length = u32::try_from(body.len()).map_err(|_| MessageTooLong { length: body.len() })?;
        Ok(Self { id, length, rest: body, is_begun: false })
    }

    /// Gives the message up after a part of it was sent: the [`Packet::filler`]s that a device still waits for.
    ///
    /// Nothing when the message was not begun, or is out.
    pub fn abandon(self) -> impl Iterator<Item = Packet> {
        let left = if self.is_begun { self.rest.len().div_ceil(PIECE) } else { 0 };
        std::iter::repeat_with(Packet::filler).take(left)
    }

    /// Takes up to `count` bytes off the front of what is left.
    fn take(&mut self, count: usize) -> &'body [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    fn first(&mut self) -> Packet {
        let mut piece = Zeroizing::new([0; PIECE]);
        piece[..2].copy_from_slice(&MAGIC);
        piece[2..4].copy_from_slice(&self.id.to_be_bytes());
        piece[4..HEADER].copy_from_slice(&self.length.to_be_bytes());
        let body = self.take(PIECE - HEADER);
        piece[HEADER..HEADER + body.len()].copy_from_slice(body);
        Packet::continuing(piece.as_slice(), 0)
    }
}

impl Iterator for Packets<'_> {
    type Item = Packet;

    fn next(&mut self) -> Option<Packet> {
        if !self.is_begun {
            self.is_begun = true;
            return Some(self.first());
        }
        let piece = self.take(PIECE);
        (!piece.is_empty()).then(|| Packet::continuing(piece, 0))
    }
}

impl fmt::Debug for Packets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = self.rest.len();
        f.debug_struct("Packets").field("id", &self.id).field("length", &self.length).field("left", &left).finish()
    }
}

//! Splitting a message into packets.
//!
//! ```text
//! first packet       3f 23 23  id (2)  length (4)  55 bytes of the body
//! each that follows  3f                            63 bytes of the body
//! ```
//!
//! Numbers are big-endian; the last packet is padded with zeros (`docs/spec/device.md 3.1`).

use zeroize::Zeroizing;

/// Length of every packet, bytes.
pub const PACKET_LENGTH: usize = 64;

/// First byte of every packet. On the oldest HID devices it is the report number.
pub(crate) const MARK: u8 = b'?';

/// The bytes after the mark in the first packet of a message.
pub(crate) const MAGIC: [u8; 2] = *b"##";

/// Number of message bytes in one packet: all but the mark.
pub(crate) const PIECE: usize = PACKET_LENGTH - 1;

/// Length of what precedes the body: magic, id, length.
pub(crate) const HEADER: usize = 8;

/// A packet in its wire format. It is wiped on drop, and `Debug` shows none of it.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("Packet {{ .. }}")]
pub struct Packet(Zeroizing<[u8; PACKET_LENGTH]>);

impl Packet {
    /// The bytes to send.
    pub fn as_bytes(&self) -> &[u8; PACKET_LENGTH] {
        &self.0
    }

    /// A packet of 64 zeros. A Model One in the middle of a message drops that message; all other readers ignore the
    /// packet (`docs/spec/device.md 8.4`).
    pub fn reset() -> Self {
        Self(Zeroizing::new([0; PACKET_LENGTH]))
    }

    /// A continuation packet with 63 bytes of `0xff`, which completes a message that was only partly sent. Zeros would
    /// not be safe: a message padded with zeros may be valid (`docs/spec/device.md 8.4`).
    pub fn filler() -> Self {
        Self::continuing(&[], 0xff)
    }

    /// A continuation packet with these bytes, padded with `filler`.
    fn continuing(piece: &[u8], filler: u8) -> Self {
        let mut packet = Self(Zeroizing::new([filler; PACKET_LENGTH]));
        packet.0[0] = MARK;
        packet.0[1..=piece.len()].copy_from_slice(piece);
        packet
    }
}

/// The length of a body does not fit into four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of {length} bytes can't be sent: its length has more than 32 bits")]
pub struct MessageTooLong {
    /// Length of the body, bytes.
    pub length: usize,
}

/// Number of packets for a message with a body of this length: `ceil((8 + length) / 63)`.
pub const fn packet_count(length: u32) -> u32 {
    // Can't overflow: the result is at most 2^32 / 63.
    ((HEADER as u64 + length as u64).div_ceil(PIECE as u64)) as u32
}

/// The packets of a message, in order.
///
/// `Debug` shows only id and lengths.
#[derive(Clone, derive_more::Debug)]
#[debug("Packets {{ id: {id}, length: {length}, left: {} }}", rest.len())]
pub struct Packets<'body> {
    id: u16,
    length: u32,
    rest: &'body [u8],
    is_begun: bool,
}

impl<'body> Packets<'body> {
    /// Splits a message.
    ///
    /// # Errors
    /// [`MessageTooLong`] if the body has 4 GiB or more.
    pub fn new(id: u16, body: &'body [u8]) -> Result<Self, MessageTooLong> {
        let length = u32::try_from(body.len()).map_err(|_| MessageTooLong { length: body.len() })?;
        Ok(Self { id, length, rest: body, is_begun: false })
    }

    /// Abandons a message that was partly sent: returns the [`Packet::filler`]s that the device still waits for.
    ///
    /// Returns none if no packet or all packets were sent.
    pub fn abandon(self) -> impl Iterator<Item = Packet> {
        let left = if self.is_begun { self.rest.len().div_ceil(PIECE) } else { 0 };
        std::iter::repeat_with(Packet::filler).take(left)
    }

    /// Takes up to `count` bytes from the front of the rest.
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

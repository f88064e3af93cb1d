//! Reads packets as devices do (`docs/spec/device.md 3.2`). Hosts read them differently.

use tenon_device_framing::{Message, PACKET_LENGTH};
use zeroize::Zeroizing;

use crate::model::Line;

/// Maximum length of a body that Model One accepts, bytes.
const MAX_ONE: u32 = 15 << 10;

/// Maximum length of a body that a simulated Model T accepts, bytes. The real one is limited only by its memory.
const MAX_T: u32 = 16 << 20;

/// Result of reading a packet.
#[derive(Debug)]
pub(crate) enum Reading {
    /// Nothing yet, or nothing that gets a response.
    Nothing,
    /// A complete message of a known type.
    Whole(Message),
    /// A message of an unknown type.
    Unknown,
    /// A message that is too long.
    TooLong,
}

struct PartialMessage {
    message: Message,
    length: usize,
    is_known: bool,
}

/// Reads packets of one interface of a device.
pub(crate) struct DeviceReader {
    line: Line,
    partial: Option<PartialMessage>,
}

impl DeviceReader {
    pub(crate) const fn new(line: Line) -> Self {
        Self { line, partial: None }
    }

    /// Adds a packet. `is_known` returns whether a message with this id is accepted now.
    pub(crate) fn push(&mut self, packet: &[u8; PACKET_LENGTH], is_known: impl Fn(u16) -> bool) -> Reading {
        match self.partial.take() {
            None => self.begin(packet, is_known),
            Some(partial) if packet[0] == b'?' => self.add(partial, &packet[1..]),
            // Model One drops the partial message; Model T keeps waiting for the rest.
            Some(partial) => {
                self.partial = (self.line == Line::T).then_some(partial);
                Reading::Nothing
            }
        }
    }

    /// Reads a message that consists of this single packet. This is how Model One reads while a prompt is open.
    pub(crate) fn single(packet: &[u8; PACKET_LENGTH]) -> Option<Message> {
        let (id, length) = header(packet)?;
        let body = packet[9..].get(..length as usize)?;
        Some(Message { id, body: Zeroizing::new(body.to_vec()) })
    }

    fn begin(&mut self, packet: &[u8; PACKET_LENGTH], is_known: impl Fn(u16) -> bool) -> Reading {
        let Some((id, length)) = header(packet) else { return Reading::Nothing };
        let is_known = is_known(id);
        if self.line == Line::One && !is_known {
            return Reading::Unknown;
        }
        if length > if self.line == Line::One { MAX_ONE } else { MAX_T } {
            return Reading::TooLong;
        }
        let message = Message { id, body: Zeroizing::new(Vec::new()) };
        self.add(PartialMessage { message, length: length as usize, is_known }, &packet[9..])
    }

    fn add(&mut self, mut partial: PartialMessage, piece: &[u8]) -> Reading {
        let missing = partial.length - partial.message.body.len();
        partial.message.body.extend_from_slice(&piece[..missing.min(piece.len())]);
        if partial.message.body.len() < partial.length {
            self.partial = Some(partial);
            return Reading::Nothing;
        }
        if partial.is_known { Reading::Whole(partial.message) } else { Reading::Unknown }
    }
}

/// Id and length of the message that begins with the packet.
fn header(packet: &[u8; PACKET_LENGTH]) -> Option<(u16, u32)> {
    let [b'?', b'#', b'#', id_high, id_low, a, b, c, d, ..] = *packet else { return None };
    Some((u16::from_be_bytes([id_high, id_low]), u32::from_be_bytes([a, b, c, d])))
}

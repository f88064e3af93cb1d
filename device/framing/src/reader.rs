//! Joining packets to messages, on the host's side.

use std::fmt;
use std::mem;

use zeroize::{Zeroize as _, Zeroizing};

use crate::packet::{HEADER, MAGIC, MARK, PACKET_LENGTH};

/// An interface of a device. Each has its own limit on the length of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// The interface that the node uses.
    Main,
    /// The debug link of debug builds, for tests.
    Debug,
}

impl Wire {
    /// Maximum length of a received body, bytes. Responses about Ethereum stay below 1 KiB, those of a Model One below
    /// 3 KiB.
    pub const fn max_body(self) -> u32 {
        match self {
            Self::Main => 64 << 10,
            Self::Debug => 128 << 10,
        }
    }
}

/// A message. Its body is wiped on drop, and `Debug` shows only id and length.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("Message {{ id: {id}, length: {} }}", body.len())]
pub struct Message {
    /// Message type.
    pub id: u16,
    /// The encoded body.
    pub body: Zeroizing<Vec<u8>>,
}

/// Why packets do not form a message. Host and device may then be out of step, and the session resynchronises
/// (`docs/spec/device.md 8.4`). After an error the reader is empty and expects the first packet of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The packet is too short or too long.
    #[error("the device sent a packet of {length} bytes instead of {PACKET_LENGTH}")]
    PacketLength {
        /// Received length, bytes.
        length: usize,
    },
    /// The packet does not begin a message.
    #[error("expected the first packet of a message from the device, got another packet")]
    NoBeginning,
    /// A message was broken off.
    #[error("the device stopped sending message {id} after {received} of {length} bytes")]
    NoContinuation {
        /// Message type.
        id: u16,
        /// Number of body bytes received so far.
        received: usize,
        /// Announced length of the body, bytes.
        length: u32,
    },
    /// The message is longer than any that a device has a reason to send.
    #[error("the device announced message {id} with {length} bytes; at most {max} are allowed")]
    MessageLength {
        /// Message type.
        id: u16,
        /// Announced length, bytes.
        length: u32,
        /// Maximum length, bytes.
        max: u32,
    },
}

/// A partly received message.
struct PartialMessage {
    id: u16,
    length: u32,
    body: Zeroizing<Vec<u8>>,
}

/// Joins packets to messages.
///
/// Its memory grows with the received bytes, not with the announced length. It holds one message at a time: up to
/// [`Wire::max_body`] bytes, with up to twice that capacity.
pub struct Reader {
    wire: Wire,
    partial: Option<PartialMessage>,
}

impl Reader {
    /// Creates an empty reader.
    pub const fn new(wire: Wire) -> Self {
        Self { wire, partial: None }
    }

    /// Whether a message was partly received. Its next packet must arrive within seconds (`docs/spec/device.md 8.2`),
    /// whereas the first packet of a message may take as long as a person does.
    pub const fn is_within_message(&self) -> bool {
        self.partial.is_some()
    }

    /// Drops and wipes a partly received message.
    pub fn reset(&mut self) {
        self.partial = None;
    }

    /// Adds a packet; returns the message if it is complete.
    ///
    /// # Errors
    /// [`FrameError`], after which the reader is empty.
    pub fn push(&mut self, packet: &[u8]) -> Result<Option<Message>, FrameError> {
        let partial = self.partial.take();
        let Some((mark, piece)) = packet.split_first().filter(|_| packet.len() == PACKET_LENGTH) else {
            return Err(FrameError::PacketLength { length: packet.len() });
        };
        let (mut message, piece) = match partial {
            Some(PartialMessage { id, length, body }) if *mark != MARK => {
                return Err(FrameError::NoContinuation { id, received: body.len(), length });
            }
            Some(message) => (message, piece),
            None if *mark != MARK => return Err(FrameError::NoBeginning),
            None => (self.begin(piece)?, &piece[HEADER..]),
        };
        // Bytes beyond the announced length are padding and may have any value.
        let missing = message.length as usize - message.body.len();
        append(&mut message.body, &piece[..missing.min(piece.len())]);
        if message.body.len() == message.length as usize {
            return Ok(Some(Message { id: message.id, body: message.body }));
        }
        self.partial = Some(message);
        Ok(None)
    }

    /// Reads the header of a message.
    fn begin(&self, piece: &[u8]) -> Result<PartialMessage, FrameError> {
        let Some(&[a, b, id_high, id_low, ref length @ ..]) = piece.first_chunk::<HEADER>() else {
            return Err(FrameError::NoBeginning);
        };
        if [a, b] != MAGIC {
            return Err(FrameError::NoBeginning);
        }
        let (id, length) = (u16::from_be_bytes([id_high, id_low]), u32::from_be_bytes(*length));
        let max = self.wire.max_body();
        if length > max {
            return Err(FrameError::MessageLength { id, length, max });
        }
        Ok(PartialMessage { id, length, body: Zeroizing::new(Vec::new()) })
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partial = self.partial.as_ref().map(|message| (message.id, message.body.len(), message.length));
        f.debug_struct("Reader").field("wire", &self.wire).field("partial", &partial).finish()
    }
}

/// Appends a piece. Wipes the old buffer when it has to grow.
fn append(body: &mut Zeroizing<Vec<u8>>, piece: &[u8]) {
    if body.capacity() - body.len() < piece.len() {
        let mut larger = Vec::with_capacity((2 * body.len()).max(PACKET_LENGTH) + piece.len());
        larger.extend_from_slice(body);
        mem::replace(&mut **body, larger).zeroize();
    }
    body.extend_from_slice(piece);
}

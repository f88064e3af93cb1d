//! Packets joined to messages, as the host reads them.

use std::fmt;
use std::mem;

use zeroize::{Zeroize as _, Zeroizing};

use crate::packet::{HEADER, MAGIC, MARK, PACKET_LENGTH};

/// Which of a device's interfaces is read: each has its own bound on messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// What the node talks to.
    Main,
    /// The debug link of debug builds, for tests.
    Debug,
}

impl Wire {
    /// The longest body of an answer, bytes. Answers about Ethereum stay below 1 KiB, those of a Model One below 3 KiB.
    pub const fn max_body(self) -> u32 {
        match self {
            Self::Main => 64 << 10,
            Self::Debug => 128 << 10,
        }
    }
}

/// A message. Its body is wiped when it is dropped; `Debug` shows id and length only.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// The number of its type.
    pub id: u16,
    /// The body, encoded.
    pub body: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("id", &self.id).field("length", &self.body.len()).finish()
    }
}

/// Why packets are no message. After any of these the two sides may have lost step: the session resynchronises
/// (`docs/spec/device.md 8.4`). The reader is empty then and takes the next packet as a first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Too short or too long.
    #[error("the device sent a packet of {length} bytes; all have {PACKET_LENGTH}")]
    PacketLength {
        /// The length that came, bytes.
        length: usize,
    },
    /// No message begins like this.
    #[error("the device sent a packet that begins no message where one was to begin")]
    NoBeginning,
    /// A message broke off.
    #[error("the device broke off message {id} after {received} of {length} bytes")]
    NoContinuation {
        /// The number of the message's type.
        id: u16,
        /// Bytes of the body that had come.
        received: usize,
        /// Bytes of the body that were announced.
        length: u32,
    },
    /// A message that no device has reason to send.
    #[error("the device announced message {id} with {length} bytes; {max} are the most")]
    MessageLength {
        /// The number of the message's type.
        id: u16,
        /// The length that was announced, bytes.
        length: u32,
        /// The bound, bytes.
        max: u32,
    },
}

/// A message of which a part has come.
struct Begun {
    id: u16,
    length: u32,
    body: Zeroizing<Vec<u8>>,
}

/// Joins packets to messages.
///
/// It grows with what comes, not with what is announced, and holds one message at a time: [`Wire::max_body`] bytes at most,
/// in twice as much memory.
pub struct Reader {
    wire: Wire,
    begun: Option<Begun>,
}

impl Reader {
    /// An empty reader.
    pub const fn new(wire: Wire) -> Self {
        Self { wire, begun: None }
    }

    /// Whether a part of a message has come: the next packet is to follow within seconds (`docs/spec/device.md 8.2`),
    /// the first of a message may take as long as its user does.
    pub const fn is_within_message(&self) -> bool {
        self.begun.is_some()
    }

    /// Forgets a message of which a part has come, and wipes it.
    pub fn reset(&mut self) {
        self.begun = None;
    }

    /// Takes a packet; gives the message that it ends, if it ends one.
    ///
    /// # Errors
    /// [`FrameError`], after which the reader is empty.
    pub fn push(&mut self, packet: &[u8]) -> Result<Option<Message>, FrameError> {
        let begun = self.begun.take();
        let Some((mark, piece)) = packet.split_first().filter(|_| packet.len() == PACKET_LENGTH) else {
            return Err(FrameError::PacketLength { length: packet.len() });
        };
        let (mut message, piece) = match begun {
            Some(Begun { id, length, body }) if *mark != MARK => {
                return Err(FrameError::NoContinuation { id, received: body.len(), length });
            }
            Some(message) => (message, piece),
            None if *mark != MARK => return Err(FrameError::NoBeginning),
            None => (self.begin(piece)?, &piece[HEADER..]),
        };
        // What follows the announced length is padding and may be anything.
        let missing = message.length as usize - message.body.len();
        append(&mut message.body, &piece[..missing.min(piece.len())]);
        if message.body.len() == message.length as usize {
            return Ok(Some(Message { id: message.id, body: message.body }));
        }
        self.begun = Some(message);
        Ok(None)
    }

    /// Reads the header of a message.
    fn begin(&self, piece: &[u8]) -> Result<Begun, FrameError> {
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
        Ok(Begun { id, length, body: Zeroizing::new(Vec::new()) })
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let begun = self.begun.as_ref().map(|message| (message.id, message.body.len(), message.length));
        f.debug_struct("Reader").field("wire", &self.wire).field("begun", &begun).finish()
    }
}

/// Appends, and wipes what a growing vector would leave behind.
fn append(body: &mut Zeroizing<Vec<u8>>, piece: &[u8]) {
    if body.capacity() - body.len() < piece.len() {
        let mut larger = Vec::with_capacity((2 * body.len()).max(PACKET_LENGTH) + piece.len());
        larger.extend_from_slice(body);
        mem::replace(&mut **body, larger).zeroize();
    }
    body.extend_from_slice(piece);
}

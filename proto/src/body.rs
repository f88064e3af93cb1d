//! Encoding and decoding of message bodies.

use prost::Message;
use zeroize::Zeroizing;

use crate::{Entry, registry};

/// A message with an id in the wire format. The generator implements it for every registry entry and every later
/// message.
pub trait WireMessage: Message + Default {
    /// The message's id.
    const ID: u16;
}

/// Why a body could not be decoded. The error contains nothing of the body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The message has another type.
    #[error("the device sent message {got} ({}) instead of {expected} ({})", name(*.got), name(*.expected))]
    OtherMessage {
        /// Id of the received message.
        got: u16,
        /// Id of the expected type.
        expected: u16,
    },
    /// The bytes are not a body of this type.
    #[error("the body of message {id} ({}), {length} bytes, does not decode", name(*.id))]
    Malformed {
        /// Id of the expected type.
        id: u16,
        /// Length of the body, bytes.
        length: usize,
    },
}

fn name(id: u16) -> &'static str {
    registry::known(id).map_or("not in the registry", |entry: &Entry| entry.name)
}

/// Encodes a message; returns its id and its body, which is wiped on drop.
pub fn encode<M: WireMessage>(message: &M) -> (u16, Zeroizing<Vec<u8>>) {
    // A single allocation of the right size: growing the buffer would leave copies behind that are not wiped.
    (M::ID, Zeroizing::new(message.encode_to_vec()))
}

/// Decodes the body of a message with this id. Skips unknown fields, and keeps unknown enum values.
///
/// # Errors
/// [`BodyError::OtherMessage`] if `id` is not that of `M`; [`BodyError::Malformed`] if the bytes can't be decoded.
pub fn decode<M: WireMessage>(id: u16, body: &[u8]) -> Result<M, BodyError> {
    if id != M::ID {
        return Err(BodyError::OtherMessage { got: id, expected: M::ID });
    }
    // The decoder's error text is omitted, because it may quote the body.
    M::decode(body).map_err(|_| BodyError::Malformed { id, length: body.len() })
}

/// Implements [`Entry::canonical`] for entries of type `M`.
pub(crate) fn canonical<M: WireMessage>(body: &[u8]) -> Result<Zeroizing<Vec<u8>>, BodyError> {
    decode::<M>(M::ID, body).map(|message| encode(&message).1)
}

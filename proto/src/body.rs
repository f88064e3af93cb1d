//! Bodies as bytes.

use prost::Message;
use zeroize::Zeroizing;

use crate::{Entry, registry};

/// A message that has a number on the wire. Implemented for each entry of the registry and each younger message, by the
/// generator.
pub trait WireMessage: Message + Default {
    /// Its number on the wire.
    const ID: u16;
}

/// Why a body was not read. Says nothing of what stands in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The message is another than the one that is read.
    #[error("the device sent message {got} ({}) where {expected} ({}) was to come", name(*.got), name(*.expected))]
    OtherMessage {
        /// The number that came.
        got: u16,
        /// The number of the type that is read.
        expected: u16,
    },
    /// The bytes are no such body.
    #[error("the body of message {id} ({}), {length} bytes, does not decode", name(*.id))]
    Malformed {
        /// The number of the type that was read.
        id: u16,
        /// The body's length, bytes.
        length: usize,
    },
}

fn name(id: u16) -> &'static str {
    registry::known(id).map_or("not in the registry", |entry: &Entry| entry.name)
}

/// The number and the body of a message. The body is wiped when it is dropped.
pub fn encode<M: WireMessage>(message: &M) -> (u16, Zeroizing<Vec<u8>>) {
    // One allocation of the right length: growing would leave copies behind that are not wiped.
    (M::ID, Zeroizing::new(message.encode_to_vec()))
}

/// Reads the body of a message whose number is `id`. Unknown fields are skipped, unknown values of enumerations kept.
///
/// # Errors
/// [`BodyError::OtherMessage`] when `id` is not the number of `M`, [`BodyError::Malformed`] when the bytes don't decode.
pub fn decode<M: WireMessage>(id: u16, body: &[u8]) -> Result<M, BodyError> {
    if id != M::ID {
        return Err(BodyError::OtherMessage { got: id, expected: M::ID });
    }
    // The decoder's own words are left out: they may quote what stands in the body.
    M::decode(body).map_err(|_| BodyError::Malformed { id, length: body.len() })
}

/// What [`Entry::canonical`] does for entries of type `M`.
pub(crate) fn canonical<M: WireMessage>(body: &[u8]) -> Result<Zeroizing<Vec<u8>>, BodyError> {
    decode::<M>(M::ID, body).map(|message| encode(&message).1)
}

//! The encoding of messages that leave the process or cross the plugin boundary.
//!
//! bincode 2, standard configuration, behind two functions so that the codec can be replaced in one place.
//! Byte payloads must go through `serialize_bytes` (`alloy_primitives::Bytes` does); a plain `Vec<u8>` is thirty
//! times slower (64 KiB encoded and decoded: 160 µs in place of 5).

mod bounded;

use bincode::{
    enc::write::Writer,
    error::{DecodeError, EncodeError},
};
use bounded::Bounded;
use serde::{Serialize, de::DeserializeOwned};
use zeroize::Zeroize as _;

use crate::Request;

/// Maximum number of items in all lists and maps of a request. The largest legitimate request, a call with overrides
/// that fills the request's body, has a quarter of that.
pub const MAX_REQUEST_ITEMS: usize = 1 << 18;

/// The largest frame that is decoded, in bytes: a block of 60 million gas with its receipts stays far below.
pub const MAX_FRAME_BYTES: usize = 256 * 1024 * 1024;

/// A message that could not be encoded or decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The codec does not support the value's shape.
    #[error("cannot encode {type_name}: {reason}")]
    Encode {
        /// The Rust type.
        type_name: &'static str,
        /// The codec's error.
        reason: String,
    },
    /// The bytes are not an encoding of the type.
    #[error("cannot decode {type_name} from {length} bytes: {reason}")]
    Decode {
        /// The Rust type.
        type_name: &'static str,
        /// Length of the input in bytes.
        length: usize,
        /// The codec's error.
        reason: String,
    },
    /// A request exceeds the maximum number of items in all of its lists.
    #[error("more than {MAX_REQUEST_ITEMS} values in one request")]
    TooManyItems,
    /// A request exceeds the maximum nesting depth.
    #[error("values nested more than {} levels deep in one request", bounded::MAX_DEPTH)]
    TooDeep,
}

/// Encodes a message.
///
/// # Errors
/// [`CodecError::Encode`] if a custom `Serialize` fails.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, CodecError> {
    let mut frame = Frame(Vec::with_capacity(if size_of::<T>() == 0 { 0 } else { INITIAL_CAPACITY }));
    bincode::serde::encode_into_writer(value, &mut frame, bincode::config::standard())
        .map_err(|error| CodecError::Encode { type_name: std::any::type_name::<T>(), reason: error.to_string() })?;
    Ok(frame.0)
}

/// An encoded request, wiped on drop if the request holds secrets.
#[derive(Debug)]
pub struct RequestFrame {
    bytes: Vec<u8>,
    has_secrets: bool,
}

impl AsRef<[u8]> for RequestFrame {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for RequestFrame {
    fn drop(&mut self) {
        if self.has_secrets {
            self.bytes.zeroize();
        }
    }
}

/// Encodes a request. No copy of a request with secrets remains in memory.
///
/// # Errors
/// [`CodecError::Encode`] if a custom `Serialize` fails.
pub fn encode_request<R: Request>(request: &R) -> Result<RequestFrame, CodecError> {
    if !R::HAS_SECRETS {
        return Ok(RequestFrame { bytes: encode(request)?, has_secrets: false });
    }
    let mut frame = WipedFrame(RequestFrame { bytes: Vec::with_capacity(INITIAL_CAPACITY), has_secrets: true });
    bincode::serde::encode_into_writer(request, &mut frame, bincode::config::standard())
        .map_err(|error| CodecError::Encode { type_name: std::any::type_name::<R>(), reason: error.to_string() })?;
    Ok(frame.0)
}

/// A frame that wipes the old buffer when it grows.
struct WipedFrame(RequestFrame);

impl Writer for WipedFrame {
    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        let frame = &mut self.0.bytes;
        if frame.capacity() - frame.len() < bytes.len() {
            let mut larger = Vec::with_capacity((frame.len() + bytes.len()) * 2);
            larger.extend_from_slice(frame);
            std::mem::replace(frame, larger).zeroize();
        }
        frame.extend_from_slice(bytes);
        Ok(())
    }
}

/// Initial capacity of a frame. Growing from zero took a third of the time of encoding a header. Most calls and point
/// reads fit; empty ones allocate nothing.
const INITIAL_CAPACITY: usize = 256;

struct Frame(Vec<u8>);

impl Writer for Frame {
    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// Maximum length of a short frame. Decoding one may allocate sixteen times this length at most. That is enough,
/// because no value takes more than sixteen times its encoding. It stops a short frame that announces a long text.
const SHORT_FRAME_BYTES: usize = 64 * 1024;

/// Requests up to this length are decoded without counting their items, which costs a little per item.
const UNCOUNTED_FRAME_BYTES: usize = 4 * 1024;

/// Decodes a message that must fill `bytes` exactly.
///
/// # Errors
/// [`CodecError::Decode`] when the bytes are malformed, too many or too few.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    decode_as::<T, T>(bytes)
}

/// Decodes a plugin's request that must fill `bytes` exactly, within limits on items and depth. A short one (up to 4
/// KiB) is decoded without the limits: it cannot have more items or levels than bytes.
///
/// # Errors
/// [`CodecError::Decode`] when the bytes are malformed, too many or too few; [`CodecError::TooManyItems`],
/// [`CodecError::TooDeep`].
pub fn decode_request<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    if bytes.len() <= UNCOUNTED_FRAME_BYTES {
        return decode(bytes);
    }
    decode_as::<T, Bounded<T>>(bytes).map(|Bounded(value)| value)
}

/// Decodes a value; errors name the type `T`.
fn decode_as<T, V: DeserializeOwned>(bytes: &[u8]) -> Result<V, CodecError> {
    let standard = bincode::config::standard();
    let decoded = if bytes.len() <= SHORT_FRAME_BYTES {
        bincode::serde::decode_from_slice(bytes, standard.with_limit::<{ 16 * SHORT_FRAME_BYTES }>())
    } else {
        bincode::serde::decode_from_slice(bytes, standard.with_limit::<MAX_FRAME_BYTES>())
    };
    let failed =
        |reason: String| CodecError::Decode { type_name: std::any::type_name::<T>(), length: bytes.len(), reason };
    let (value, read) = decoded.map_err(|error| match &error {
        DecodeError::OtherString(reason) if reason == bounded::TOO_MANY => CodecError::TooManyItems,
        DecodeError::OtherString(reason) if reason == bounded::TOO_DEEP => CodecError::TooDeep,
        _ => failed(error.to_string()),
    })?;
    if read != bytes.len() {
        return Err(failed(format!("{} bytes follow the value", bytes.len() - read)));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_frame_that_announces_a_long_text_is_refused_before_allocation() {
        let announces_16_mebibytes = [0xfc, 0, 0, 0, 1, b'a'];

        let refused = decode::<String>(&announces_16_mebibytes).unwrap_err().to_string();

        assert!(refused.ends_with("LimitExceeded"), "{refused}");
    }

    #[test]
    fn a_request_with_too_many_items_is_refused_and_one_at_the_limit_is_not() {
        let max = vec![Some(7_u8); bounded::MAX_ITEMS];
        let frame = encode(&max).unwrap();
        assert_eq!(decode_request::<Vec<Option<u8>>>(&frame), Ok(max.clone()));

        // In two lists, each within the limit.
        let halves = (max, vec![Some(7_u8)]);
        let refused = decode_request::<(Vec<Option<u8>>, Vec<Option<u8>>)>(&encode(&halves).unwrap()).unwrap_err();

        assert!(refused.to_string().contains("more than 262144 values in one request"), "{refused}");
        let long = vec![1_u8; 8192];
        let text = (String::from_utf8(long).unwrap(), alloy_primitives::Bytes::from(vec![2; 1 << 20]));
        assert_eq!(decode_request(&encode(&text).unwrap()), Ok(text), "bytes and texts are one value each");
    }

    #[test]
    fn a_request_nested_too_deeply_is_refused() {
        #[derive(Debug, PartialEq, Serialize, serde::Deserialize)]
        struct Nested(Option<Box<Self>>, Vec<u8>);
        let nested = |depth: usize| {
            let innermost = Nested(None, vec![0; 8192]);
            encode(&(0..depth).fold(innermost, |inner, _| Nested(Some(Box::new(inner)), Vec::new()))).unwrap()
        };

        assert!(decode_request::<Nested>(&nested(10)).is_ok());
        let refused = decode_request::<Nested>(&nested(1000)).unwrap_err().to_string();

        assert!(refused.contains("values nested more than 64 levels deep"), "{refused}");
    }

    #[test]
    fn frames_of_any_length_decode_within_their_limit() {
        for length in [0, 1, 1000, SHORT_FRAME_BYTES / 2, SHORT_FRAME_BYTES * 3] {
            // One byte each on the wire, eight when decoded.
            let numbers = vec![7_u64; length];
            assert_eq!(decode::<Vec<u64>>(&encode(&numbers).unwrap()).unwrap(), numbers);
        }
    }
}

//! Decodes lists, with limits.

use alloy_primitives::U256;
use alloy_rlp::{Decodable, Header};

use crate::WireError;

/// Returns the content of the list at the start of `input`, and advances `input` past the list.
pub(crate) fn list<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], WireError> {
    Ok(Header::decode_bytes(input, true)?)
}

/// Returns the content of the string at the start of `input`.
pub(crate) fn string<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], WireError> {
    Ok(Header::decode_bytes(input, false)?)
}

/// Returns the canonical bytes of the transaction or receipt at the start of `input`, and whether it is encoded as a
/// list (type 0). The canonical bytes are the whole list, or the content of the string (other types).
pub(crate) fn canonical<'a>(input: &mut &'a [u8]) -> Result<(bool, &'a [u8]), WireError> {
    let before = *input;
    let header = Header::decode(input)?;
    // `Header::decode` has checked that the payload is complete.
    let (payload, rest) = input.split_at(header.payload_length);
    *input = rest;
    Ok((header.list, if header.list { &before[..before.len() - rest.len()] } else { payload }))
}

/// Fails if a list of fixed length has further elements.
pub(crate) fn end(list: &[u8]) -> Result<(), WireError> {
    if list.is_empty() { Ok(()) } else { Err(alloy_rlp::Error::UnexpectedLength.into()) }
}

/// Decodes all items of a list's content; at most `limit`.
pub(crate) fn items<'a, T>(
    mut content: &'a [u8],
    limit: usize,
    mut read: impl FnMut(&mut &'a [u8]) -> Result<T, WireError>,
) -> Result<Vec<T>, WireError> {
    let mut items = Vec::new();
    while !content.is_empty() {
        if items.len() == limit {
            return Err(WireError::TooManyItems { limit });
        }
        items.push(read(&mut content)?);
    }
    Ok(items)
}

/// Decodes the first `limit` items of a list's content, and ignores the rest. In requests, as in the reference, because no
/// answer has more items.
pub(crate) fn first<T: Decodable>(mut content: &[u8], limit: usize) -> Result<Vec<T>, WireError> {
    let mut items = Vec::new();
    while !content.is_empty() && items.len() < limit {
        items.push(T::decode(&mut content)?);
    }
    Ok(items)
}

/// Counts the items of a list's content without decoding them. Fails if there are more than `limit`.
pub(crate) fn count(mut content: &[u8], limit: usize) -> Result<usize, WireError> {
    let mut count = 0;
    while !content.is_empty() {
        if count == limit {
            return Err(WireError::TooManyItems { limit });
        }
        let header = Header::decode(&mut content)?;
        // `Header::decode` has checked that the payload is complete.
        content = content.get(header.payload_length..).unwrap_or_default();
        count += 1;
    }
    Ok(count)
}

/// Decodes an integer of any length in its shortest form; one of more than 256 bits becomes the largest number.
/// Difficulties have no upper limit on the wire.
pub(crate) fn saturating(input: &mut &[u8]) -> Result<U256, WireError> {
    let bytes = string(input)?;
    if bytes.first() == Some(&0) {
        return Err(alloy_rlp::Error::LeadingZero.into());
    }
    Ok(if bytes.len() > 32 { U256::MAX } else { U256::from_be_slice(bytes) })
}

//! Reading of lists, with limits.

use alloy_primitives::{B256, U256};
use alloy_rlp::{Decodable, Header};

use crate::WireError;

/// The content of the list at the start of `input`, which is advanced past it.
pub(crate) fn list<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], WireError> {
    Ok(Header::decode_bytes(input, true)?)
}

/// The content of the string at the start of `input`.
pub(crate) fn string<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], WireError> {
    Ok(Header::decode_bytes(input, false)?)
}

/// Fails if a list of fixed length has more elements.
pub(crate) fn end(list: &[u8]) -> Result<(), WireError> {
    if list.is_empty() { Ok(()) } else { Err(alloy_rlp::Error::UnexpectedLength.into()) }
}

/// Reads all items of a list's content, at most `limit`.
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

/// The hashes of a request: the first `limit`. Like the reference, what follows is not looked at, since no answer has more.
pub(crate) fn first_hashes(mut content: &[u8], limit: usize) -> Result<Vec<B256>, WireError> {
    let mut hashes = Vec::new();
    while !content.is_empty() && hashes.len() < limit {
        hashes.push(B256::decode(&mut content)?);
    }
    Ok(hashes)
}

/// Counts the items of a list's content without reading them; fails beyond `limit`.
pub(crate) fn count(mut content: &[u8], limit: usize) -> Result<usize, WireError> {
    let mut count = 0;
    while !content.is_empty() {
        if count == limit {
            return Err(WireError::TooManyItems { limit });
        }
        let header = Header::decode(&mut content)?;
        // `Header::decode` has checked that the payload is there.
        content = content.get(header.payload_length..).unwrap_or_default();
        count += 1;
    }
    Ok(count)
}

/// A number of any length in its only form; what does not fit is the largest number. Difficulties have no upper limit on the
/// wire.
pub(crate) fn saturating(input: &mut &[u8]) -> Result<U256, WireError> {
    let bytes = string(input)?;
    if bytes.first() == Some(&0) {
        return Err(alloy_rlp::Error::LeadingZero.into());
    }
    Ok(if bytes.len() > 32 { U256::MAX } else { U256::from_be_slice(bytes) })
}

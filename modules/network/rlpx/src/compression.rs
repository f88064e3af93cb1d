//! Compression of payloads: Snappy's block format (`docs/spec/p2p.md` 7).

use snap::raw::{Decoder, Encoder, decompress_len};

use crate::FrameError;

/// Compresses a payload.
///
/// # Errors
/// [`FrameError::Compression`] for payloads larger than 4 GiB, which do not fit into a frame.
pub fn compress(payload: &[u8]) -> Result<Vec<u8>, FrameError> {
    Encoder::new().compress_vec(payload).map_err(|_| FrameError::Compression)
}

/// Compresses a payload into a buffer of at least [`snap::raw::max_compress_len`] bytes, and returns the compressed size.
///
/// # Errors
/// [`FrameError::Compression`] for payloads larger than 4 GiB.
pub(crate) fn compress_into(payload: &[u8], buffer: &mut [u8]) -> Result<usize, FrameError> {
    Encoder::new().compress(payload, buffer).map_err(|_| FrameError::Compression)
}

/// Decompresses a payload whose declared length is at most `limit` bytes. The length is checked before memory is
/// allocated.
///
/// # Errors
/// [`FrameError::Compression`], [`FrameError::TooLong`].
pub fn decompress(data: &[u8], limit: usize) -> Result<Vec<u8>, FrameError> {
    // The crate decodes an empty input as an empty payload; on the wire the length is always present.
    if data.is_empty() {
        return Err(FrameError::Compression);
    }
    let bytes = decompress_len(data).map_err(|_| FrameError::Compression)?;
    if bytes > limit {
        return Err(FrameError::TooLong { bytes, limit });
    }
    // An element of three bytes expands to at most 64 bytes, so a larger declared length is false.
    if bytes > data.len().saturating_mul(MAX_EXPANSION) {
        return Err(FrameError::Compression);
    }
    Decoder::new().decompress_vec(data).map_err(|_| FrameError::Compression)
}

/// Larger than the maximum ratio of Snappy: a copy of 64 bytes takes three bytes, or a copy of up to 11 bytes takes
/// two.
const MAX_EXPANSION: usize = 22;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_checked_before_memory_is_allocated() {
        let limit = (1 << 24) - 1;
        assert_eq!(decompress(&[], limit), Err(FrameError::Compression));
        assert_eq!(decompress(&[0], limit), Ok(Vec::new()));
        assert_eq!(decompress(&[5, 0xff, 0xff, 0xff], limit), Err(FrameError::Compression));
        let declared = [0x80, 0x80, 0x80, 0x08, 0, 0];
        assert_eq!(decompress(&declared, limit), Err(FrameError::TooLong { bytes: 1 << 24, limit }));
        assert_eq!(decompress(&[0xff, 0xff, 0xff, 0x07, 0, 0], limit), Err(FrameError::Compression));
    }

    /// `docs/spec/p2p.md` 26.5.
    #[test]
    fn a_back_reference_is_followed() {
        assert_eq!(decompress(&[0x40, 0, 0, 0xfa, 1, 0], 64), Ok(vec![0; 64]));
        assert_eq!(compress(&[0xc1, 0x80]).unwrap(), [2, 4, 0xc1, 0x80]);
    }

    #[test]
    fn the_best_compression_is_within_the_ratio() {
        let zeros = vec![0; 1 << 20];
        assert_eq!(decompress(&compress(&zeros).unwrap(), 1 << 20), Ok(zeros));
    }
}

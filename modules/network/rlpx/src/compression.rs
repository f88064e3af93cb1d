//! Compression of payloads: Snappy's block format (`docs/spec/p2p.md` 7).

use std::cell::RefCell;

use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

use crate::FrameError;

/// Compresses a payload.
///
/// # Errors
/// [`FrameError::Compression`] for payloads larger than 4 GiB, which do not fit into a frame.
pub fn compress(payload: &[u8]) -> Result<Vec<u8>, FrameError> {
    Encoder::new().compress_vec(payload).map_err(|_| FrameError::Compression)
}

/// Maximum size of the buffer that a thread keeps between messages.
const MAX_KEPT_BYTES: usize = 1 << 20;

/// A thread's encoder, and a buffer for what it compresses. A new buffer for each message would have to be filled with
/// zeros.
struct Compressor {
    encoder: Encoder,
    buffer: Vec<u8>,
}

thread_local! {
    static COMPRESSOR: RefCell<Compressor> = RefCell::new(Compressor { encoder: Encoder::new(), buffer: Vec::new() });
}

/// Compresses a payload and passes the result to `take`.
///
/// # Errors
/// [`FrameError::Compression`] for payloads larger than 4 GiB.
pub(crate) fn with_compressed<T>(payload: &[u8], take: impl FnOnce(&[u8]) -> T) -> Result<T, FrameError> {
    COMPRESSOR.with_borrow_mut(|Compressor { encoder, buffer }| {
        let max = max_compress_len(payload.len());
        if buffer.len() < max {
            *buffer = vec![0; max];
        }
        let compressed = encoder.compress(payload, buffer).map_err(|_| FrameError::Compression)?;
        let taken = take(&buffer[..compressed]);
        if buffer.len() > MAX_KEPT_BYTES {
            *buffer = Vec::new();
        }
        Ok(taken)
    })
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
    fn messages_of_all_sizes_share_a_buffer() {
        for length in [0, 70_000, 1, 3 << 20, 100, 400_000, 450_000, 880_000] {
            let payload: Vec<u8> = (0..length).map(|index: usize| (index / 7) as u8).collect();
            assert_eq!(with_compressed(&payload, <[u8]>::to_vec), compress(&payload));
        }
        assert!(COMPRESSOR.with_borrow(|compressor| compressor.buffer.capacity() <= MAX_KEPT_BYTES));
    }

    #[test]
    fn the_best_compression_is_within_the_ratio() {
        let zeros = vec![0; 1 << 20];
        assert_eq!(decompress(&compress(&zeros).unwrap(), 1 << 20), Ok(zeros));
    }
}

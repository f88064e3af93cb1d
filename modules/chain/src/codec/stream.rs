//! Chain files: concatenated RLP of blocks, read as a stream.

use std::io::{self, ErrorKind, Read};

use tenon_api::Block;

use super::block::decode_block;
use super::error::{DecodeError, DecodeProblem};

/// Default maximum length of a block in a stream: 64 MiB.
pub const DEFAULT_BLOCK_BOUND: u64 = 64 << 20;

/// Why a chain file could not be read further.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The file or pipe failed.
    #[error("reading block {index} of the file (byte {offset}): {source}")]
    Io {
        /// Position of the block in the file, from 0.
        index: u64,
        /// Offset of the block in the file, bytes.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
    /// The file ends inside a block.
    #[error("the file ends inside block {index}, which begins at byte {offset}")]
    Truncated {
        /// Position of the block in the file, from 0.
        index: u64,
        /// Offset of the block in the file, bytes.
        offset: u64,
    },
    /// The bytes are not a block.
    #[error("block {index} of the file, which begins at byte {offset}: {source}")]
    Decode {
        /// Position of the block in the file, from 0.
        index: u64,
        /// Offset of the block in the file, bytes.
        offset: u64,
        /// The problem, with an offset from the start of the block.
        source: DecodeError,
    },
}

/// Reads concatenated blocks from a file or pipe. Memory is bounded by the maximum length of a block.
///
/// It ends after an error: the start of the next block is then unknown.
pub struct BlockStream<R> {
    source: R,
    bound: u64,
    index: u64,
    offset: u64,
    failed: bool,
    buffer: Vec<u8>,
}

impl<R: Read> BlockStream<R> {
    /// A stream that accepts blocks of up to [`DEFAULT_BLOCK_BOUND`]. The source should be buffered.
    pub const fn new(source: R) -> Self {
        Self::with_bound(source, DEFAULT_BLOCK_BOUND)
    }

    /// A stream that accepts blocks of up to `bound` bytes.
    pub const fn with_bound(source: R, bound: u64) -> Self {
        Self { source, bound, index: 0, offset: 0, failed: false, buffer: Vec::new() }
    }

    /// Bytes of complete blocks read so far.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// The undecoded RLP of the next block, so that the caller can decode on other threads; `None` at the end.
    ///
    /// # Errors
    /// [`StreamError`]; the stream then ends.
    pub fn next_encoded(&mut self) -> Result<Option<&[u8]>, StreamError> {
        if self.failed {
            return Ok(None);
        }
        let result = self.fill();
        self.failed = result.is_err();
        if !result? {
            return Ok(None);
        }
        self.index += 1;
        self.offset += self.buffer.len() as u64;
        Ok(Some(&self.buffer))
    }

    /// Reads the next item into the buffer. Returns false at the end of the source.
    fn fill(&mut self) -> Result<bool, StreamError> {
        self.buffer.clear();
        if self.read_exactly(1, true)? == 0 {
            return Ok(false);
        }
        let payload_length = match self.buffer[0] {
            short @ 0xc0..=0xf7 => u64::from(short - 0xc0),
            long @ 0xf8..=0xff => {
                self.read_exactly(u64::from(long - 0xf7), false)?;
                self.buffer[1..].iter().fold(0, |length: u64, byte| (length << 8) | u64::from(*byte))
            }
            _ => return Err(self.decode_error(DecodeProblem::UnexpectedString)),
        };
        let length = payload_length.saturating_add(self.buffer.len() as u64);
        if length > self.bound {
            return Err(self.decode_error(DecodeProblem::OverBound { length, bound: self.bound }));
        }
        self.read_exactly(payload_length, false)?;
        Ok(true)
    }

    fn decode_error(&self, problem: DecodeProblem) -> StreamError {
        let source = DecodeError::new("block", 0, problem);
        StreamError::Decode { index: self.index, offset: self.offset, source }
    }

    /// Appends `count` bytes to the buffer. The buffer grows with the data received, not with the claimed length.
    fn read_exactly(&mut self, count: u64, may_end: bool) -> Result<u64, StreamError> {
        let (index, offset) = (self.index, self.offset);
        let read = loop {
            match (&mut self.source).take(count).read_to_end(&mut self.buffer) {
                Ok(read) => break read as u64,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(StreamError::Io { index, offset, source }),
            }
        };
        if read < count && !(may_end && read == 0) {
            return Err(StreamError::Truncated { index, offset });
        }
        Ok(read)
    }
}

impl<R: Read> Iterator for BlockStream<R> {
    type Item = Result<Block, StreamError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (index, offset) = (self.index, self.offset);
        let decoded = match self.next_encoded() {
            Ok(None) => return None,
            Ok(Some(mut encoded)) => decode_block(&mut encoded),
            Err(error) => return Some(Err(error)),
        };
        self.failed = decoded.is_err();
        Some(decoded.map_err(|source| StreamError::Decode { index, offset, source }))
    }
}

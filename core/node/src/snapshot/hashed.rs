//! Hashes what is read.

use std::io::{self, Read};

use sha2::{Digest as _, Sha256};
use tenon_api::B256;

/// A reader that hashes the bytes that it reads.
pub(super) struct Hashed<R> {
    source: R,
    hasher: Sha256,
    bytes: u64,
}

impl<R> Hashed<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, hasher: Sha256::new(), bytes: 0 }
    }

    /// The number of bytes, and their hash.
    pub(super) fn end(self) -> (u64, B256) {
        (self.bytes, B256::from_slice(&self.hasher.finalize()))
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.hasher.update(buffer.get(..count).unwrap_or_default());
        self.bytes += count as u64;
        Ok(count)
    }
}

//! Exposes private parsers to the fuzz targets (`fuzz/`) only.

use std::io;

use crate::elf;

/// A library's file in memory.
struct Bytes<'a>(&'a [u8]);

impl elf::Source for Bytes<'_> {
    fn read_from(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        io::Read::read(&mut self.0.get(at..).unwrap_or_default(), into)
    }
}

/// Checks that these bytes are a whole shared library.
///
/// # Errors
/// What is wrong, in words for an operator.
pub fn library(bytes: &[u8]) -> Result<(), String> {
    elf::check(&Bytes(bytes), bytes.len() as u64)
}

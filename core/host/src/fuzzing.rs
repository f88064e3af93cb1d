//! Exposes private parsers to the fuzz targets (`fuzz/`) only.

use std::io;

use crate::{PluginPlan, choices::Choices, elf};

pub use crate::isolation::fuzzing::*;

/// Applies a choices file with this text to the settings' plans. Returns the plans and the text written back; none if
/// the text is refused.
pub fn choices(text: &[u8], settled: &[PluginPlan]) -> Option<(Vec<PluginPlan>, Vec<u8>)> {
    let choices = Choices::decode(text).ok()?;
    let (mut plans, added) = choices.apply(settled);
    plans.extend(added);
    Some((plans, choices.encode().ok()?))
}

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

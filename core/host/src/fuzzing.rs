//! The private parsers, as the fuzz targets see them (`fuzz/`). Not for others.

use std::io;

use crate::{PluginPlan, choices::Choices, elf};

pub use crate::isolation::fuzzing::*;

/// The plans that come of choices about modules in a file of this text, over those of the settings, and the text that is
/// written for the choices; none when the text is refused.
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

/// Looks whether these bytes are a whole shared library.
///
/// # Errors
/// What is wrong, in words for an operator.
pub fn library(bytes: &[u8]) -> Result<(), String> {
    elf::check(&Bytes(bytes), bytes.len() as u64)
}

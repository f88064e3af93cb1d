//! Checks that bytes are a whole shared library for this machine, before the system's loader sees a text file or half a
//! copy: its messages help little, and a truncated file can end the process with SIGBUS.
//!
//! Ours, in place of the crate object: that has neither the length that a file needs nor these words for an operator.

use std::{fs::File, io, os::unix::fs::FileExt};

/// This machine's number in the file format.
const MACHINE: u16 = if cfg!(target_arch = "x86_64") {
    62
} else if cfg!(target_arch = "aarch64") {
    183
} else if cfg!(target_arch = "riscv64") {
    243
} else {
    0
};
const SHARED_OBJECT: u16 = 3;
/// Length of the header of a 64-bit file.
const HEADER: usize = 64;
/// Length of an entry of the segment table.
const SEGMENT: usize = 56;

/// Source of the file's bytes.
pub(crate) trait Source {
    /// Reads at an offset. Returns fewer bytes at the end.
    ///
    /// # Errors
    /// Of the system.
    fn read_from(&self, at: u64, into: &mut [u8]) -> io::Result<usize>;
}

impl Source for File {
    fn read_from(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.read_at(into, at)
    }
}

/// Checks a file of this length.
///
/// # Errors
/// What is wrong, in words for an operator.
pub(crate) fn check(source: &impl Source, length: u64) -> Result<(), String> {
    let mut head = [0; 512];
    let count = read(source, 0, &mut head)?;
    let bytes = head.get(..count).unwrap_or_default();
    if !bytes.starts_with(b"\x7fELF") {
        let what = if bytes.is_empty() {
            "it is empty"
        } else if bytes.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) {
            "it is a text file"
        } else {
            "it is not an ELF file"
        };
        return Err(what.to_owned());
    }
    if bytes.len() < HEADER {
        return Err(truncated(length, HEADER as u64));
    }
    if bytes[4] != 2 || bytes[5] != 1 {
        return Err("it is built for another architecture (not 64-bit, little-endian)".to_owned());
    }
    let machine = number::<2>(bytes, 18) as u16;
    if MACHINE != 0 && machine != MACHINE {
        return Err(format!(
            "it is built for another architecture: ELF machine {machine}, this is {MACHINE} ({})",
            std::env::consts::ARCH
        ));
    }
    if number::<2>(bytes, 16) as u16 != SHARED_OBJECT {
        return Err("it is an ELF file, but not a shared library".to_owned());
    }
    let end = needed_length(source, bytes, length)?;
    if end > length {
        return Err(truncated(length, end));
    }
    Ok(())
}

fn truncated(length: u64, needed: u64) -> String {
    format!("it is truncated: {length} bytes, but its headers require at least {needed}")
}

/// Fills as much of the buffer as the file has.
fn read(source: &impl Source, at: u64, into: &mut [u8]) -> Result<usize, String> {
    let mut filled = 0;
    while let Some(room) = into.get_mut(filled..).filter(|room| !room.is_empty()) {
        match source.read_from(at.saturating_add(filled as u64), room) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("it cannot be read: {error}")),
        }
    }
    Ok(filled)
}

/// End of the last table or segment that the header refers to.
fn needed_length(source: &impl Source, header: &[u8], length: u64) -> Result<u64, String> {
    let table = |offset: usize, size: usize, count: usize| {
        let (start, size, count) = (number::<8>(header, offset), number::<2>(header, size), number::<2>(header, count));
        (start, size, count, start.saturating_add(size * count))
    };
    let (segments, size, count, segments_end) = table(32, 54, 56);
    let (.., sections_end) = table(40, 58, 60);
    let mut end = segments_end.max(sections_end);
    if end > length {
        return Ok(end);
    }
    for index in 0..count {
        let mut segment = [0; SEGMENT];
        // Both are below the length, so the sum does not overflow.
        read(source, segments + index * size, &mut segment)?;
        end = end.max(number::<8>(&segment, 8).saturating_add(number::<8>(&segment, 32)));
    }
    Ok(end)
}

/// A little-endian number; 0 beyond the end.
fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut wide = [0; 8];
    if let Some(part) = at.checked_add(N).and_then(|end| bytes.get(at..end)) {
        wide[..N].copy_from_slice(part);
    }
    u64::from_le_bytes(wide)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    impl Source for Vec<u8> {
        fn read_from(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
            let mut rest = self.get(usize::try_from(at).unwrap()..).unwrap_or_default();
            io::Read::read(&mut rest, into)
        }
    }

    fn check(bytes: &Vec<u8>) -> Result<(), String> {
        super::check(bytes, bytes.len() as u64)
    }

    /// A header without tables.
    fn header() -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[16..18].copy_from_slice(&SHARED_OBJECT.to_le_bytes());
        bytes[18..20].copy_from_slice(&MACHINE.to_le_bytes());
        bytes
    }

    #[test]
    fn what_is_no_library_for_this_machine_is_named() {
        type Case = (fn(&mut Vec<u8>), &'static str);
        let cases: [Case; 8] = [
            (|bytes| bytes.clear(), "it is empty"),
            (|bytes| *bytes = b"#!/bin/sh\necho".to_vec(), "it is a text file"),
            (|bytes| *bytes = vec![0, 1, 2], "it is not an ELF file"),
            (|bytes| bytes.truncate(20), "it is truncated: 20 bytes"),
            (|bytes| bytes[4] = 1, "another architecture (not 64-bit"),
            (|bytes| bytes[18] = 40, "another architecture: ELF machine 40"),
            (|bytes| bytes[16] = 2, "not a shared library"),
            (|bytes| bytes[40..48].copy_from_slice(&[0, 0, 1, 0, 0, 0, 0, 0]), "at least 65536"),
        ];
        assert_eq!(check(&header()), Ok(()));
        for (spoil, words) in cases {
            let mut bytes = header();
            spoil(&mut bytes);

            let error = check(&bytes).unwrap_err();

            assert!(error.contains(words), "{error:?} says {words:?}");
        }
    }

    #[test]
    fn headers_that_lie_do_no_harm() {
        let mut bytes = header();
        for at in [32, 40] {
            bytes[at..at + 8].fill(0xff);
        }
        bytes[54..62].fill(0xff);

        assert!(check(&bytes).unwrap_err().contains("truncated"));
    }
}

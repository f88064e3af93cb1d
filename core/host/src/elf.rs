//! Checks that bytes are a whole shared library for this machine, before the system's loader sees them. The loader's
//! messages are unhelpful, and a truncated library can end the process with SIGBUS.
//!
//! Uses the layouts of the crate `object`, but not its walk over a file's segments, which reads whole tables and does
//! not tell how long the file must be.

use std::{fs::File, io, mem::size_of, os::unix::fs::FileExt};

use object::{
    LittleEndian, ReadRef as _,
    elf::{
        ELFCLASS64, ELFDATA2LSB, ELFMAG, EM_AARCH64, EM_NONE, EM_RISCV, EM_X86_64, ET_DYN, FileHeader64, Machine,
        ProgramHeader64,
    },
};

/// This machine's number in the file format; `EM_NONE` accepts all.
const MACHINE: Machine = if cfg!(target_arch = "x86_64") {
    EM_X86_64
} else if cfg!(target_arch = "aarch64") {
    EM_AARCH64
} else if cfg!(target_arch = "riscv64") {
    EM_RISCV
} else {
    EM_NONE
};

type Header = FileHeader64<LittleEndian>;
type Segment = ProgramHeader64<LittleEndian>;

/// Source of the file's bytes.
pub(crate) trait Source {
    /// Reads at an offset. Returns fewer bytes at the end.
    ///
    /// # Errors
    /// The system's error.
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
    if !bytes.starts_with(&ELFMAG) {
        let what = if bytes.is_empty() {
            "it is empty"
        } else if bytes.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) {
            "it is a text file"
        } else {
            "it is not an ELF file"
        };
        return Err(what.to_owned());
    }
    let Ok(header) = bytes.read_at::<Header>(0) else {
        return Err(truncated(length, size_of::<Header>() as u64));
    };
    if header.e_ident.class != ELFCLASS64 || header.e_ident.data != ELFDATA2LSB {
        return Err("it is built for another architecture (not 64-bit, little-endian)".to_owned());
    }
    let machine = header.e_machine.get(LittleEndian);
    if MACHINE != EM_NONE && machine != MACHINE {
        return Err(format!(
            "it is built for another architecture: ELF machine {}, this is {} ({})",
            machine.0,
            MACHINE.0,
            std::env::consts::ARCH
        ));
    }
    if header.e_type.get(LittleEndian) != ET_DYN {
        return Err("it is an ELF file, but not a shared library".to_owned());
    }
    let end = needed_length(source, header, length)?;
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
fn needed_length(source: &impl Source, header: &Header, length: u64) -> Result<u64, String> {
    let le = LittleEndian;
    let (segments, size, count) = (header.e_phoff.get(le), header.e_phentsize.get(le), header.e_phnum.get(le));
    let (size, count) = (u64::from(size), u64::from(count));
    let sections = u64::from(header.e_shentsize.get(le)) * u64::from(header.e_shnum.get(le));
    let mut end = segments.saturating_add(size * count).max(header.e_shoff.get(le).saturating_add(sections));
    if end > length {
        return Ok(end);
    }
    for index in 0..count {
        let mut bytes = [0; size_of::<Segment>()];
        // Both are below the length, so the sum does not overflow.
        read(source, segments + index * size, &mut bytes)?;
        if let Ok(segment) = bytes.as_slice().read_at::<Segment>(0) {
            end = end.max(segment.p_offset.get(le).saturating_add(segment.p_filesz.get(le)));
        }
    }
    Ok(end)
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
        let mut bytes = vec![0; size_of::<Header>()];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[16..18].copy_from_slice(&ET_DYN.0.to_le_bytes());
        bytes[18..20].copy_from_slice(&MACHINE.0.to_le_bytes());
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
    fn refuses_a_header_whose_offsets_and_counts_exceed_the_file() {
        let mut bytes = header();
        for at in [32, 40] {
            bytes[at..at + 8].fill(0xff);
        }
        bytes[54..62].fill(0xff);

        assert!(check(&bytes).unwrap_err().contains("truncated"));
    }
}

//! Whether bytes are a whole shared library for this machine, so that the system's loader is not the first to see a text
//! file or half a copy: its words help nobody, and a short file can end the process with SIGBUS.

/// The file format's number of this machine.
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

/// # Errors
/// What is wrong, in words for an operator.
pub(crate) fn check(bytes: &[u8]) -> Result<(), String> {
    if !bytes.starts_with(b"\x7fELF") {
        let what = if bytes.is_empty() {
            "it is empty"
        } else if bytes.iter().take(512).all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) {
            "it is a text file"
        } else {
            "it is no ELF file"
        };
        return Err(what.to_owned());
    }
    if bytes.len() < HEADER {
        return Err(truncated(bytes.len(), HEADER as u64));
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
        return Err("it is an ELF file, but no shared library".to_owned());
    }
    let end = needed_length(bytes);
    if end > bytes.len() as u64 {
        return Err(truncated(bytes.len(), end));
    }
    Ok(())
}

fn truncated(length: usize, needed: u64) -> String {
    format!("it is truncated: {length} bytes, its headers speak of at least {needed}")
}

/// Where the last table or segment ends that the header speaks of.
fn needed_length(bytes: &[u8]) -> u64 {
    let table = |offset: usize, size: usize, count: usize| {
        let (start, size, count) = (number::<8>(bytes, offset), number::<2>(bytes, size), number::<2>(bytes, count));
        (start, size, count, start.saturating_add(size * count))
    };
    let (segments, size, count, segments_end) = table(32, 54, 56);
    let (.., sections_end) = table(40, 58, 60);
    let mut end = segments_end.max(sections_end);
    if end > bytes.len() as u64 {
        return end;
    }
    for index in 0..count {
        // Both below the length, so that they fit.
        let at = (segments + index * size) as usize;
        let segment_end = number::<8>(bytes, at + 8).saturating_add(number::<8>(bytes, at + 32));
        end = end.max(segment_end);
    }
    end
}

/// A little-endian number; beyond the end it is 0.
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
            (|bytes| *bytes = vec![0, 1, 2], "it is no ELF file"),
            (|bytes| bytes.truncate(20), "it is truncated: 20 bytes"),
            (|bytes| bytes[4] = 1, "another architecture (not 64-bit"),
            (|bytes| bytes[18] = 40, "another architecture: ELF machine 40"),
            (|bytes| bytes[16] = 2, "no shared library"),
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

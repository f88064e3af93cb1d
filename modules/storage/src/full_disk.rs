//! A full disk: how its errors are recognised, and how much space must be free before the database works again.

use std::{fs, path::Path};

/// Bytes that must be free before the engine writes again after its disk was full. It waits until its largest memory
/// table would fit. That table belongs to the column that the engine always creates; the column is never used, and is
/// opened with this size.
pub(crate) const SPACE_TO_WRITE: usize = 64 << 20;

/// Whether an error of the engine means that the disk is full. The engine's code for it is not in the bindings; the text is
/// the operating system's.
pub(crate) fn is_full_disk(error: &str) -> bool {
    error.contains("No space left on device")
}

/// The engine's error, and, if the disk is full, how much to free.
pub(crate) fn with_advice(error: &str) -> String {
    if !is_full_disk(error) {
        return error.to_owned();
    }
    format!("{error}; free at least {} MiB on the disk of the database", SPACE_TO_WRITE >> 20)
}

/// Bytes that must be free to open a folder whose disk was full: the engine writes its logs into tables first.
pub(crate) fn space_to_open(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let logs = entries.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "log"));
    let length: u64 = logs.filter_map(|log| log.metadata().ok()).map(|log| log.len()).sum();
    length + SPACE_TO_WRITE as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_error_of_a_full_disk_says_how_much_to_free() {
        let full = "IO error: No space left on device: While appending to file: 000004.log: No space left on device";

        assert_eq!(with_advice(full), format!("{full}; free at least 64 MiB on the disk of the database"));
        assert_eq!(with_advice("IO error: File too large"), "IO error: File too large");
    }

    #[test]
    fn opening_needs_space_for_the_logs_too() {
        let folder = tempfile::tempdir().unwrap();
        for (name, length) in [("000004.log", 3 << 20), ("000005.log", 5), ("000006.sst", 7 << 20)] {
            fs::write(folder.path().join(name), vec![0; length]).unwrap();
        }

        assert_eq!(space_to_open(folder.path()), (67 << 20) + 5);
        assert_eq!(space_to_open(&folder.path().join("missing")), 64 << 20);
    }
}

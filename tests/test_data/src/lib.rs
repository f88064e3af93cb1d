//! Reads the files of `tests/data`, for the tests of every crate.
//!
//! Invariant: it depends on no other crate of the project, so each of them can use it.

#![forbid(unsafe_code)]
#![allow(missing_docs, clippy::missing_panics_doc, clippy::unwrap_used, reason = "a failure fails the test")]

pub mod device;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde::de::DeserializeOwned;

/// The path of a file; `name` is its path below `tests/data`, or an absolute one.
pub fn path(name: impl AsRef<Path>) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../data").join(name)
}

/// The content of a file, decompressed if its name ends with `.gz`.
pub fn unpacked(name: impl AsRef<Path>) -> Vec<u8> {
    let path = path(name);
    let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if path.extension().is_none_or(|extension| extension != "gz") {
        return file;
    }
    let mut bytes = Vec::new();
    GzDecoder::new(&file[..]).read_to_end(&mut bytes).unwrap();
    bytes
}

/// The text of a file.
pub fn text(name: impl AsRef<Path>) -> String {
    String::from_utf8(unpacked(name)).unwrap()
}

/// The value of a JSON file.
pub fn json<T: DeserializeOwned>(name: impl AsRef<Path>) -> T {
    serde_json::from_slice(&unpacked(name)).unwrap()
}

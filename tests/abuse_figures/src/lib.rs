//! Figures of tests that abuse the node, for the one table in which all runners end (`tests/faults/figures.py`, which writes
//! the same lines from Python).
//!
//! It owns nothing. A figure goes to standard output, and to the file that `TENON_FIGURES` names, one JSON object a line; it
//! never decides about a test: whoever tells a figure asserts its bound.

#![forbid(unsafe_code)]

use std::fs::OpenOptions;
use std::io::Write as _;

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Figure<'a> {
    /// The kind of abuse: a key of `CLAUSES` in `tests/faults/figures.py`.
    pub clause: &'a str,
    /// What was done.
    pub what: &'a str,
    /// How often.
    pub count: u64,
    /// What came of it.
    pub figure: &'a str,
    /// What is allowed.
    pub bound: &'a str,
}

impl Figure<'_> {
    /// Prints the figure, and hands it to the table if somebody collects one. Call it once its bound has been asserted.
    ///
    /// # Panics
    /// When the file of the table can't be written: a figure that is missing there would be taken for one not measured.
    pub fn tell(&self) {
        let Self { clause, what, count, figure, bound } = self;
        println!("{clause}: {what}: {count}: {figure} (allowed: {bound})");
        let Some(path) = std::env::var_os("TENON_FIGURES") else { return };
        let line = serde_json::json!({
            "clause": clause, "what": what, "count": count, "figure": figure, "bound": bound, "verdict": "held",
        });
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        assert!(written.is_ok(), "TENON_FIGURES {}: {written:?}", path.display());
    }
}

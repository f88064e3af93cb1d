//! Figures of the abuse tests, for the common table at the end of all test runs (`tests/faults/figures.py`, which
//! writes the same lines from Python).
//!
//! It owns nothing. A figure goes to standard output, and to the file named by `TENON_FIGURES`, one JSON object per
//! line. It never decides about a test: the caller asserts the limit.

#![forbid(unsafe_code)]

use std::fs::OpenOptions;
use std::io::Write as _;

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Figure<'a> {
    /// The kind of abuse: a key of `CLAUSES` in `tests/faults/figures.py`.
    pub clause: &'a str,
    /// The abuse.
    pub what: &'a str,
    /// Number of repetitions.
    pub count: u64,
    /// The result.
    pub figure: &'a str,
    /// The limit.
    pub bound: &'a str,
}

impl Figure<'_> {
    /// Prints the figure, and adds it to the table if there is one. Call it after asserting its limit.
    ///
    /// # Panics
    /// If the table's file cannot be written: a missing figure would look like one that was not measured.
    pub fn record(&self) {
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

//! Runs the public suites of `ethereum/tests` against the rooms of the node: codecs, trie, fork rules, execution,
//! consensus, importer and database, as `core/node` puts them together.
//!
//! It owns how each suite's files are read and judged ([`Suite`], `docs/spec/conformance.md` 6), which cases are left
//! out and why (`skips.toml`), and the packed files in `tests/data/ethereum-tests`. The program `ethereum-tests` runs
//! all; `cargo test` runs a representative part.
//!
//! What must always hold: no rule of the chain is written down here, so that a case passes only because a room obeys
//! it; no case is treated differently for its name; whatever was not run or not compared is counted and printed.

#![forbid(unsafe_code)]

mod expectation;
mod lenient;
mod memory;
mod network;
mod outcome;
mod report;
mod runner;
mod selection;
mod skips;
mod source;
mod suites;

pub use outcome::{CaseReport, Difference, Outcome};
pub use report::{Report, SuiteCounts};
pub use runner::run;
pub use selection::Selection;
pub use skips::{Skip, Skips, SkipsError};
pub use source::{CaseFile, Source, SourceError};
pub use suites::Suite;

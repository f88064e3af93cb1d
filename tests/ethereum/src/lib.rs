//! Runs the public suites of `ethereum/tests` on the node's crates: codecs, trie, fork rules, execution, consensus,
//! importer and database, connected like in `core/node`.
//!
//! It owns the parsing and judging of each suite's files ([`Suite`], `docs/spec/conformance.md` 6), the list of skipped
//! cases with reasons (`skips.toml`), and the packed files in `tests/data/ethereum-tests`. The program `ethereum-tests`
//! runs all; `cargo test` runs a representative part.
//!
//! Invariants:
//!
//! - no rule of the chain is implemented here, so a case passes only if the node's crates follow the rule;
//! - no case is treated differently by name;
//! - everything that was not run or not compared is counted and printed.

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

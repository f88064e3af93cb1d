//! Tests of blocks of native chains, with the importer and the database, in one program, because linking one is faster.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, missing_docs, reason = "a failure fails the test")]

mod branches;
mod chains;
mod empty_accounts;
mod exchange;
mod import;

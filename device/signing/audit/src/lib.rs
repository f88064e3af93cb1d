//! The audit log of the signing service, and the guards and windows that are derived from it.
//!
//! It owns:
//!
//! - the log's files and their hash chain ([`AuditLog`]), and the entries ([`Step`]);
//! - the state that entries imply for later requests ([`Memory`]): windows of rules, and the nonces and rounds of
//!   earlier signatures;
//! - the verification of a log ([`verify`]), and the signed checkpoint next to it;
//! - the check of which users can change a file of the service ([`owner`]).
//!
//! Invariants:
//!
//! - A line is on disk before [`AuditLog::append`] returns, so that a caller that waits for it never releases a
//!   signature without its line.
//! - Guards and windows are derived from the log alone, also after a restart.
//! - A log that was changed, shortened or extended by others does not open.
//! - Only one process at a time uses the folder.
//! - The log contains no password, PIN or key.
#![forbid(unsafe_code)]

mod bounded;
mod checkpoint;
mod error;
mod line;
mod log;
mod memory;
mod nonces;
pub mod owner;
mod scan;

pub use checkpoint::Checkpoint;
pub use error::AuditError;
pub use line::{Line, Step};
pub use log::{AuditLog, Opened};
pub use memory::{GuardRefusal, Memory};
pub use scan::{Report, files, read_file, verify};

#[cfg(test)]
mod tests;

//! The audit log of the signing service, and what follows from it: guards and windows.
//!
//! It owns the log's files and their chain of hashes ([`AuditLog`]), the entries ([`Step`]), what they mean for later
//! requests ([`Memory`]: windows of rules, nonces and rounds that were signed for), the check of a log ([`verify`]) and
//! the signed checkpoint beside it.
//!
//! What must always hold: a line is on the disk before [`AuditLog::append`] returns, so that a signature that waits for
//! it never leaves without its line. Guards and windows follow from the log alone, after a restart too. A log that was
//! changed, shortened or added to does not open. One process at a time has the folder. The log holds no password, PIN or
//! key.
#![forbid(unsafe_code)]

mod checkpoint;
mod error;
mod line;
mod log;
mod memory;
mod nonces;
mod scan;

pub use checkpoint::Checkpoint;
pub use error::AuditError;
pub use line::{Line, Step};
pub use log::{AuditLog, Opened};
pub use memory::{GuardRefusal, Memory};
pub use scan::{Report, files, verify};

#[cfg(test)]
mod tests;

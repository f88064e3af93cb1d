//! Violations of rules.

use std::fmt::{self, Debug, Display};

use tenon_api::{BlockNumber, ConsensusError, RefusalCause, SealedHeader, StoreError};

/// A broken rule, without its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The name of the rule, to find it in its specification.
    pub rule: &'static str,
    /// The value found.
    pub found: String,
    /// The expected value, or its range.
    pub wanted: String,
    /// Whether the block breaks the rule, or the rule could not be checked.
    pub cause: RefusalCause,
}

impl Violation {
    /// A violation with these values.
    pub(crate) fn new(rule: &'static str, found: impl Display, wanted: impl Display) -> Self {
        Self { rule, found: found.to_string(), wanted: wanted.to_string(), cause: RefusalCause::BrokenRule }
    }

    /// The chain could not be read, so the rule could not be checked.
    pub(crate) fn unreadable(rule: &'static str, error: &StoreError) -> Self {
        let violation = Self::new(rule, format_args!("an unreadable chain ({error})"), "a readable one");
        Self { cause: RefusalCause::OwnFailure, ..violation }
    }

    /// The error for the block that breaks the rule.
    pub(crate) fn of(self, header: &SealedHeader) -> ConsensusError {
        let (number, hash) = (BlockNumber(header.number), header.hash());
        ConsensusError { number, hash, cause: self.cause, reason: self.to_string() }
    }
}

impl Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: found {}, wanted {}", self.rule, self.found, self.wanted)
    }
}

/// Passes when both values are equal.
pub(crate) fn require_equal<T: PartialEq + Display>(rule: &'static str, found: T, wanted: T) -> Result<(), Violation> {
    if found == wanted { Ok(()) } else { Err(Violation::new(rule, found, wanted)) }
}

/// Passes if an optional header item is present exactly in the headers of forks that have it.
pub(crate) fn require_presence<T: Debug>(rule: &'static str, item: Option<&T>, wanted: bool) -> Result<(), Violation> {
    match (item, wanted) {
        (Some(_), true) | (None, false) => Ok(()),
        (None, true) => Err(Violation::new(rule, "none", "a value from this fork on")),
        (Some(value), false) => Err(Violation::new(rule, format_args!("{value:?}"), "none before its fork")),
    }
}

//! Violations of rules.

use std::fmt::{self, Debug, Display};

use tenon_api::{BlockNumber, ConsensusError, RefusalCause, SealedHeader, StoreError};

/// A broken rule, without its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The name of the rule, to find it in its specification.
    pub rule: &'static str,
    /// The value found; the reason if the rule could not be checked.
    pub found: String,
    /// The expected value, or its range; `None` if the rule could not be checked.
    pub wanted: Option<String>,
    /// Whether the block breaks the rule, or the rule could not be checked.
    pub cause: RefusalCause,
}

impl Violation {
    /// A violation with these values.
    pub(crate) fn new(rule: &'static str, found: impl Display, wanted: impl Display) -> Self {
        Self { rule, found: found.to_string(), wanted: Some(wanted.to_string()), cause: RefusalCause::BrokenRule }
    }

    /// The chain could not be read, so the rule could not be checked.
    pub(crate) fn unreadable(rule: &'static str, error: &StoreError) -> Self {
        Self::unchecked(rule, format_args!("the chain cannot be read: {error}"))
    }

    /// The rule could not be checked. That says nothing about the block.
    pub(crate) fn unchecked(rule: &'static str, reason: impl Display) -> Self {
        Self { rule, found: reason.to_string(), wanted: None, cause: RefusalCause::OwnFailure }
    }

    /// The error for the block that breaks the rule.
    pub(crate) fn of(self, header: &SealedHeader) -> ConsensusError {
        let (number, hash) = (BlockNumber(header.number), header.hash());
        ConsensusError { number, hash, cause: self.cause, reason: self.to_string() }
    }
}

impl Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.wanted {
            Some(wanted) => write!(formatter, "{}: found {}, wanted {wanted}", self.rule, self.found),
            None => write!(formatter, "{}: could not be checked: {}", self.rule, self.found),
        }
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

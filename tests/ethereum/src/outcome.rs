//! What came of a case.

use std::fmt::{self, Display};

use serde::Serialize;

use crate::Suite;

/// The first thing in which a case ended differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What was compared.
    pub field: String,
    /// What our rooms gave.
    pub found: String,
    /// What the suite wants.
    pub wanted: String,
}

impl Difference {
    pub(crate) fn new(field: impl Into<String>, found: impl Display, wanted: impl Display) -> Self {
        Self { field: field.into(), found: found.to_string(), wanted: wanted.to_string() }
    }
}

impl Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: found {}, wanted {}", self.field, self.found, self.wanted)
    }
}

/// What a check that passed leaves to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// What could not be judged: refusals for reasons that the table of reasons does not have, and the like.
    pub(crate) not_compared: u64,
}

/// Why a case did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unmet {
    /// It ended otherwise than wanted.
    Differs(Difference),
    /// Nothing here does what it is about: its fork, its form.
    NotBuilt(String),
}

impl From<Difference> for Unmet {
    fn from(difference: Difference) -> Self {
        Self::Differs(difference)
    }
}

/// The judgement of one case.
pub(crate) type Check = Result<Passed, Unmet>;

/// Passes when both are equal.
pub(crate) fn require_equal<T: PartialEq + Display>(
    field: impl Into<String>,
    found: T,
    wanted: T,
) -> Result<(), Difference> {
    if found == wanted { Ok(()) } else { Err(Difference::new(field, found, wanted)) }
}

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// As the suite wants it.
    Passed {
        /// What in it was run and could not be judged.
        not_compared: u64,
    },
    /// Otherwise.
    Failed(Difference),
    /// Left out; see `skips.toml`.
    Skipped {
        /// Why.
        reason: String,
    },
    /// There is no room that does what the case is about.
    NotBuilt {
        /// What is missing.
        what: String,
    },
}

impl From<Check> for Outcome {
    fn from(check: Check) -> Self {
        match check {
            Ok(Passed { not_compared }) => Self::Passed { not_compared },
            Err(Unmet::Differs(difference)) => Self::Failed(difference),
            Err(Unmet::NotBuilt(what)) => Self::NotBuilt { what },
        }
    }
}

/// One case and how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaseReport {
    /// Its suite.
    pub suite: Suite,
    /// Path of its file and its name there.
    pub name: String,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Wall-clock time, milliseconds.
    pub milliseconds: u64,
}

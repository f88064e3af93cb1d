//! Outcome of a case.

use std::fmt::Display;

use serde::Serialize;

use crate::Suite;

/// The first difference of a case from its expected result.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display, Serialize)]
#[display("{field}: found {found}, wanted {wanted}")]
pub struct Difference {
    /// What was compared.
    pub field: String,
    /// Our value.
    pub found: String,
    /// The suite's value.
    pub wanted: String,
}

impl Difference {
    pub(crate) fn new(field: impl Into<String>, found: impl Display, wanted: impl Display) -> Self {
        Self { field: field.into(), found: found.to_string(), wanted: wanted.to_string() }
    }
}

/// Result of a check that passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Number of parts that could not be judged: refusals for unknown reasons, and the like.
    pub(crate) not_compared: u64,
}

/// Why a case did not pass.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::From)]
pub(crate) enum Unmet {
    /// Its result differs.
    #[from]
    Differs(Difference),
    /// Nothing here implements its subject: its fork, its form.
    NotBuilt(String),
}

/// The judgement of one case.
pub(crate) type Check = Result<Passed, Unmet>;

/// Passes if both are equal.
pub(crate) fn require_equal<T: PartialEq + Display>(
    field: impl Into<String>,
    found: T,
    wanted: T,
) -> Result<(), Difference> {
    if found == wanted { Ok(()) } else { Err(Difference::new(field, found, wanted)) }
}

/// Outcome of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The expected result.
    Passed {
        /// Number of parts that were run but could not be judged.
        not_compared: u64,
    },
    /// Another result.
    Failed(Difference),
    /// Skipped; see `skips.toml`.
    Skipped {
        /// The reason.
        reason: String,
    },
    /// The node has no implementation of the case's subject.
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

/// A case and its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaseReport {
    /// Its suite.
    pub suite: Suite,
    /// Path of its file and its name in the file.
    pub name: String,
    /// Its outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Wall-clock time, milliseconds.
    pub milliseconds: u64,
}

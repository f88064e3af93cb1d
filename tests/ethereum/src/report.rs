//! Result of a run: counts for display, cases for programs.

use std::{
    collections::BTreeMap,
    fmt::{self, Display},
    time::Duration,
};

use serde::Serialize;
use serde_json::json;

use crate::{CaseReport, Outcome, Suite};

/// Outcomes of a suite's cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SuiteCounts {
    /// All cases.
    pub cases: u64,
    /// With the expected result.
    pub passed: u64,
    /// With another result.
    pub failed: u64,
    /// Skipped for a reason.
    pub skipped: u64,
    /// Not implemented in the node.
    pub not_built: u64,
    /// Run but not judged: refusals without a comparable reason, steps that no chain can take.
    pub not_compared: u64,
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// By suite and name.
    pub cases: Vec<CaseReport>,
    /// Number of files by folder that belong to no suite and were not judged.
    pub strange_files: BTreeMap<String, u64>,
    /// Wall-clock time.
    pub elapsed: Duration,
}

impl Report {
    /// Counts by suite.
    pub fn counts(&self) -> BTreeMap<Suite, SuiteCounts> {
        let mut counts: BTreeMap<Suite, SuiteCounts> = BTreeMap::new();
        for case in &self.cases {
            let suite = counts.entry(case.suite).or_default();
            suite.add(&case.outcome);
        }
        counts
    }

    /// Counts over all suites.
    pub fn total(&self) -> SuiteCounts {
        let mut total = SuiteCounts::default();
        self.cases.iter().for_each(|case| total.add(&case.outcome));
        total
    }

    /// The cases with unexpected results.
    pub fn failures(&self) -> impl Iterator<Item = &CaseReport> {
        self.cases.iter().filter(|case| matches!(case.outcome, Outcome::Failed(_)))
    }

    /// The whole run as JSON: totals, counts by suite, every case.
    pub fn to_json(&self) -> serde_json::Value {
        let suites: BTreeMap<&str, SuiteCounts> =
            self.counts().into_iter().map(|(suite, counts)| (suite.folder(), counts)).collect();
        json!({
            "seconds": self.elapsed.as_secs_f64(),
            "total": self.total(),
            "suites": suites,
            "files_of_no_suite": self.strange_files,
            "cases": self.cases,
        })
    }

    /// Reasons for which cases were not run, with the number of cases.
    fn reasons(&self) -> BTreeMap<String, u64> {
        let mut reasons = BTreeMap::new();
        for case in &self.cases {
            let reason = match &case.outcome {
                Outcome::Skipped { reason } => format!("skipped: {}: {reason}", file_of(&case.name)),
                Outcome::NotBuilt { what } => format!("not built: {what}"),
                Outcome::Passed { .. } | Outcome::Failed(_) => continue,
            };
            *reasons.entry(reason).or_default() += 1;
        }
        reasons
    }
}

fn file_of(name: &str) -> &str {
    name.split_once(": ").map_or(name, |(file, _)| file)
}

impl SuiteCounts {
    fn add(&mut self, outcome: &Outcome) {
        self.cases += 1;
        match outcome {
            Outcome::Passed { not_compared } => {
                self.passed += 1;
                self.not_compared += not_compared;
            }
            Outcome::Failed(_) => self.failed += 1,
            Outcome::Skipped { .. } => self.skipped += 1,
            Outcome::NotBuilt { .. } => self.not_built += 1,
        }
    }
}

impl Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for case in self.failures() {
            if let Outcome::Failed(difference) = &case.outcome {
                writeln!(formatter, "FAILED {}\n    {}", case.name, difference.field)?;
                writeln!(formatter, "    found  {}\n    wanted {}", difference.found, difference.wanted)?;
            }
        }
        let reasons = self.reasons();
        if !reasons.is_empty() || !self.strange_files.is_empty() {
            writeln!(formatter, "\nNot run:")?;
        }
        for (folder, files) in &self.strange_files {
            writeln!(formatter, "{files:>6}  files of no suite: {folder}/")?;
        }
        for (reason, cases) in reasons {
            writeln!(formatter, "{cases:>6}  {reason}")?;
        }
        let (suite, columns) = ("suite", ["cases", "passed", "failed", "skipped", "not built", "unjudged"]);
        write!(formatter, "\n{suite:<36}")?;
        columns.iter().try_for_each(|column| write!(formatter, "{column:>10}"))?;
        writeln!(formatter)?;
        let total = ("total", self.total());
        let rows = self.counts();
        for (name, counts) in rows.iter().map(|(suite, counts)| (suite.folder(), *counts)).chain([total]) {
            write!(formatter, "{name:<36}{:>10}{:>10}", counts.cases, counts.passed)?;
            write!(formatter, "{:>10}{:>10}", counts.failed, counts.skipped)?;
            writeln!(formatter, "{:>10}{:>10}", counts.not_built, counts.not_compared)?;
        }
        writeln!(formatter, "\nunjudged: refusals whose reason could not be compared, steps that no chain can take")?;
        write!(formatter, "{:.1} s", self.elapsed.as_secs_f64())
    }
}

//! Running all wanted cases in parallel.

use std::time::Instant;

use rayon::prelude::*;

use crate::{CaseReport, Report, Selection, Source, Suite};

/// Runs the wanted cases on the current rayon pool.
pub fn run(source: &Source, selection: &Selection) -> Report {
    let start = Instant::now();
    let files: Vec<_> = source
        .files
        .iter()
        .filter_map(|file| Suite::of_path(&file.path).map(|suite| (suite, file)))
        .filter(|(suite, file)| selection.wants_file(*suite, &file.path))
        .collect();
    let mut cases: Vec<CaseReport> =
        files.into_par_iter().flat_map_iter(|(suite, file)| suite.run(file, selection)).collect();
    cases.sort_by(|left, right| (left.suite, &left.name).cmp(&(right.suite, &right.name)));
    Report { cases, elapsed: start.elapsed() }
}

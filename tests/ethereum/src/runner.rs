//! Runs all selected cases in parallel.

use std::{collections::BTreeMap, time::Instant};

use rayon::prelude::*;

use crate::{CaseReport, Report, Selection, Source, Suite};

/// Runs the selected cases on the current rayon pool.
pub fn run(source: &Source, selection: &Selection) -> Report {
    let start = Instant::now();
    let mut files = Vec::new();
    let mut strange_files: BTreeMap<String, u64> = BTreeMap::new();
    for file in &source.files {
        match Suite::in_path(&file.path) {
            Some((suite, _)) if selection.wants_file(suite, &file.path) => files.push((suite, file)),
            None if selection.is_of_everything() => *strange_files.entry(folder_of(&file.path)).or_default() += 1,
            _ => {}
        }
    }
    let mut cases: Vec<CaseReport> =
        files.into_par_iter().flat_map_iter(|(suite, file)| suite.run(file, selection)).collect();
    cases.sort_by(|left, right| (left.suite, &left.name).cmp(&(right.suite, &right.name)));
    Report { cases, strange_files, elapsed: start.elapsed() }
}

/// The outermost two folders of a path, which normally name a suite.
fn folder_of(path: &str) -> String {
    let folders = path.rsplit_once('/').map_or(".", |(folders, _)| folders);
    folders.split('/').take(2).collect::<Vec<_>>().join("/")
}

//! The summary of a run.

use std::{collections::BTreeMap, sync::atomic::Ordering};

use crate::{
    modules::{OperationKind, SUBJECTS},
    node::Sample,
    operations::Operation,
    tally::Tally,
};

/// How much the 99th percentile may exceed that of the quiet run, microseconds.
const MAX_SLOWDOWN: u64 = 1000;
/// How much memory may grow during the replacements, KiB. It includes blocks and transactions made meanwhile.
const MAX_GROWTH: u64 = 32 * 1024;
/// How many more files may be open: the database opens and closes some itself.
const MAX_MORE_FILES: usize = 16;

/// Counts other than those of answers.
pub(crate) struct Figures {
    pub(crate) seed: u64,
    pub(crate) operations: BTreeMap<Operation, u32>,
    pub(crate) samples: Vec<Sample>,
}

/// Prints the summary, and returns whether the run passed.
pub(crate) fn report(tally: &Tally, figures: &Figures, is_timed: bool) -> bool {
    let mut problems = Vec::new();
    answers(tally, is_timed, &mut problems);
    samples(&figures.samples, is_timed, &mut problems);

    let operations: Vec<_> =
        figures.operations.iter().map(|(operation, count)| format!("{count} × {}", operation.name())).collect();
    println!("\noperations: {}", operations.join(", "));
    let (given, twice, left_out) = tally.numbers();
    println!("counter: {given} numbers over all replacements, {twice} given twice, {left_out} left out");
    if twice + left_out > 0 {
        problems.push(format!("the counter gave {twice} numbers twice and left {left_out} out"));
    }
    let heads = tally.heads.load(Ordering::Relaxed);
    println!("subscription: {heads} blocks followed, each once, none left out");
    if heads == 0 {
        problems.push("no block was announced".to_owned());
    }
    if problems.is_empty() {
        // In the format of other test suites, for counting.
        println!(
            "\n{} passed: operations under load, with every answer meanwhile. No problems.",
            figures.operations.values().sum::<u32>()
        );
    } else {
        println!("\nProblems (repeat with --seed {}):", figures.seed);
        problems.iter().for_each(|problem| println!("  {problem}"));
    }
    problems.is_empty()
}

fn answers(tally: &Tally, is_timed: bool, problems: &mut Vec<String>) {
    println!("\nanswers of each module; p50 and p99 in microseconds, without operations → with them");
    println!(
        "{:<9} {:<26} {:>10} {:>10} {:>7}  {:>15}  {:>17}",
        "module", "operations on it", "right", "allowed", "wrong", "p50", "p99"
    );
    for (subject, answers) in SUBJECTS.iter().zip(tally.answers()) {
        let fate = match subject.operation_kind {
            OperationKind::Untouched => "none",
            OperationKind::Replaced => "replaced",
            OperationKind::Switched => "on, off, loaded, replaced",
            OperationKind::Killed => "as well, killed, crashed",
        };
        let pair = |percent| (answers.quiet.percentile(percent), answers.busy.percentile(percent));
        let (p50, p99) = (pair(50), pair(99));
        let both = |pair: (Option<u64>, Option<u64>)| match pair {
            (Some(quiet), Some(busy)) => format!("{quiet} → {busy}"),
            _ => "-".to_owned(),
        };
        let (right, allowed, wrong) = (answers.right, answers.allowed, answers.wrong);
        println!(
            "{:<9} {fate:<26} {right:>10} {allowed:>10} {wrong:>7}  {:>15}  {:>17}",
            subject.name,
            both(p50),
            both(p99)
        );
        if wrong > 0 {
            problems.push(format!("{}: {wrong} wrong answers", subject.name));
        }
        if right == 0 && subject.name != "admin" {
            problems.push(format!("{}: not one right answer", subject.name));
        }
        if let (true, OperationKind::Untouched, (Some(quiet), Some(busy))) = (is_timed, subject.operation_kind, p99)
            && busy > quiet + MAX_SLOWDOWN
        {
            problems.push(format!("{}: p99 {busy} µs with operations, {quiet} µs without", subject.name));
        }
    }
}

fn samples(samples: &[Sample], is_timed: bool, problems: &mut Vec<String>) {
    println!(
        "\nthe node after each tenth of the replacements\n{:>12} {:>14} {:>11} {:>8}",
        "replacements", "memory, MiB", "open files", "threads"
    );
    for Sample { replacements, memory, open_files, threads } in samples {
        println!("{replacements:>12} {:>14.1} {open_files:>11} {threads:>8}", *memory as f64 / 1024.0);
    }
    // The first tenth maps the second build of everything.
    let [_, first, .., last] = samples else { return };
    if last.open_files > first.open_files + MAX_MORE_FILES {
        problems.push(format!("open files grew from {} to {}", first.open_files, last.open_files));
    }
    if is_timed && last.memory > first.memory + MAX_GROWTH {
        problems.push(format!("memory grew from {} KiB to {} KiB", first.memory, last.memory));
    }
}

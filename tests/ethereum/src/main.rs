//! `ethereum-tests`: runs the public suites and reports cases with unexpected results.

#![forbid(unsafe_code)]

use std::{error::Error, fs, path::PathBuf, process::ExitCode};

use clap::Parser;
use tenon_ethereum_tests::{Selection, Skips, Source, Suite, run};

/// Cases are work-stolen in the middle of their work, so several may be on one stack.
const STACK_BYTES: usize = 64 << 20;

#[derive(Parser)]
#[command(about = "Runs the public suites of ethereum/tests against the modules of the node")]
struct Arguments {
    /// Only this suite, for example GeneralStateTests or BlockchainTests/InvalidBlocks; may be repeated
    #[arg(long)]
    suite: Vec<Suite>,
    /// Only cases whose name (path of the file, colon, name there) contains this
    #[arg(long)]
    filter: Option<String>,
    /// Writes every case and the counts to this file
    #[arg(long)]
    report: Option<PathBuf>,
    /// Threads [default: one per processor]
    #[arg(long)]
    jobs: Option<usize>,
    /// Files of this folder, or this one file, instead of the project's; folders named as in ethereum/tests, at any
    /// depth, determine a file's suite
    #[arg(long)]
    data: Option<PathBuf>,
    /// Also runs the cases of skips.toml
    #[arg(long)]
    with_skipped: bool,
}

fn main() -> ExitCode {
    match start(Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ethereum-tests: {error}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether no case failed.
fn start(arguments: Arguments) -> Result<bool, Box<dyn Error>> {
    let source = match &arguments.data {
        Some(folder) => Source::folder(folder)?,
        None => Source::packed()?,
    };
    let selection = Selection {
        suites: arguments.suite,
        filter: arguments.filter,
        files: Vec::new(),
        skips: Skips::of_project()?,
        with_skipped: arguments.with_skipped,
    };
    let threads = arguments.jobs.unwrap_or_default();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).stack_size(STACK_BYTES).build()?;
    // A panic becomes the failure of its case, which is more informative than the default message.
    std::panic::set_hook(Box::new(|_| {}));
    let report = pool.install(|| run(&source, &selection));
    println!("{report}");
    if let Some(path) = arguments.report {
        fs::write(&path, report.to_json().to_string()).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if report.cases.is_empty() {
        return Err("no case has this name".into());
    }
    Ok(report.failures().next().is_none())
}

//! `tenon-bench-import`: how fast do blocks come in, and what of it is recovery, execution, state root and commit?
//!
//! `make` writes a heavy chain of the Ethereum profile and its genesis. `together` imports a chain as the node does,
//! with everything overlapped. `alone` does one part after the other on the thread that it is given, and says what
//! each took: pinned to one core, their sum is what the overlap is measured against. Each is a process of its own, so
//! that peak memory is that of the import. All print one line of JSON; `benches/importing.py` puts them together.

#![forbid(unsafe_code)]

mod alone;
mod chain;
mod heavy;
mod together;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand};

/// The node's, so that what is measured is what runs.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

#[derive(Parser)]
#[command(about = "Measures the import of chains")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Writes genesis.json and chain.rlp of a chain of transfers, token transfers, storage writes and creations
    Make(heavy::Plan),
    /// Imports a chain with everything overlapped
    Together(Source),
    /// Imports a chain one part after the other
    Alone(Source),
}

/// What is imported, and where to.
#[derive(Args)]
struct Source {
    /// Genesis file, gzip or not
    #[arg(long)]
    genesis: PathBuf,
    /// Blocks as RLP, gzip or not
    #[arg(long)]
    chain: PathBuf,
    /// Folder of the database; made, and left to the caller
    #[arg(long)]
    datadir: PathBuf,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Make(plan) => heavy::make(&plan),
        Command::Together(source) => together::measure(&source),
        Command::Alone(source) => alone::measure(&source),
    };
    match outcome {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("tenon-bench-import: {error}");
            ExitCode::FAILURE
        }
    }
}

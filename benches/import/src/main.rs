//! `tenon-bench-import`: measures the import of blocks, and its parts: recovery, execution, state root and commit.
//!
//! `make` writes a heavy chain of the Ethereum profile and its genesis. `together` imports a chain like the node, with
//! all steps overlapped. `alone` runs one step after the other on its thread, and reports the time of each: pinned to
//! one core, their sum is the baseline for the overlap. `mainnet` makes and imports a chain like the main network's. Each
//! is a separate process, so that peak memory is that of the import. All print one line of JSON; `benches/importing.py`
//! combines them.

#![forbid(unsafe_code)]

mod alone;
mod chain;
mod heavy;
mod mainnet;
mod together;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand};

/// The node's allocator, so that the measurement is representative.
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
    /// Imports a chain one step after the other
    Alone(Source),
    /// Makes and imports a chain like the main network's
    #[command(subcommand)]
    Mainnet(mainnet::Command),
}

/// Source and destination of the import.
#[derive(Args)]
struct Source {
    /// Genesis file, gzip or not
    #[arg(long)]
    genesis: PathBuf,
    /// Blocks as RLP, gzip or not
    #[arg(long)]
    chain: PathBuf,
    /// Folder of the database; created, and not removed
    #[arg(long)]
    datadir: PathBuf,
}

/// The error of a made block that lacks transactions: they did not fit or were not valid.
fn traffic_error(number: u64, found: usize, wanted: usize) -> Box<dyn std::error::Error> {
    format!("block {number} took {found} of {wanted} transactions").into()
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Make(plan) => heavy::make(&plan),
        Command::Together(source) => together::measure(&source),
        Command::Alone(source) => alone::measure(&source),
        Command::Mainnet(command) => mainnet::execute(&command),
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

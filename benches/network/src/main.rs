//! `tenon-bench-network`: measures what the network part costs: votes, frames, and a running node among scripted peers.
//!
//! `votes` and `frames` run the node's own code in this process. The other commands connect peers to a node that
//! `benches/network.py` has started. Every command prints one line of JSON; `benches/network.py` combines them.
//!
//! Invariant: the peers speak through the node's own transport and messages (`tenon-network-rlpx`, `tenon-network-wire`)
//! and contain no rule of the protocol.

#![forbid(unsafe_code)]

mod blocks;
mod frames;
mod processor;
mod votes;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The node's allocator, so that the measurement is representative.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

#[derive(Parser)]
#[command(about = "Measures the network part of the node")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Votes of 108 masternodes: verified, and dropped as duplicates
    Votes(votes::Plan),
    /// Received frames, compared with cipher, MAC and Snappy alone
    Frames(frames::Plan),
}

fn execute(command: &Command) -> Outcome<serde_json::Value> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    match command {
        Command::Votes(plan) => runtime.block_on(votes::measure(plan)),
        Command::Frames(plan) => frames::measure(plan),
    }
}

fn main() -> ExitCode {
    match execute(&Arguments::parse().command) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("tenon-bench-network: {error}");
            ExitCode::FAILURE
        }
    }
}

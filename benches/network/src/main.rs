//! `tenon-bench-network`: measures the cost of the network part: votes, frames, and a running node with scripted peers.
//!
//! `votes` and `frames` run the node's own code in this process. The other commands connect peers to a node that
//! `benches/network.py` has started. Every command prints one line of JSON; `benches/network.py` combines them.
//!
//! Invariant: the peers speak through the node's own transport and messages (`tenon-network-rlpx`, `tenon-network-wire`)
//! and contain no rule of the protocol.

#![forbid(unsafe_code)]

mod blocks;
mod busy;
mod frames;
mod idle;
mod live;
mod peer;
mod processor;
mod serving;
mod syncing;
mod votes;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The node's allocator, so that the measurement is representative.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

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
    /// Answers of 192 headers and of 128 bodies per second
    Serving(serving::Plan),
    /// Serves a file's blocks to a node that syncs, until the input ends
    Syncing(syncing::Plan),
    /// Keeps a node busy, until the input ends
    Busy(busy::Plan),
    /// Peers that only answer Pings, until the input ends
    Idle(idle::Plan),
    /// From a block's arrival to its relay to 24 peers, and to the node's own vote
    Live(live::Plan),
    /// From the due times of a node's own blocks to their arrival
    Watch(watch::Plan),
    /// The transactions of a file's blocks, encoded
    Raw(watch::Raw),
}

fn execute(command: &Command) -> Outcome<serde_json::Value> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    match command {
        Command::Votes(plan) => runtime.block_on(votes::measure(plan)),
        Command::Frames(plan) => frames::measure(plan),
        Command::Serving(plan) => runtime.block_on(serving::measure(plan)),
        Command::Syncing(plan) => runtime.block_on(syncing::run(plan)),
        Command::Busy(plan) => runtime.block_on(busy::run(plan)),
        Command::Idle(plan) => runtime.block_on(idle::run(plan)),
        Command::Live(plan) => runtime.block_on(live::measure(plan)),
        Command::Watch(plan) => runtime.block_on(watch::measure(plan)),
        Command::Raw(plan) => watch::raw(plan),
    }
}

/// Waits for the end of the input, by which the caller ends a command.
async fn input_ends() -> Outcome<()> {
    tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await??;
    Ok(())
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

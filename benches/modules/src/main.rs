//! Modules under load: they are enabled, disabled, replaced, unloaded, loaded, killed and crashed at random while many
//! connections make requests over HTTP, WebSocket and the Unix socket at full speed and blocks arrive.
//!
//! It owns the node that it starts. Invariants: every single answer is checked, against the method's specification and
//! against what the operations of that moment allow; a run can be repeated by its seed, which is printed first.

#![forbid(unsafe_code)]

mod connection;
mod methods;
mod modules;
mod node;
mod operations;
mod report;
mod tally;
mod workers;

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use clap::Parser;

use crate::{
    node::{Node, Sample},
    operations::Operator,
    report::{Figures, report},
    tally::Tally,
    workers::Load,
};

/// Any error that stops the run.
type Error = Box<dyn std::error::Error + Send + Sync>;

/// Modules under load: 64 connections, blocks, and life-cycle operations at random; every answer checked.
#[derive(Clone, Debug, Parser)]
struct Arguments {
    /// The program.
    #[arg(long)]
    tenon: PathBuf,
    /// Folder with the libraries of the plugins.
    #[arg(long)]
    libraries: PathBuf,
    /// Life-cycle operations at random.
    #[arg(long, default_value_t = 1000)]
    operations: u32,
    /// Replacements after them, during which memory and open files are watched.
    #[arg(long, default_value_t = 1000)]
    replacements: u32,
    /// Connections, a third each over HTTP, WebSocket and the socket.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Seconds of load without operations, as baseline.
    #[arg(long, default_value_t = 10)]
    quiet: u64,
    /// Milliseconds between blocks.
    #[arg(long, default_value_t = 200)]
    block_time: u64,
    /// Repeats a run.
    #[arg(long)]
    seed: Option<u64>,
    /// Also check p99 and memory against their limits. Counts and open files are always checked.
    #[arg(long)]
    timed: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run(arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("the run failed: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<bool, Error> {
    let seed = arguments.seed.unwrap_or_else(rand::random);
    println!("seed {seed}: repeat this run with --seed {seed}");
    let node = Node::start(&arguments).await?;
    let tally = Arc::new(Tally::default());
    let load = Load::start(&node, &arguments, &tally, seed).await?;
    println!("{} connections ask; blocks every {} ms", arguments.connections, arguments.block_time);

    tokio::time::sleep(Duration::from_secs(arguments.quiet)).await;
    tally.begin_operations();
    let mut operator = Operator::connect(&node, &tally, seed).await?;
    println!("\n  time     operation");
    operator.at_random(arguments.operations).await?;
    operator.enable_all().await?;
    let samples = replace(&node, &mut operator, arguments.replacements).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    load.stop().await?;
    operator.check_all_serve().await?;
    let figures = Figures { seed, operations: operator.counts(), samples };
    let is_good = report(&tally, &figures, arguments.timed);
    node.stop().await?;
    Ok(is_good)
}

/// Replaces modules repeatedly, and samples the node's memory and open files.
async fn replace(node: &Node, operator: &mut Operator, count: u32) -> Result<Vec<Sample>, Error> {
    let mut samples = Vec::new();
    // The first replacements have permanent effects: both builds are mapped, buffers have grown.
    let steps = 10;
    for step in 0..=steps {
        samples.push(Sample { replacements: operator.replacements(), ..node.sample()? });
        if step < steps {
            operator.replace(count / steps).await?;
        }
    }
    Ok(samples)
}

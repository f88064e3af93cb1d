//! `tenon-bench`: client and baseline server of an end-to-end measurement.
//!
//! `limit` is a server with a constant answer, over HTTP and a Unix socket: the upper limit for any node on this
//! machine. `load` sends one request after another on many connections, over HTTP, WebSocket or a Unix socket, and
//! prints requests per second and latencies as JSON. `benches/run.py` combines them and prints ratios of one run.

#![forbid(unsafe_code)]

mod limit;
mod load;

use std::{net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Load generator and upper limit for the end-to-end measurements")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serves a constant answer over HTTP, on a port that it prints, and over a Unix socket
    Limit {
        /// Path of the Unix socket to create
        #[arg(long)]
        unix: PathBuf,
    },
    /// Sends requests and prints the results
    Load {
        /// Address of an HTTP server
        #[arg(long, group = "target")]
        http: Option<SocketAddr>,
        /// Address of a WebSocket server
        #[arg(long, group = "target")]
        ws: Option<SocketAddr>,
        /// Path of a Unix socket
        #[arg(long, group = "target", required_unless_present_any = ["http", "ws"])]
        unix: Option<PathBuf>,
        /// The JSON-RPC request
        #[arg(long)]
        body: String,
        /// Connections, each with one request in flight
        #[arg(long, default_value_t = 64)]
        connections: usize,
        /// Seconds to measure, after a tenth of it as warm-up
        #[arg(long, default_value_t = 5.0)]
        seconds: f64,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Limit { unix } => limit::serve(&unix),
        Command::Load { http, ws, unix, body, connections, seconds } => {
            let target = match (http, ws, unix) {
                (Some(address), ..) => load::Target::Http(address),
                (_, Some(address), _) => load::Target::WebSocket(address),
                (.., Some(path)) => load::Target::Unix(path),
                (None, None, None) => return ExitCode::from(2),
            };
            load::run(&target, &body, connections, Duration::from_secs_f64(seconds)).map(|report| println!("{report}"))
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tenon-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

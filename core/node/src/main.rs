//! `tenon`, the program: command line and wiring, nothing else.
//!
//! It owns the order in which the crates are started and stopped, the data folder's layout, and the texts and exit
//! codes for the operator. The crates that it combines do all other work.
//!
//! Invariants:
//!
//! - A component is started after the ones that it needs, and stopped before them.
//! - A signal stops the node in order within a time limit; a second one stops it immediately.
//! - An error shown to the operator says what happened, to which thing, and what to do.
//! - No crate depends on this one.

#![forbid(unsafe_code)]
// `eprintln!` ends the program if standard error refuses a write: log_output.rs.
#![deny(clippy::print_stderr)]

mod actor_reports;
mod allocator;
mod backup;
mod backup_source;
mod block_log;
mod bounded_file;
mod chain_files;
mod checkpoints;
mod command_line;
#[cfg(test)]
mod command_line_page;
mod commands;
mod core_files;
mod data_folder;
mod development_log;
mod devices;
mod endpoints;
mod exit;
mod exposure;
mod family;
mod file_sizes;
mod front_end_modules;
mod front_ends;
mod health;
mod live_settings;
mod log_file;
mod log_output;
mod logging;
mod machine;
mod metrics;
mod module_actors;
mod new_folder;
mod node;
mod node_client;
mod node_facts;
mod open_files;
mod opened_chain;
mod output_file;
mod own_paths;
mod panics;
mod passwords;
mod peer_network;
mod plugin_folder;
mod pool_settings;
mod process_facts;
mod profiles;
mod reference_words;
mod reload;
mod restoring;
mod rules_in_force;
mod running_nodes;
mod sealing;
mod service_manager;
mod setting_changes;
mod shutdown;
mod snapshot;
mod start_lines;
mod synced_files;
mod terminal_text;
mod version;
mod wallets;

use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::exit::Stop;

fn main() -> ExitCode {
    panics::install_panic_hook();
    core_files::refuse();
    if commands::plugin_child::is_wanted(std::env::args_os()) {
        return exit_code(commands::plugin_child::execute());
    }
    if commands::script_child::is_wanted(std::env::args_os()) {
        return exit_code(commands::script_child::execute());
    }
    file_sizes::refuse_without_signal();
    match command_line::definition().try_get_matches() {
        Ok(matches) => exit_code(command_line::dispatch(&matches)),
        // Help and version are "errors" of clap's too, with exit code 0; a closed pipe is no error.
        Err(error) if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let printed = error.print();
            if error.use_stderr() { ExitCode::from(2) } else { exit_code(commands::finish_printing(printed)) }
        }
        Err(error) => exit_code(Err(Stop::Usage(usage_problem(&error)))),
    }
}

/// The problem with the command line, in the common style of error lines.
fn usage_problem(error: &clap::Error) -> String {
    let first = std::env::args_os().nth(1);
    if let Some(answer) = reference_words::answer(error, first.as_ref().and_then(|first| first.to_str())) {
        return answer;
    }
    let text = error.render().to_string();
    text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned()
}

fn exit_code(outcome: Result<(), Stop>) -> ExitCode {
    let code = match outcome {
        Ok(()) => 0,
        Err(stop) => {
            log_output::eprint_line(&format!("tenon: {stop}"));
            stop.exit_code()
        }
    };
    log_file::finish();
    shutdown::leave_unfinished_threads(code);
    ExitCode::from(code)
}

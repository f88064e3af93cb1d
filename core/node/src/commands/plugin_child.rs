//! `tenon plugin-child`: what the node starts for a plugin with `isolation = "process"`. Hidden, and of no use to people.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command, value_parser};

use crate::exit::Stop;

/// As the node starts it; the library is there for lists of processes.
pub(crate) fn definition() -> Command {
    Command::new("plugin-child")
        .about("Run one plugin for a node that holds the other end of standard input")
        .hide(true)
        .arg(Arg::new("library").value_name("PATH").value_parser(value_parser!(PathBuf)))
}

/// Serves until the node says stop or has gone.
pub(crate) fn execute(_matches: &ArgMatches) -> Result<(), Stop> {
    tenon_host::run_plugin_child()
        .map_err(|error| Stop::Failure(format!("plugin-child: {error}; the node starts this command, not people")))
}

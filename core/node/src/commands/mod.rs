//! The subcommands: each file defines and implements one.

pub(crate) mod account;
mod argument_values;
mod columns;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod db;
mod db_backup;
pub(crate) mod dev;
pub(crate) mod device;
pub(crate) mod export;
pub(crate) mod genesis;
mod genesis_checks;
mod genesis_page;
mod genesis_subject;
pub(crate) mod import;
pub(crate) mod module;
pub(crate) mod module_check;
pub(crate) mod module_new;
pub(crate) mod peers;
pub(crate) mod plugin_child;
pub(crate) mod run;
mod run_node;
pub(crate) mod script_child;
pub(crate) mod signer;
pub(crate) mod snapshot;
mod start_genesis;
pub(crate) mod verify_headers;

use std::io::{ErrorKind, IsTerminal as _, Write as _};

use clap::ArgMatches;

use crate::exit::Stop;
use crate::terminal_text::without_control_characters;

/// The command of a group such as `tenon db`. The command line requires one.
fn subcommand<'a>(group: &str, matches: &'a ArgMatches) -> Result<(&'a str, &'a ArgMatches), Stop> {
    let none = || Stop::Usage(format!("tenon {group}: no command given; `tenon {group} --help` lists them"));
    matches.subcommand().ok_or_else(none)
}

/// Writes to standard output, to a terminal without control characters. A closed reader (`tenon … | head`) is not an
/// error.
pub(crate) fn print(bytes: &[u8]) -> Result<(), Stop> {
    let mut output = std::io::stdout().lock();
    let written = if output.is_terminal() {
        output.write_all(without_control_characters(&String::from_utf8_lossy(bytes)).as_bytes())
    } else {
        output.write_all(bytes)
    };
    finish_printing(written)
}

/// Flushes standard output after this result of writing to it. A closed pipe is no error.
///
/// # Errors
/// [`Stop::Failure`] with the system's error.
pub(crate) fn finish_printing(written: std::io::Result<()>) -> Result<(), Stop> {
    match written.and_then(|()| std::io::stdout().flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Stop::failure(format!("standard output: {error}"))),
        _ => Ok(()),
    }
}

//! `tenon signer`: what stands before a key.

mod audit;
mod policy;

use clap::{ArgMatches, Command};

use crate::exit::Stop;

pub(crate) fn definition() -> Command {
    Command::new("signer")
        .about("Rules for signing and the log of signatures: check them, and see what a policy decides")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([policy::definition(), audit::definition()])
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    match matches.subcommand() {
        Some(("policy", matches)) => policy::execute(matches),
        Some(("audit", matches)) => audit::execute(matches),
        _ => Err(Stop::Usage("tenon signer: which command?".into())),
    }
}

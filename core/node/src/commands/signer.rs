//! `tenon signer`: what stands before a key.

mod policy;

use clap::{ArgMatches, Command};

use crate::exit::Stop;

pub(crate) fn definition() -> Command {
    Command::new("signer")
        .about("Rules for signing: check a policy, and see what it decides and what a person would read")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(policy::definition())
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    match matches.subcommand() {
        Some(("policy", matches)) => policy::execute(matches),
        _ => Err(Stop::Usage("tenon signer: which command?".into())),
    }
}

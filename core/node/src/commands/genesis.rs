//! `tenon genesis`: examines a genesis file without a data folder.

use clap::{Arg, ArgAction, ArgMatches, Command};
use tenon_api::B256;

use super::argument_values::hash;
use super::genesis_subject::Subject;
use super::{genesis_checks, genesis_page};
use crate::commands::print;
use crate::exit::Stop;

const EXAMPLES: &str = "\
Examples:
  tenon genesis verify genesis.json                 print hash and state root, and check the file
  tenon genesis verify genesis.json --expect 0x4a9d…
  tenon genesis show testnet                        print the start of a network as tables
  tenon genesis show genesis.json --json            the same as JSON";

pub(crate) fn definition() -> Command {
    let name = || {
        Arg::new("name")
            .value_name("NAME|FILE")
            .required(true)
            .help("mainnet, testnet, devnet, devnet-5551, or a genesis file")
    };
    let json = || Arg::new("json").long("json").action(ArgAction::SetTrue).help("One JSON object");
    let expect = Arg::new("expect")
        .long("expect")
        .value_name("HASH")
        .value_parser(hash)
        .help("Expected hash of block 0; for a public network it is built in");
    Command::new("genesis")
        .about("Check a genesis file, or print block 0 and the rules of a network")
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("verify")
                .about(
                    "Compute hash and state root, compare them with the known ones, and check what the chain \
                    requires",
                )
                .arg(name())
                .arg(expect)
                .arg(json()),
        )
        .subcommand(Command::new("show").about("Print block 0, forks and consensus parameters").arg(name()).arg(json()))
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    let (command, matches) = super::subcommand("genesis", matches)?;
    let name = matches.get_one::<String>("name").cloned().unwrap_or_default();
    let subject = Subject::read(&name)?;
    let is_json = matches.get_flag("json");
    if command == "show" {
        let text = if is_json { genesis_page::as_json(&subject) } else { genesis_page::as_table(&subject) };
        return print(text.as_bytes());
    }
    let checks = genesis_checks::run(&subject, matches.get_one::<B256>("expect").copied());
    let text =
        if is_json { genesis_checks::as_json(&subject, &checks) } else { genesis_checks::as_table(&subject, &checks) };
    print(text.as_bytes())?;
    match checks.iter().filter(|check| !check.is_passed).count() {
        0 => Ok(()),
        failed => Err(Stop::Failure(format!("{name}: {failed} of {} checks failed", checks.len()))),
    }
}

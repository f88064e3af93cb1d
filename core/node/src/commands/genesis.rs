//! `tenon genesis`: examines a genesis file without a data folder.

use std::sync::Arc;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use tenon_api::{B256, SealedHeader};
use tenon_chain::{Genesis, GenesisAccount};
use tenon_config::{Network, Origin};

use super::{genesis_checks, genesis_page};
use crate::bounded_file;
use crate::commands::print;
use crate::exit::Stop;
use crate::family::{NodeFamily, PublicNetwork, family_of, read_genesis};
use crate::opened_chain::public_genesis;

const EXAMPLES: &str = "\
Examples:
  tenon genesis verify genesis.json                 print hash and state root, and check the file
  tenon genesis verify genesis.json --expect 0x4a9d…
  tenon genesis show testnet                        print the start of a network as tables
  tenon genesis show genesis.json --json            the same as JSON";

/// A genesis and the facts derived from it.
pub(super) struct Subject {
    /// The operator's name for it.
    pub(super) name: String,
    /// The public network, if its name was given.
    pub(super) network: Option<PublicNetwork>,
    /// The family of the chain.
    pub(super) family: Arc<dyn NodeFamily>,
    /// The content of the file.
    pub(super) genesis: Genesis,
    /// Block 0.
    pub(super) block: SealedHeader,
}

impl Subject {
    /// Reads a genesis file, or the one of a public network.
    fn read(name: &str) -> Result<Self, Stop> {
        let origin = Origin::Flag("NAME|FILE".into());
        let wrong = |error: &dyn std::fmt::Display| Stop::Failure(format!("{name}: {error}"));
        let (text, network) = match Network::by_name(name, &origin)? {
            Network::Public(own) => (public_genesis(own)?, PublicNetwork::by_name(own)),
            Network::File(path) => (bounded_file::genesis(path.as_ref()).map_err(|error| wrong(&error))?, None),
            Network::Dev => {
                return Err(Stop::Usage(
                    "the genesis of a development network depends on its settings; `tenon dev --datadir DIR` writes \
                     it to genesis.json in the data folder"
                        .into(),
                ));
            }
        };
        let genesis = read_genesis(&text).map_err(|error| wrong(&error))?;
        let block = genesis.sealed_header().map_err(|error| wrong(&error))?;
        let family = family_of(&genesis.spec);
        Ok(Self { name: name.to_owned(), network, family, genesis, block })
    }

    /// The accounts that have code.
    pub(super) fn contracts(&self) -> impl Iterator<Item = &GenesisAccount> {
        self.genesis.alloc.values().filter(|account| !account.code.is_empty())
    }
}

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
        .value_parser(value_parser!(B256))
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
    let Some((command, matches)) = matches.subcommand() else {
        return Err(Stop::Usage("tenon genesis: no command given; `tenon genesis --help` lists them".into()));
    };
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

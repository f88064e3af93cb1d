//! `tenon run`.

use std::sync::Arc;

use clap::{ArgMatches, Command};

use tenon_config::{Layers, Resolved};

use super::run_node::run_node;
use super::start_genesis::chosen_genesis;
use crate::command_line;
use crate::data_folder::DataFolder;
use crate::exit::Stop;
use crate::family::voting;
use crate::new_folder::NewFolder;
use crate::node::{NodePlan, Role};
use crate::opened_chain::OpenedChain;
use crate::reload::SettingsSource;
use crate::{log_file, logging, machine, open_files, start_lines};

const EXAMPLES: &str = "\
Examples:
  tenon run --genesis genesis.json --datadir /var/lib/tenon    the first start chooses the chain
  tenon run --http.addr 0.0.0.0 --http.vhosts node.example.org --http.api eth,net,web3,txpool
  tenon run --http=false --ws=false                            the Unix socket only";

/// Flags in `-h`; `--help` shows all.
const PROMINENT: &[&str] = &[
    "datadir",
    "network",
    "genesis",
    "database.mode",
    "http.enabled",
    "http.addr",
    "http.port",
    "http.api",
    "http.corsdomain",
    "ws.enabled",
    "ws.addr",
    "ws.port",
    "ws.api",
    "ipc.path",
    "ipc.disabled",
    "plugins.dir",
    "log.verbosity",
];

pub(crate) fn definition() -> Command {
    let command = Command::new("run")
        .about("Run a node: serve the chain of a data folder, and with --p2p follow its network")
        .after_help(EXAMPLES);
    tenon_config::add_flags(
        command,
        |row| row.section != "Development network",
        |row| PROMINENT.contains(&row.key),
        &[],
    )
}

fn settings(matches: &ArgMatches) -> Result<Resolved, Stop> {
    command_line::settings(Layers::new("run"), matches).and_then(command_line::check_settings_file)
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    let mut resolved = settings(matches)?;
    logging::start(&resolved.settings.log)?;
    let again = matches.clone();
    let read = move || settings(&again).map(|resolved| resolved.settings);
    let source = SettingsSource::new(resolved.settings.clone(), read);
    machine::check_socket(&resolved.settings)?;
    open_files::raise_limit_and_fit_settings(&mut resolved.settings)?;
    // Declared first, so that it is dropped last, when nothing in the folder is open any more.
    let mut new_folder = NewFolder::make(&resolved.settings.node.datadir)?;
    let folder = DataFolder::create(&resolved.settings.node.datadir)?;
    let genesis = chosen_genesis(&resolved, &folder)?;
    let chain = OpenedChain::open_new(&resolved.settings, &folder, &genesis, &mut new_folder)?;
    log_file::start(&resolved.settings)?;
    start_lines::starting(&resolved.settings, &folder, &chain);
    // With a key in the settings it votes, even if it is the only masternode.
    let masternode = if voting::has_key(&resolved.settings) { None } else { chain.one_masternode()? };
    let engine = masternode.as_ref().map_or_else(|| chain.checking_engine(), |own| Arc::clone(&own.engine));

    let role = Role::Follow { masternode };
    let plan = NodePlan { settings: resolved.settings, folder, chain, engine, role, source };
    run_node(plan, Some(&mut new_folder), &resolved.warnings, |node| {
        start_lines::no_network(node.health());
        start_lines::serving(&node.endpoints());
    })
}

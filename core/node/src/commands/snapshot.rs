//! `tenon snapshot create`, `tenon snapshot verify`, `tenon snapshot restore`.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use tenon_api::B256;
use tenon_config::{Layers, Settings, add_flags};

use crate::backup::Manifest;
use crate::checkpoints;
use crate::command_line::{self, is_database_setting};
use crate::commands::argument_values::hash;
use crate::commands::{db_backup, print};
use crate::data_folder::DataFolder;
use crate::exit::Stop;
use crate::front_ends::absolute;
use crate::snapshot::{self, Checked, SnapshotRequirements};
use crate::{logging, own_paths, shutdown};

const EXAMPLES: &str = "\
Examples:
  tenon snapshot create /mnt/snapshots/monday           a folder, also while the node runs; run again to continue
  tenon snapshot create /mnt/snapshots/monday.tar.gz    the same as one compressed file
  tenon snapshot verify /mnt/snapshots/monday.tar.gz    read every part and compute the state root again
  tenon snapshot restore monday.tar.gz --trust-hash 0x…  start a data folder from it if its head has this hash";

pub(crate) fn definition() -> Command {
    let trust = Arg::new("trust-hash").long("trust-hash").value_name("HASH").value_parser(hash).help(
        "Expected hash of the head, from a source that you trust; replaces the check of the certificate in the \
            head",
    );
    let without_state = Arg::new("without-state")
        .long("without-state")
        .action(ArgAction::SetTrue)
        .help("Do not compute the state root again; trust the state in the snapshot");
    let with_settings = |command| {
        add_flags(command, |row| is_database_setting(row) || row.key == "ipc.path", |row| row.key == "datadir", &[])
    };
    Command::new("snapshot")
        .about("Create a snapshot of a chain for other machines, check one, or start a data folder from one")
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(with_settings(
            Command::new("create")
                .about("Create a snapshot, also while the node runs; can be interrupted and run again")
                .arg(place("An empty or new folder, or a new file: NAME.tar.gz or NAME.tgz")),
        ))
        .subcommand(with_settings(
            Command::new("verify")
                .about(
                    "Compare every part of a snapshot with its list, compute the state root again, and check the head",
                )
                .arg(place("The snapshot"))
                .arg(trust.clone()),
        ))
        .subcommand(with_settings(
            Command::new("restore")
                .about("Start a data folder without a chain from a snapshot; can be interrupted and run again")
                .arg(place("The snapshot"))
                .arg(trust)
                .arg(without_state),
        ))
}

fn place(help: &'static str) -> Arg {
    Arg::new("place").value_name("PLACE").required(true).value_parser(value_parser!(PathBuf)).help(help)
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    let (name, matches) = super::subcommand("snapshot", matches)?;
    let resolved = command_line::settings(Layers::new("snapshot"), matches)?;
    let settings = &resolved.settings;
    logging::start(&settings.log)?;
    let place = matches.get_one::<PathBuf>("place").map(PathBuf::as_path);
    let place = place.ok_or_else(|| Stop::Usage("tenon snapshot: no snapshot given".into()))?;
    if name == "create" {
        return create(settings, place);
    }
    let runtime = shutdown::runtime()?;
    let _inside = runtime.enter();
    let is_interrupted = shutdown::interruption_flag()?;
    let requirements = SnapshotRequirements {
        trust_hash: matches.get_one::<B256>("trust-hash").copied(),
        checks_state: name == "verify" || !matches.get_flag("without-state"),
        network_id: settings.node.network_id,
        is_interrupted: &|| is_interrupted.load(Ordering::Relaxed),
    };
    if name == "verify" {
        return print_summary("sound", &snapshot::verify(place, &requirements)?, place);
    }
    // Before a folder is created in vain.
    snapshot::check_source(place)?;
    let data = DataFolder::create(&settings.node.datadir)?;
    print_summary("restored", &snapshot::restore(place, &data, &requirements)?, data.path())
}

fn create(settings: &Settings, target: &Path) -> Result<(), Stop> {
    snapshot::check_new(target)?;
    own_paths::check(settings, "PLACE", &absolute(target))?;
    // Before a copy of the database is made in vain.
    snapshot::check_target(target)?;
    let data = DataFolder::existing(&settings.node.datadir)?;
    let genesis = db_backup::genesis_of(&data)?;
    let _running = db_backup::lock(&data)?;
    let checkpoint = db_backup::checkpoint_of(settings, &data)?;
    let made = snapshot::create(&checkpoint, &genesis, target);
    checkpoints::remove(&checkpoint).map_err(Stop::failure)?;
    let manifest: Manifest = made?;
    db_backup::print_summary("made", &manifest, target)
}

fn print_summary(what: &str, checked: &Checked, place: &Path) -> Result<(), Stop> {
    db_backup::print_summary(what, &checked.manifest, place)?;
    let root = checked.manifest.head.state_root;
    let state = match checked.state {
        Some((accounts, slots)) => {
            format!("state root {root} computed again from {accounts} accounts and {slots} slots")
        }
        None => format!("state root {root} not computed again: the state was not verified"),
    };
    print(format!("{state}\ntrusts {}\n", checked.trust).as_bytes())
}

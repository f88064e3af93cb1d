//! `tenon db backup`, `tenon db backup verify`, `tenon db restore`.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command, value_parser};
use indicatif::HumanBytes;
use tenon_config::{Settings, add_flags};
use tenon_ipc_client::AdminClient as _;
use tenon_storage::{OpenError, Store};

use crate::backup::{self, Manifest};
use crate::backup_source::Source;
use crate::checkpoints;
use crate::command_line::is_database_setting;
use crate::commands::print;
use crate::data_folder::DataFolder;
use crate::exit::Stop;
use crate::front_ends::absolute;
use crate::node_client::NodeClient;
use crate::opened_chain::store_options;
use crate::own_paths;

/// The lock file of the command that makes a backup or snapshot of a folder.
const RUNNING: &str = "backup.lock";

const EXAMPLES: &str = "\
Examples:
  tenon db backup /mnt/backup/monday          a copy of the chain, also while the node runs
  tenon db backup verify /mnt/backup/monday   read every file and compare it with the backup's list";

pub(super) fn backup_definition() -> Command {
    let command = Command::new("backup")
        .about("Copy the chain into a folder that another machine can use; works while the node runs")
        .after_help(EXAMPLES)
        .args_conflicts_with_subcommands(true)
        .subcommand_negates_reqs(true)
        .arg(folder("A folder that is empty or does not exist"))
        .subcommand(
            Command::new("verify")
                .about("Compare every file of a backup with the backup's list")
                .arg(folder("The backup")),
        );
    add_flags(command, |row| is_database_setting(row) || row.key == "ipc.path", |row| row.key == "datadir", &[])
}

pub(super) fn restore_definition() -> Command {
    Command::new("restore")
        .about("Restore the chain of a backup into a data folder without a chain")
        .arg(folder("The backup"))
}

fn folder(help: &'static str) -> Arg {
    Arg::new("dir").value_name("DIR").required(true).value_parser(value_parser!(PathBuf)).help(help)
}

fn named(matches: &ArgMatches) -> Result<&Path, Stop> {
    let folder = matches.get_one::<PathBuf>("dir").map(PathBuf::as_path);
    folder.ok_or_else(|| Stop::Usage("tenon db: no folder given".into()))
}

pub(super) fn backup(matches: &ArgMatches, settings: &Settings) -> Result<(), Stop> {
    if let Some((_, matches)) = matches.subcommand() {
        let folder = named(matches)?;
        return print_summary("sound", &backup::verify(folder)?, folder);
    }
    let target = named(matches)?;
    own_paths::check(settings, "DIR", &absolute(target))?;
    // Before a copy of the database is made in vain.
    backup::check_target(target)?;
    let data = DataFolder::existing(&settings.node.datadir)?;
    let genesis = genesis_of(&data)?;
    let _running = lock(&data)?;
    let checkpoint = checkpoint_of(settings, &data)?;
    let made = backup::write(&checkpoint, &genesis, target);
    checkpoints::remove(&checkpoint).map_err(Stop::failure)?;
    print_summary("backed up", &made?, target)
}

/// The genesis file kept in a data folder.
pub(super) fn genesis_of(data: &DataFolder) -> Result<Vec<u8>, Stop> {
    data.genesis()?.ok_or_else(|| Stop::DataFolder("the folder has no genesis file".into()))
}

/// A copy of the database to which nothing else writes: made here, or by the node that has the folder open.
pub(super) fn checkpoint_of(settings: &Settings, data: &DataFolder) -> Result<PathBuf, Stop> {
    let place = absolute(&data.checkpoint());
    match Store::open(&data.database(), store_options(&settings.database)) {
        Ok(store) => checkpoints::make(&store, &place)?,
        Err(OpenError::Locked { .. }) => ask_the_node(&settings.in_data_folder(&settings.ipc.path), &place)?,
        Err(error) => return Err(error.into()),
    }
    Ok(place)
}

/// Allows one backup or snapshot of a folder at a time, because the node replaces its previous copy.
pub(super) fn lock(data: &DataFolder) -> Result<File, Stop> {
    let path = data.path().join(RUNNING);
    let file = File::create(&path).map_err(|error| Stop::Failure(format!("{}: {error}", path.display())))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Stop::Failure(format!(
            "another `tenon db backup` or `tenon snapshot create` of {} is running; wait until it ends",
            data.path().display()
        ))),
        Err(TryLockError::Error(error)) => Err(Stop::Failure(format!("{}: {error}", path.display()))),
    }
}

/// Asks the node that has the folder open to make the copy in `place`, which is inside the data folder.
///
/// The path in the node's answer is only shown, never used, because the copy is removed after use: another program may
/// be listening on the socket, and a node in a container has other paths.
fn ask_the_node(socket: &Path, place: &Path) -> Result<(), Stop> {
    let node = NodeClient::connect(socket)?;
    // Otherwise an old copy could be mistaken for the new one.
    checkpoints::remove(place).map_err(|error| Stop::Failure(format!("{}: {error}", place.display())))?;
    let answer = node.answer(node.make_checkpoint())?;
    // A link is not followed.
    if fs::symlink_metadata(place).is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    let place = place.display();
    Err(Stop::Failure(format!(
        "the node wrote the copy to {answer}, not to {place}; give the data folder of this node"
    )))
}

pub(super) fn restore(matches: &ArgMatches, settings: &Settings) -> Result<(), Stop> {
    let source = named(matches)?;
    // Checked first, so that an error leaves no new folder.
    Manifest::read(Source::backup(source))?;
    let data = DataFolder::create(&settings.node.datadir)?;
    print_summary("restored", &backup::restore(source, &data, settings.node.network_id)?, data.path())
}

pub(super) fn print_summary(what: &str, manifest: &Manifest, folder: &Path) -> Result<(), Stop> {
    let (head, bytes) = (&manifest.head, HumanBytes(manifest.bytes()));
    let (number, hash, chain) = (head.number, head.hash, manifest.chain_id);
    print(format!("{what}: chain {chain}, block {number} {hash}, {bytes} in {}\n", folder.display()).as_bytes())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Answers one request with this path.
    fn answer_once(socket: &Path, path: &Path) -> std::thread::JoinHandle<()> {
        let listener = UnixListener::bind(socket).unwrap();
        let path = path.display().to_string();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = String::new();
            BufReader::new(stream.try_clone().unwrap()).read_line(&mut request).unwrap();
            let request: serde_json::Value = serde_json::from_str(&request).unwrap();
            let answer = serde_json::json!({ "jsonrpc": "2.0", "id": request["id"], "result": path });
            writeln!(stream, "{answer}").unwrap();
        })
    }

    #[test]
    fn a_copy_is_only_taken_from_the_data_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (socket, other) = (folder.path().join("tenon.ipc"), folder.path().join("other"));
        let place = folder.path().join("data").join("checkpoint");
        fs::create_dir_all(&place).unwrap();
        fs::create_dir(&other).unwrap();
        let answering = answer_once(&socket, &other);

        let Err(Stop::Failure(text)) = ask_the_node(&socket, &place) else { panic!("taken") };

        answering.join().unwrap();
        assert!(text.contains("not to"), "{text}");
        assert!(other.is_dir(), "the folder that the answer names is untouched");
        assert!(!place.exists(), "an earlier copy is not taken for the new one");
    }

    #[test]
    fn a_link_is_not_a_copy() {
        let folder = tempfile::tempdir().unwrap();
        let (socket, other) = (folder.path().join("tenon.ipc"), folder.path().join("other"));
        fs::create_dir(&other).unwrap();
        let place = folder.path().join("checkpoint");
        std::os::unix::fs::symlink(&other, &place).unwrap();
        let answering = answer_once(&socket, &place);

        assert!(ask_the_node(&socket, &place).is_err());

        answering.join().unwrap();
        assert!(other.is_dir());
    }
}

//! `tenon account`: the key files of a data folder, and the locks of a running node.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::{Value, json};
use tenon_accounts::keystore::{FileNames, KeyFile, KeyFolder, KeyFolderError, KeyList, ListedKey};
use tenon_accounts::parse_key_text;
use tenon_api::{Address, KeyTextProblem};
use tenon_config::{Layers, Resolved, SettingInfo, Settings};
use tenon_ipc_client::{PersonalClient as _, SecretParams};
use tenon_sdk::error_texts::account_refusal_text;

use crate::commands::argument_values::{address, whole_number};
use crate::commands::print;
use crate::exit::Stop;
use crate::family::{family_of, read_genesis};
use crate::node_client::NodeClient;
use crate::passwords::Passwords;
use crate::{bounded_file, command_line, wallets};

const EXAMPLES: &str = "\
Examples:
  tenon account new                            a new key, encrypted with a password that is asked for
  tenon account list                           the key files and their addresses
  tenon account import key.txt                 a key in hexadecimal, or another client's key file
  tenon account update 0xf39F…                 a new password, and the current cost of key derivation
  tenon account export 0xf39F… key.json        a copy of the encrypted file, after its password was checked
  tenon account unlock 0xf39F… --for 10m       lets a running node sign with it
  tenon account lock 0xf39F…

Passwords are asked for, or read from --password FILE or --password-fd NUMBER, one per line: the current one, then the new one.";

pub(crate) fn definition() -> Command {
    let account = || Arg::new("account").value_name("ADDRESS").required(true).help("The account").value_parser(address);
    let file =
        |help| Arg::new("file").value_name("FILE").required(true).help(help).value_parser(value_parser!(PathBuf));
    let time = Arg::new("for")
        .long("for")
        .value_name("TIME")
        .help("How long, such as 10m; `0s` means until it is locked or the node ends [default: that of personal_unlockAccount]")
        .value_parser(|text: &str| tenon_config::parse_duration(text).map(|time| time.as_secs()));
    let commands = [
        Command::new("new").about("Create a key and store it in a new key file"),
        Command::new("list")
            .about("List the key files")
            .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("JSON instead of lines")),
        Command::new("import")
            .about("Store a key in a new key file")
            .arg(file("A key as 64 hexadecimal digits, or a key file of another client or of the Ethereum presale")),
        Command::new("update").about("Encrypt a key with a new password").arg(account()),
        Command::new("export")
            .about("Copy an encrypted key file after checking its password")
            .arg(account())
            .arg(file("The copy, which must not exist yet")),
        Command::new("unlock").about("Let a running node sign with an account").arg(account()).arg(time),
        Command::new("lock").about("Lock an account of a running node, which then forgets the key").arg(account()),
    ];
    let descriptor = || {
        Arg::new("password-fd")
            .long("password-fd")
            .value_name("NUMBER")
            .help("Read passwords from this open file descriptor")
            .value_parser(whole_number::<u32>)
            .conflicts_with("accounts.password")
    };
    let complete = |command: Command| {
        let needs_password = !matches!(command.get_name(), "list" | "lock");
        let command = if needs_password { command.arg(descriptor()) } else { command };
        let wanted = |row: &SettingInfo| is_wanted(row) && (needs_password || row.key != "accounts.password");
        tenon_config::add_flags(command, wanted, |row| row.key != "accounts.memory", &[])
    };
    Command::new("account")
        .about("Create, import and change key files; unlock and lock accounts of a running node")
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(commands.map(complete))
}

fn is_wanted(row: &SettingInfo) -> bool {
    const KEYS: [&str; 6] =
        ["datadir", "ipc.path", "accounts.keystore", "accounts.lightkdf", "accounts.password", "accounts.memory"];
    KEYS.contains(&row.key)
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    let (command, matches) = super::subcommand("account", matches)?;
    let resolved = command_line::settings(Layers::new("account"), matches)?;
    let account = || matches.get_one::<Address>("account").copied().unwrap_or_default();
    let path = || matches.get_one::<PathBuf>("file").cloned().unwrap_or_default();
    if command == "lock" {
        let node = NodeClient::find(&resolved)?;
        return node.answer(node.lock_account(account())).map(drop);
    }
    let folder = wallets::key_folder(&resolved.settings, key_file_names(&resolved.settings))?;
    if command == "list" {
        return list(&folder, matches.get_flag("json"));
    }
    let mut passwords = passwords(matches, &resolved.settings)?;
    match command {
        "new" => print_stored_key(
            &folder.create(passwords.next_new("Password of the new key: ")?.expose().as_bytes()).map_err(stop)?,
        ),
        "import" => import(&folder, &path(), &mut passwords),
        "update" => update(&folder, account(), &mut passwords),
        "export" => export(&folder, account(), &path(), &mut passwords),
        _ => {
            let seconds = matches.get_one::<u64>("for").copied();
            unlock(&resolved, account(), seconds, &mut passwords)
        }
    }
}

fn passwords(matches: &ArgMatches, settings: &Settings) -> Result<Passwords, Stop> {
    match (matches.get_one::<u32>("password-fd"), &settings.accounts.password) {
        (Some(number), _) => Passwords::from_descriptor(*number),
        (None, Some(path)) => Passwords::from_file("--password", path),
        (None, None) => Ok(Passwords::Terminal { otherwise: "give --password FILE or --password-fd NUMBER" }),
    }
}

/// The names of new key files, which the family of the data folder's chain decides; plain if the folder has none.
fn key_file_names(settings: &Settings) -> FileNames {
    let genesis = bounded_file::kept_genesis(&settings.node.datadir.join("genesis.json")).unwrap_or_default();
    match read_genesis(&genesis) {
        Ok(genesis) => family_of(&genesis.spec).key_file_names(),
        Err(_) => FileNames::Plain,
    }
}

fn stop(error: KeyFolderError) -> Stop {
    match error.into_refusal() {
        Ok(refusal) => Stop::Failure(account_refusal_text(&refusal)),
        Err(error) => Stop::failure(error),
    }
}

fn print_stored_key(stored: &tenon_accounts::keystore::StoredKey) -> Result<(), Stop> {
    let (address, path) = (stored.address, stored.path.display());
    print(format!("{address}\n{path}\n\nKeep a copy of this file and its password: without both, the funds of the account are lost.\n").as_bytes())
}

fn listed(folder: &KeyFolder) -> Result<Vec<ListedKey>, Stop> {
    let list = KeyList::new(folder.path().to_owned());
    list.scan().map_err(|error| Stop::Failure(format!("{}: {error}", folder.path().display())))?;
    Ok(list.listed().keys().to_vec())
}

fn list(folder: &KeyFolder, is_json: bool) -> Result<(), Stop> {
    let keys = listed(folder)?;
    if is_json {
        let entry = |key: &ListedKey| json!({ "address": key.address, "path": key.path.display().to_string() });
        let entries: Vec<_> = keys.iter().map(entry).collect();
        return print(format!("{}\n", Value::from(entries)).as_bytes());
    }
    let lines = keys.iter().map(|key| format!("{}  {}\n", key.address, key.path.display()));
    print(lines.collect::<String>().as_bytes())
}

/// The only file of an account.
fn file_of(folder: &KeyFolder, account: Address) -> Result<PathBuf, Stop> {
    let keys = listed(folder)?;
    let paths: Vec<_> = keys.iter().filter(|key| key.address == account).map(|key| key.path.clone()).collect();
    match paths.as_slice() {
        [path] => Ok(path.clone()),
        [] => Err(Stop::Failure(format!("{}: no key file of {account}", folder.path().display()))),
        several => {
            let names: Vec<_> = several.iter().map(|path| path.display().to_string()).collect();
            Err(Stop::Failure(format!("{account} has several key files; remove all but one: {}", names.join(", "))))
        }
    }
}

fn import(folder: &KeyFolder, path: &Path, passwords: &mut Passwords) -> Result<(), Stop> {
    let text = bounded_file::secret_text(path).map_err(|error| Stop::Usage(format!("{}: {error}", path.display())))?;
    let stored = if text.trim_start().starts_with('{') {
        let unreadable = |source| stop(KeyFolderError::File { path: path.to_owned(), source });
        let file = KeyFile::parse(text.as_bytes(), folder.limits()).map_err(unreadable)?;
        let password = passwords.next("Password of the file: ")?;
        let address = file.check(password.expose().as_bytes()).map_err(unreadable)?;
        refuse_known(folder, address)?;
        let new_password = passwords.next_new("Password of the new key file: ")?;
        folder.adopt(&file, password.expose().as_bytes(), new_password.expose().as_bytes())
    } else {
        let unusable = |problem: KeyTextProblem| {
            Stop::Usage(format!("{}: {}", path.display(), account_refusal_text(&problem.into())))
        };
        let secret = parse_key_text(text.trim()).map_err(unusable)?;
        refuse_known(folder, tenon_accounts::address_of_secret(secret.clone()).unwrap_or_default())?;
        folder.import(secret, passwords.next_new("Password of the new key file: ")?.expose().as_bytes())
    };
    print_stored_key(&stored.map_err(stop)?)
}

fn refuse_known(folder: &KeyFolder, address: Address) -> Result<(), Stop> {
    match listed(folder)?.iter().find(|key| key.address == address) {
        Some(key) => Err(Stop::Failure(format!("{address} has a key file already: {}", key.path.display()))),
        None => Ok(()),
    }
}

fn update(folder: &KeyFolder, account: Address, passwords: &mut Passwords) -> Result<(), Stop> {
    let path = file_of(folder, account)?;
    let password = passwords.next("Current password: ")?;
    // Checked before the terminal asks for the new one.
    folder.read(&path).and_then(|file| file.check(password.expose().as_bytes()).map_err(Into::into)).map_err(stop)?;
    let new_password = passwords.next_new("New password: ")?;
    folder.change_password(&path, password.expose().as_bytes(), new_password.expose().as_bytes()).map_err(stop)
}

fn export(folder: &KeyFolder, account: Address, to: &Path, passwords: &mut Passwords) -> Result<(), Stop> {
    let path = file_of(folder, account)?;
    let password = passwords.next("Password: ")?;
    folder.read(&path).and_then(|file| file.check(password.expose().as_bytes()).map_err(Into::into)).map_err(stop)?;
    let failed = |error: std::io::Error| Stop::Failure(format!("{}: {error}", to.display()));
    let text = std::fs::read(&path).map_err(failed)?;
    let mut copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).map_err(failed)?;
    copy.write_all(&text).and_then(|()| copy.sync_all()).map_err(failed)
}

/// Unlocks an account. Without a number of seconds, the default of `personal_unlockAccount` applies.
fn unlock(resolved: &Resolved, account: Address, seconds: Option<u64>, passwords: &mut Passwords) -> Result<(), Stop> {
    let node = NodeClient::find(resolved)?;
    let password = passwords.next("Password: ")?;
    let params = SecretParams::new().plain(&account).and_then(|params| params.secret(&password));
    let params = params.and_then(|params| params.plain(&seconds)).map_err(Stop::failure)?;
    node.call_with_secret::<bool>("personal_unlockAccount", params).map(drop)
}

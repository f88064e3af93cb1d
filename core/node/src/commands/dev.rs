//! `tenon dev`.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use clap::{Arg, ArgMatches, Command};
use tenon_accounts::Accounts;
use tenon_api::Bytes;
use tenon_config::{HttpSettings, Layers, Resolved, Settings, Value};
use tenon_consensus::{SealMode, SealerOptions};
use zeroize::Zeroizing;

use super::run_node::run_node;
use crate::bounded_file;
use crate::command_line;
use crate::data_folder::DataFolder;
use crate::exit::Stop;
use crate::family::development;
use crate::family::development_maker::{Development, DevelopmentMasternode};
use crate::new_folder::NewFolder;
use crate::node::{Node, NodePlan, Role};
use crate::opened_chain::{ChosenGenesis, OpenedChain};
use crate::reload::SettingsSource;
use crate::version::version;
use crate::{log_file, log_output, logging, machine, open_files, start_lines};

const EXAMPLES: &str = "\
Examples:
  tenon dev                              a block for every transaction; the chain is removed at the end
  tenon dev --block-time 2s --port 0     a block every two seconds, on a free port
  tenon dev --datadir ./devnet           the chain is kept for the next start
  tenon dev --profile native             rules of networks 50, 51 and 551: one masternode, system contracts";

/// Flags in `-h`; `--help` shows all.
const PROMINENT: &[&str] = &[
    "datadir",
    "dev.profile",
    "dev.epoch",
    "dev.block-time",
    "dev.accounts",
    "dev.balance",
    "dev.mnemonic",
    "dev.chain-id",
    "http.api",
    "ipc.path",
    "plugins.dir",
    "log.verbosity",
];

/// Settings that are fixed when a chain is made.
const FIXED: &[&str] = &[
    "dev.profile",
    "dev.epoch",
    "dev.accounts",
    "dev.balance",
    "dev.mnemonic",
    "dev.mnemonic-file",
    "dev.chain-id",
    "dev.gas-limit",
];

pub(crate) fn definition() -> Command {
    let port = Arg::new("port").long("port").value_name("NUMBER").conflicts_with("http.port").help(format!(
        "Port of both HTTP and WebSocket; 0 chooses a free port for each [default: {}]",
        HttpSettings::default().port
    ));
    let command = Command::new("dev")
        .about("Start a development network of one node with funded accounts")
        .after_help(EXAMPLES)
        .arg(port);
    let is_wanted =
        |row: &tenon_config::SettingInfo| !matches!(row.key, "network" | "genesis") && row.section != "Peers";
    tenon_config::add_flags(command, is_wanted, |row| PROMINENT.contains(&row.key), &defaults())
}

/// Defaults of a development network. Everything is on loopback and the keys are public, so `debug` and `txpool` are
/// served by default, and `debug` without a token.
fn defaults() -> [(&'static str, Value); 5] {
    let list = |names: &[&str]| Value::List(names.iter().map(|name| Value::Text((*name).to_owned())).collect());
    [
        ("datadir", Value::Text("/tmp/tenon-dev-XXXXXX".into())),
        ("database.cache", Value::Integer(64)),
        ("http.api", list(&["eth", "net", "web3", "txpool", "debug"])),
        ("ws.api", list(&["eth", "net", "web3", "txpool", "debug"])),
        ("auth.namespaces", list(&["admin", "miner", "personal"])),
    ]
}

/// The settings of a development network.
///
/// # Errors
/// [`Stop::Usage`] naming the value that can't be used; also for an address that other machines can reach, unless the
/// settings explicitly allow it.
pub(crate) fn settings(matches: &ArgMatches) -> Result<Resolved, Stop> {
    let port = matches.try_get_one::<String>("port").ok().flatten();
    let port = port.map(|port| ("http.port", "--port".to_owned(), port.clone()));
    let layers = Layers::new("dev").command_defaults(defaults()).temporary_data_folder().flags(port);
    let mut resolved = command_line::settings(layers, matches)?;
    // One address for everything, as tools for development networks expect.
    if !resolved.is_chosen("ws.port") && !resolved.is_chosen("ws.addr") {
        resolved.follow("ws.port", "http.port")?;
        resolved.follow("ws.addr", "http.addr")?;
    }
    resolved.settings = with_mnemonic(&resolved)?;
    refuse_exposure(&resolved)?;
    Ok(resolved)
}

/// The settings with the words of `dev.mnemonic-file`, if there is one, instead of `dev.mnemonic`.
///
/// # Errors
/// [`Stop::Usage`] if both are given, or the file can't be used.
pub(crate) fn with_mnemonic(resolved: &Resolved) -> Result<Settings, Stop> {
    let mut settings = resolved.settings.clone();
    let Some(path) = &settings.dev.mnemonic_file else { return Ok(settings) };
    let origin = resolved.origin("dev.mnemonic-file");
    if resolved.is_chosen("dev.mnemonic") {
        let other = resolved.origin("dev.mnemonic");
        return Err(Stop::Usage(format!(
            "`dev.mnemonic-file` ({origin}) and `dev.mnemonic` ({other}) exclude each other; give one"
        )));
    }
    settings.dev.mnemonic = bounded_file::mnemonic(path)
        .map_err(|error| Stop::Usage(format!("dev.mnemonic-file ({origin}): {}: {error}", path.display())))?;
    Ok(settings)
}

/// A development network signs for every client that can reach it, usually with well-known keys.
fn refuse_exposure(resolved: &Resolved) -> Result<(), Stop> {
    let Settings { http, ws, dev, .. } = &resolved.settings;
    let is_refused = |is_enabled: bool, address: IpAddr| is_enabled && !address.is_loopback() && !dev.expose;
    for (key, is_enabled, address) in [("http.addr", http.enabled, http.addr), ("ws.addr", ws.enabled, ws.addr)] {
        if is_refused(is_enabled, address) {
            return Err(Stop::Usage(format!(
                "{key} ({}): other machines can reach {address}, and a development network signs for everyone who \
                 reaches it; leave the setting out, or add --dev.expose to allow this",
                resolved.origin(key)
            )));
        }
    }
    Ok(())
}

/// The genesis that the settings describe.
pub(crate) fn genesis(settings: &Settings) -> Result<Vec<u8>, Stop> {
    development::genesis(settings, &accounts(settings)?)
}

fn accounts(settings: &Settings) -> Result<Accounts, Stop> {
    let dev = &settings.dev;
    Accounts::from_mnemonic(&dev.mnemonic, dev.accounts, dev.chain_id)
        .map_err(|error| Stop::Usage(format!("dev.mnemonic, dev.mnemonic-file, dev.accounts: {error}")))
}

/// Checks that a start makes before it reads its data folder.
///
/// # Errors
/// [`Stop::Usage`] naming the setting.
pub(crate) fn check(resolved: &Resolved) -> Result<(), Stop> {
    development::check(resolved)?;
    genesis(&resolved.settings).map(drop)
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    let mut resolved = settings(matches).and_then(command_line::check_settings_file)?;
    check(&resolved)?;
    logging::start(&resolved.settings.log)?;
    let again = matches.clone();
    let read =
        move || self::settings(&again).and_then(command_line::check_settings_file).map(|resolved| resolved.settings);
    let source = SettingsSource::new(resolved.settings.clone(), read);
    open_files::raise_limit_and_fit_settings(&mut resolved.settings)?;
    let (mut new_folder, folder) = if resolved.is_chosen("datadir") {
        let new_folder = NewFolder::make(&resolved.settings.node.datadir)?;
        (Some(new_folder), DataFolder::create(&resolved.settings.node.datadir)?)
    } else {
        (None, DataFolder::ephemeral()?)
    };
    resolved.settings.node.datadir = folder.path().to_owned();
    machine::check_socket(&resolved.settings)?;
    let genesis = ChosenGenesis::from(genesis_of(&resolved, &folder)?);
    let chain = match &mut new_folder {
        Some(new_folder) => OpenedChain::open_new(&resolved.settings, &folder, &genesis, new_folder)?,
        None => OpenedChain::open(&resolved.settings, &folder, &genesis)?,
    };
    log_file::start(&resolved.settings)?;
    start_lines::starting(&resolved.settings, &folder, &chain);
    resolved.settings.dev.chain_id = chain.info.chain_id;
    let block_0 = chain.genesis_header()?;
    let Development { engine, masternode } =
        chain.family.development(&resolved.settings, &folder, &chain.store, &block_0)?;
    let accounts = accounts(&resolved.settings)?;
    let sealer = sealer_options(&resolved, &chain, &accounts, masternode.as_ref());
    let about_masternode = masternode.map(|own| own.about).unwrap_or_default();

    let role = Role::Develop { accounts: accounts.clone(), sealer };
    let plan = NodePlan { settings: resolved.settings.clone(), folder, chain, engine, role, source };
    run_node(plan, new_folder.as_mut(), &resolved.warnings, |node| {
        let about_accounts = about_accounts(&resolved.settings, &accounts);
        if !log_output::show(&banner(&resolved.settings, &about_accounts, &about_masternode, node)) {
            tracing::warn!("can't write to standard output: accounts and endpoints are not shown");
        }
    })
}

/// How blocks are made: in the name of the masternode, or of the first account.
fn sealer_options(
    resolved: &Resolved,
    chain: &OpenedChain,
    accounts: &Accounts,
    masternode: Option<&DevelopmentMasternode>,
) -> SealerOptions {
    let dev = &resolved.settings.dev;
    let first = accounts.addresses().first().copied().unwrap_or_default();
    SealerOptions {
        mode: dev.block_time.map_or(SealMode::OnTransaction, SealMode::Interval),
        beneficiary: masternode.map_or(first, |own| own.address),
        gas_limit: if resolved.is_chosen("dev.gas-limit") { dev.gas_limit } else { chain.head_gas_limit() },
        extra_data: Bytes::new(),
        transaction_source: masternode.map(|own| Arc::clone(&own.transaction_source)),
        makes_first_block_at_once: masternode.is_some(),
    }
}

/// A folder's own genesis, unless it contradicts the settings that the operator chose.
fn genesis_of(resolved: &Resolved, folder: &DataFolder) -> Result<Vec<u8>, Stop> {
    let wanted = genesis(&resolved.settings)?;
    let Some(kept) = folder.genesis()? else { return Ok(wanted) };
    if kept == wanted {
        return Ok(kept);
    }
    match FIXED.iter().find(|key| resolved.is_chosen(key)) {
        None => Ok(kept),
        Some(key) => Err(Stop::DataFolder(format!(
            "{} has a network that was created with other settings; leave out `{key}` ({}), or choose another \
             --datadir",
            folder.path().display(),
            resolved.origin(key)
        ))),
    }
}

/// The accounts, with their keys only if these are publicly known: keys of a private mnemonic must not be printed.
fn about_accounts(settings: &Settings, accounts: &Accounts) -> Zeroizing<String> {
    if accounts.addresses().is_empty() {
        return Zeroizing::new(String::new());
    }
    let mut text = Zeroizing::new(format!("\nAccounts, {} ether each\n", settings.dev.balance));
    for (index, address) in accounts.addresses().iter().enumerate() {
        let _ = writeln!(text, "  ({index}) {address}");
    }
    if settings.dev.mnemonic.is_well_known() {
        text.push_str("\nPrivate keys, publicly known: never use them on another network\n");
        for (index, account) in accounts.reveal().iter().enumerate() {
            let _ = writeln!(text, "  ({index}) {}", *account.secret_key);
        }
    }
    text
}

/// The start banner: accounts, keys, endpoints.
fn banner(settings: &Settings, accounts: &str, masternode: &str, node: &Node) -> String {
    let dev = &settings.dev;
    let mut text = format!("\nTenon {}\n{accounts}{masternode}", version());
    let blocks = match dev.block_time {
        Some(period) => format!("every {period:?}"),
        None => "for every transaction".to_owned(),
    };
    let folder = settings.node.datadir.display();
    let kept = if node.has_ephemeral_folder() { ", removed at the end" } else { "" };
    let _ = write!(
        text,
        "\nMnemonic     {:?}\nPath         m/44'/60'/0'/0/N\nChain id     {}\nBlocks       {blocks}\nData folder  {folder}{kept}\n\n",
        dev.mnemonic, dev.chain_id,
    );
    for (name, address) in node.endpoints().list() {
        let _ = writeln!(text, "{name:<12} {address}");
    }
    text.push('\n');
    text
}

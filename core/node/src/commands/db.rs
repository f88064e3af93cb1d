//! `tenon db`.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches, Command};
use indicatif::HumanBytes;
use serde_json::json;
use tenon_api::{BlockNumber, ChainReader as _};
use tenon_bus::Bus;
use tenon_config::{Layers, Settings};
use tenon_execution::Importer;
use tenon_storage::{Mode, Store, VerifyProgress, VerifyStage};

use crate::command_line::{self, is_database_setting};
use crate::commands::argument_values::whole_number;
use crate::commands::columns::numbers_of_names;
use crate::commands::{db_backup, print};
use crate::data_folder::DataFolder;
use crate::exit::Stop;
use crate::family::OwnState;
use crate::opened_chain::{OpenedChain, store_options};
use crate::{log_output, logging, shutdown};

const EXAMPLES: &str = "\
Examples:
  tenon db stats              head, oldest state, and size of each kind of record
  tenon db verify             read everything and compare it with the roots of the headers
  tenon db unwind 1000        block 1000 becomes the head; the blocks above it are removed
  tenon db backup DIR         a copy of the chain, also while the node runs
  tenon db restore DIR        the chain of a backup, into a data folder without a chain
  tenon db migrate            convert a database of an older release, and remove old tries";

pub(crate) fn definition() -> Command {
    let with_settings =
        |command| tenon_config::add_flags(command, is_database_setting, |row| row.key == "datadir", &[]);
    let json = Arg::new("json").long("json").action(ArgAction::SetTrue).help("One JSON object");
    let number = Arg::new("number").value_name("N").required(true).value_parser(whole_number::<u64>);
    Command::new("db")
        .about("Inspect, check, unwind or back up the database; the node must be stopped, except for a backup")
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(with_settings(Command::new("stats").about("Print the size of the stored data").arg(json)))
        .subcommand(with_settings(
            Command::new("verify").about("Check every block, index and trie node, and read all other records"),
        ))
        .subcommand(with_settings(
            Command::new("unwind")
                .about("Remove the newest blocks from the chain")
                .arg(number.help("The block that becomes the head")),
        ))
        .subcommand(db_backup::backup_definition())
        .subcommand(with_settings(db_backup::restore_definition()))
        .subcommand(with_settings(Command::new("migrate").about(
            "Convert the database to the format of this release, and remove the tries of old blocks; can be \
             interrupted and run again",
        )))
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    let (name, matches) = super::subcommand("db", matches)?;
    let resolved = command_line::settings(Layers::new("db"), matches)?;
    logging::start(&resolved.settings.log)?;
    match name {
        "backup" => return db_backup::backup(matches, &resolved.settings),
        "restore" => return db_backup::restore(matches, &resolved.settings),
        "migrate" => return migrate(&resolved.settings),
        _ => {}
    }
    let chain = OpenedChain::open_existing(&resolved.settings)?;
    match name {
        "stats" if matches.get_flag("json") => statistics_as_json(&chain),
        "stats" => statistics(&chain),
        "verify" => verify(&chain),
        _ => unwind(&chain, matches.get_one::<u64>("number").copied().unwrap_or_default()),
    }
}

/// Opens the database and does nothing else of a start: opening migrates it, one format after another, and resumes an
/// interrupted migration. Then removes the tries of old blocks at once; a running node removes a few with each block.
fn migrate(settings: &Settings) -> Result<(), Stop> {
    let folder = DataFolder::existing(&settings.node.datadir)?.database();
    let store = Store::open(&folder, store_options(&settings.database))?;
    let (found, format) = (store.format_found(), tenon_storage::FORMAT);
    store.flush()?;
    let done = if found == format {
        format!("database {} has format {format}, the newest that this release knows; nothing to do", folder.display())
    } else {
        format!("database {} was converted from format {found} to {format}", folder.display())
    };
    print(format!("{done}\n").as_bytes())?;
    thin(&store)
}

fn thin(store: &Store) -> Result<(), Stop> {
    let runtime = shutdown::runtime()?;
    let _inside = runtime.enter();
    let is_interrupted = shutdown::interruption_flag()?;
    let mut shown = ProgressDisplay::start();
    let mut left = 0;
    let thinned = store.thin(
        &mut |done, all| {
            left = all - done;
            shown.show(|| format!("tries of old blocks removed: {done} of {all}"));
        },
        &|| is_interrupted.load(Ordering::Relaxed),
    )?;
    shown.end();
    store.flush()?;
    if is_interrupted.load(Ordering::Relaxed) && left > 0 {
        let text = "interrupted; the database is intact, and the next `tenon db migrate` or block continues";
        return Err(Stop::Interrupted(text.into()));
    }
    if thinned == 0 {
        return Ok(());
    }
    print(format!("removed the tries of {thinned} old blocks\n").as_bytes())
}

fn statistics(chain: &OpenedChain) -> Result<(), Stop> {
    let figures = chain.store.statistics()?;
    let head = chain.store.head();
    let mode = match figures.mode {
        Mode::Archive => "archive".to_owned(),
        Mode::Pruned(blocks) => format!("pruned to {blocks} blocks"),
    };
    let text = format!(
        "chain id      {}\nhead          {} {}\noldest state  {}\noldest trie   {}\nmode          {mode}\nsize          {}, {} a block\n\n",
        chain.info.chain_id,
        figures.head,
        head.header.hash(),
        figures.oldest_state,
        figures.oldest_trie,
        HumanBytes(figures.disk_bytes()),
        figures.bytes_per_block(figures.disk_bytes()),
    );
    let mut rows = vec![["records", "about", "on disk", "a block", "in memory"].map(str::to_owned)];
    rows.extend(figures.columns.iter().map(|column| {
        [
            column.name.to_owned(),
            column.entries.to_string(),
            HumanBytes(column.disk_bytes).to_string(),
            figures.bytes_per_block(column.disk_bytes).to_string(),
            HumanBytes(column.memory_bytes).to_string(),
        ]
    }));
    print((text + &numbers_of_names(&rows)).as_bytes())
}

fn statistics_as_json(chain: &OpenedChain) -> Result<(), Stop> {
    let figures = chain.store.statistics()?;
    let head = chain.store.head();
    let columns: Vec<_> = figures
        .columns
        .iter()
        .map(|column| {
            json!({
                "name": column.name,
                "entries": column.entries,
                "diskBytes": column.disk_bytes,
                "diskBytesPerBlock": figures.bytes_per_block(column.disk_bytes),
                "memoryBytes": column.memory_bytes,
            })
        })
        .collect();
    let history = match figures.mode {
        Mode::Archive => None,
        Mode::Pruned(blocks) => Some(blocks),
    };
    let object = json!({
        "chainId": chain.info.chain_id,
        "genesisHash": chain.info.genesis_hash,
        "head": { "number": head.header.number, "hash": head.header.hash() },
        "oldestState": figures.oldest_state.0,
        "oldestTrie": figures.oldest_trie.0,
        "history": history,
        "diskBytes": figures.disk_bytes(),
        "diskBytesPerBlock": figures.bytes_per_block(figures.disk_bytes()),
        "columns": columns,
    });
    print(format!("{object:#}\n").as_bytes())
}

fn verify(chain: &OpenedChain) -> Result<(), Stop> {
    let runtime = shutdown::runtime()?;
    let _inside = runtime.enter();
    let is_interrupted = shutdown::interruption_flag()?;
    let mut shown = ProgressDisplay::start();
    let report = chain
        .store
        .verify(&mut |progress| shown.show(|| verify_line(&progress)), &|| is_interrupted.load(Ordering::Relaxed))?;
    shown.end();
    if let Some(damage) = report.damage {
        return Err(damaged(damage));
    }
    if report.was_cancelled {
        return Err(interrupted());
    }
    let (engine, is_stopped) = (chain.checking_engine(), || is_interrupted.load(Ordering::Relaxed));
    let own_state = match chain.family.check_own_state(&chain.store, &*engine, &is_stopped)? {
        OwnState::Sound(size) => size,
        OwnState::Damaged(problem) => return Err(damaged(problem)),
        OwnState::Interrupted => return Err(interrupted()),
    };
    print(
        format!(
            "sound: {} blocks, {} logs, {} trie nodes, {} accounts, {} slots{own_state}\n",
            report.blocks, report.logs, report.trie_nodes, report.accounts, report.slots
        )
        .as_bytes(),
    )
}

fn damaged(what: impl std::fmt::Display) -> Stop {
    Stop::failure(format!("damaged: {what}; import the chain into a new folder, or restore a copy"))
}

fn interrupted() -> Stop {
    Stop::Interrupted("interrupted; no error was found so far".into())
}

fn verify_line(progress: &VerifyProgress) -> String {
    let stage = match progress.stage {
        VerifyStage::Chain => "blocks",
        VerifyStage::LogIndex => "log index",
        VerifyStage::Trie => "trie nodes",
        VerifyStage::FlatState => "flat state",
        VerifyStage::History => "history",
    };
    match progress.total {
        0 => format!("{stage}: {}", progress.done),
        total => format!("{stage}: {} of {total}", progress.done),
    }
}

/// One line that is overwritten on a terminal; a line every few seconds elsewhere.
struct ProgressDisplay {
    is_terminal: bool,
    last: Instant,
}

impl ProgressDisplay {
    fn start() -> Self {
        Self { is_terminal: std::io::stderr().is_terminal(), last: Instant::now() }
    }

    fn show(&mut self, line: impl FnOnce() -> String) {
        let period = if self.is_terminal { Duration::from_millis(200) } else { Duration::from_secs(5) };
        if self.last.elapsed() < period {
            return;
        }
        self.last = Instant::now();
        let line = line();
        if self.is_terminal {
            log_output::overwrite_line(&line);
        } else {
            log_output::eprint_line(&line);
        }
    }

    fn end(&self) {
        if self.is_terminal {
            log_output::overwrite_line("");
        }
    }
}

fn unwind(chain: &OpenedChain, number: u64) -> Result<(), Stop> {
    let writer = Arc::new(chain.store.take_writer()?);
    let importer = Importer::new(chain.family.execution(), chain.reader(), writer, chain.checking_engine(), Bus::new());
    let before = chain.store.head().header.number;
    if number > before {
        return Err(Stop::Usage(format!("there is no block {number}; the chain has 0 to {before}")));
    }
    importer.set_head(BlockNumber(number)).map_err(Stop::failure)?;
    chain.store.flush()?;
    let head = chain.store.head();
    print(format!("unwound from block {before}; head {} {}\n", head.header.number, head.header.hash()).as_bytes())
}

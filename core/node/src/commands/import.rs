//! `tenon import`.

pub(super) mod chain_file;
mod placed;
mod progress;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use clap::{Arg, ArgMatches, Command};
use tenon_api::{ChainReader as _, ChainWriter as _};
use tenon_bus::Bus;
use tenon_chain::BlockStream;
use tenon_config::Layers;
use tenon_execution::{ImportObserver, ImportSummary, ImportedBlock, Importer, ReferenceBlock};

use self::chain_file::ChainFile;
use self::placed::{Placed, Places};
use self::progress::Progress;
use crate::command_line::{self, is_database_setting};
use crate::data_folder::DataFolder;
use crate::exit::Stop;
use crate::new_folder::NewFolder;
use crate::opened_chain::{OpenedChain, chosen_genesis};
use crate::{bounded_file, logging, shutdown};

const EXAMPLES: &str = "\
Examples:
  tenon import --genesis genesis.json chain.rlp   the chain's first import names its genesis
  tenon import part1.rlp.gz part2.rlp.gz          further files; blocks that are there are skipped
  curl -s https://example.org/chain.rlp | tenon import -
  tenon import --explain chain.rlp                what a block that fails did, and where it differs from its header";

pub(crate) fn definition() -> Command {
    let command = Command::new("import")
        .about("Read recorded blocks into the data folder, executing each; can be stopped and started again")
        .after_help(EXAMPLES)
        .arg(
            Arg::new("files")
                .value_name("FILE")
                .num_args(1..)
                .required(true)
                .help("Blocks as RLP, one after the other, gzip or not; `-` is standard input"),
        )
        .arg(
            Arg::new("explain")
                .long("explain")
                .value_name("REFERENCE")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("")
                .help(
                    "When a block fails, say all that it did and what differs; also against REFERENCE, a JSON file with \
                     another node's `receipts` (as eth_getBlockReceipts gives them) and `accounts` of that block",
                ),
        );
    tenon_config::add_flags(
        command,
        is_database_setting,
        |row| matches!(row.key, "datadir" | "genesis" | "database.mode"),
        &[],
    )
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    let resolved = command_line::settings(Layers::new("import"), matches)?;
    logging::start(&resolved.settings.log)?;
    let files: Vec<String> = matches.get_many::<String>("files").into_iter().flatten().cloned().collect();
    // Before anything is made in the data folder: a name that is mistyped should leave no trace.
    let sources = files.iter().map(|name| ChainFile::open(name)).collect::<Result<Vec<_>, _>>()?;
    let reference = matches.get_one::<String>("explain").map(|path| reference_block(path)).transpose()?;
    let runtime = shutdown::runtime()?;
    let _inside = runtime.enter();
    let is_interrupted = shutdown::interruption_flag()?;

    let mut new_folder = NewFolder::make(&resolved.settings.node.datadir)?;
    let folder = DataFolder::create(&resolved.settings.node.datadir)?;
    let genesis = chosen_genesis(&resolved, &folder)?;
    let chain = OpenedChain::open_new(&resolved.settings, &folder, &genesis, &mut new_folder)?;
    new_folder.keep();
    let outcome = import_all(&chain, sources, &is_interrupted, reference.as_ref());
    let flushed = chain.store.flush();
    // The import's error comes first: on a full disk the flush only fails after it.
    outcome?;
    flushed.map_err(Stop::from)
}

/// Another node's data about the block that will fail; none without a path.
fn reference_block(path: &str) -> Result<ReferenceBlock, Stop> {
    if path.is_empty() {
        return Ok(ReferenceBlock::default());
    }
    let wrong = |error: &dyn std::fmt::Display| Stop::Usage(format!("--explain {path}: {error}"));
    let text = bounded_file::reference(path.as_ref()).map_err(|error| wrong(&error))?;
    serde_json::from_slice(&text).map_err(|error| wrong(&error))
}

/// Prints why the last block failed, when the operator asked for it.
fn explain(importer: &Importer, reference: Option<&ReferenceBlock>) -> Result<(), Stop> {
    match reference.and_then(|reference| importer.explain_failure(reference)) {
        None => Ok(()),
        Some(Ok(explanation)) => super::print(explanation.to_string().as_bytes()),
        Some(Err(error)) => super::print(format!("the block cannot be explained: {error}\n").as_bytes()),
    }
}

/// Observes the importer after each block, and tells it to stop.
struct Watcher {
    progress: Progress,
    read: Arc<AtomicU64>,
    is_interrupted: Arc<AtomicBool>,
}

impl ImportObserver for Watcher {
    fn passed(&mut self, block: &ImportedBlock) {
        self.progress.passed(block, self.read.load(Ordering::Relaxed));
    }

    fn is_cancelled(&self) -> bool {
        self.is_interrupted.load(Ordering::Relaxed)
    }
}

/// Imports one file. The error names the file and, where it is a block's, the byte at which that begins.
fn import_file(importer: &Importer, source: ChainFile, watcher: &mut Watcher) -> Result<ImportSummary, String> {
    let name = source.name().to_owned();
    let reader = source
        .reader(Arc::clone(&watcher.read), Arc::clone(&watcher.is_interrupted))
        .map_err(|error| error.to_string())?;
    let places = Places::default();
    importer.import(Placed::new(BlockStream::new(reader), places.clone()), watcher).map_err(|error| {
        match error.block().and_then(|number| places.of(number)) {
            Some(offset) => format!("{name}: {error}; the block begins at byte {offset} of the file"),
            None => format!("{name}: {error}"),
        }
    })
}

fn import_all(
    chain: &OpenedChain,
    sources: Vec<ChainFile>,
    is_interrupted: &Arc<AtomicBool>,
    reference: Option<&ReferenceBlock>,
) -> Result<(), Stop> {
    let writer = Arc::clone(&chain.store) as Arc<dyn tenon_api::ChainWriter>;
    let importer =
        Importer::new(Arc::clone(&chain.family), chain.reader(), writer, chain.checking_engine(), Bus::new());
    let total = sources.iter().map(ChainFile::length).sum::<Option<u64>>();
    let mut watcher =
        Watcher { progress: Progress::start(total), read: Arc::default(), is_interrupted: Arc::clone(is_interrupted) };
    let mut was_cancelled = false;
    let mut known = 0;
    for source in sources {
        let summary = match import_file(&importer, source, &mut watcher) {
            Ok(summary) => summary,
            // Waiting for a pipe was called off.
            Err(_) if is_interrupted.load(Ordering::Relaxed) => {
                was_cancelled = true;
                break;
            }
            Err(error) => {
                watcher.progress.abandon();
                explain(&importer, reference)?;
                return Err(Stop::Failure(error));
            }
        };
        known += summary.known;
        was_cancelled = summary.was_cancelled;
        if was_cancelled {
            break;
        }
    }
    let done = watcher.progress.finish();
    let head = chain.store.head();
    let skipped = if known > 0 { format!(", {known} were there already") } else { String::new() };
    let line = format!("{done}{skipped}; head {} {}", head.header.number, head.header.hash());
    if was_cancelled {
        return Err(Stop::Interrupted(format!("interrupted: {line}; run the same command to go on")));
    }
    super::print(format!("{line}\n").as_bytes())
}

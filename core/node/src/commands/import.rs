//! `tenon import`.

mod chain_data;
pub(super) mod chain_file;
mod positioned_stream;
mod progress;
mod reference;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use clap::{Arg, ArgMatches, Command, value_parser};
use tenon_api::ChainReader as _;
use tenon_bus::Bus;
use tenon_chain::BlockStream;
use tenon_config::Layers;
use tenon_execution::{ImportError, ImportObserver, ImportSummary, ImportedBlock, Importer};
use tenon_execution_block::{Explanation, ReferenceBlock};

use self::chain_data::ChainData;
use self::chain_file::ChainFile;
use self::positioned_stream::{BlockPositions, PositionedStream};
use self::progress::Progress;
use self::reference::{OtherNode, Reference};
use super::start_genesis::chosen_genesis;
use crate::command_line::{self, is_database_setting};
use crate::data_folder::DataFolder;
use crate::exit::Stop;
use crate::new_folder::NewFolder;
use crate::opened_chain::OpenedChain;
use crate::{logging, shutdown};

const EXAMPLES: &str = "\
Examples:
  tenon import --genesis genesis.json chain.rlp   the first import of a chain names its genesis
  tenon import part1.rlp.gz part2.rlp.gz          more files; blocks already in the chain are skipped
  tenon import --chaindata ~/.XDC/XDC/chaindata   blocks of a stopped reference node; its folder is not changed
  curl -s https://example.org/chain.rlp | tenon import -
  tenon import --explain chain.rlp                print the results of a failing block, and how they differ from its header
  tenon import --explain=http://127.0.0.1:8545 chain.rlp   compare them with the results of another node too";

pub(crate) fn definition() -> Command {
    let command = Command::new("import")
        .about("Execute recorded blocks and store them in the data folder; can be interrupted and run again")
        .after_help(EXAMPLES)
        .arg(
            Arg::new("files")
                .value_name("FILE")
                .num_args(1..)
                .required_unless_present("chaindata")
                .help("Blocks as RLP, one after another, with or without gzip; `-` is standard input"),
        )
        .arg(
            Arg::new("chaindata")
                .long("chaindata")
                .value_name("FOLDER")
                .value_parser(value_parser!(PathBuf))
                .conflicts_with("files")
                .help(
                    "Read the blocks from the data folder of a stopped reference node, or from its \
                    `XDC/chaindata`; the folder is not changed",
                ),
        )
        .arg(
            Arg::new("explain")
                .long("explain")
                .value_name("REFERENCE")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("")
                .help(
                    "When a block fails, print its results and how they differ from its header, and from REFERENCE \
                     if given: the http:// address or the socket of another node, or a JSON file with `receipts` \
                     (as eth_getBlockReceipts returns them) and `accounts` of that block",
                ),
        );
    tenon_config::add_flags(
        command,
        |row| is_database_setting(row) || row.key == "sync.certificates",
        |row| matches!(row.key, "datadir" | "genesis" | "database.mode"),
        &[],
    )
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    let resolved = command_line::settings(Layers::new("import"), matches)?;
    logging::start(&resolved.settings.log)?;
    // Before anything is created in the data folder, so that a mistyped name leaves no trace.
    let source = Source::named(matches)?;
    let reference = Reference::named(matches)?;
    let runtime = shutdown::runtime()?;
    let _inside = runtime.enter();
    let is_interrupted = shutdown::interruption_flag()?;

    let mut new_folder = NewFolder::make(&resolved.settings.node.datadir)?;
    let folder = DataFolder::create(&resolved.settings.node.datadir)?;
    let genesis = match &source {
        Source::ChainData(data) => data.genesis(&resolved, &folder)?,
        Source::Files(_) => chosen_genesis(&resolved, &folder)?,
    };
    let chain = OpenedChain::open_new(&resolved.settings, &folder, &genesis, &mut new_folder)?;
    if let Source::ChainData(data) = &source {
        data.check_genesis(&chain)?;
    }
    new_folder.keep();
    let outcome = import_all(&chain, source, &is_interrupted, reference.as_ref());
    let flushed = chain.store.flush();
    // The import's error is reported first: on a full disk, the flush fails only after it.
    outcome?;
    flushed.map_err(Stop::from)
}

/// Prints why the last block failed, if the operator requested it.
fn explain(importer: &Importer, reference: Option<&Reference>) -> Result<(), Stop> {
    let Some((explained, notes)) = reference.and_then(|reference| explanation(importer, reference)) else {
        return Ok(());
    };
    let text = match explained {
        Ok(explanation) => format!("{notes}{explanation}"),
        Err(error) => format!("the block cannot be explained: {error}\n"),
    };
    super::print(text.as_bytes())
}

/// The results of the block that failed, compared with the reference, and what could not be compared. `None` if no
/// block failed in execution.
fn explanation(importer: &Importer, reference: &Reference) -> Option<(Result<Explanation, ImportError>, String)> {
    let address = match reference {
        Reference::File(block) => return importer.explain_failure(block).map(|explained| (explained, String::new())),
        Reference::Node(address) => address,
    };
    let alone = match importer.explain_failure(&ReferenceBlock::default())? {
        Ok(alone) => alone,
        Err(error) => return Some((Err(error), String::new())),
    };
    let asked = OtherNode::connect(address).and_then(|mut node| Ok((node.results(&alone)?, node.gaps)));
    match asked {
        Ok((block, gaps)) => {
            let notes = gaps.iter().map(|gap| format!("not compared with {address}: {gap}\n")).collect();
            importer.explain_failure(&block).map(|explained| (explained, notes))
        }
        Err(error) => Some((Ok(alone), format!("not compared with {address}: {error}\n"))),
    }
}

/// Observes the importer after each block, and tells it when to stop.
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

/// The source of the blocks.
enum Source {
    /// Files, one after another.
    Files(Vec<ChainFile>),
    /// A reference node's data folder.
    ChainData(ChainData),
}

impl Source {
    fn named(matches: &ArgMatches) -> Result<Self, Stop> {
        if let Some(folder) = matches.get_one::<PathBuf>("chaindata") {
            return ChainData::open(folder).map(Self::ChainData);
        }
        let files = matches.get_many::<String>("files").into_iter().flatten();
        files.map(|name| ChainFile::open(name)).collect::<Result<_, _>>().map(Self::Files)
    }
}

/// Imports one file. The error names the file and, for a block's error, the offset of the block.
fn import_file(importer: &Importer, source: ChainFile, watcher: &mut Watcher) -> Result<ImportSummary, String> {
    let name = source.name().to_owned();
    let reader = source
        .reader(Arc::clone(&watcher.read), Arc::clone(&watcher.is_interrupted))
        .map_err(|error| error.to_string())?;
    let positions = BlockPositions::default();
    importer.import(PositionedStream::new(BlockStream::new(reader), positions.clone()), watcher).map_err(|error| {
        match error.block().and_then(|number| positions.of(number)) {
            Some(offset) => format!("{name}: {error}; the block begins at byte {offset} of the file"),
            None => format!("{name}: {error}"),
        }
    })
}

/// A running import.
struct Import<'a> {
    importer: Importer,
    watcher: Watcher,
    reference: Option<&'a Reference>,
}

impl Import<'_> {
    /// Imports the files in order. `None` if the operator stopped it before a file returned any data.
    fn files(&mut self, sources: Vec<ChainFile>) -> Result<Option<ImportSummary>, Stop> {
        let mut all = ImportSummary::default();
        for source in sources {
            match import_file(&self.importer, source, &mut self.watcher) {
                Ok(summary) => {
                    all.known += summary.known;
                    all.was_cancelled = summary.was_cancelled;
                }
                // Waiting for a pipe was interrupted.
                Err(_) if self.watcher.is_cancelled() => return Ok(None),
                Err(error) => return Err(self.fail(error)),
            }
            if all.was_cancelled {
                break;
            }
        }
        Ok(Some(all))
    }

    /// Imports the blocks of a reference node's data folder that the chain lacks.
    fn chain_data(&mut self, chain: &OpenedChain, data: &ChainData) -> Result<Option<ImportSummary>, Stop> {
        let blocks = data.blocks_beyond(chain, Arc::clone(&self.watcher.read))?;
        self.importer.import(blocks, &mut self.watcher).map(Some).map_err(|error| self.fail(data.named(&error)))
    }

    fn fail(&self, error: String) -> Stop {
        self.watcher.progress.abandon();
        match explain(&self.importer, self.reference) {
            Ok(()) => Stop::Failure(error),
            Err(stop) => stop,
        }
    }
}

fn import_all(
    chain: &OpenedChain,
    source: Source,
    is_interrupted: &Arc<AtomicBool>,
    reference: Option<&Reference>,
) -> Result<(), Stop> {
    // Writes without an actor: no node is running, so nothing else uses the database.
    let writer = Arc::new(chain.store.take_writer()?);
    let importer = Importer::new(chain.family.execution(), chain.reader(), writer, chain.checking_engine(), Bus::new());
    let total = match &source {
        Source::Files(files) => files.iter().map(ChainFile::length).sum::<Option<u64>>(),
        Source::ChainData(data) => Some(data.count_beyond(chain)?),
    };
    let watcher =
        Watcher { progress: Progress::start(total), read: Arc::default(), is_interrupted: Arc::clone(is_interrupted) };
    let mut import = Import { importer, watcher, reference };
    let summary = match source {
        Source::Files(files) => import.files(files)?,
        Source::ChainData(data) => import.chain_data(chain, &data)?,
    };
    let was_cancelled = summary.as_ref().is_none_or(|summary| summary.was_cancelled);
    let known = summary.map_or(0, |summary| summary.known);
    let done = import.watcher.progress.finish();
    let head = chain.store.head();
    let skipped = if known > 0 { format!(", {known} were already in the chain") } else { String::new() };
    let line = format!("{done}{skipped}; head {} {}", head.header.number, head.header.hash());
    if was_cancelled {
        return Err(Stop::Interrupted(format!("interrupted: {line}; run the same command to continue")));
    }
    super::print(format!("{line}\n").as_bytes())
}

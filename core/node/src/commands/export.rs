//! `tenon export`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Arg, ArgMatches, Command, value_parser};
use flate2::{Compression, write::GzEncoder};
use tempfile::NamedTempFile;
use tenon_api::{BlockNumber, ChainReader};
use tenon_config::Layers;

use crate::command_line::{self, is_database_setting};
use crate::exit::Stop;
use crate::opened_chain::OpenedChain;
use crate::{logging, shutdown};

const EXAMPLES: &str = "\
Examples:
  tenon export chain.rlp.gz          the whole chain, compressed because of the name
  tenon export part.rlp 1000 1999    some blocks
  tenon export - | zstd > chain.rlp.zst";

pub(crate) fn definition() -> Command {
    let number = |id: &'static str, name: &'static str, help: &'static str| {
        Arg::new(id).value_name(name).value_parser(value_parser!(u64)).help(help)
    };
    let command = Command::new("export")
        .about("Write blocks of the data folder to a file that `tenon import` and go-ethereum read")
        .after_help(EXAMPLES)
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .help("RLP, compressed when the name ends in .gz; `-` is standard output"),
        )
        .arg(number("first", "FIRST", "First block; 0 without it"))
        .arg(number("last", "LAST", "Last block; the head without it"));
    tenon_config::add_flags(command, is_database_setting, |row| row.key == "datadir", &[])
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    let resolved = command_line::settings(Layers::new("export"), matches)?;
    logging::start(&resolved.settings.log)?;
    let chain = OpenedChain::open_existing(&resolved.settings)?;
    let head = chain.store.head().header.number;
    let first = matches.get_one::<u64>("first").copied().unwrap_or(0);
    let last = matches.get_one::<u64>("last").copied().unwrap_or(head);
    if first > last || last > head {
        return Err(Stop::Usage(format!("blocks {first} to {last} are none of the chain's 0 to {head}")));
    }

    let runtime = shutdown::runtime()?;
    let _inside = runtime.enter();
    let is_interrupted = shutdown::interruption_flag()?;
    let blocks = Blocks { chain: &*chain.store, first, last, is_interrupted: &is_interrupted };
    match matches.get_one::<String>("file").map(String::as_str) {
        None | Some("-") => blocks.write(BufWriter::new(io::stdout().lock())).map(drop),
        Some(name) => blocks.write_file(Path::new(name)),
    }
}

/// What is to be written.
struct Blocks<'a> {
    chain: &'a dyn ChainReader,
    first: u64,
    last: u64,
    is_interrupted: &'a AtomicBool,
}

impl Blocks<'_> {
    /// Writes a file whole or not at all.
    fn write_file(&self, path: &Path) -> Result<(), Stop> {
        let named = |error: io::Error| Stop::failure(format!("{}: {error}", path.display()));
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = NamedTempFile::new_in(folder).map_err(named)?;
        let is_compressed = path.extension().is_some_and(|extension| extension == "gz");
        let handle: File = file.reopen().map_err(named)?;
        if is_compressed {
            let encoder = self.write(GzEncoder::new(BufWriter::new(handle), Compression::default()))?;
            encoder.finish().and_then(|mut rest| rest.flush()).map_err(named)?;
        } else {
            self.write(BufWriter::new(handle))?.flush().map_err(named)?;
        }
        file.as_file().sync_all().map_err(named)?;
        file.persist(path).map_err(|error| named(error.error))?;
        eprintln!("exported blocks {} to {} to {}", self.first, self.last, path.display());
        Ok(())
    }

    fn write<W: Write>(&self, mut output: W) -> Result<W, Stop> {
        for number in self.first..=self.last {
            if self.is_interrupted.load(Ordering::Relaxed) {
                return Err(Stop::Interrupted(format!("interrupted at block {number}; no file was written")));
            }
            let number = BlockNumber(number);
            let missing = || Stop::failure(format!("block {number} is missing; run `tenon db verify`"));
            let hash = self.chain.canonical_hash(number)?.ok_or_else(missing)?;
            let block = self.chain.block(hash)?.ok_or_else(missing)?;
            output.write_all(&tenon_chain::encode_block(&block.block)).map_err(Stop::failure)?;
        }
        output.flush().map_err(Stop::failure)?;
        Ok(output)
    }
}

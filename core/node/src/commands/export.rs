//! `tenon export`.

use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::atomic::Ordering;

use clap::{Arg, ArgAction, ArgMatches, Command};
use tenon_api::ChainReader as _;
use tenon_config::Layers;

use crate::chain_files::Blocks;
use crate::command_line::{self, is_database_setting};
use crate::commands::argument_values::whole_number;
use crate::exit::Stop;
use crate::opened_chain::OpenedChain;
use crate::output_file::{self, OutputFile};
use crate::own_paths::OwnPaths;
use crate::{log_output, logging, shutdown};

const EXAMPLES: &str = "\
Examples:
  tenon export chain.rlp.gz          the whole chain, compressed because the name ends in .gz
  tenon export part.rlp 1000 1999    some blocks
  tenon export - | zstd > chain.rlp.zst";

pub(crate) fn definition() -> Command {
    let number = |id: &'static str, name: &'static str, help: &'static str| {
        Arg::new(id).value_name(name).value_parser(whole_number::<u64>).help(help)
    };
    let command = Command::new("export")
        .about("Write blocks of the data folder to a file that `tenon import` and go-ethereum read")
        .after_help(EXAMPLES)
        .arg(Arg::new("file").value_name("FILE").required(true).help(
            "File to write, as RLP, compressed if its name ends in .gz; may be a pipe; `-` is standard \
                    output",
        ))
        .arg(number("first", "FIRST", "First block [default: 0]"))
        .arg(number("last", "LAST", "Last block [default: the head]"))
        .arg(
            Arg::new("overwrite")
                .long("overwrite")
                .action(ArgAction::SetTrue)
                .help("Replace the file if it exists; otherwise an existing file is refused"),
        );
    tenon_config::add_flags(command, is_database_setting, |row| row.key == "datadir", &[])
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    let resolved = command_line::settings(Layers::new("export"), matches)?;
    logging::start(&resolved.settings.log)?;
    let name = matches.get_one::<String>("file").map_or("-", String::as_str);
    let output = OutputFile::named(Path::new(name), matches.get_flag("overwrite"), &OwnPaths::of(&resolved.settings))?;
    output.require_folder()?;
    let chain = OpenedChain::open_existing(&resolved.settings)?;
    let head = chain.store.head().header.number;
    let first = matches.get_one::<u64>("first").copied().unwrap_or(0);
    let last = matches.get_one::<u64>("last").copied().unwrap_or(head);
    if first > last || last > head {
        return Err(Stop::Usage(format!("there are no blocks {first} to {last}; the chain has 0 to {head}")));
    }

    let runtime = shutdown::runtime()?;
    let _inside = runtime.enter();
    let is_interrupted = shutdown::interruption_flag()?;
    let is_interrupted = || is_interrupted.load(Ordering::Relaxed);
    let blocks = Blocks { chain: &*chain.store, first, last, is_interrupted: &is_interrupted };
    match output {
        OutputFile::Standard => {
            return blocks.write(Path::new("standard output"), BufWriter::new(io::stdout().lock())).map(drop);
        }
        OutputFile::Stream(path) => blocks.write_to(&path, output_file::open_stream(&path, &is_interrupted)?)?,
        OutputFile::Regular { path, replaces } => blocks.write_file(&path, replaces)?,
    }
    log_output::eprint_line(&format!("exported blocks {first} to {last} to {name}"));
    Ok(())
}

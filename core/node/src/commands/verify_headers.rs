//! `tenon verify-headers`.

mod header_file;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::json;
use tenon_config::{Network, Origin};
use tenon_native_consensus::{HeaderVerifier, VerificationLevel};

use self::header_file::HeaderFile;
use super::import::chain_file::ChainFile;
use crate::commands::argument_values::whole_number;
use crate::commands::print;
use crate::exit::Stop;
use crate::family::{PublicNetwork, read_genesis};
use crate::opened_chain::public_genesis;
use crate::{bounded_file, log_output, shutdown};

const EXAMPLES: &str = "\
Examples:
  tenon verify-headers mainnet.rlp.gz                    headers or whole blocks as RLP, one after another
  tenon verify-headers --network genesis.json chain.rlp  of your own network
  tenon verify-headers 92176000.json                     JSON objects with `rlp`, and optionally `hash` to compare with";

/// Headers verified at the same time: enough for all cores, and few to discard after a refusal.
const BATCH: usize = 512;

pub(crate) fn definition() -> Command {
    Command::new("verify-headers")
        .about("Verify native headers without blocks or state: hashes, seals, turns, certificates and their signers")
        .after_help(EXAMPLES)
        .arg(
            Arg::new("files")
                .value_name("FILE")
                .num_args(1..)
                .required(true)
                .help("Headers in chain order, with or without gzip; `-` is standard input"),
        )
        .arg(Arg::new("network").long("network").value_name("NAME|FILE").default_value("mainnet").help(
            "The network whose rules apply: mainnet, testnet, devnet, devnet-5551, or a genesis file; block 0 is not \
             compared if the file has no accounts",
        ))
        .arg(
            Arg::new("threads")
                .long("threads")
                .value_name("NUMBER")
                .value_parser(whole_number::<u16>)
                .default_value("0")
                .help("Number of threads; 0 means one per core"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("One JSON object"))
}

/// Counts of the verified headers, and the time taken.
struct Tally {
    first: Option<u64>,
    last: Option<(u64, tenon_api::B256)>,
    in_full: u64,
    alone: u64,
    /// The first header that was checked on its own.
    first_alone: Option<u64>,
    began: Instant,
}

impl Tally {
    fn start() -> Self {
        Self { first: None, last: None, in_full: 0, alone: 0, first_alone: None, began: Instant::now() }
    }

    fn count(&self) -> u64 {
        self.in_full + self.alone
    }

    fn add(&mut self, number: u64, hash: tenon_api::B256, level: VerificationLevel) {
        self.first.get_or_insert(number);
        self.last = Some((number, hash));
        if level == VerificationLevel::Alone {
            self.alone += 1;
            self.first_alone.get_or_insert(number);
        } else {
            self.in_full += 1;
        }
    }

    fn rate(&self) -> u64 {
        // Only a displayed figure: precision beyond 52 bits does not matter.
        #[allow(clippy::cast_precision_loss, reason = "a rate for people")]
        let rate = self.count() as f64 / self.began.elapsed().as_secs_f64().max(1e-6);
        rate.round() as u64
    }

    fn as_json(&self) -> String {
        let object = json!({
            "headers": self.count(),
            "inFull": self.in_full,
            "alone": self.alone,
            "firstAlone": self.first_alone,
            "first": self.first,
            "last": self.last.map(|(number, _)| number),
            "lastHash": self.last.map(|(_, hash)| hash),
            "milliseconds": u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            "headersPerSecond": self.rate(),
        });
        format!("{object:#}\n")
    }

    fn as_text(&self) -> String {
        let Some((first, (last, hash))) = self.first.zip(self.last) else { return "no headers\n".to_owned() };
        let mut text = format!(
            "{} headers verified, {first} to {last} {hash}, {} headers/s\n  in full  {}\n",
            self.count(),
            self.rate(),
            self.in_full
        );
        if let Some(number) = self.first_alone {
            text.push_str(&format!(
                "  alone    {}, the first of them {number}: only form, seal and signatures, as their ancestors are not in the file\n",
                self.alone
            ));
        }
        text
    }
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    let files: Vec<String> = matches.get_many::<String>("files").into_iter().flatten().cloned().collect();
    let sources = files.iter().map(|name| ChainFile::open(name)).collect::<Result<Vec<_>, _>>()?;
    let name = matches.get_one::<String>("network").cloned().unwrap_or_default();
    let threads = usize::from(matches.get_one::<u16>("threads").copied().unwrap_or_default());
    let mut verifier = verifier(&name, threads)?;
    let runtime = shutdown::runtime()?;
    let _inside = runtime.enter();
    let is_interrupted = shutdown::interruption_flag()?;
    let mut tally = Tally::start();
    let outcome =
        sources.into_iter().try_for_each(|source| verify_file(&mut verifier, &mut tally, source, &is_interrupted));
    if outcome.is_err() {
        // The headers that passed before the first bad one; the refusal itself is written to standard error.
        log_output::eprint_line(&format!("tenon: {}", tally.as_text().trim_end()));
    } else if tally.count() == 0 {
        return Err(Stop::Failure(format!("{}: the file has no header", files.join(", "))));
    } else {
        print(if matches.get_flag("json") { tally.as_json() } else { tally.as_text() }.as_bytes())?;
    }
    outcome
}

fn verifier(name: &str, threads: usize) -> Result<HeaderVerifier, Stop> {
    let wrong = |error: &dyn std::fmt::Display| Stop::Usage(format!("--network {name}: {error}"));
    let (text, known) = match Network::by_name(name, &Origin::Flag("--network".into()))? {
        Network::Public(own) => (public_genesis(own)?, PublicNetwork::by_name(own).map(PublicNetwork::genesis_hash)),
        Network::File(path) => (bounded_file::genesis(path.as_ref()).map_err(|error| wrong(&error))?, None),
        Network::Dev => return Err(wrong(&"a development network has no native headers; name its genesis file")),
    };
    let genesis = read_genesis(&text).map_err(|error| wrong(&error))?;
    let hash = match known {
        Some(hash) => Some(hash),
        None if genesis.alloc.is_empty() => None,
        None => Some(genesis.sealed_header().map_err(|error| wrong(&error))?.hash()),
    };
    HeaderVerifier::new(&genesis.spec, hash, threads).map_err(|error| wrong(&error))
}

fn verify_file(
    verifier: &mut HeaderVerifier,
    tally: &mut Tally,
    source: ChainFile,
    is_interrupted: &Arc<AtomicBool>,
) -> Result<(), Stop> {
    let name = source.name().to_owned();
    let failed = |error: &dyn std::fmt::Display| Stop::Failure(format!("{name}: {error}"));
    let reader = source.reader(Arc::new(AtomicU64::new(0)), Arc::clone(is_interrupted))?;
    let mut file = HeaderFile::new(reader).map_err(|error| failed(&error))?;
    loop {
        if is_interrupted.load(Ordering::Relaxed) {
            return Err(Stop::Interrupted(format!("interrupted: {}", tally.as_text().trim_end())));
        }
        // Headers before an unreadable one are verified first.
        let (headers, damage) = file.next_batch(BATCH);
        let is_end = headers.is_empty();
        let keys: Vec<_> = headers.iter().map(|header| (header.number, header.hash())).collect();
        let (levels, refused) = verifier.verify(headers);
        let accepted = levels.len();
        for ((number, hash), level) in keys.into_iter().zip(levels) {
            tally.add(number, hash, level);
        }
        if let Some(refused) = refused {
            return Err(failed(&format!("{refused}{}", file.place(accepted))));
        }
        if let Some(damage) = damage {
            return Err(failed(&damage));
        }
        if is_end {
            return Ok(());
        }
    }
}

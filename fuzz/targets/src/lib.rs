//! The fuzz targets: for every parser of bytes from outside, a function that takes any bytes and panics if a rule is
//! broken that must hold for all inputs.
//!
//! It owns the list of targets ([`TARGETS`]), the initial inputs of a search ([`seeds`]), and the memory bound of each.
//! The programs around libFuzzer in `fuzz/src/bin` and the test that replays every kept input
//! (`tests/kept_inputs.rs`) call the same [`Running::run`].
//!
//! Invariant: a target depends only on its input, not on time, random numbers or earlier runs, so that a finding can be
//! replayed. It opens no database and no socket.

#![forbid(unsafe_code)]
#![allow(clippy::expect_used, reason = "the fuzzer detects a broken rule by a panic")]

mod access;
mod chain;
mod consensus_arguments;
mod device;
mod enodes;
mod envelope;
mod eth;
mod execution;
mod genesis;
mod kept;
mod key_files;
mod memory;
mod messages;
mod native;
mod network;
mod node_files;
mod parameters;
mod seeds;
mod settings;
mod signatures;
mod signing;
mod stored;
mod trie;
mod websocket;

use std::path::Path;
use std::{fs, io};

pub use memory::{Bound, PEAK};
pub use seeds::seeds;

/// A parser and the rules that its input cannot break.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of the program, of the folder of kept inputs, and of the dictionary.
    pub name: &'static str,
    /// Its input, for the table at the end of a run.
    pub about: &'static str,
    /// Maximum memory for one input.
    pub bound: Bound,
    check: fn(&[u8]),
}

const fn target(name: &'static str, about: &'static str, bound: Bound, check: fn(&[u8])) -> Target {
    Target { name, about, bound, check }
}

/// Every target, in the order of running.
///
/// The bounds follow from what an item costs in memory against the shortest bytes that make one: an RLP transaction of
/// ten bytes becomes a value of some 300, a JSON item of two bytes one of 80.
pub const TARGETS: [Target; 52] = [
    target("envelope", "JSON-RPC messages", Bound::bytes(1 << 20, 512), envelope::answer),
    target("websocket", "WebSocket frames", Bound::bytes(1 << 18, 64), websocket::frames),
    target("parameters", "parameters of methods", Bound::bytes(1 << 18, 512), parameters::values),
    target("consensus_arguments", "headers as arguments", Bound::bytes(1 << 18, 512), consensus_arguments::arguments),
    target("hex", "addresses, hashes, quantities", Bound::bytes(1 << 16, 64), parameters::hex_values),
    target("header", "headers of both profiles", Bound::bytes(1 << 16, 64), chain::header),
    target("block", "blocks of both profiles", Bound::bytes(1 << 16, 128), chain::block),
    target("transaction", "transactions, with and without blobs", Bound::bytes(1 << 18, 128), chain::transaction),
    target("signatures", "signatures recovered in batches", Bound::bytes(1 << 20, 64), signatures::batch),
    target("receipt", "receipts", Bound::bytes(1 << 16, 128), chain::receipt),
    target("chain_file", "files of blocks", Bound::bytes(1 << 18, 128), chain::chain_file),
    target("native_extra", "extra data of native headers", Bound::bytes(1 << 16, 128), native::extra),
    target("native_messages", "certificates, votes, timeouts", Bound::bytes(1 << 16, 128), native::messages),
    target("genesis", "genesis files", Bound::bytes(1 << 20, 512), genesis::file),
    target("settings", "settings files and variables", Bound::bytes(1 << 20, 1024), settings::layers),
    target("bus_frames", "messages of plugins", Bound::bytes(3 << 20, 128), messages::bus),
    target("isolation_frames", "frames of plugins in processes", Bound::bytes(1 << 20, 64), messages::isolation),
    target("trie", "invalid trie nodes", Bound::bytes(1 << 18, 512), trie::nodes),
    target("trie_changes", "updates and proofs", Bound::bytes(1 << 20, 4096), trie::changes),
    target("native_proofs", "input of native contracts", Bound::bytes(1 << 20, 512), execution::proofs),
    target("trace_options", "options of traces", Bound::bytes(1 << 20, 512), execution::trace_options),
    target("pool_journal", "the journal of local transactions", Bound::bytes(1 << 18, 128), kept::journal),
    target("voting_record", "this node's part in the voting", Bound::bytes(1 << 18, 512), kept::voting),
    target("filter_handover", "filters from another build", Bound::bytes(3 << 20, 512), kept::filters),
    target("header_file", "files of headers", Bound::bytes(1 << 18, 512), node_files::headers),
    target("module_choices", "choices about modules", Bound::bytes(1 << 18, 512), node_files::choices),
    target("plugin_manifest", "manifests of plugins", Bound::bytes(1 << 18, 128), node_files::manifest),
    target("plugin_library", "heads of libraries", Bound::bytes(1 << 16, 16), node_files::library),
    target("table_record", "the record of the list of tables", Bound::bytes(1 << 16, 64), node_files::table_record),
    target("stored_records", "records of the database", Bound::bytes(1 << 20, 256), stored::records),
    target("bearer_token", "tokens and their secrets", Bound::bytes(1 << 16, 64), access::token),
    target("request_headers", "request headers that decide on access", Bound::bytes(1 << 18, 256), access::headers),
    target("eth_arguments", "arguments of eth methods", Bound::bytes(1 << 18, 512), eth::arguments),
    target("rlp_items", "RLP of any kind, leaves of tries", Bound::bytes(1 << 18, 256), chain::items),
    target("exchange_orders", "orders of the exchange", Bound::bytes(1 << 20, 512), execution::exchange_orders),
    target("exchange_market", "markets of the exchange", Bound::bytes(4 << 20, 16384), execution::exchange_market),
    target("device_frames", "packets of hardware wallets", Bound::bytes(1 << 16, 64), device::frames),
    target("device_messages", "messages of hardware wallets", Bound::bytes(1 << 16, 512), device::messages),
    target("device_session", "answers of hardware wallets", Bound::bytes(1 << 17, 512), device::session),
    target("device_typed_data", "typed data for hardware wallets", Bound::bytes(1 << 18, 512), device::typed_data_text),
    target("signing_policy", "rules for signing", Bound::bytes(1 << 20, 1024), signing::policy),
    target("signing_call", "calls and texts before an approval", Bound::bytes(1 << 18, 512), signing::call),
    target("signing_request", "requests of the signing service", Bound::bytes(4 << 20, 512), signing::service_request),
    target("signing_log", "lines of the audit log", Bound::bytes(1 << 20, 512), signing::audit_log),
    target("key_file", "encrypted key files", Bound::bytes(2 << 20, 512), key_files::file),
    target("script", "tracers written in JavaScript", Bound::bytes(64 << 20, 512), execution::script),
    target("enode", "enode URLs", Bound::bytes(1 << 16, 64), enodes::url),
    target("network_handshake", "first bytes of connections", Bound::bytes(1 << 18, 64), network::handshake),
    target("network_payloads", "compressed payloads, Hello", Bound::bytes(1 << 20, 128), network::payloads),
    target("network_messages", "messages of peers", Bound::bytes(1 << 18, 256), network::messages),
    target("network_datagrams", "packets of discovery", Bound::bytes(1 << 18, 64), network::datagrams),
    target("node_records", "records of nodes, the file of nodes", Bound::bytes(1 << 18, 64), network::records),
];

/// A target that has been initialised, ready for any number of inputs.
#[derive(Clone, Copy, Debug)]
pub struct Running(Target);

impl Running {
    /// The target with this name, run once with its first seeds: this initialises everything that is created once per
    /// process (tables, contexts of curves, threads), so that no later input is charged for that memory.
    ///
    /// # Panics
    /// If there is no such target, or its own seeds break a rule.
    pub fn start(name: &str) -> Self {
        let target = TARGETS.iter().find(|target| target.name == name).expect("a target of this name");
        seeds(name).iter().take(3).for_each(|seed| (target.check)(seed));
        Self(*target)
    }

    /// Runs one input.
    ///
    /// # Panics
    /// If a rule is broken, or the input takes more memory than the target's bound.
    pub fn run(&self, input: &[u8]) {
        self.0.bound.hold(input, self.0.check);
    }
}

/// Writes the seeds of a target, one file each, and its dictionary, for libFuzzer.
///
/// # Errors
/// The operating system's error.
pub fn write_seeds(name: &str, folder: &Path, dictionary: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (number, seed) in seeds(name).iter().enumerate() {
        fs::write(folder.join(format!("seed-{number:04}")), seed)?;
    }
    let quoted = |word: &String| word.bytes().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
    let lines: String = seeds::words(name).iter().map(|word| format!("\"{}\"\n", quoted(word))).collect();
    fs::write(dictionary, lines)
}

//! A chain like the main network's: masternodes that sign every certificate, epochs, signing transactions, rewards at
//! each epoch switch, over a state of many accounts.
//!
//! `make` writes into a folder: `genesis.json` (rules and contracts), `start` (a database with block 0, whose accounts
//! are written directly), `making` (the database of the chain, from which the next `make` continues), and `chain.rlp`.
//! `import` measures an import of it, `ask` measures reads of the imported state. Each is a process of its own, so that
//! memory is that of one step.

mod importing;
mod making;
mod network;
mod reading;
mod traffic;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tenon_api::{ChainReader, ConsensusEngine};
use tenon_bus::Bus;
use tenon_chain::ChainSpec;
use tenon_execution::Importer;
use tenon_native_consensus::NativeEngine;
use tenon_native_spec::read_genesis;
use tenon_storage::{Store, StoreOptions};

use crate::{Outcome, chain::rules_of_blocks};

/// The commands.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Makes the chain, or continues an unfinished one
    Make(Plan),
    /// Imports it into a new database
    Import(importing::Import),
    /// Reads balances and proofs of an imported chain, at the head and far below it
    Ask(reading::ReadOptions),
}

pub(crate) fn execute(command: &Command) -> Outcome<Value> {
    match command {
        Command::Make(plan) => making::make(plan),
        Command::Import(import) => importing::measure(import),
        Command::Ask(options) => reading::measure(options),
    }
}

/// Size of the chain. An existing folder keeps its size, except that more blocks can be requested.
#[derive(Args, Clone, Debug)]
pub(crate) struct Plan {
    /// Folder to write to
    #[arg(long)]
    folder: PathBuf,
    /// Accounts of the state before the first block
    #[arg(long, default_value_t = 1_000_000)]
    accounts: u64,
    /// Blocks
    #[arg(long, default_value_t = 20_000)]
    blocks: u64,
    /// Masternodes
    #[arg(long, default_value_t = 108)]
    masternodes: usize,
    /// Signatures in each certificate; at least two thirds of the masternodes
    #[arg(long, default_value_t = 108)]
    signatures: usize,
    /// Rounds of an epoch
    #[arg(long, default_value_t = 900)]
    epoch: u64,
    /// Ordinary transactions of five blocks, in addition to the signing transactions
    #[arg(long, default_value_t = 14)]
    transactions: u64,
    /// Also write `genesis-full.json` with every account, for a client that can only start from a file
    #[arg(long)]
    genesis_file: bool,
}

impl Plan {
    /// All parameters of the blocks, except their number.
    fn block_parameters(&self) -> Value {
        json!({
            "accounts": self.accounts, "masternodes": self.masternodes, "signatures": self.signatures,
            "epoch": self.epoch, "transactions": self.transactions,
        })
    }
}

/// Rules, database and engine of the chain.
pub(crate) struct Opened {
    pub(crate) spec: Arc<ChainSpec>,
    pub(crate) store: Arc<Store>,
    pub(crate) engine: Arc<NativeEngine>,
}

impl Opened {
    pub(crate) fn open(folder: &Path, database: &Path, options: StoreOptions, is_sampled: bool) -> Outcome<Self> {
        let spec = read_genesis(&fs::read(folder.join("genesis.json"))?)?.spec;
        let store = Store::open(database, options)?;
        let engine = NativeEngine::new(&spec)?.sampling_certificates(is_sampled);
        Ok(Self { spec, store, engine: Arc::new(engine) })
    }

    pub(crate) fn reader(&self) -> Arc<dyn ChainReader> {
        Arc::clone(&self.store) as _
    }

    pub(crate) fn importer(&self) -> Outcome<Importer> {
        let writer = Arc::new(self.store.take_writer()?);
        let engine = Arc::clone(&self.engine) as Arc<dyn ConsensusEngine>;
        Ok(Importer::new(rules_of_blocks(&self.spec), self.reader(), writer, engine, Bus::new()))
    }
}

/// Copies a closed database.
fn copy_database(from: &Path, to: &Path) -> Outcome<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Length of all files of a folder, bytes.
fn folder_bytes(folder: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let metadata = entry?.metadata()?;
        bytes += if metadata.is_file() { metadata.len() } else { 0 };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failure fails the test")]

    use super::*;
    use crate::chain::store_options;
    use importing::Certificates;

    fn plan(folder: &Path, blocks: u64) -> Plan {
        Plan {
            folder: folder.to_path_buf(),
            accounts: 50,
            blocks,
            masternodes: 7,
            signatures: 5,
            epoch: 20,
            transactions: 14,
            genesis_file: true,
        }
    }

    #[test]
    fn a_small_chain_is_made_in_two_runs_and_imports_to_its_head_both_ways() {
        let folder = tempfile::tempdir().unwrap();
        let part = execute(&Command::Make(plan(folder.path(), 30))).unwrap();
        let made = execute(&Command::Make(plan(folder.path(), 70))).unwrap();
        assert_eq!((part["blocks"].as_u64(), made["blocks"].as_u64()), (Some(30), Some(70)));
        assert_ne!(part["head"], made["head"]);
        // The seven masternodes sign blocks 15, 30, 45 and 60; five ordinary blocks have 14 transactions.
        assert!(made["transactions"].as_u64().unwrap() > 7 * 3 + 150, "{made}");

        for certificates in [Certificates::All, Certificates::Sampled] {
            let datadir = folder.path().join("imported");
            let import =
                importing::Import { folder: folder.path().into(), datadir: datadir.clone(), cache: 16, certificates };
            let report = execute(&Command::Import(import)).unwrap();
            assert_eq!((&report["head"], report["blocks"].as_u64()), (&made["head"], Some(70)));
            assert!(report["switch_milliseconds"].is_number(), "{report}");
            let options = reading::ReadOptions {
                folder: folder.path().into(),
                datadir: datadir.clone(),
                cache: 16,
                accounts: 50,
                balances: 100,
                proofs: 2,
                balance_age: 40,
                proof_ages: vec![10, 60, 1_000],
            };
            let answers = execute(&Command::Ask(options)).unwrap();
            assert_eq!(answers["proofs"].as_array().unwrap().len(), 2);
            fs::remove_dir_all(datadir).unwrap();
        }
    }

    #[test]
    fn the_genesis_file_for_others_gives_the_same_block_0() {
        let folder = tempfile::tempdir().unwrap();
        execute(&Command::Make(plan(folder.path(), 1))).unwrap();
        let written = read_genesis(&fs::read(folder.path().join("genesis-full.json")).unwrap()).unwrap();
        let store = Store::open(&folder.path().join("start"), store_options(512)).unwrap();
        assert_eq!(written.commit().unwrap().block.hash(), store.head().header.hash());
    }

    #[test]
    fn a_folder_with_another_plan_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        execute(&Command::Make(plan(folder.path(), 1))).unwrap();
        let other = Plan { epoch: 30, ..plan(folder.path(), 1) };
        let refused = execute(&Command::Make(other)).unwrap_err().to_string();
        assert!(refused.contains("has another plan"), "{refused}");
    }
}

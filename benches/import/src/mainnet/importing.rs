//! Imports the chain as the node does, and reports its rate, memory, disk and the cost of epoch switches.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tenon_api::ChainReader;
use tenon_execution::{ImportObserver, ImportedBlock};
use tenon_storage::StoreOptions;

use super::{Opened, copy_database, folder_bytes};
use crate::{
    Outcome,
    chain::{blocks, peak_memory, resident_memory},
};

/// Samples of memory while importing.
const SAMPLES: u64 = 20;

/// Which certificates are verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Certificates {
    All,
    Sampled,
}

/// Source, destination and settings of an import.
#[derive(Args)]
pub(crate) struct Import {
    /// Folder of `make`
    #[arg(long)]
    pub(crate) folder: PathBuf,
    /// Folder of the database; must not exist, and is not removed
    #[arg(long)]
    pub(crate) datadir: PathBuf,
    /// Memory for cached records, MiB
    #[arg(long, default_value_t = 128)]
    pub(crate) cache: usize,
    /// Certificates that are verified
    #[arg(long, value_enum, default_value = "all")]
    pub(crate) certificates: Certificates,
}

struct Watch {
    began: Instant,
    /// When each block was committed.
    passed: Vec<(u64, Duration)>,
    sample_every: u64,
    memory: Vec<u64>,
}

impl ImportObserver for Watch {
    fn passed(&mut self, block: &ImportedBlock) {
        self.passed.push((block.number.0, self.began.elapsed()));
        if block.number.0.is_multiple_of(self.sample_every) {
            self.memory.push(resident_memory());
        }
    }
}

pub(crate) fn measure(import: &Import) -> Outcome<Value> {
    if import.datadir.exists() {
        return Err(format!("{} exists", import.datadir.display()).into());
    }
    copy_database(&import.folder.join("start"), &import.datadir)?;
    let bytes_before = folder_bytes(&import.datadir)?;
    let is_sampled = import.certificates == Certificates::Sampled;
    let options = StoreOptions::with_cache(import.cache << 20);
    let chain = Opened::open(&import.folder, &import.datadir, options, is_sampled)?;
    let source = import.folder.join("chain.rlp");
    let plan: Value = serde_json::from_slice(&fs::read(import.folder.join("plan.json"))?)?;
    let epoch = plan["epoch"].as_u64().ok_or("plan.json has no epoch")?;
    let count = blocks(&source)?.count() as u64;
    let began = Instant::now();
    let mut watch = Watch { began, passed: Vec::new(), sample_every: (count / SAMPLES).max(1), memory: Vec::new() };
    let summary = chain.importer().import(blocks(&source)?, &mut watch)?;
    let seconds = began.elapsed().as_secs_f64();
    let head = chain.store.head().header.hash();
    drop(chain);
    Ok(json!({
        "seconds": seconds,
        "blocks": summary.imported,
        "transactions": summary.transactions,
        "head": head,
        "peak_memory": peak_memory(),
        "memory": watch.memory,
        "bytes_a_block": folder_bytes(&import.datadir)?.saturating_sub(bytes_before) / summary.imported.max(1),
        "switch_milliseconds": switch_cost(&watch.passed, epoch),
    }))
}

/// Time of an epoch switch beyond an ordinary block, milliseconds; none without a switch. An ordinary block's is the
/// mean of the others, because blocks of the pipeline are committed unevenly; a switch's is the median over a few
/// blocks before and after it, for the same reason.
fn switch_cost(passed: &[(u64, Duration)], epoch: u64) -> Option<f64> {
    const AROUND: usize = 5;
    let total = passed.last()?.1.as_secs_f64();
    let ordinary = total / passed.len() as f64;
    let mut costs: Vec<f64> = Vec::new();
    for (place, (number, _)) in passed.iter().enumerate() {
        if !number.is_multiple_of(epoch) || place < AROUND || place + AROUND >= passed.len() {
            continue;
        }
        let around = (passed[place + AROUND].1 - passed[place - AROUND].1).as_secs_f64();
        costs.push((around - ordinary * (2 * AROUND) as f64) * 1000.0);
    }
    costs.sort_by(f64::total_cmp);
    costs.get(costs.len() / 2).copied()
}

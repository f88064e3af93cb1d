//! Imports the chain as the node does, and reports its rate, memory, disk and the cost of epoch switches.

use std::{
    cell::RefCell,
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tenon_api::ChainReader;
use tenon_execution::{ImportObserver, ImportedBlock};

use super::{Opened, copy_database, folder_bytes};
use crate::{
    Outcome,
    chain::{blocks, peak_memory, resident_memory, store_options},
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
    /// When the execution of each block began. Commits are reported in groups, so they do not show the time of one block.
    begun: RefCell<Vec<Duration>>,
    first: Option<u64>,
    sample_every: u64,
    memory: Vec<u64>,
}

impl ImportObserver for Watch {
    fn passed(&mut self, block: &ImportedBlock) {
        self.first.get_or_insert(block.number.0);
        if block.number.0.is_multiple_of(self.sample_every) {
            self.memory.push(resident_memory());
        }
    }

    fn is_cancelled(&self) -> bool {
        self.begun.borrow_mut().push(self.began.elapsed());
        false
    }
}

pub(crate) fn measure(import: &Import) -> Outcome<Value> {
    if import.datadir.exists() {
        return Err(format!("{} exists", import.datadir.display()).into());
    }
    copy_database(&import.folder.join("start"), &import.datadir)?;
    let bytes_before = folder_bytes(&import.datadir)?;
    let is_sampled = import.certificates == Certificates::Sampled;
    let options = store_options(import.cache);
    let chain = Opened::open(&import.folder, &import.datadir, options, is_sampled)?;
    let source = import.folder.join("chain.rlp");
    let plan: Value = serde_json::from_slice(&fs::read(import.folder.join("plan.json"))?)?;
    let epoch = plan["epoch"].as_u64().ok_or("plan.json has no epoch")?;
    let count = blocks(&source)?.count() as u64;
    let began = Instant::now();
    let mut watch = Watch {
        began,
        begun: RefCell::default(),
        first: None,
        sample_every: (count / SAMPLES).max(1),
        memory: Vec::new(),
    };
    let summary = chain.importer()?.import(blocks(&source)?, &mut watch)?;
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
        "switch_milliseconds": switch_cost(&watch.begun.into_inner(), watch.first.unwrap_or_default(), epoch),
    }))
}

/// Time of an epoch switch beyond an ordinary block, milliseconds, from the times at which the execution of each block
/// began; none without a switch. Both are medians: a block may also wait for the disk.
fn switch_cost(begun: &[Duration], first: u64, epoch: u64) -> Option<f64> {
    let (mut switches, mut others) = (Vec::new(), Vec::new());
    for (number, times) in (first..).zip(begun.windows(2)) {
        let times_of_kind = if number.is_multiple_of(epoch) { &mut switches } else { &mut others };
        times_of_kind.push((times[1] - times[0]).as_secs_f64() * 1000.0);
    }
    Some(median(switches)? - median(others)?)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

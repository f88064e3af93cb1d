//! Reads of an imported chain: balances far below the head compared with balances at the head, and proofs by age.

use std::{path::PathBuf, sync::Arc, time::Instant};

use clap::Args;
use serde_json::{Value, json};
use tenon_api::{BlockNumber, ChainReader, Unlimited};
use tenon_chain::prove;

use super::Opened;
use crate::{
    Outcome,
    chain::store_options,
    heavy::{Numbers, resident},
};

/// Options of the reads.
#[derive(Args)]
pub(crate) struct ReadOptions {
    /// Folder of `make`
    #[arg(long)]
    pub(crate) folder: PathBuf,
    /// Database of `import`
    #[arg(long)]
    pub(crate) datadir: PathBuf,
    /// Memory for cached records, MiB
    #[arg(long, default_value_t = 128)]
    pub(crate) cache: usize,
    /// Accounts of the state, as in the plan
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) accounts: u64,
    /// Balances read at each height
    #[arg(long, default_value_t = 20_000)]
    pub(crate) balances: u64,
    /// Proofs made at each height
    #[arg(long, default_value_t = 5)]
    pub(crate) proofs: u64,
    /// Blocks below the head at which balances are read
    #[arg(long, default_value_t = 10_000)]
    pub(crate) balance_age: u64,
    /// Blocks below the head at which proofs are made
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 15_000])]
    pub(crate) proof_ages: Vec<u64>,
}

pub(crate) fn measure(options: &ReadOptions) -> Outcome<Value> {
    let stored = store_options(options.cache);
    let chain = Opened::open(&options.folder, &options.datadir, stored, false)?;
    let head = chain.store.head().header.number;
    let older = head.saturating_sub(options.balance_age);
    // Alternating, so that neither height profits from records that the other has cached.
    let mut seconds = [Vec::new(), Vec::new()];
    for round in 0..6 {
        let place = usize::from(round % 2 == 1);
        seconds[place].push(read_balances(&chain, options, [head, older][place], round)?);
    }
    let [at_head, past] = seconds.map(middle);
    let mut proofs = Vec::new();
    for age in &options.proof_ages {
        let Some(number) = head.checked_sub(*age) else { continue };
        let mut durations = Vec::new();
        for position in 0..options.proofs {
            let account = Numbers(position).next() % options.accounts.max(1);
            durations.push(prove_at(&chain, number, account)?);
        }
        proofs.push(json!({ "age": age, "block": number, "seconds": middle(durations) }));
    }
    Ok(json!({
        "head": head,
        "balance_at_head_microseconds": at_head * 1e6,
        "balance_past_microseconds": past * 1e6,
        "balance_age": head - older,
        "balance_ratio": past / at_head,
        "proofs": proofs,
    }))
}

/// Seconds that one balance takes at a height.
fn read_balances(chain: &Opened, options: &ReadOptions, number: u64, seed: u64) -> Outcome<f64> {
    let mut numbers = Numbers(seed);
    let state = chain.store.state_at(BlockNumber(number))?;
    let began = Instant::now();
    for _ in 0..options.balances {
        let address = resident(numbers.next() % options.accounts.max(1));
        if state.account(address)?.is_none() {
            return Err(format!("{address} has no account at block {number}").into());
        }
    }
    Ok(began.elapsed().as_secs_f64() / options.balances.max(1) as f64)
}

/// Seconds of a proof, which is compared with the state.
fn prove_at(chain: &Opened, number: u64, account: u64) -> Outcome<f64> {
    let hash = chain.store.canonical_hash(BlockNumber(number))?.ok_or("no such block")?;
    let header = chain.store.header(hash)?.ok_or("no such header")?;
    let address = resident(account);
    let began = Instant::now();
    let nodes = chain.store.trie_of(&header, Arc::new(Unlimited))?;
    let proof = prove(&*nodes, header.state_root, address, &[])?;
    let seconds = began.elapsed().as_secs_f64();
    let wanted = chain.store.state_at(BlockNumber(number))?.account(address)?.unwrap_or_default();
    if proof.account != wanted {
        return Err(format!("proof of {address} at block {number} has another account").into());
    }
    Ok(seconds)
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

//! The steps of an import, one after the other.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tenon_api::{Block, ChainReader, ChainWriter};
use tenon_chain::recover_senders_under;
use tenon_execution_block::Executor;
use tenon_storage::DirectWriter;

use crate::{
    Outcome, Source,
    chain::{Chain, blocks, genesis, rules_of_blocks},
};

/// Time and size of each step.
#[derive(Default)]
struct Parts {
    reading: Duration,
    recovery: Duration,
    verification: Duration,
    execution: Duration,
    root: Duration,
    commit: Duration,
    blocks: u64,
    transactions: u64,
    gas: u64,
    accounts: u64,
    slots: u64,
    nodes: u64,
}

/// Adds the time of `part` to `spent`.
fn timed<T>(spent: &mut Duration, part: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let outcome = part();
    *spent += began.elapsed();
    outcome
}

pub(crate) fn measure(source: &Source) -> Outcome<Value> {
    let chain = Chain::create(&genesis(&source.genesis)?, &source.datadir)?;
    let executor = Executor::new(rules_of_blocks(&chain.spec));
    let writer = chain.store.take_writer()?;
    let mut parts = Parts::default();
    let mut blocks = blocks(&source.chain)?;
    while let Some(block) = timed(&mut parts.reading, || blocks.next()) {
        let block = block?;
        if block.header.number > 0 {
            insert(&chain, (&executor, &writer), block, &mut parts)?;
        }
    }
    timed(&mut parts.commit, || chain.store.flush())?;
    let sum = parts.recovery + parts.execution + parts.root + parts.commit;
    Ok(json!({
        "reading": parts.reading.as_secs_f64(),
        "recovery": parts.recovery.as_secs_f64(),
        "verification": parts.verification.as_secs_f64(),
        "execution": parts.execution.as_secs_f64(),
        "root": parts.root.as_secs_f64(),
        "commit": parts.commit.as_secs_f64(),
        "sum": sum.as_secs_f64(),
        "blocks": parts.blocks,
        "transactions": parts.transactions,
        "gas": parts.gas,
        "accounts": parts.accounts,
        "slots": parts.slots,
        "nodes": parts.nodes,
        "head": chain.store.head().header.hash(),
    }))
}

fn insert(
    chain: &Chain,
    (executor, writer): (&Executor, &DirectWriter),
    block: Block,
    parts: &mut Parts,
) -> Outcome<()> {
    let (reader, engine) = (chain.reader(), &chain.engine);
    let parent = Arc::clone(&chain.store.head().header);
    let rules = chain.spec.signer_rules(block.header.number, block.header.timestamp);
    let block = Arc::new(timed(&mut parts.recovery, || recover_senders_under(block, &rules))?);
    timed(&mut parts.verification, || {
        engine.verify_header(&block.header, &parent, &*reader)?;
        engine.verify_body(&block, &*reader)
    })?;
    let executed = timed(&mut parts.execution, || executor.run(&*reader, &**engine, Arc::clone(&block), &parent))?;
    let commit = Arc::new(timed(&mut parts.root, || executor.root(&*reader, executed, &parent))?);
    timed(&mut parts.commit, || {
        writer.commit(&commit)?;
        engine.observe(&block);
        engine.observe_head(&block.header, &*reader);
        let (finalized, safe) = engine.finality(&block.header, &*reader);
        writer.set_finality(finalized, safe)
    })?;
    parts.blocks += 1;
    parts.transactions += block.transactions.len() as u64;
    parts.gas += block.header.gas_used;
    parts.accounts += commit.accounts.len() as u64;
    parts.slots += commit.accounts.iter().map(|change| change.slots.len() as u64).sum::<u64>();
    parts.nodes += commit.trie_nodes.len() as u64;
    Ok(())
}

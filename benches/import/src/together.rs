//! The import as in the node.

use std::time::Instant;

use serde_json::{Value, json};
use tenon_api::ChainReader;

use crate::{
    Outcome, Source,
    chain::{Chain, blocks, genesis, peak_memory},
};

pub(crate) fn measure(source: &Source) -> Outcome<Value> {
    let chain = Chain::create(&genesis(&source.genesis)?, &source.datadir)?;
    let importer = chain.importer()?;
    let memory_before = peak_memory();
    let began = Instant::now();
    let summary = importer.import(blocks(&source.chain)?, &mut ())?;
    Ok(json!({
        "seconds": began.elapsed().as_secs_f64(),
        "blocks": summary.imported,
        "transactions": summary.transactions,
        "gas": summary.gas_used,
        "head": chain.store.head().header.hash(),
        "memory_before": memory_before,
        "peak_memory": peak_memory(),
    }))
}

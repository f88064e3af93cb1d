//! A node's own blocks, as a peer receives them: milliseconds from the time at which each was due.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use serde_json::{Value, json};
use tenon_network_wire::{Kind, Message};

use crate::Outcome;
use crate::peer::{Target, source};

/// Seconds between two blocks of the chain `load`.
const PERIOD: u64 = 1;

/// Options of the measurement.
#[derive(Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    target: Target,
    /// Number of blocks
    #[arg(long)]
    blocks: usize,
}

/// Every block: milliseconds from its due time, and its number of transactions.
pub(crate) async fn measure(plan: &Plan) -> Outcome<Value> {
    let mut peer = plan.target.connect_empty(source(0)).await?;
    let (mut found, mut last) = (Vec::new(), None);
    while found.len() < plan.blocks {
        let Message::NewBlock(new) = peer.next_message(Kind::NewBlock).await? else { return Err("not a block".into()) };
        let arrived = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let (number, timestamp) = (new.block.header.number, new.block.header.timestamp);
        // A late block may have a later timestamp, so the due time is computed from the parent's timestamp.
        if let Some(parent) = last.filter(|(parent, _)| parent + 1 == number).map(|(_, timestamp)| timestamp) {
            let due = Duration::from_secs(parent + PERIOD);
            let milliseconds = (arrived.as_secs_f64() - due.as_secs_f64()) * 1_000.0;
            let (transactions, gas) = (new.block.transactions.len(), new.block.header.gas_used);
            found.push(json!({ "milliseconds": milliseconds, "transactions": transactions, "gas": gas }));
        }
        last = Some((number, timestamp));
    }
    Ok(Value::Array(found))
}

/// Prints the encoded transactions of a file's blocks for RPC, one list per block.
pub(crate) fn raw(plan: &Raw) -> Outcome<Value> {
    let blocks = crate::blocks::read(&plan.chain)?;
    let raw = |block: &tenon_api::Block| {
        let encode = |transaction| alloy_primitives::hex::encode_prefixed(tenon_chain::encode_transaction(transaction));
        block.transactions.iter().map(|transaction| encode(transaction)).collect::<Vec<_>>()
    };
    Ok(json!(blocks.iter().map(raw).collect::<Vec<_>>()))
}

/// A file of blocks.
#[derive(Args)]
pub(crate) struct Raw {
    /// Blocks as RLP
    #[arg(long)]
    chain: std::path::PathBuf,
}

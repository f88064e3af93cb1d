//! The log line of each block.

use tenon_api::BlockCommit;
use tenon_api::messages::BlockCommitted;
use tenon_bus::{Bus, Delivery};

/// Logs one line per block until the bus is closed.
pub(crate) async fn write(bus: Bus) {
    let mut blocks = bus.subscribe::<BlockCommitted>();
    drop(bus);
    while let Some(delivery) = blocks.next().await {
        match delivery {
            Delivery::Event(BlockCommitted { commit }) => log_block(&commit),
            Delivery::Missed(count) => tracing::info!(count, "blocks were not logged"),
        }
    }
}

/// The log line of a block.
pub(crate) fn log_block(commit: &BlockCommit) {
    tracing::info!(
        number = commit.block.header.number,
        hash = %commit.block.hash(),
        txs = commit.block.transactions.len(),
        gas = commit.block.header.gas_used,
        "block"
    );
}

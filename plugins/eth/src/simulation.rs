//! Simulating blocks: `docs/spec/upgrades.md` 11, as go-ethereum does.

use tenon_sdk::{
    prelude::*,
    shapes::{SimulationArgument, simulated_blocks_json},
};

use crate::{Answer, EthContext, block_or_latest};

/// Answers up to this size are not counted, because the call itself already accounts for them.
const UNCOUNTED_BYTES: usize = 16 << 10;
/// Memory of a transaction without its input.
const TRANSACTION_BYTES: usize = 512;

pub(crate) async fn simulate(context: EthContext, wanted: SimulationArgument, block: Option<BlockParam>) -> Answer {
    let SimulationArgument { blocks, traces_transfers, validates, returns_full_transactions } = wanted;
    let blocks = blocks?;
    if blocks.is_empty() {
        return Err(Failure::invalid_params("empty input"));
    }
    let base = block_or_latest(&context, block, 1).await?;
    let profile = crate::profile(&context).await?;
    let simulated = context.call(Simulate { base, blocks, traces_transfers, validates }).await.or_failure()?;
    // The simulated blocks, and their JSON with two digits for each byte.
    let bytes: usize = simulated.iter().map(bytes_of).sum();
    let _held = match bytes {
        ..=UNCOUNTED_BYTES => None,
        _ => Some(context.hold(bytes.saturating_mul(3))?),
    };
    Ok(simulated_blocks_json(profile, &simulated, returns_full_transactions))
}

/// Approximate memory of a simulated block, in bytes.
fn bytes_of(block: &SimulatedBlock) -> usize {
    let of_log = |log: &SimulatedLog| size_of::<SimulatedLog>() + log.log.data.len() + 32 * log.log.topics.len();
    let of_call = |call: &SimulatedCall| {
        let logs: usize = call.logs.iter().map(of_log).sum();
        size_of::<SimulatedCall>() + call.returned.len() + logs
    };
    let inputs = block.stored.block.transactions.iter().map(|transaction| TRANSACTION_BYTES + transaction.input.len());
    block.calls.iter().map(of_call).sum::<usize>() + inputs.sum::<usize>()
}

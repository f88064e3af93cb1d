//! Simulating blocks: `docs/spec/upgrades.md` 11, as go-ethereum does.

use tenon_sdk::{
    prelude::*,
    shapes::{SimulationArgument, simulated_blocks_json},
};

use crate::{Answer, EthContext, block_or_latest};

pub(crate) async fn simulate(context: EthContext, wanted: SimulationArgument, block: Option<BlockParam>) -> Answer {
    let SimulationArgument { blocks, traces_transfers, validates, returns_full_transactions } = wanted;
    let blocks = blocks?;
    if blocks.is_empty() {
        return Err(Failure::invalid_params("empty input"));
    }
    let base = block_or_latest(&context, block, 1).await?;
    let profile = crate::profile(&context).await?;
    let simulated = context.call(Simulate { base, blocks, traces_transfers, validates }).await?;
    Ok(simulated_blocks_json(profile, &simulated, returns_full_transactions))
}

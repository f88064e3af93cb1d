//! `eth_getTokenStats`: the supply record of native chains (`docs/spec/upgrades.md` 4, 11.1).

use tenon_sdk::{param::EpochParam, prelude::*, shapes::JsonWriter};

use crate::{Answer, EthContext, native::require_native};

/// Account whose storage is the supply record.
const RECORD: Address = Address::with_last_byte(0x9a);
/// Slot of the epoch of the record's first entry.
const FIRST_EPOCH: B256 = B256::with_last_byte(1);
/// First byte of the slot of each figure of an epoch.
const MINTED: u8 = 1;
const BURNED: u8 = 2;
const REWARD_BLOCK: u8 = 3;
/// Wei per coin.
const COIN: U256 = U256::from_limbs([1_000_000_000_000_000_000, 0, 0, 0]);

/// Minted and burned amounts up to an epoch, wei. The part of engine v1 is the reference's estimate: the full reward
/// for every epoch before the record's first.
pub(crate) async fn get_token_stats(context: EthContext, epoch: EpochParam) -> Answer {
    require_native(&context, "eth_getTokenStats").await?;
    let head = context.call(GetHead).await?;
    let block = BlockId::hash(head.header.hash());
    if context.call(GetAccount { address: RECORD, block }).await?.nonce == 0 {
        let reason = "mintedRecordAddress is not initialized due to Reward Upgrade is not applied";
        return Err(Failure::server(reason));
    }
    let parameters = context.call(GetConsensusParameters).await?;
    let current = current_epoch(&context, block, &parameters).await?;
    let epoch = epoch.0.unwrap_or(current);
    let slot = |slot| context.call(GetStorage { address: RECORD, slot, block });
    let first = slot(FIRST_EPOCH).await?;
    if U256::from(epoch) < first {
        return Err(Failure::server("epoch number is before reward upgrade"));
    }
    if epoch > current {
        return Err(Failure::server("epoch number is after current epoch"));
    }
    let minted = slot(epoch_slot(MINTED, epoch)).await?;
    let burned = slot(epoch_slot(BURNED, epoch)).await?;
    let reward_block = slot(epoch_slot(REWARD_BLOCK, epoch)).await?.saturating_to();
    // Block 0 for an epoch without a record. A chain that was not imported from block 0 may not have it.
    let rewarded = context.call(GetHeader { block: BlockId::number(reward_block) }).await?;
    let rewarded = rewarded.ok_or_else(|| Failure::server(format!("block {reward_block} is not on the chain")))?;
    let before = first.saturating_sub(U256::from(1)).wrapping_mul(U256::from(parameters.reward)).wrapping_mul(COIN);

    let mut json = JsonWriter::with_capacity(500);
    json.begin_object();
    json.key("v1");
    json.begin_object();
    json.key("minted").quantity_256(before);
    json.end_object();
    json.key("v2");
    json.begin_object();
    json.key("minted").quantity_256(minted);
    json.key("burned").quantity_256(burned);
    json.end_object();
    json.key("minted").quantity_256(before.wrapping_add(minted));
    json.key("upgradeEpochNum").quantity_256(first);
    json.key("epochNum").quantity(epoch);
    json.key("blockHash").data(rewarded.header.hash());
    json.key("blockNumber").quantity(reward_block);
    json.end_object();
    Ok(json)
}

/// The slot that stores a figure ([`MINTED`], [`BURNED`] or [`REWARD_BLOCK`]) of an epoch.
fn epoch_slot(figure: u8, epoch: u64) -> B256 {
    let mut slot = B256::ZERO;
    slot[0] = figure;
    slot[24..].copy_from_slice(&epoch.to_be_bytes());
    slot
}

/// The epoch of a block.
async fn current_epoch(context: &EthContext, block: BlockId, parameters: &ConsensusParameters) -> Result<u64, Failure> {
    let members = context.call(GetEpochMembers { block }).await?.unwrap_or_default();
    let length = parameters.epoch.max(1);
    Ok(match members.number > parameters.switch_block {
        true => parameters.switch_epoch.saturating_add(members.round / length),
        false => members.number / length,
    })
}

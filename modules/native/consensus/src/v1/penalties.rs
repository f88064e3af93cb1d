//! Penalties of a v1 checkpoint: three rules by height (`docs/spec/consensus.md` 2.7).

use std::{collections::HashSet, sync::Arc};

use alloy_primitives::U256;
use tenon_api::{Address, B256, ChainReader, SealedHeader, StateReader, StoreError};
use tenon_chain::mapping_slot;

use super::{Context, V1Error};
use crate::{
    addresses_of,
    ancestry::{ancestor, required},
    contract_slots::read_addresses,
    signing::{BLOCK_SIGNERS, MERGE_SIGN_RANGE, RETURN_RANGE, SigningIndex, SigningTransactionFilter},
    v1_masternodes,
};

/// Epochs that a penalty lasts in v1.
pub(crate) const LIMIT_PENALTY_EPOCH: u64 = 4;

/// The required penalties of the checkpoint after `parent`, in order. `candidates` is the signer set of the parent's
/// snapshot (S in 2.6); `state` is the one after the parent.
///
/// # Errors
/// [`V1Error::NoCheckpoint`] if the epoch's checkpoint is not stored, [`V1Error::Store`].
pub(crate) fn penalties(
    context: Context<'_>,
    parent: &SealedHeader,
    candidates: &[Address],
    state: &dyn StateReader,
) -> Result<Vec<Address>, V1Error> {
    let number = parent.number.saturating_add(1);
    let heights = &context.settings.heights;
    if number < heights.tip_signing {
        return silent_by_contract(context, parent, state);
    }
    let trail = DescendingBlocks::walk(context, parent)?;
    let failed_returns = failed_returns(context, parent, candidates, &trail)?;
    if number < heights.tip_randomize {
        return Ok(failed_returns);
    }
    // Rule A before rule B; an address that both name is listed twice.
    let mut penalties = idle(context, parent, &trail)?;
    penalties.extend(failed_returns);
    Ok(penalties)
}

/// Before `tipSigning`: masternodes of the ending epoch without a signature of any of its blocks in the contract 0x89.
fn silent_by_contract(
    context: Context<'_>,
    parent: &SealedHeader,
    state: &dyn StateReader,
) -> Result<Vec<Address>, V1Error> {
    let mut silent = masternodes_of_ending_epoch(context, parent)?;
    let start = (parent.number + 1).saturating_sub(context.epoch());
    let mut current = ancestor(context.chain, parent, parent.number)?.ok_or(V1Error::UnknownAncestor)?;
    loop {
        if silent.is_empty() {
            break;
        }
        if is_signed_range(context, current.number) {
            let slot = mapping_slot(current.hash(), U256::ZERO);
            let signed: HashSet<Address> = read_addresses(state, BLOCK_SIGNERS, slot)?.into_iter().collect();
            silent.retain(|masternode| !signed.contains(masternode));
        }
        if current.number <= start {
            break;
        }
        current = required(context.chain, current.parent_hash)?;
    }
    Ok(silent)
}

/// Returns whether signatures of this block count: every 15th block, all before TIP2019.
fn is_signed_range(context: Context<'_>, number: u64) -> bool {
    number.is_multiple_of(MERGE_SIGN_RANGE) || number < context.settings.heights.tip2019
}

fn masternodes_of_ending_epoch(context: Context<'_>, parent: &SealedHeader) -> Result<Vec<Address>, V1Error> {
    let start = (parent.number + 1).saturating_sub(context.epoch());
    let checkpoint = ancestor(context.chain, parent, start)?.ok_or(V1Error::NoCheckpoint)?;
    Ok(v1_masternodes(&checkpoint.extra_data))
}

/// The blocks of an epoch, in descending order.
struct DescendingBlocks {
    /// Hashes from the last block of the epoch down to its checkpoint.
    hashes: Vec<B256>,
    /// Their makers, without the checkpoint's.
    creators: HashSet<Address>,
}

impl DescendingBlocks {
    /// Walks from the parent of a checkpoint back to the previous checkpoint (2.7, "A").
    fn walk(context: Context<'_>, parent: &SealedHeader) -> Result<Self, V1Error> {
        let mut trail = Self { hashes: vec![parent.hash()], creators: HashSet::new() };
        let mut hash = parent.hash();
        for _ in 1..context.epoch() {
            let header = if hash == parent.hash() { Arc::new(parent.clone()) } else { required(context.chain, hash)? };
            trail.creators.insert(context.creator(&header)?);
            hash = header.parent_hash;
            trail.hashes.push(hash);
        }
        Ok(trail)
    }
}

/// A: masternodes of the ending epoch that made none of its blocks, not counting its checkpoint.
fn idle(context: Context<'_>, parent: &SealedHeader, trail: &DescendingBlocks) -> Result<Vec<Address>, V1Error> {
    let mut idle = masternodes_of_ending_epoch(context, parent)?;
    idle.retain(|masternode| !trail.creators.contains(masternode));
    Ok(idle)
}

/// B: candidates that were penalised five epochs ago and did not sign at the end of this one.
fn failed_returns(
    context: Context<'_>,
    parent: &SealedHeader,
    candidates: &[Address],
    trail: &DescendingBlocks,
) -> Result<Vec<Address>, V1Error> {
    let number = parent.number + 1;
    let distance = (LIMIT_PENALTY_EPOCH + 1) * context.epoch();
    if number <= distance {
        return Ok(Vec::new());
    }
    let then = ancestor(context.chain, parent, number - distance)?.ok_or(V1Error::NoCheckpoint)?;
    let penalised = then.native_seal.as_ref().map(|seal| addresses_of(&seal.penalties)).unwrap_or_default();
    let penalised = intersection(penalised, candidates);
    Ok(without_returned(penalised, number, &trail.hashes, context.signing, context.chain)?)
}

/// Removes the addresses from `penalised` that have returned (2.7 "B"). An address has returned if one of the last 150
/// blocks before `number` contains its signing transaction for one of these 150 blocks whose number is a multiple
/// of 15. `hashes[i]` is the block `number - 1 - i`.
fn without_returned(
    mut penalised: Vec<Address>,
    number: u64,
    hashes: &[B256],
    signing: &SigningIndex,
    chain: &dyn ChainReader,
) -> Result<Vec<Address>, StoreError> {
    let mut countable = HashSet::new();
    for (distance, hash) in hashes.iter().take(RETURN_RANGE).enumerate().rev() {
        if penalised.is_empty() {
            break;
        }
        let block_number = number.saturating_sub(1 + distance as u64);
        if block_number.is_multiple_of(MERGE_SIGN_RANGE) {
            countable.insert(*hash);
        }
        for transaction in signing.of(*hash, SigningTransactionFilter::All, chain)?.iter() {
            if countable.contains(&transaction.block) {
                // One transaction removes one entry: the first.
                if let Some(place) = penalised.iter().position(|address| *address == transaction.signer) {
                    penalised.remove(place);
                }
            }
        }
    }
    Ok(penalised)
}

/// The entries of `list` that are in `of`, in order.
fn intersection(list: Vec<Address>, of: &[Address]) -> Vec<Address> {
    let of: HashSet<&Address> = of.iter().collect();
    list.into_iter().filter(|address| of.contains(address)).collect()
}

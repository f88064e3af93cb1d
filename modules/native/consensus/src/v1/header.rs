//! Verification of v1 headers (`docs/spec/consensus.md` 2.3). The order of the checks determines which error is
//! reported.

use tenon_api::{Address, B256, EMPTY_OMMERS_HASH, SealedHeader};
use tenon_native_spec::NATIVE_BASE_FEE;

use super::{
    Context, V1Error,
    checkpoint::verify_lists,
    randomize::RANDOMIZE_EPOCH,
    second_signer::{decode_numbers, second_signer},
    snapshot::{NONCE_ADD, NONCE_DROP, Snapshots},
    turn::CreatorTurn,
};
use crate::{
    ancestry::ancestor,
    extra::{SEAL_BYTES, VANITY_BYTES},
    signers::{HeaderSigners, SIGNATURE_BYTES},
    v1_masternodes, v1_seal_hash,
};

/// Checks a header against its parent. `now` is the clock, Unix time in seconds; `None` skips the checks of the time
/// and the second signature ("full verification" off).
///
/// # Errors
/// [`V1Error`] of the first broken rule.
pub(crate) fn verify(
    context: Context<'_>,
    snapshots: &Snapshots,
    header: &SealedHeader,
    parent: &SealedHeader,
    now: Option<u64>,
) -> Result<(), V1Error> {
    if context.settings.consensus.skip_v1_validation {
        return Ok(());
    }
    let now = now.filter(|_| !context.settings.skips_second_signer);
    verify_alone(context, header, now)?;
    if header.number == 0 {
        return Ok(());
    }
    if parent.number.checked_add(1) != Some(header.number) || parent.hash() != header.parent_hash {
        return Err(V1Error::UnknownAncestor);
    }
    if parent.timestamp.saturating_add(context.settings.consensus.period) > header.timestamp {
        return Err(V1Error::Timestamp);
    }
    verify_base_fee(context, header)?;
    if context.is_checkpoint(header.number) {
        verify_lists(context, snapshots, header, parent)?;
    }
    verify_seals(context, snapshots, header, parent, now.is_some())
}

/// The rules that need no ancestor, for a header checked alone. Whether its creator was a masternode is known only at a
/// checkpoint, which lists them.
pub(crate) fn verify_without_ancestors(
    context: Context<'_>,
    header: &SealedHeader,
    now: Option<u64>,
) -> Result<HeaderSigners, V1Error> {
    let now = now.filter(|_| !context.settings.skips_second_signer);
    verify_alone(context, header, now)?;
    if header.number == 0 {
        return Ok(HeaderSigners { author: Address::ZERO, others: Vec::new() });
    }
    verify_base_fee(context, header)?;
    let author = context.creator(header)?;
    let is_checkpoint = context.is_checkpoint(header.number);
    if is_checkpoint && !v1_masternodes(&header.extra_data).contains(&author) {
        return Err(V1Error::Unauthorized);
    }
    let mut others = Vec::new();
    if now.is_some() && header.number > context.epoch() {
        if is_checkpoint {
            // A checkpoint contains the list of its epoch, so no ancestor is needed.
            verify_second_signer(context, header, header, author)?;
        }
        let seal = header.native_seal.as_ref().ok_or(V1Error::NotNative)?;
        others.push(context.signers.recover(v1_seal_hash(header), &seal.validator)?);
    }
    Ok(HeaderSigners { author, others })
}

/// Rules 1 to 11: those on the header's own items.
fn verify_alone(context: Context<'_>, header: &SealedHeader, now: Option<u64>) -> Result<(), V1Error> {
    let seal = header.native_seal.as_ref().ok_or(V1Error::NotNative)?;
    if let Some(now) = now {
        if header.number > context.epoch() && seal.validator.is_empty() {
            return Err(V1Error::NoSecondSignature);
        }
        if header.timestamp > now {
            return Err(V1Error::FutureBlock);
        }
    }
    let is_checkpoint = context.is_checkpoint(header.number);
    if is_checkpoint && !header.beneficiary.is_zero() {
        return Err(V1Error::CheckpointBeneficiary);
    }
    if header.nonce != NONCE_ADD && header.nonce != NONCE_DROP {
        return Err(V1Error::VoteNonce);
    }
    if is_checkpoint && header.nonce != NONCE_DROP {
        return Err(V1Error::CheckpointVote);
    }
    verify_extra(&header.extra_data, is_checkpoint)?;
    if header.mix_hash != B256::ZERO {
        return Err(V1Error::MixDigest);
    }
    if header.ommers_hash != EMPTY_OMMERS_HASH {
        return Err(V1Error::UncleHash);
    }
    Ok(())
}

/// Rules 6 to 9.
const fn verify_extra(extra: &[u8], is_checkpoint: bool) -> Result<(), V1Error> {
    if extra.len() < VANITY_BYTES {
        return Err(V1Error::MissingVanity);
    }
    let Some(list_bytes) = extra.len().checked_sub(VANITY_BYTES + SEAL_BYTES) else {
        return Err(V1Error::MissingSeal);
    };
    if !is_checkpoint && list_bytes != 0 {
        return Err(V1Error::ExtraSigners);
    }
    if is_checkpoint && !list_bytes.is_multiple_of(Address::len_bytes()) {
        return Err(V1Error::CheckpointSigners);
    }
    Ok(())
}

/// Rule 15 (14.3): no base fee before its fork, the constant from then on.
fn verify_base_fee(context: Context<'_>, header: &SealedHeader) -> Result<(), V1Error> {
    let is_wanted = header.number >= context.settings.heights.eip1559;
    match (header.base_fee_per_gas, is_wanted) {
        (None, false) | (Some(NATIVE_BASE_FEE), true) => Ok(()),
        (None, true) => Err(V1Error::MissingBaseFee),
        (Some(found), _) => {
            let wanted = if is_wanted { NATIVE_BASE_FEE.to_string() } else { "<nil>".to_owned() };
            Err(V1Error::BaseFee { found: found.to_string(), wanted })
        }
    }
}

/// Rules 17 to 21: creator, turn, second signer.
fn verify_seals(
    context: Context<'_>,
    snapshots: &Snapshots,
    header: &SealedHeader,
    parent: &SealedHeader,
    is_full: bool,
) -> Result<(), V1Error> {
    let creator = context.creator(header)?;
    let parent_creator = if parent.number == 0 { None } else { Some(context.creator(parent)?) };
    let masternodes = masternodes_at(context, parent)?;
    let turn = CreatorTurn::new(&masternodes, parent_creator, creator);
    if header.difficulty != turn.difficulty() {
        return Err(V1Error::Difficulty);
    }
    let is_checkpoint = context.is_checkpoint(header.number);
    // A checkpoint is judged by its own list, although the turn of its creator was determined by the old list.
    let masternodes = if is_checkpoint { v1_masternodes(&header.extra_data) } else { masternodes };
    if !masternodes.contains(&creator) {
        // Computed as late as possible: it needs the state after the last gap block.
        let snapshot = snapshots.after(parent, context.chain)?;
        if snapshot.is_some_and(|snapshot| !snapshot.signers().contains(&creator)) {
            return Err(V1Error::Unauthorized);
        }
    }
    if masternodes.len() > 1 && !is_checkpoint && parent_creator == Some(creator) {
        return Err(V1Error::Unauthorized);
    }
    if is_full && header.number > context.epoch() {
        verify_second_signer(context, header, parent, creator)?;
    }
    Ok(())
}

/// Rule 21.
fn verify_second_signer(
    context: Context<'_>,
    header: &SealedHeader,
    parent: &SealedHeader,
    creator: Address,
) -> Result<(), V1Error> {
    let seal = header.native_seal.as_ref().ok_or(V1Error::NotNative)?;
    if seal.validator.len() != SIGNATURE_BYTES {
        return Err(V1Error::MissingValidator);
    }
    let signer = context.signers.recover(v1_seal_hash(header), &seal.validator)?;
    if signer == assigned_second_signer(context, header, parent, creator)? { Ok(()) } else { Err(V1Error::WrongPair) }
}

/// The required second signer of `header`, by the checkpoint that opened its epoch: the header itself, if it is one
/// (2.5). The zero address in the first epoch, which has no pairs.
pub(crate) fn assigned_second_signer(
    context: Context<'_>,
    header: &SealedHeader,
    parent: &SealedHeader,
    creator: Address,
) -> Result<Address, V1Error> {
    let number = header.number;
    let opened_at = number - number % context.epoch();
    if opened_at == 0 {
        return Ok(Address::ZERO);
    }
    if !opened_at.is_multiple_of(RANDOMIZE_EPOCH) {
        return Err(V1Error::NotCheckpoint);
    }
    let stored;
    let checkpoint = if opened_at == number {
        header
    } else {
        stored = ancestor(context.chain, parent, opened_at)?.ok_or(V1Error::NoCheckpoint)?;
        &*stored
    };
    let seal = checkpoint.native_seal.as_ref().ok_or(V1Error::NotNative)?;
    let numbers = decode_numbers(&seal.validators)?;
    let masternodes = v1_masternodes(&checkpoint.extra_data);
    let pairs = super::second_signer::Pairs {
        masternodes: &masternodes,
        numbers: &numbers,
        epoch: context.epoch(),
        tip_randomize: context.settings.heights.tip_randomize,
    };
    second_signer(pairs, creator, number)
}

/// The masternodes of a stored block's epoch, in the order of their turns (2.1).
pub(crate) fn masternodes_at(context: Context<'_>, header: &SealedHeader) -> Result<Vec<Address>, V1Error> {
    let opened_at = header.number - header.number % context.epoch();
    let checkpoint = ancestor(context.chain, header, opened_at)?.ok_or(V1Error::NoCheckpoint)?;
    Ok(v1_masternodes(&checkpoint.extra_data))
}

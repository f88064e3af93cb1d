//! The lists of a v1 checkpoint (`docs/spec/consensus.md` 2.6): masternodes, penalties, numbers of second signers.

use std::collections::HashSet;

use tenon_api::{Address, SealedHeader, StateReader};

use super::{
    Context, V1Error,
    penalties::{LIMIT_PENALTY_EPOCH, penalties},
    randomize::{RANDOMIZE_EPOCH, second_signer_numbers},
    second_signer::encode_numbers,
    snapshot::Snapshots,
};
use crate::{
    addresses_of,
    ancestry::{ancestor, state_after},
    candidates::{read_candidates, read_stake},
    extra::is_same_multiset,
    go_sort::sort_by_stake_descending,
    v1_masternodes,
};

/// Maximum number of candidates in the second attempt.
const MAX_CONTRACT_SIGNERS: usize = 150;

/// The required lists of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointLists {
    /// Masternodes of the epoch, in the order of their turns; in the extra data.
    pub masternodes: Vec<Address>,
    /// Penalised masternodes, in order.
    pub penalties: Vec<Address>,
    /// The `Validators` item; `None` if the height has no pairs.
    pub validators: Option<Vec<u8>>,
}

/// The lists of the checkpoint after `parent` if `signers` are authorised; `state` is the one after the parent.
///
/// # Errors
/// [`V1Error::NoMasternodes`] if none is left, [`V1Error::Store`].
pub(crate) fn checkpoint_lists(
    context: Context<'_>,
    parent: &SealedHeader,
    signers: &[Address],
    state: &dyn StateReader,
) -> Result<CheckpointLists, V1Error> {
    let penalties = penalties(context, parent, signers, state)?;
    let masternodes = without_penalised(context, parent, signers, &penalties)?;
    let validators = numbers(parent.number + 1, &masternodes, state)?;
    Ok(CheckpointLists { masternodes, penalties, validators })
}

/// `signers` without the new penalties and those of the last four checkpoints.
fn without_penalised(
    context: Context<'_>,
    parent: &SealedHeader,
    signers: &[Address],
    penalties: &[Address],
) -> Result<Vec<Address>, V1Error> {
    let number = parent.number + 1;
    let mut penalised: HashSet<Address> = penalties.iter().copied().collect();
    for epochs in 1..=LIMIT_PENALTY_EPOCH {
        let Some(then) = number.checked_sub(epochs * context.epoch()).filter(|then| *then > 0) else { break };
        let checkpoint = ancestor(context.chain, parent, then)?.ok_or(V1Error::NoCheckpoint)?;
        let seal = checkpoint.native_seal.as_ref().ok_or(V1Error::NotNative)?;
        penalised.extend(addresses_of(&seal.penalties));
    }
    Ok(signers.iter().filter(|signer| !penalised.contains(*signer)).copied().collect())
}

/// The `Validators` item; `None` if the height has no pairs (2.5, "Numbers V").
fn numbers(number: u64, masternodes: &[Address], state: &dyn StateReader) -> Result<Option<Vec<u8>>, V1Error> {
    if !number.is_multiple_of(RANDOMIZE_EPOCH) {
        return Ok(None);
    }
    Ok(Some(encode_numbers(&second_signer_numbers(state, masternodes)?)))
}

/// Checks the lists of a checkpoint. If they do not match the snapshot's set, they are compared once more with the
/// voting contract's list at the gap block; that result is final.
///
/// Lists cannot be checked without a state: a source of candidates without one accepts them.
///
/// # Errors
/// [`V1Error::CheckpointPenalties`], [`V1Error::CheckpointSigners`], [`V1Error::CheckpointValidators`] and those of
/// [`checkpoint_lists`]; [`V1Error::NoParentState`] if the state after the parent is not stored.
pub(crate) fn verify_lists(
    context: Context<'_>,
    snapshots: &Snapshots,
    header: &SealedHeader,
    parent: &SealedHeader,
) -> Result<(), V1Error> {
    if context.settings.unchecked_checkpoints.contains(&header.number) {
        return Ok(());
    }
    let Some(snapshot) = snapshots.after(parent, context.chain)? else { return Ok(()) };
    let state = state_after(context.chain, parent)?.ok_or(V1Error::NoParentState)?;
    let signers: Vec<Address> = snapshot.signers().iter().copied().collect();
    if compare(context, header, parent, &signers, &*state).is_ok() {
        return Ok(());
    }
    let signers = signers_in_contract(context, parent, &*state)?;
    compare(context, header, parent, &signers, &*state)
}

/// Compares the three lists with those computed from `signers` (2.6): penalties byte by byte, masternodes as a set,
/// numbers byte by byte.
fn compare(
    context: Context<'_>,
    header: &SealedHeader,
    parent: &SealedHeader,
    signers: &[Address],
    state: &dyn StateReader,
) -> Result<(), V1Error> {
    let seal = header.native_seal.as_ref().ok_or(V1Error::NotNative)?;
    let penalties = penalties(context, parent, signers, state)?;
    if seal.penalties != concatenated(&penalties) {
        return Err(V1Error::CheckpointPenalties);
    }
    let masternodes = without_penalised(context, parent, signers, &penalties)?;
    if !is_same_multiset(&v1_masternodes(&header.extra_data), &masternodes) {
        return Err(V1Error::CheckpointSigners);
    }
    match numbers(header.number, &masternodes, state)? {
        Some(numbers) if seal.validators != numbers => Err(V1Error::CheckpointValidators),
        _ => Ok(()),
    }
}

/// The candidates of the gap block's state, at most 150, sorted by their stakes in the parent's state (2.6): the
/// reference reads the stakes through its own interface, at the head.
fn signers_in_contract(
    context: Context<'_>,
    parent: &SealedHeader,
    state: &dyn StateReader,
) -> Result<Vec<Address>, V1Error> {
    let gap = (parent.number + 1).saturating_sub(context.settings.consensus.gap);
    let gap = ancestor(context.chain, parent, gap)?.ok_or(V1Error::NoParentState)?;
    let listed = read_candidates(&*state_after(context.chain, &gap)?.ok_or(V1Error::NoParentState)?)?;
    let with_stake = |(candidate, _)| Ok((candidate, read_stake(state, candidate)?));
    let mut signers = listed.into_iter().map(with_stake).collect::<Result<Vec<(Address, _)>, V1Error>>()?;
    sort_by_stake_descending(&mut signers, |(_, stake)| *stake);
    Ok(signers.into_iter().take(MAX_CONTRACT_SIGNERS).map(|(candidate, _)| candidate).collect())
}

/// A list as encoded in a header.
pub(super) fn concatenated(addresses: &[Address]) -> Vec<u8> {
    addresses.iter().flat_map(|address| address.iter().copied()).collect()
}

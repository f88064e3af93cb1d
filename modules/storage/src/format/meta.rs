//! Records on the folder itself: format, chain, head.

use std::collections::BTreeSet;

use alloy_primitives::B256;
use tenon_api::{BlockNumber, Head, StoreError};

use crate::{
    database::{Batch, Database, cursor_status},
    error::corrupt,
    format::{columns::Column, keys, records::Input},
};

/// The format that this release writes. Raised whenever a record or key changes; see `MIGRATIONS`.
pub const FORMAT: u32 = 2;

/// Migrates a folder from one format to the next, in place, in one batch or restartably.
pub(crate) type Migration = fn(&Database) -> Result<(), StoreError>;

/// One step per format: the first migrates format 1 to 2, and so on. Always `FORMAT - 1` steps.
pub(crate) const MIGRATIONS: [Migration; FORMAT as usize - 1] = [to_thinned_tries];

/// Format 2 keeps only the trie nodes of the newest states and of checkpoints. A folder of format 1 is a valid folder
/// of format 2 in which nothing is thinned yet: following blocks thin it, or `tenon db migrate` does so immediately.
/// Older releases must not open the folder, because they would take an incomplete trie for a complete one.
fn to_thinned_tries(_: &Database) -> Result<(), StoreError> {
    Ok(())
}

const KEY_FORMAT: &[u8] = b"format";
const KEY_CHAIN: &[u8] = b"chain";
const KEY_HEAD: &[u8] = b"head";
const KEY_FINALIZED: &[u8] = b"finalized";
const KEY_SAFE: &[u8] = b"safe";
const KEY_OLDEST_STATE: &[u8] = b"oldest_state";
const KEY_TRIE: &[u8] = b"trie";
/// If absent, the folder was created with format 1. Releases that do not know this record ignore it.
const KEY_EXACT_CHECKPOINTS: &[u8] = b"exact_checkpoints";
/// Prefix of the heights at which a block was removed from the chain; see [`note_removed`].
const KEY_REMOVED: &[u8] = b"removed/";
/// Releases that do not know this record ignore it, so it needed no new format.
const KEY_RULES: &[u8] = b"rules";

/// The chain of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) chain_id: u64,
    pub(crate) genesis_hash: B256,
}

/// Which states have their complete trie in `Column::Trie`, and where the checkpoints are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrieExtent {
    /// The oldest height with a complete trie. Nodes that this block and earlier ones superseded are removed, except
    /// those of checkpoints.
    pub(crate) whole_from: u64,
    /// Multiples of this are checkpoints. Never changes: with another distance, checkpoints would be incomplete.
    pub(crate) checkpoint_every: u64,
    /// Whether a state below `whole_from` ever became the head's state. Parts of its trie may exist only among the
    /// checkpoints' nodes, which must therefore be kept.
    pub(crate) was_rebuilt: bool,
}

/// The last checkpoint below a block, if every multiple of `every` is one.
pub(crate) const fn checkpoint_before(number: u64, every: u64) -> u64 {
    let parent = number.saturating_sub(1);
    parent - parent % every
}

fn fixed<const N: usize>(database: &Database, key: &[u8]) -> Result<Option<[u8; N]>, StoreError> {
    let Some(record) = database.get(Column::Meta, key)? else { return Ok(None) };
    let damaged = || corrupt(format!("meta record {}", String::from_utf8_lossy(key)));
    <[u8; N]>::try_from(&*record).map(Some).map_err(|_| damaged())
}

fn number(database: &Database, key: &[u8]) -> Result<Option<u64>, StoreError> {
    Ok(fixed::<8>(database, key)?.map(u64::from_be_bytes))
}

/// The format of the folder; `None` if it is new.
pub(crate) fn format(database: &Database) -> Result<Option<u32>, StoreError> {
    Ok(fixed::<4>(database, KEY_FORMAT)?.map(u32::from_be_bytes))
}

pub(crate) fn set_format(batch: &mut Batch<'_>, format: u32) -> Result<(), StoreError> {
    batch.put(Column::Meta, KEY_FORMAT, format.to_be_bytes())
}

/// The chain of the folder; `None` before the genesis block is stored.
pub(crate) fn identity(database: &Database) -> Result<Option<Identity>, StoreError> {
    let Some(record) = fixed::<40>(database, KEY_CHAIN)? else { return Ok(None) };
    let (chain_id, hash) = record.split_first_chunk::<8>().ok_or_else(|| corrupt("meta record chain"))?;
    Ok(Some(Identity { chain_id: u64::from_be_bytes(*chain_id), genesis_hash: B256::from_slice(hash) }))
}

pub(crate) fn set_identity(batch: &mut Batch<'_>, identity: Identity) -> Result<(), StoreError> {
    batch.put(Column::Meta, KEY_CHAIN, keys::block(identity.chain_id, identity.genesis_hash))
}

/// Height and hash of the head; `None` before the genesis block is stored.
pub(crate) fn head(database: &Database) -> Result<Option<(u64, B256)>, StoreError> {
    let Some(record) = fixed::<40>(database, KEY_HEAD)? else { return Ok(None) };
    let (number, hash) = record.split_first_chunk::<8>().ok_or_else(|| corrupt("meta record head"))?;
    Ok(Some((u64::from_be_bytes(*number), B256::from_slice(hash))))
}

/// Writes the head with the finalized and safe blocks.
pub(crate) fn set_head(batch: &mut Batch<'_>, head: &Head) -> Result<(), StoreError> {
    batch.put(Column::Meta, KEY_HEAD, keys::block(head.header.number, head.header.hash()))?;
    for (key, value) in [(KEY_FINALIZED, head.finalized), (KEY_SAFE, head.safe)] {
        match value {
            Some(number) => batch.put(Column::Meta, key, keys::number(number.0))?,
            None => batch.delete(Column::Meta, key)?,
        }
    }
    Ok(())
}

/// The finalized and the safe height.
pub(crate) fn finality(database: &Database) -> Result<(Option<BlockNumber>, Option<BlockNumber>), StoreError> {
    Ok((number(database, KEY_FINALIZED)?.map(BlockNumber), number(database, KEY_SAFE)?.map(BlockNumber)))
}

/// The rules under which the folder's blocks were made, as encoded by the caller; `None` in a folder of an older
/// release.
pub(crate) fn rules(database: &Database) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(database.get(Column::Meta, KEY_RULES)?.map(|record| record.to_vec()))
}

pub(crate) fn set_rules(batch: &mut Batch<'_>, rules: &[u8]) -> Result<(), StoreError> {
    batch.put(Column::Meta, KEY_RULES, rules)
}

/// The oldest height whose state is complete.
pub(crate) fn oldest_state(database: &Database) -> Result<u64, StoreError> {
    Ok(number(database, KEY_OLDEST_STATE)?.unwrap_or_default())
}

pub(crate) fn set_oldest_state(batch: &mut Batch<'_>, number: u64) -> Result<(), StoreError> {
    batch.put(Column::Meta, KEY_OLDEST_STATE, keys::number(number))
}

/// The extent of the kept tries; `None` if nothing was thinned yet.
pub(crate) fn trie_extent(database: &Database) -> Result<Option<TrieExtent>, StoreError> {
    let Some(record) = fixed::<17>(database, KEY_TRIE)? else { return Ok(None) };
    let mut input = Input(&record);
    let mut number = || Some(u64::from_be_bytes(input.take(8)?.try_into().ok()?));
    let extent = number().zip(number()).zip(Some(record[16] != 0));
    let extent = extent.map(|((whole_from, checkpoint_every), was_rebuilt)| TrieExtent {
        whole_from,
        checkpoint_every,
        was_rebuilt,
    });
    let extent = extent.filter(|extent| extent.checkpoint_every > 0);
    extent.map(Some).ok_or_else(|| corrupt("meta record trie"))
}

pub(crate) fn set_trie_extent(batch: &mut Batch<'_>, extent: TrieExtent) -> Result<(), StoreError> {
    let mut record = [0; 17];
    record[..8].copy_from_slice(&extent.whole_from.to_be_bytes());
    record[8..16].copy_from_slice(&extent.checkpoint_every.to_be_bytes());
    record[16] = u8::from(extent.was_rebuilt);
    batch.put(Column::Meta, KEY_TRIE, record)
}

/// Whether the folder has recorded every removed block since it was created, so that thinning has kept every checkpoint
/// complete.
pub(crate) fn has_exact_checkpoints(database: &Database) -> Result<bool, StoreError> {
    Ok(database.get(Column::Meta, KEY_EXACT_CHECKPOINTS)?.is_some())
}

pub(crate) fn set_exact_checkpoints(batch: &mut Batch<'_>) -> Result<(), StoreError> {
    batch.put(Column::Meta, KEY_EXACT_CHECKPOINTS, [])
}

fn removed_key(number: u64) -> Vec<u8> {
    [KEY_REMOVED, &number.to_be_bytes()].concat()
}

/// Records that a block of this height has left the chain. A node's record may then contain this height although the
/// node is older, because the removed block had created it again.
pub(crate) fn note_removed(batch: &mut Batch<'_>, number: u64) -> Result<(), StoreError> {
    batch.put(Column::Meta, removed_key(number), [])
}

/// The heights `from..=to` at which a block has left the chain.
pub(crate) fn removed_heights(database: &Database, from: u64, to: u64) -> Result<BTreeSet<u64>, StoreError> {
    let mut heights = BTreeSet::new();
    let end = removed_key(to.saturating_add(1));
    let mut cursor = database.range_cursor(Column::Meta, &removed_key(from), Some(&end))?;
    while let Some(key) = cursor.key() {
        let height = key.last_chunk::<8>().ok_or_else(|| corrupt("meta record of a removed block"))?;
        heights.insert(u64::from_be_bytes(*height));
        cursor.next();
    }
    cursor_status(&cursor)?;
    Ok(heights)
}

/// Deletes the records of [`note_removed`] for heights up to and including `number`.
pub(crate) fn forget_removed(batch: &mut Batch<'_>, number: u64) -> Result<(), StoreError> {
    batch.delete_range(Column::Meta, &removed_key(0), &removed_key(number.saturating_add(1)))
}

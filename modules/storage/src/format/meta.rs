//! Records on the folder itself: format, chain, head.

use alloy_primitives::B256;
use tenon_api::{BlockNumber, Head, StoreError};

use crate::{
    database::{Batch, Database},
    format::{columns::Column, keys},
    read::shared::corrupt,
};

/// The format that this release writes. Raised whenever a record or key changes; see `MIGRATIONS`.
pub const FORMAT: u32 = 1;

/// Migrates a folder from one format to the next, in place, in one batch or restartably.
pub(crate) type Migration = fn(&Database) -> Result<(), StoreError>;

/// One step per format: the first migrates format 1 to 2, and so on. Always `FORMAT - 1` steps.
pub(crate) const MIGRATIONS: [Migration; FORMAT as usize - 1] = [];

const KEY_FORMAT: &[u8] = b"format";
const KEY_CHAIN: &[u8] = b"chain";
const KEY_HEAD: &[u8] = b"head";
const KEY_FINALIZED: &[u8] = b"finalized";
const KEY_SAFE: &[u8] = b"safe";
const KEY_OLDEST_STATE: &[u8] = b"oldest_state";
/// Releases that do not know it ignore it, so it needed no new format.
const KEY_RULES: &[u8] = b"rules";

/// The chain of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) chain_id: u64,
    pub(crate) genesis_hash: B256,
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

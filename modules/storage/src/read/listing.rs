//! Scans of neighbouring keys: accounts, slots of an account, changes of blocks.

use std::collections::BTreeSet;

use alloy_primitives::{Address, B256, Bytes, keccak256};
use tenon_api::StoreError;

use super::shared::Shared;
use crate::{
    database::cursor_status,
    error::corrupt,
    format::{columns::Column, keys, records},
};

/// Checks for cancellation once per this many records.
const CHECK_PERIOD: usize = 1024;

/// Addresses that have or had an account, ascending from `from`; at most `max`.
pub(crate) fn addresses(shared: &Shared, from: Address, max: usize) -> Result<Vec<Address>, StoreError> {
    let mut found = Vec::new();
    let mut cursor = shared.database.range_cursor(Column::AccountLatest, from.as_slice(), None)?;
    while let Some((key, _)) = cursor.item().filter(|_| found.len() < max) {
        let address = <[u8; 20]>::try_from(key).map_err(|_| corrupt("a key of an account"))?;
        found.push(Address::from(address));
        cursor.next();
    }
    cursor_status(&cursor)?;
    Ok(found)
}

/// Every slot of an account that has or had a value, ascending; `None` if there are more than `max`.
pub(crate) fn slots(shared: &Shared, address: Address, max: usize) -> Result<Option<Vec<B256>>, StoreError> {
    let mut found = Vec::new();
    let mut cursor = shared.database.prefix_cursor(Column::SlotLatest)?;
    cursor.seek(address);
    while let Some((key, _)) = cursor.item() {
        if found.len() == max {
            return Ok(None);
        }
        let slot = key.strip_prefix(address.as_slice()).and_then(|slot| B256::try_from(slot).ok());
        found.push(slot.ok_or_else(|| corrupt(format!("slots of {address}")))?);
        cursor.next();
    }
    cursor_status(&cursor)?;
    Ok(Some(found))
}

/// Accounts changed by the canonical blocks `from..=to`; `None` if there are more than `max`.
pub(crate) fn changed_accounts(
    shared: &Shared,
    (from, to): (u64, u64),
    max: usize,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Option<BTreeSet<Address>>, StoreError> {
    let mut changed = BTreeSet::new();
    for number in from..=to {
        if is_cancelled() {
            return Err(StoreError::Stopped);
        }
        let missing = || corrupt(format!("changes of block {number}"));
        let record = shared.database.get(Column::Changes, &keys::number(number))?.ok_or_else(missing)?;
        changed.extend(records::decode_changes(&record).ok_or_else(missing)?.accounts);
        if changed.len() > max {
            return Ok(None);
        }
    }
    Ok(Some(changed))
}

/// The code, address or slot with this keccak256 hash. There is no index: after codes, the keys of accounts and slots
/// are hashed until one matches, at most `max`.
pub(crate) fn preimage(
    shared: &Shared,
    hash: B256,
    max: usize,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Option<Bytes>, StoreError> {
    if let Some(code) = shared.database.get(Column::Codes, hash.as_slice())? {
        return Ok(Some(Bytes::copy_from_slice(&code)));
    }
    let mut hashed = 0;
    for (column, skipped) in [(Column::AccountLatest, 0), (Column::SlotLatest, keys::ACCOUNT_KEY_LENGTH)] {
        let mut cursor = shared.database.range_cursor(column, &[], None)?;
        while let Some((key, _)) = cursor.item() {
            if hashed == max {
                return Ok(None);
            }
            hashed += 1;
            if hashed % CHECK_PERIOD == 0 && is_cancelled() {
                return Err(StoreError::Stopped);
            }
            let candidate = key.get(skipped..).unwrap_or_default();
            if keccak256(candidate) == hash {
                return Ok(Some(Bytes::copy_from_slice(candidate)));
            }
            cursor.next();
        }
        cursor_status(&cursor)?;
    }
    Ok(None)
}

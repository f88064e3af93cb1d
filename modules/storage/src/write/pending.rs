//! Changes of an unwritten batch that a later part of the same batch reads.
//!
//! The batch of one block reads nothing that it has changed itself. The batch of a reorganisation removes blocks and
//! adds others: it must read positions of transactions and slots of accounts from the batch, not from the database. The
//! batch of a group of blocks writes the latest value of an account or slot once, at its end.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use alloy_primitives::{Address, B256};
use tenon_api::StoreError;

use crate::{
    database::{Batch, Cursor, cursor_status},
    error::corrupt,
    format::{columns::Column, records},
    read::shared::Shared,
};

/// Changes of a batch so far.
pub(crate) struct Pending {
    is_kept: bool,
    /// Height and position of transactions; `None` for those that left the chain.
    places: HashMap<B256, Option<(u64, u32)>>,
    /// Whether a slot has a value.
    slots: BTreeMap<(Address, B256), bool>,
    /// Records of the latest values of accounts and slots, written at the end; `None` if they are written at once. The
    /// keys of the two columns differ in length.
    latest: Option<Latest>,
}

/// Records and their columns, by key.
type Latest = BTreeMap<Vec<u8>, (Column, Vec<u8>)>;

impl Pending {
    /// For the batch of one block, which reads none of its own changes: records nothing.
    pub(crate) fn of_one_block() -> Self {
        Self { is_kept: false, places: HashMap::new(), slots: BTreeMap::new(), latest: None }
    }

    /// For a batch of several blocks.
    pub(crate) fn of_many_blocks() -> Self {
        Self { is_kept: true, ..Self::of_one_block() }
    }

    /// For the batch of a group of blocks on top of the head. [`Pending::put_latest`] ends it.
    pub(crate) fn of_group() -> Self {
        Self { latest: Some(Latest::new()), ..Self::of_many_blocks() }
    }

    /// Writes the record of the latest value of an account or slot, now or at the end.
    pub(crate) fn latest(
        &mut self,
        batch: &mut Batch<'_>,
        column: Column,
        key: &[u8],
        record: Vec<u8>,
    ) -> Result<(), StoreError> {
        match &mut self.latest {
            Some(latest) => {
                latest.insert(key.to_vec(), (column, record));
                Ok(())
            }
            None => batch.put(column, key, record),
        }
    }

    /// Writes the records of latest values that were left for the end.
    pub(crate) fn put_latest(self, batch: &mut Batch<'_>) -> Result<(), StoreError> {
        for (key, (column, record)) in self.latest.unwrap_or_default() {
            batch.put(column, key, record)?;
        }
        Ok(())
    }

    /// Records a transaction's new position, or its absence.
    pub(crate) fn place(&mut self, transaction: B256, place: Option<(u64, u32)>) {
        if self.is_kept {
            self.places.insert(transaction, place);
        }
    }

    /// Records whether a slot now has a value.
    pub(crate) fn slot(&mut self, address: Address, slot: B256, has_value: bool) {
        if self.is_kept {
            self.slots.insert((address, slot), has_value);
        }
    }

    /// Height and position of a transaction.
    pub(crate) fn place_of(&self, shared: &Shared, transaction: B256) -> Result<Option<(u64, u32)>, StoreError> {
        match self.places.get(&transaction) {
            Some(place) => Ok(*place),
            None => shared.transaction(transaction),
        }
    }

    /// The slots of an account with a value in the latest state, ascending.
    pub(crate) fn slots_with_value(&self, shared: &Shared, address: Address) -> Result<Vec<B256>, StoreError> {
        let mut cursor = shared.database.prefix_cursor(Column::SlotLatest)?;
        cursor.seek(address);
        let written = slots_with_value(cursor, address)?;
        let own = (address, B256::ZERO)..=(address, B256::repeat_byte(0xff));
        let mut pending = self.slots.range(own).peekable();
        if pending.peek().is_none() {
            return Ok(written);
        }
        let mut slots: BTreeSet<B256> = written.into_iter().collect();
        for ((_, slot), has_value) in pending {
            if *has_value {
                slots.insert(*slot);
            } else {
                slots.remove(slot);
            }
        }
        Ok(slots.into_iter().collect())
    }
}

/// The slots of an account with a value in the database, without the changes of the batch.
fn slots_with_value(mut cursor: Cursor<'_>, address: Address) -> Result<Vec<B256>, StoreError> {
    let mut slots = Vec::new();
    while let Some((key, record)) = cursor.item() {
        let damaged = || corrupt(format!("slots of {address}"));
        let slot =
            key.strip_prefix(address.as_slice()).and_then(|slot| B256::try_from(slot).ok()).ok_or_else(damaged)?;
        let (_, value) = records::decode_latest(record).ok_or_else(damaged)?;
        if !value.is_empty() {
            slots.push(slot);
        }
        cursor.next();
    }
    cursor_status(&cursor)?;
    Ok(slots)
}

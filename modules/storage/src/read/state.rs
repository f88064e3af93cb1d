//! Accounts and slots after a block.

use std::{hash::Hash, sync::Arc};

use alloy_primitives::{Address, B256, Bytes, U256};
use tenon_api::{Account, BlockNumber, StateReader, StoreError};

use crate::{
    database::cursor_status,
    error::corrupt,
    format::{columns::Column, keys, records},
    read::{
        generation::Token,
        shared::Shared,
        state_cache::{Lookup, ReadResult, ValueCache},
    },
};

/// The state after one canonical block.
///
/// A read takes the latest record if that is old enough, else the first version in the history from the height on. It
/// needs no snapshot of the database: later blocks never change the values at a height, and a concurrent unwind or
/// pruning is detected after the read.
pub(crate) struct StateAt {
    shared: Arc<Shared>,
    number: u64,
    token: Token,
}

impl StateAt {
    pub(crate) fn new(shared: &Arc<Shared>, number: BlockNumber) -> Result<Self, StoreError> {
        let token = shared.generations.observe(number.0)?;
        let head = shared.head.load().number();
        if number > head {
            return Err(StoreError::UnknownBlock { what: number.to_string() });
        }
        let state = Self { shared: Arc::clone(shared), number: number.0, token };
        state.check()?;
        Ok(state)
    }

    /// The state after the head. The head is read after the generation, so that a reorganisation between the two is
    /// detected. Otherwise this could be the state of a block that was never the head.
    pub(crate) fn of_head(shared: &Arc<Shared>) -> Result<Self, StoreError> {
        shared.generations.together(|| Self::new(shared, shared.head.load().number()))
    }

    /// Fails if the values read may not be those of this height.
    fn check(&self) -> Result<(), StoreError> {
        let oldest = self.shared.oldest_state();
        if self.number < oldest {
            return Err(StoreError::Pruned { number: BlockNumber(self.number), oldest: BlockNumber(oldest) });
        }
        self.shared.generations.check(self.token, self.number)
    }

    /// Reads a key at this height.
    fn read<K: Hash + Eq, T: Copy + Default + PartialEq>(
        &self,
        cache: &ValueCache<K, T>,
        key: K,
        (latest, history): (Column, Column),
        record: &[u8],
        decode: fn(&[u8]) -> Option<T>,
    ) -> Result<T, StoreError> {
        let write_count = self.shared.state_cache.writes.write_count();
        let result = match cache.at(&key, self.number) {
            Lookup::Value(value) => return self.check().map(|()| value),
            Lookup::ChangedSince => past_at(&self.shared, history, record, self.number, decode),
            Lookup::Unknown => result_at(&self.shared, (latest, history), record, self.number, decode),
        };
        // An apparent corruption may be due to an unwind or pruning, and facts about a state that is no longer valid
        // must not be cached.
        let result = result.and_then(|result| self.check().map(|()| result))?;
        let name = || corrupt(format!("{} record {}", latest.name(), alloy_primitives::hex::encode(record)));
        let result = result.ok_or_else(name)?;
        cache.insert(key, result, &self.shared.state_cache.writes, write_count);
        let (ReadResult::Latest { value, .. } | ReadResult::Past { value, .. }) = result;
        Ok(value)
    }
}

/// The value of a key at a height; `None` if `decode` fails.
fn result_at<T>(
    shared: &Shared,
    (latest, history): (Column, Column),
    key: &[u8],
    number: u64,
    decode: fn(&[u8]) -> Option<T>,
) -> Result<Option<ReadResult<T>>, StoreError> {
    let Some(record) = shared.database.get(latest, key)? else {
        return Ok(decode(&[]).map(|value| ReadResult::Latest { changed: 0, value }));
    };
    match records::decode_latest(&record) {
        Some((changed, value)) if changed <= number => {
            Ok(decode(value).map(|value| ReadResult::Latest { changed, value }))
        }
        Some(_) => past_at(shared, history, key, number, decode),
        None => Ok(None),
    }
}

/// The value of a key at a height, read without the cache of values.
pub(crate) fn value_at<T: Copy>(
    shared: &Shared,
    (latest, history): (Column, Column),
    key: &[u8],
    number: u64,
    decode: fn(&[u8]) -> Option<T>,
) -> Result<T, StoreError> {
    let name = || corrupt(format!("{} record {}", latest.name(), alloy_primitives::hex::encode(key)));
    let result = result_at(shared, (latest, history), key, number, decode)?.ok_or_else(name)?;
    let (ReadResult::Latest { value, .. } | ReadResult::Past { value, .. }) = result;
    Ok(value)
}

/// [`result_at`] for a key that has changed since that height.
fn past_at<T>(
    shared: &Shared,
    history: Column,
    key: &[u8],
    number: u64,
    decode: fn(&[u8]) -> Option<T>,
) -> Result<Option<ReadResult<T>>, StoreError> {
    let found = version_at(shared, history, key, number, |changed, value| (changed, decode(value)))?;
    let (changed, value) = found.unwrap_or_else(|| (0, decode(&[])));
    Ok(value.map(|value| ReadResult::Past { changed, number, value }))
}

/// The newest version of a key at or below `number`, with its height; `None` if there is none.
pub(crate) fn version_at<T>(
    shared: &Shared,
    history: Column,
    key: &[u8],
    number: u64,
    decode: impl FnOnce(u64, &[u8]) -> T,
) -> Result<Option<T>, StoreError> {
    let mut cursor = shared.database.prefix_cursor(history)?;
    cursor.seek(keys::version(key, number));
    let Some((found, value)) = cursor.item() else {
        cursor_status(&cursor)?;
        return Ok(None);
    };
    if !found.starts_with(key) {
        return Ok(None);
    }
    let height = keys::version_number(found).unwrap_or_default();
    Ok(Some(decode(height, value)))
}

/// The two columns of accounts.
pub(crate) const ACCOUNTS: (Column, Column) = (Column::AccountLatest, Column::AccountHistory);
/// The two columns of slots.
pub(crate) const SLOTS: (Column, Column) = (Column::SlotLatest, Column::SlotHistory);

impl StateReader for StateAt {
    fn account(&self, address: Address) -> Result<Option<Account>, StoreError> {
        let cache = &self.shared.state_cache.accounts;
        self.read(cache, address, ACCOUNTS, address.as_slice(), records::decode_account)
    }

    fn storage(&self, address: Address, slot: B256) -> Result<U256, StoreError> {
        let cache = &self.shared.state_cache.slots;
        self.read(cache, (address, slot), SLOTS, &keys::slot(address, slot), records::decode_slot)
    }

    fn code(&self, code_hash: B256) -> Result<Option<Bytes>, StoreError> {
        self.shared.code(code_hash)
    }

    fn block_hash(&self, number: BlockNumber) -> Result<Option<B256>, StoreError> {
        if number.0 > self.number {
            return Ok(None);
        }
        let canonical = self.shared.canonical(number.0)?;
        self.shared.generations.check(self.token, self.number)?;
        Ok(canonical.map(|(hash, _)| hash))
    }
}

//! Whole states, differences between two, preimages of hashes, and the engine's statistics (`messages/debug.rs`, 0x0900
//! to 0x0905, 0x090d).

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use tenon_api::{
    ChainReader, StateReader, StoreError,
    messages::{
        AccountDump, AccountRange, DatabaseStatistics, DumpAccounts, DumpedAccount, GetAccountRange,
        GetModifiedAccounts, GetPreimage, TableFile,
    },
};
use tenon_bus::CallContext;

use super::{
    Answers,
    error::{AnswerError, LimitExceeded},
    repeat_after_reorganisation,
};
use crate::{error::corrupt, format::columns::Column, read::listing};

/// Accounts read from the database together when they are ordered by hash.
const ADDRESSES_PER_READ: usize = 1024;

/// Levels of a column's files.
const LEVELS: usize = 7;

/// Parts of a dumped account that are wanted.
#[derive(Clone, Copy)]
struct Parts {
    with_code: bool,
    with_storage: bool,
}

impl Answers {
    pub(super) fn dump(&self, request: &DumpAccounts, context: &CallContext) -> Result<AccountDump, AnswerError> {
        repeat_after_reorganisation(|| self.dump_once(request, context))
    }

    fn dump_once(&self, request: &DumpAccounts, context: &CallContext) -> Result<AccountDump, AnswerError> {
        // Accounts are listed by their latest records, which follow the canonical chain, so branches cannot be listed.
        let (header, state) = self.canonical_state_of(request.block)?;
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX).clamp(1, self.limits.dump_records);
        let mut dump = AccountDump { root: header.state_root, ..AccountDump::default() };
        let (mut taken, mut from) = (0, request.from);
        loop {
            let addresses = listing::addresses(&self.store.shared, from, limit)?;
            for address in &addresses {
                if context.should_stop() {
                    return Err(StoreError::Stopped.into());
                }
                if taken >= limit {
                    dump.next = Some(*address);
                    return Ok(dump);
                }
                if let Some(account) = self.dumped(*address, &*state)? {
                    taken += 1 + account.slots.len();
                    dump.accounts.push(account);
                }
            }
            let next = addresses.last().filter(|_| addresses.len() == limit).and_then(|last| following(*last));
            match next {
                Some(next) => from = next,
                None => return Ok(dump),
            }
        }
    }

    fn dumped(&self, address: Address, state: &dyn StateReader) -> Result<Option<DumpedAccount>, AnswerError> {
        self.dumped_parts(address, state, Parts { with_code: true, with_storage: true })
    }

    fn dumped_parts(
        &self,
        address: Address,
        state: &dyn StateReader,
        parts: Parts,
    ) -> Result<Option<DumpedAccount>, AnswerError> {
        let Some(account) = state.account(address)? else { return Ok(None) };
        let slots = if parts.with_storage { self.slots_with_values(address, state)? } else { Vec::new() };
        let code = if parts.with_code { state.code(account.code_hash)? } else { Some(Bytes::new()) };
        let code = code.ok_or_else(|| corrupt(format!("code {}", account.code_hash)))?;
        Ok(Some(DumpedAccount { address, account, code, slots }))
    }

    /// The nonzero slots of an account.
    fn slots_with_values(&self, address: Address, state: &dyn StateReader) -> Result<Vec<(B256, U256)>, AnswerError> {
        let max = self.limits.dump_records;
        let slots =
            listing::slots(&self.store.shared, address, max)?.ok_or(LimitExceeded::DumpedSlots { max, address })?;
        let values = slots.into_iter().map(|slot| Ok((slot, state.storage(address, slot)?)));
        let slots = values.filter(|slot| !matches!(slot, Ok((_, value)) if value.is_zero()));
        Ok(slots.collect::<Result<Vec<_>, StoreError>>()?)
    }

    pub(super) fn account_range(
        &self,
        request: &GetAccountRange,
        context: &CallContext,
    ) -> Result<AccountRange, AnswerError> {
        repeat_after_reorganisation(|| {
            let (header, state) = self.canonical_state_of(request.block)?;
            let max = usize::try_from(request.limit).unwrap_or(usize::MAX).clamp(1, self.limits.dump_records);
            let mut found = self.first_by_hash(&*state, &request.start, max.saturating_add(1), context)?;
            let mut range = AccountRange { root: header.state_root, ..AccountRange::default() };
            let mut taken = 0;
            while let Some((hash, address)) = found.pop_first() {
                let is_full = range.accounts.len() == max || taken > self.limits.dump_records;
                if is_full {
                    range.next = Some(hash);
                    break;
                }
                if context.should_stop() {
                    return Err(StoreError::Stopped.into());
                }
                let parts = Parts { with_code: request.with_code, with_storage: request.with_storage };
                if let Some(account) = self.dumped_parts(address, &*state, parts)? {
                    taken += 1 + account.slots.len();
                    range.accounts.push(account);
                }
            }
            Ok(range)
        })
    }

    /// The first accounts of a state from a hash on, by the hash of their address. No index is in this order, so every
    /// address is hashed.
    fn first_by_hash(
        &self,
        state: &dyn StateReader,
        start: &[u8],
        count: usize,
        context: &CallContext,
    ) -> Result<BTreeMap<B256, Address>, AnswerError> {
        let mut first = BTreeMap::new();
        let (mut from, mut hashed) = (Some(Address::ZERO), 0);
        while let Some(begin) = from {
            if context.should_stop() {
                return Err(StoreError::Stopped.into());
            }
            let addresses = listing::addresses(&self.store.shared, begin, ADDRESSES_PER_READ)?;
            hashed += addresses.len();
            let max = self.limits.preimage_keys;
            if hashed > max {
                return Err(LimitExceeded::SortedAccounts { max }.into());
            }
            for address in &addresses {
                let hash = keccak256(address);
                let is_beyond = first.len() == count && first.last_key_value().is_some_and(|(last, _)| hash > *last);
                if hash.as_slice() < start || is_beyond || state.account(*address)?.is_none() {
                    continue;
                }
                first.insert(hash, *address);
                if first.len() > count {
                    first.pop_last();
                }
            }
            from = addresses.last().filter(|_| addresses.len() == ADDRESSES_PER_READ).and_then(|last| following(*last));
        }
        Ok(first)
    }

    pub(super) fn modified_accounts(
        &self,
        request: &GetModifiedAccounts,
        context: &CallContext,
    ) -> Result<Vec<Address>, AnswerError> {
        repeat_after_reorganisation(|| {
            let (older, newer) = (self.store.state_at(request.from)?, self.store.state_at(request.to)?);
            let span = request.to.0.saturating_sub(request.from.0);
            if span > self.limits.chain_changes {
                return Err(LimitExceeded::ComparedBlocks { max: self.limits.chain_changes }.into());
            }
            let blocks = (request.from.0.saturating_add(1), request.to.0);
            let max = self.limits.dump_records;
            let is_cancelled = || context.should_stop();
            let changed = listing::changed_accounts(&self.store.shared, blocks, max, &is_cancelled)?
                .ok_or(LimitExceeded::ChangedAccounts { max })?;
            let mut modified = Vec::new();
            for address in changed {
                let after = newer.account(address)?;
                if after.is_some() && after != older.account(address)? {
                    modified.push(address);
                }
            }
            modified.sort_by_cached_key(|address| keccak256(address));
            Ok(modified)
        })
    }

    pub(super) fn preimage(&self, request: &GetPreimage, context: &CallContext) -> Result<Option<Bytes>, AnswerError> {
        let is_cancelled = || context.should_stop();
        let max = self.limits.preimage_keys;
        Ok(listing::preimage(&self.store.shared, request.hash, max, &is_cancelled)?)
    }

    pub(super) fn database_statistics(&self) -> Result<DatabaseStatistics, AnswerError> {
        let database = &self.store.shared.database;
        let sum = |property: &str| -> Result<u64, StoreError> {
            Column::ALL.iter().map(|&column| database.property(column, property)).sum()
        };
        // The columns share one cache and one engine: these values are the same for each of them.
        let shared = |property: &str| database.property(Column::Meta, property);
        let of_level = |level| sum(&format!("rocksdb.num-files-at-level{level}"));
        Ok(DatabaseStatistics {
            files_by_level: (0..LEVELS).map(of_level).collect::<Result<_, _>>()?,
            files: database.files()?.into_iter().map(table_file).collect(),
            running_compactions: sum("rocksdb.num-running-compactions")?,
            pending_compactions: sum("rocksdb.compaction-pending")?,
            delayed_write_rate: sum("rocksdb.actual-delayed-write-rate")?,
            is_write_stopped: sum("rocksdb.is-write-stopped")? > 0,
            cache_bytes: shared("rocksdb.block-cache-usage")?,
            cache_capacity: shared("rocksdb.block-cache-capacity")?,
            cache_pinned_bytes: shared("rocksdb.block-cache-pinned-usage")?,
            snapshots: shared("rocksdb.num-snapshots")?,
        })
    }

    pub(super) fn compact(&self, context: &CallContext) -> Result<(), AnswerError> {
        for &column in Column::ALL {
            if context.is_cancelled() {
                return Err(StoreError::Stopped.into());
            }
            self.store.shared.database.compact(column)?;
        }
        Ok(())
    }
}

fn table_file(file: rocksdb::LiveFile) -> TableFile {
    TableFile {
        column: file.column_family_name,
        level: file.level.unsigned_abs(),
        bytes: file.size as u64,
        name: file.name,
    }
}

/// The next address; `None` after the last.
fn following(address: Address) -> Option<Address> {
    let number = alloy_primitives::U160::from_be_bytes(address.0.0);
    number.checked_add(alloy_primitives::U160::from(1)).map(|next| Address::from(next.to_be_bytes()))
}

//! Spaces of plugins: records that belong to the module that wrote them.
//!
//! They are a column of the chain's database and share its log, so after a power loss a space is never ahead of the
//! chain that it was made from. This file accesses no other column.
//!
//! Keys: length of the space's name u8 ‖ name ‖ key → value, and 0 ‖ name → records u64 ‖ bytes u64 (big-endian), which
//! is written with every commit. Names are not empty, so the two kinds of keys never collide.

use std::{collections::BTreeMap, sync::Arc};

use alloy_primitives::Bytes;
use tenon_api::{
    PluginSpaces, SpaceError, SpaceLimits, StoreError,
    messages::{CommitOutcome, CommitRecords, RecordChange, RecordPage, ScanRecords, SpaceUsage},
};

use crate::{
    database::{Cursor, Database, cursor_status},
    error::corrupt,
    format::columns::Column,
    store::Store,
};

/// Maximum length of a space's name, bytes.
const MAX_NAME: usize = u8::MAX as usize;

/// The keys of one space.
struct Keys<'a> {
    name: &'a str,
    length: u8,
}

impl<'a> Keys<'a> {
    fn of(name: &'a str) -> Result<Self, SpaceError> {
        match u8::try_from(name.len()) {
            Ok(length) if length > 0 => Ok(Self { name, length }),
            _ => Err(too_large(name, "its name", name.len(), "bytes", MAX_NAME)),
        }
    }

    fn prefix_length(&self) -> usize {
        1 + self.name.len()
    }

    fn record(&self, key: &[u8]) -> Vec<u8> {
        [&[self.length], self.name.as_bytes(), key].concat()
    }

    /// The first key after the space. Names of one length are adjacent; the last byte cannot overflow, because no UTF-8
    /// text ends in 0xff.
    fn end(&self) -> Vec<u8> {
        let mut end = self.record(&[]);
        if let Some(last) = end.last_mut() {
            *last = last.saturating_add(1);
        }
        end
    }

    fn usage(&self) -> Vec<u8> {
        [&[0], self.name.as_bytes()].concat()
    }
}

fn too_large(space: &str, what: &'static str, found: usize, unit: &'static str, max: usize) -> SpaceError {
    SpaceError::Size { space: space.to_owned(), what, found, unit, max }
}

/// Records and bytes of a space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage {
    records: u64,
    bytes: u64,
}

impl Usage {
    fn read(database: &Database, keys: &Keys<'_>) -> Result<Self, StoreError> {
        let Some(record) = database.get(Column::Spaces, &keys.usage())? else { return Ok(Self::default()) };
        let damaged = || corrupt(format!("usage of space {}", keys.name));
        let (records, bytes) = record.split_first_chunk::<8>().ok_or_else(damaged)?;
        let bytes = <[u8; 8]>::try_from(bytes).map_err(|_| damaged())?;
        Ok(Self { records: u64::from_be_bytes(*records), bytes: u64::from_be_bytes(bytes) })
    }

    fn encode(self) -> [u8; 16] {
        let mut record = [0; 16];
        record[..8].copy_from_slice(&self.records.to_be_bytes());
        record[8..].copy_from_slice(&self.bytes.to_be_bytes());
        record
    }

    fn add(&mut self, bytes: usize) {
        self.records = self.records.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    fn subtract(&mut self, bytes: usize) {
        self.records = self.records.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes as u64);
    }
}

impl PluginSpaces for Store {
    fn get(&self, space: &str, wanted: &[Bytes]) -> Result<Vec<Option<Bytes>>, SpaceError> {
        let keys = Keys::of(space)?;
        if wanted.len() > SpaceLimits::KEYS_READ {
            return Err(too_large(space, "a read", wanted.len(), "keys", SpaceLimits::KEYS_READ));
        }
        let database = &self.shared.database;
        let value = |key: &Bytes| {
            let record = database.get(Column::Spaces, &keys.record(key))?;
            Ok(record.map(|value| Bytes::copy_from_slice(&value)))
        };
        wanted.iter().map(value).collect()
    }

    fn scan(&self, space: &str, scan: &ScanRecords) -> Result<RecordPage, SpaceError> {
        let keys = Keys::of(space)?;
        let from = keys.record(&scan.from);
        let to = scan.to.as_ref().map_or_else(|| keys.end(), |to| keys.record(to));
        let mut page = RecordPage::default();
        if from >= to {
            return Ok(page);
        }
        let limit = usize::try_from(scan.limit).unwrap_or(usize::MAX).min(SpaceLimits::RECORDS_READ);
        let mut cursor = self.shared.database.range_cursor(Column::Spaces, &from, Some(&to))?;
        if scan.is_descending {
            cursor.seek_for_prev(&to);
            // `to` itself is excluded; the cursor stops at its bound anyway.
        }
        let mut bytes = 0;
        while let Some((key, value)) = record_in(&cursor, &from) {
            let size = key.len() + value.len();
            if page.records.len() >= limit || (bytes + size > SpaceLimits::BYTES_READ && !page.records.is_empty()) {
                page.has_more = true;
                break;
            }
            bytes += size;
            let key = Bytes::copy_from_slice(key.get(keys.prefix_length()..).unwrap_or_default());
            page.records.push((key, Bytes::copy_from_slice(value)));
            if scan.is_descending { cursor.prev() } else { cursor.next() }
        }
        cursor_status(&cursor)?;
        Ok(page)
    }

    fn commit(&self, space: &str, commit: &CommitRecords, limits: SpaceLimits) -> Result<CommitOutcome, SpaceError> {
        let keys = Keys::of(space)?;
        check_sizes(space, commit)?;
        let writer = Arc::clone(self.spaces.lock().entry(space.to_owned()).or_default());
        let _alone = writer.lock();
        let database = &self.shared.database;
        let before = Usage::read(database, &keys)?;
        let outcome = |is_applied, usage: Usage| CommitOutcome {
            is_applied,
            usage: SpaceUsage::of(usage.records, usage.bytes, limits),
        };
        for (key, expected) in &commit.expects {
            if database.get(Column::Spaces, &keys.record(key))?.as_deref() != expected.as_ref().map(AsRef::as_ref) {
                return Ok(outcome(false, before));
            }
        }
        let mut usage = before;
        let mut batch = database.batch();
        for (key, value) in resolve(database, &keys, commit)? {
            if let Some(old) = database.get(Column::Spaces, &key)? {
                usage.subtract(key.len() - keys.prefix_length() + old.len());
            }
            match value {
                Some(value) => {
                    usage.add(key.len() - keys.prefix_length() + value.len());
                    batch.put(Column::Spaces, key, value)?;
                }
                None => batch.delete(Column::Spaces, key)?,
            }
        }
        // Changes that only shrink the space are accepted, so that it can be reduced after its limits were lowered.
        let is_over = |now: u64, before: u64, max: u64| now > max && now > before;
        if is_over(usage.records, before.records, limits.records) || is_over(usage.bytes, before.bytes, limits.bytes) {
            return Err(SpaceError::Full {
                space: space.to_owned(),
                usage: SpaceUsage::of(usage.records, usage.bytes, limits),
            });
        }
        batch.put(Column::Spaces, keys.usage(), usage.encode())?;
        batch.write(false)?;
        Ok(outcome(true, usage))
    }

    fn usage(&self, space: &str) -> Result<(u64, u64), SpaceError> {
        let usage = Usage::read(&self.shared.database, &Keys::of(space)?)?;
        Ok((usage.records, usage.bytes))
    }

    fn purge(&self, space: &str) -> Result<(u64, u64), SpaceError> {
        let keys = Keys::of(space)?;
        let writer = Arc::clone(self.spaces.lock().entry(space.to_owned()).or_default());
        let _alone = writer.lock();
        let usage = Usage::read(&self.shared.database, &keys)?;
        let mut batch = self.shared.database.batch();
        batch.delete_range(Column::Spaces, &keys.record(&[]), &keys.end())?;
        batch.delete(Column::Spaces, keys.usage())?;
        batch.write(true)?;
        Ok((usage.records, usage.bytes))
    }
}

/// The record under a cursor that has not left the range at its lower end.
fn record_in<'a>(cursor: &'a Cursor<'_>, from: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    cursor.item().filter(|(key, _)| *key >= from)
}

fn check_sizes(space: &str, commit: &CommitRecords) -> Result<(), SpaceError> {
    let check = |what, found, unit, max| match found > max {
        true => Err(too_large(space, what, found, unit, max)),
        false => Ok(()),
    };
    check("a batch", commit.changes.len(), "changes", SpaceLimits::CHANGES)?;
    check("a batch", commit.expects.len(), "expectations", SpaceLimits::KEYS_READ)?;
    let mut bytes = 0;
    for change in &commit.changes {
        match change {
            RecordChange::Put { key, value } => {
                check("a key", key.len(), "bytes", SpaceLimits::KEY)?;
                check("a value", value.len(), "bytes", SpaceLimits::VALUE)?;
                bytes += key.len() + value.len();
            }
            RecordChange::Delete { key } => bytes += key.len(),
            RecordChange::DeleteRange { from, to } => bytes += from.len() + to.len(),
        }
    }
    check("a batch", bytes, "bytes", SpaceLimits::COMMIT)
}

/// The final value of every key that a commit changes, its changes applied in order.
fn resolve<'a>(
    database: &Database,
    keys: &Keys<'_>,
    commit: &'a CommitRecords,
) -> Result<BTreeMap<Vec<u8>, Option<&'a Bytes>>, SpaceError> {
    let mut resolved = BTreeMap::new();
    for change in &commit.changes {
        match change {
            RecordChange::Put { key, value } => drop(resolved.insert(keys.record(key), Some(value))),
            RecordChange::Delete { key } => drop(resolved.insert(keys.record(key), None)),
            RecordChange::DeleteRange { from, to } if from < to => {
                let (from, to) = (keys.record(from), keys.record(to));
                for value in resolved.range_mut(from.clone()..to.clone()).map(|(_, value)| value) {
                    *value = None;
                }
                let mut cursor = database.range_cursor(Column::Spaces, &from, Some(&to))?;
                while let Some((key, _)) = cursor.item() {
                    resolved.insert(key.to_vec(), None);
                    if resolved.len() > SpaceLimits::CHANGES {
                        return Err(too_large(
                            keys.name,
                            "a batch",
                            resolved.len(),
                            "changes, those of its ranges counted; remove the range in parts",
                            SpaceLimits::CHANGES,
                        ));
                    }
                    cursor.next();
                }
                cursor_status(&cursor)?;
            }
            RecordChange::DeleteRange { .. } => {}
        }
    }
    Ok(resolved)
}

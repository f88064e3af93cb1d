//! A plugin's storage space in memory, with the rules of the real one.

use std::collections::BTreeMap;

use alloy_primitives::Bytes;
use tenon_api::{
    SpaceError, SpaceLimits,
    messages::{CommitOutcome, CommitRecords, RecordChange, RecordPage, ScanRecords, SpaceUsage},
};

/// The content of a space.
#[derive(Default)]
pub(super) struct Space {
    records: BTreeMap<Bytes, Bytes>,
    pub(super) limits: SpaceLimits,
}

impl Space {
    pub(super) fn get(&self, keys: &[Bytes]) -> Vec<Option<Bytes>> {
        keys.iter().map(|key| self.records.get(key).cloned()).collect()
    }

    pub(super) fn scan(&self, scan: &ScanRecords) -> RecordPage {
        let is_inside = |key: &Bytes| *key >= scan.from && scan.to.as_ref().is_none_or(|to| key < to);
        let inside = self.records.iter().filter(|(key, _)| is_inside(key));
        let owned = |(key, value): (&Bytes, &Bytes)| (key.clone(), value.clone());
        let mut records: Vec<_> = inside.map(owned).collect();
        if scan.is_descending {
            records.reverse();
        }
        let limit = usize::try_from(scan.limit).unwrap_or(usize::MAX).min(SpaceLimits::RECORDS_READ);
        let has_more = records.len() > limit;
        records.truncate(limit);
        RecordPage { records, has_more }
    }

    pub(super) fn commit(&mut self, commit: CommitRecords) -> Result<CommitOutcome, SpaceError> {
        let is_expected = |(key, value): &(Bytes, Option<Bytes>)| self.records.get(key) == value.as_ref();
        if !commit.expects.iter().all(is_expected) {
            return Ok(CommitOutcome { is_applied: false, usage: self.usage() });
        }
        if commit.changes.len() > SpaceLimits::CHANGES {
            let (what, found, unit, max) = ("a batch", commit.changes.len(), "changes", SpaceLimits::CHANGES);
            return Err(SpaceError::Size { space: "test".to_owned(), what, found, unit, max });
        }
        let (before, used) = (self.records.clone(), self.usage());
        for change in commit.changes {
            match change {
                RecordChange::Put { key, value } => drop(self.records.insert(key, value)),
                RecordChange::Delete { key } => drop(self.records.remove(&key)),
                RecordChange::DeleteRange { from, to } => {
                    self.records.retain(|key, _| !(*key >= from && *key < to));
                }
            }
        }
        let usage = self.usage();
        let is_over = |now: u64, before: u64, max: u64| now > max && now > before;
        if is_over(usage.records, used.records, usage.max_records) || is_over(usage.bytes, used.bytes, usage.max_bytes)
        {
            self.records = before;
            return Err(SpaceError::Full { space: "test".to_owned(), usage });
        }
        Ok(CommitOutcome { is_applied: true, usage })
    }

    pub(super) fn usage(&self) -> SpaceUsage {
        let bytes: usize = self.records.iter().map(|(key, value)| key.len() + value.len()).sum();
        SpaceUsage::of(self.records.len() as u64, bytes as u64, self.limits)
    }

    /// Every record, in order.
    pub(super) fn records(&self) -> Vec<(Bytes, Bytes)> {
        self.records.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

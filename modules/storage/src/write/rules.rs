//! The rules under which the chain's blocks were made.

use tenon_api::StoreError;

use crate::{
    database::{Batch, cursor_status},
    error::corrupt,
    format::{columns::Column, keys, meta},
    read::shared::Shared,
    store::Store,
};

/// Maximum number of blocks that one batch removes.
const REMOVED_PER_BATCH: usize = 1_024;

impl Store {
    /// The stored rules under which this folder's blocks were made; `None` if none are stored.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn rules(&self) -> Result<Option<Vec<u8>>, StoreError> {
        meta::rules(&self.shared.database)
    }

    /// Replaces the stored rules. No canonical block may have been made under rules that change. `first` is the first
    /// height at which rules differ, if any: blocks of other branches from there on were checked under the old rules,
    /// and are removed.
    ///
    /// # Errors
    /// [`StoreError`]; the old rules stay, and some of those blocks may be removed.
    pub fn write_rules(&self, rules: &[u8], first: Option<u64>) -> Result<(), StoreError> {
        let _writer = self.writer.lock();
        if let Some(first) = first {
            forget_blocks_from(&self.shared, first.max(self.head_number().saturating_add(1)))?;
        }
        let mut batch = self.shared.database.batch();
        meta::set_rules(&mut batch, rules)?;
        batch.write(true)
    }
}

/// Removes every block from a height on. None of them may be canonical. Their trie nodes stay: they are found by hash,
/// and valid for any block with that root.
fn forget_blocks_from(shared: &Shared, first: u64) -> Result<(), StoreError> {
    loop {
        let mut batch = shared.database.batch();
        let count = forget_some(shared, &mut batch, first)?;
        if count == 0 {
            break;
        }
        batch.write(false)?;
    }
    shared.headers.clear();
    shared.blocks.clear();
    shared.receipts.clear();
    Ok(())
}

fn forget_some(shared: &Shared, batch: &mut Batch<'_>, first: u64) -> Result<usize, StoreError> {
    let mut count = 0;
    let mut cursor = shared.database.range_cursor(Column::Headers, &keys::number(first), None)?;
    while let Some(key) = cursor.key().filter(|_| count < REMOVED_PER_BATCH) {
        let hash = key.get(8..).filter(|hash| hash.len() == 32).ok_or_else(|| corrupt("key of a header"))?;
        batch.delete(Column::HeaderNumbers, hash)?;
        batch.delete(Column::Bodies, key)?;
        // The records of a block that was removed from the chain, or executed beside it.
        batch.delete(Column::Receipts, [key, &[1]].concat())?;
        batch.delete(Column::Headers, key)?;
        count += 1;
        cursor.next();
    }
    cursor_status(&cursor)?;
    Ok(count)
}

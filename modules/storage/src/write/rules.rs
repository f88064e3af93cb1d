//! The rules under which the chain was made.

use tenon_api::StoreError;

use crate::{
    database::Batch,
    format::{columns::Column, keys, meta},
    read::shared::{Shared, corrupt, cursor_status},
    store::Store,
};

/// Blocks that one batch forgets.
const FORGOTTEN_TOGETHER: usize = 1_024;

impl Store {
    /// The rules under which this folder's blocks were made, as they were kept; none when none were.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn rules(&self) -> Result<Option<Vec<u8>>, StoreError> {
        meta::rules(&self.shared.database)
    }

    /// Keeps rules in place of those before. No canonical block may be under another rule than it was made under.
    /// `first`, where there is one, is the first height at which other rules hold: blocks of other branches from there on
    /// were checked under those before, and are forgotten.
    ///
    /// # Errors
    /// [`StoreError`]; the rules before stand, and some of those blocks may be gone.
    pub fn keep_rules(&self, rules: &[u8], first: Option<u64>) -> Result<(), StoreError> {
        let _writer = self.writer.lock();
        if let Some(first) = first {
            forget_blocks_from(&self.shared, first.max(self.head_number().saturating_add(1)))?;
        }
        let mut batch = self.shared.database.batch();
        meta::set_rules(&mut batch, rules)?;
        batch.write(true)
    }
}

/// Removes every block from a height on. None of them may be canonical. Their trie nodes stay: they are found by hash, and
/// are true of whichever block has that root.
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
    while let Some(key) = cursor.key().filter(|_| count < FORGOTTEN_TOGETHER) {
        let hash = key.get(8..).filter(|hash| hash.len() == 32).ok_or_else(|| corrupt("key of a header"))?;
        batch.delete(Column::HeaderNumbers, hash)?;
        batch.delete(Column::Bodies, key)?;
        // What stays of a block that was taken off the chain.
        batch.delete(Column::Receipts, [key, &[1]].concat())?;
        batch.delete(Column::Headers, key)?;
        count += 1;
        cursor.next();
    }
    cursor_status(&cursor)?;
    Ok(count)
}

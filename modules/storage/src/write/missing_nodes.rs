//! Stores trie nodes that the database lacks.

use tenon_api::{StoreError, TrieNodeWrite};

use crate::{
    database::Batch,
    format::{columns::Column, keys, records},
    read::shared::Shared,
};

/// Stores a node, unless it is already stored at this position. `created` is the height in its record.
pub(crate) fn put_missing(
    shared: &Shared,
    batch: &mut Batch<'_>,
    node: &TrieNodeWrite,
    created: u64,
) -> Result<(), StoreError> {
    let key = keys::trie_position(&node.position, node.hash);
    if shared.database.get(Column::Trie, &key)?.is_some() {
        return Ok(());
    }
    batch.put(Column::Trie, key, records::encode_latest(created, &node.rlp))
}

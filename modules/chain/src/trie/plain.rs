//! Tries with arbitrary keys and values, not only accounts and slots.

use std::collections::BTreeMap;

use alloy_primitives::{B256, Bytes};
use tenon_api::TrieReader;

use super::change::Change;
use super::nibbles::unpack;
use super::source::Source;
use super::write::update_trie;
use super::{TrieError, TrieUpdate};

/// Applies changes to a trie of arbitrary keys, which may differ in length. A change without value deletes its key.
///
/// For the state use [`update_state_trie`](super::update_state_trie), which hashes keys first ("secure").
///
/// # Errors
/// [`TrieError`] if a node is missing or corrupt, or the database fails.
pub fn update_plain_trie(
    nodes: &dyn TrieReader,
    root: B256,
    changes: &BTreeMap<Vec<u8>, Option<Vec<u8>>>,
) -> Result<TrieUpdate, TrieError> {
    update_owned_trie(nodes, None, root, changes)
}

/// [`update_plain_trie`] for a trie whose nodes are stored under this owner.
///
/// # Errors
/// See [`update_plain_trie`].
pub fn update_owned_trie(
    nodes: &dyn TrieReader,
    owner: Option<B256>,
    root: B256,
    changes: &BTreeMap<Vec<u8>, Option<Vec<u8>>>,
) -> Result<TrieUpdate, TrieError> {
    // Ascending order of bytes is ascending order of nibbles.
    let changes: Vec<Change> =
        changes.iter().map(|(key, value)| Change { key: unpack(key), value: value.clone() }).collect();
    update_trie(nodes, owner, root, &changes, false)
}

/// The value of a key, if it has one, and the RLP of the stored nodes on the path to its position.
///
/// # Errors
/// See [`update_plain_trie`].
pub fn prove_key(nodes: &dyn TrieReader, root: B256, key: &[u8]) -> Result<(Option<Vec<u8>>, Vec<Bytes>), TrieError> {
    Source { nodes, owner: None }.prove(root, &unpack(key))
}

/// The value of a key of the trie that is stored under this owner, if the key has one.
///
/// # Errors
/// See [`update_plain_trie`].
pub fn read_key(
    nodes: &dyn TrieReader,
    owner: Option<B256>,
    root: B256,
    key: &[u8],
) -> Result<Option<Vec<u8>>, TrieError> {
    Ok(Source { nodes, owner }.prove(root, &unpack(key))?.0)
}

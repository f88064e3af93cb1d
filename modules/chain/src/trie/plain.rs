//! Tries whose keys and values mean nothing here: neither accounts nor slots.

use std::collections::BTreeMap;

use alloy_primitives::{B256, Bytes};
use tenon_api::TrieReader;

use super::change::Change;
use super::nibbles::unpack;
use super::source::Source;
use super::write::update_trie;
use super::{TrieError, TrieUpdate};

/// Applies changes to a trie of arbitrary keys, which may differ in length. No value deletes its key.
///
/// The state goes through [`update_state_trie`](super::update_state_trie), which hashes keys first ("secure").
///
/// # Errors
/// [`TrieError`] when a node is missing or damaged, or the database fails.
pub fn update_plain_trie(
    nodes: &dyn TrieReader,
    root: B256,
    changes: &BTreeMap<Vec<u8>, Option<Vec<u8>>>,
) -> Result<TrieUpdate, TrieError> {
    update_owned_trie(nodes, None, root, changes)
}

/// [`update_plain_trie`] for a trie whose nodes are kept under this owner.
///
/// # Errors
/// See [`update_plain_trie`].
pub fn update_owned_trie(
    nodes: &dyn TrieReader,
    owner: Option<B256>,
    root: B256,
    changes: &BTreeMap<Vec<u8>, Option<Vec<u8>>>,
) -> Result<TrieUpdate, TrieError> {
    // Ascending by bytes is ascending by nibbles.
    let changes: Vec<Change> =
        changes.iter().map(|(key, value)| Change { key: unpack(key), value: value.clone() }).collect();
    update_trie(nodes, owner, root, &changes, false)
}

/// The value of a key, if it has one, and the RLP of the stored nodes on the way to where it is or would be.
///
/// # Errors
/// See [`update_plain_trie`].
pub fn prove_key(nodes: &dyn TrieReader, root: B256, key: &[u8]) -> Result<(Option<Vec<u8>>, Vec<Bytes>), TrieError> {
    Source { nodes, owner: None }.prove(root, &unpack(key))
}

/// The value of a key of the trie that is kept under this owner, if the key has one.
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

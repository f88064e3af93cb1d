//! Access to the stored nodes of one trie.

use alloy_primitives::{B256, Bytes};
use tenon_api::{TriePosition, TrieReader};

use super::TrieError;
use super::node::Node;

/// One stored trie: the state trie, or the storage trie of one account.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) nodes: &'a dyn TrieReader,
    pub(super) owner: Option<B256>,
}

impl Source<'_> {
    /// A stored node's RLP.
    pub(super) fn read(&self, path: &[u8], hash: B256) -> Result<Bytes, TrieError> {
        let missing = || TrieError::Missing { owner: self.owner, path: path.to_vec(), hash };
        self.nodes.node(self.owner, path, hash)?.ok_or_else(missing)
    }

    /// A stored node, with unread children.
    pub(super) fn resolve(&self, path: &[u8], hash: B256) -> Result<Node, TrieError> {
        self.decode(path, hash, &self.read(path, hash)?)
    }

    pub(super) fn decode(&self, path: &[u8], hash: B256, rlp: &[u8]) -> Result<Node, TrieError> {
        Node::decode(rlp).map_err(|source| TrieError::Corrupt {
            position: Box::new(TriePosition { owner: self.owner, path: path.to_vec() }),
            hash,
            source,
        })
    }
}

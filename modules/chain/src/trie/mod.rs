//! The Merkle-Patricia trie of state, updated in place: reads, hashes and writes only what a block touches.
//!
//! Nodes are found by owner, path and hash through a [`TrieReader`](tenon_api::TrieReader). An update returns the new
//! nodes, and the old nodes that the new root does not reach, so that a store can keep every root or prune old ones.
//! Nothing is ever overwritten.
//!
//! Implemented here, because alloy-trie (used for the roots of lists, `roots.rs`) only builds a root from all leaves in
//! order: it updates no stored trie, and does not tell which old nodes are no longer needed.

mod change;
mod nibbles;
mod node;
mod plain;
mod proof;
mod read;
mod source;
mod state;
mod walk;
mod write;

#[cfg(test)]
mod tests;

use alloy_primitives::{B256, hex};
use tenon_api::{BusError, RequestError, StoreError, TrieNodeWrite, TriePosition};

pub use nibbles::{from_hex_prefix, to_hex_prefix};
pub use plain::{prove_key, read_key, update_owned_trie, update_plain_trie};
pub use proof::prove;
pub use read::{read_account, read_slot};
pub use state::{decode_account, decode_slot_value, encode_account, encode_slot_value, update_state_trie};
pub use walk::{TrieItem, walk_trie, walk_trie_backwards};

use crate::codec::DecodeError;

/// Changes of a trie, or of all tries of a state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrieUpdate {
    /// The new root.
    pub root: B256,
    /// Nodes that the old state did not contain at their position.
    pub writes: Vec<TrieNodeWrite>,
    /// Nodes of the old state that the new root does not reach: position and hash.
    pub superseded: Vec<(TriePosition, B256)>,
}

/// Why a trie could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrieError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A required node is missing: the state was pruned, or the database is corrupt. Clients receive
    /// [`RequestError::MissingTrieNode`], whose text plugins write.
    #[error("the database does not have the trie node {hash} at path 0x{}", hex::encode(path))]
    Missing {
        /// keccak256 of the address for a storage trie; `None` for the state trie.
        owner: Option<B256>,
        /// Its path, one nibble per byte.
        path: Vec<u8>,
        /// Its hash.
        hash: B256,
    },
    /// A node does not decode.
    #[error("trie node {hash} (path {path}) is damaged: {source}; run `tenon db verify`", path = hex::encode(&position.path))]
    Corrupt {
        /// Its position.
        position: Box<TriePosition>,
        /// Its hash; zero for the value of a leaf.
        hash: B256,
        /// The problem.
        source: DecodeError,
    },
}

impl From<TrieError> for BusError {
    fn from(error: TrieError) -> Self {
        match error {
            TrieError::Store(error) => error.into(),
            TrieError::Missing { owner: _, path, hash } => RequestError::MissingTrieNode { hash, path }.into(),
            error @ TrieError::Corrupt { .. } => Self::failed(error),
        }
    }
}

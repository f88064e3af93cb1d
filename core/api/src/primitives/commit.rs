//! The changes of one block.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};

use super::{Account, Receipt, RecoveredBlock};

/// A block's change to one account. Applying it needs no execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountChange {
    /// The account.
    pub address: Address,
    /// Its value after the block, storage root included; `None` if it no longer exists.
    pub account: Option<Account>,
    /// Whether all its earlier slots were deleted; `slots` then lists all slots after the block.
    pub storage_wiped: bool,
    /// Slots with their values after the block; zero means unset.
    pub slots: Vec<SlotChange>,
}

/// A slot's value after a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotChange {
    /// The slot, not hashed.
    pub slot: B256,
    /// The value; zero means unset.
    pub value: U256,
}

/// Position of a node: in the state trie, or in the storage trie of one account.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TriePosition {
    /// keccak256 of the account's address for a storage trie; `None` for the state trie.
    pub owner: Option<B256>,
    /// Nibbles from the root, one per byte; empty for the root itself.
    #[serde(with = "serde_bytes")]
    pub path: Vec<u8>,
}

/// A trie node that a block created. Nodes are addressed by position and hash, so nodes of different blocks never
/// overwrite one another and any past root stays readable until it is pruned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrieNodeWrite {
    /// Its position.
    pub position: TriePosition,
    /// keccak256 of `rlp`.
    pub hash: B256,
    /// The node's RLP; 32 bytes or more, except for a root.
    pub rlp: Bytes,
}

/// All changes of one block: the only value through which blocks enter the database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockCommit {
    /// The block with its senders.
    pub block: Arc<RecoveredBlock>,
    /// Sum of difficulties up to and including this block.
    pub total_difficulty: U256,
    /// One per transaction.
    pub receipts: Arc<Vec<Receipt>>,
    /// Accounts that differ from the parent's state.
    pub accounts: Vec<AccountChange>,
    /// Code that did not exist before, by its hash.
    pub codes: Vec<(B256, Bytes)>,
    /// Trie nodes that did not exist before.
    pub trie_nodes: Vec<TrieNodeWrite>,
    /// Trie nodes of the parent's state that the new root does not reach: position and hash.
    pub superseded_trie_nodes: Vec<(TriePosition, B256)>,
}

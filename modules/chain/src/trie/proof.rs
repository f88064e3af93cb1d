//! Merkle proofs of accounts and slots, present or absent (EIP-1186).

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use tenon_api::{Account, AccountProof, EMPTY_ROOT_HASH, StorageProof, TriePosition, TrieReader};

use super::TrieError;
use super::nibbles::unpack;
use super::node::Node;
use super::source::Source;
use super::state::{decode_account, decode_slot_value};
use crate::codec::DecodeError;

/// Proves an account and some of its slots against a state root.
///
/// The proof of something that does not exist is the path to its position. An account that does not exist has the
/// default value, and its slots have no proof.
///
/// # Errors
/// [`TrieError`] if a node is missing (the state was pruned) or corrupt, or the database fails.
pub fn prove(
    nodes: &dyn TrieReader,
    state_root: B256,
    address: Address,
    slots: &[B256],
) -> Result<AccountProof, TrieError> {
    let owner = keccak256(address);
    let state = Source { nodes, owner: None };
    let (value, proof) = state.prove(state_root, &unpack(owner.as_slice()))?;
    let account = match value {
        Some(value) => decode_account(&value).map_err(|source| damaged_leaf(None, owner, source))?,
        None => Account::default(),
    };
    let storage_trie = Source { nodes, owner: Some(owner) };
    let storage = slots
        .iter()
        .map(|slot| {
            let key = keccak256(slot);
            let (value, proof) = storage_trie.prove(account.storage_root, &unpack(key.as_slice()))?;
            let value = match value {
                Some(value) => decode_slot_value(&value).map_err(|source| damaged_leaf(Some(owner), key, source))?,
                None => U256::ZERO,
            };
            Ok(StorageProof { slot: *slot, value, proof })
        })
        .collect::<Result<_, TrieError>>()?;
    Ok(AccountProof { address, account, proof, storage })
}

pub(super) fn damaged_leaf(owner: Option<B256>, key: B256, source: DecodeError) -> TrieError {
    TrieError::Corrupt {
        position: Box::new(TriePosition { owner, path: unpack(key.as_slice()) }),
        hash: B256::ZERO,
        source,
    }
}

impl Source<'_> {
    /// The value of a key, if it has one, and the RLP of the stored nodes on the path to it.
    pub(super) fn prove(&self, root: B256, key: &[u8]) -> Result<(Option<Vec<u8>>, Vec<Bytes>), TrieError> {
        let mut proof = Vec::new();
        let mut node = if root == EMPTY_ROOT_HASH { Node::Empty } else { Node::Stored(root) };
        let mut depth = 0;
        loop {
            node = match node {
                Node::Empty => return Ok((None, proof)),
                Node::Stored(hash) => {
                    let rlp = self.read(&key[..depth], hash)?;
                    let node = self.decode(&key[..depth], hash, &rlp)?;
                    proof.push(rlp);
                    node
                }
                Node::Leaf { path, value } => {
                    let found = key[depth..] == *path;
                    return Ok((found.then_some(value), proof));
                }
                Node::Extension { path, child } => {
                    if !key[depth..].starts_with(&path) {
                        return Ok((None, proof));
                    }
                    depth += path.len();
                    *child
                }
                Node::Branch(mut branch) => {
                    let Some(nibble) = key.get(depth) else { return Ok((branch.value, proof)) };
                    depth += 1;
                    std::mem::take(&mut branch.children[usize::from(*nibble)])
                }
            };
        }
    }
}

//! Roots and hashes of a body that its header contains.

use std::{borrow::Borrow, collections::HashMap};

use alloy_primitives::{B256, Bloom, Bytes, keccak256};
use alloy_trie::root::ordered_trie_root_with_encoder;
use sha2::{Digest, Sha256};
use tenon_api::{EMPTY_OMMERS_HASH, EMPTY_ROOT_HASH, Header, Receipt, Transaction, Withdrawal};

use crate::codec::rlp::write_list;
use crate::codec::{encode_header, encode_receipt_with_bloom, encode_transaction, encode_withdrawal, logs_bloom};
use crate::trie::{TrieError, prove_key, update_plain_trie};

/// Root of the trie of transactions: RLP of the position → canonical bytes.
pub fn transactions_root<T: Borrow<Transaction>>(transactions: &[T]) -> B256 {
    ordered_trie_root_with_encoder(transactions, |transaction, out| {
        out.extend_from_slice(&encode_transaction(transaction.borrow()));
    })
}

/// Like [`transactions_root`], from the canonical bytes of each transaction.
pub fn encoded_transactions_root(transactions: &[&[u8]]) -> B256 {
    ordered_trie_root_with_encoder(transactions, |transaction, out| out.extend_from_slice(transaction))
}

/// A Merkle proof of one entry of a body's trie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PositionProof {
    /// The root.
    pub root: B256,
    /// The entry's key: RLP of its position.
    pub key: Bytes,
    /// RLP of the nodes from the root to the entry. Nodes embedded in their parent, being shorter than a hash, are left
    /// out; the root never is.
    pub nodes: Vec<Bytes>,
}

/// The complete trie of one of a body's lists, kept to prove several entries without rebuilding it.
#[derive(Debug)]
pub struct ListTrie {
    root: B256,
    /// Number of entries in the list.
    length: usize,
    nodes: HashMap<B256, Bytes>,
}

impl ListTrie {
    /// The trie of transactions.
    ///
    /// # Errors
    /// None in practice: the trie is built in memory.
    pub fn of_transactions<T: Borrow<Transaction>>(transactions: &[T]) -> Result<Self, TrieError> {
        Self::of(transactions.iter().map(|transaction| encode_transaction(transaction.borrow())))
    }

    /// The trie of receipts.
    ///
    /// # Errors
    /// None in practice: the trie is built in memory.
    pub fn of_receipts(receipts: &[Receipt]) -> Result<Self, TrieError> {
        Self::of(receipts.iter().map(|receipt| encode_receipt_with_bloom(receipt, &logs_bloom(&receipt.logs))))
    }

    fn of(values: impl ExactSizeIterator<Item = Vec<u8>>) -> Result<Self, TrieError> {
        let length = values.len();
        let entries = values.enumerate().map(|(place, value)| (position_key(place), Some(value))).collect();
        let update = update_plain_trie(&HashMap::new(), EMPTY_ROOT_HASH, &entries)?;
        let nodes = update.writes.into_iter().map(|write| (write.hash, write.rlp)).collect();
        Ok(Self { root: update.root, length, nodes })
    }

    /// Approximate memory use.
    pub fn bytes(&self) -> usize {
        self.nodes.values().map(|node| node.len() + 120).sum()
    }

    /// Proves the entry at a position; `None` if there is no such position.
    ///
    /// # Errors
    /// None in practice: all nodes are in memory.
    pub fn prove(&self, position: usize) -> Result<Option<PositionProof>, TrieError> {
        if position >= self.length {
            return Ok(None);
        }
        let key = position_key(position);
        let (_, nodes) = prove_key(&self.nodes, self.root, &key)?;
        Ok(Some(PositionProof { root: self.root, key: key.into(), nodes }))
    }
}

/// The key of an entry: RLP of its position.
fn position_key(position: usize) -> Vec<u8> {
    alloy_rlp::encode_fixed_size(&position).to_vec()
}

/// Root of the trie of receipts: RLP of the position → canonical bytes.
pub fn receipts_root(receipts: &[Receipt]) -> B256 {
    receipts_root_and_bloom(receipts).0
}

/// Root of the trie of receipts and the union of their blooms; computes each bloom once.
pub fn receipts_root_and_bloom(receipts: &[Receipt]) -> (B256, Bloom) {
    let mut union = Bloom::ZERO;
    let blooms: Vec<Bloom> = receipts.iter().map(|receipt| logs_bloom(&receipt.logs)).collect();
    blooms.iter().for_each(|bloom| union.accrue_bloom(bloom));
    let pairs: Vec<_> = receipts.iter().zip(&blooms).collect();
    let root = ordered_trie_root_with_encoder(&pairs, |(receipt, bloom), out| {
        out.extend_from_slice(&encode_receipt_with_bloom(receipt, bloom));
    });
    (root, union)
}

/// Root of the trie of withdrawals (EIP-4895).
pub fn withdrawals_root(withdrawals: &[Withdrawal]) -> B256 {
    ordered_trie_root_with_encoder(withdrawals, encode_withdrawal)
}

/// keccak256 of the RLP of the list of uncle headers.
pub fn ommers_hash(ommers: &[Header]) -> B256 {
    if ommers.is_empty() {
        return EMPTY_OMMERS_HASH;
    }
    let mut out = Vec::new();
    write_list(&mut out, |out| ommers.iter().for_each(|ommer| encode_header(ommer, out)));
    keccak256(out)
}

/// Commitment to the execution requests of a block (EIP-7685): SHA-256 over the SHA-256 of each request,
/// type byte included, in ascending order of types. Requests without data count as absent.
pub fn requests_hash<R: AsRef<[u8]>>(requests: impl IntoIterator<Item = R>) -> B256 {
    let mut outer = Sha256::new();
    for request in requests {
        let request = request.as_ref();
        if request.len() > 1 {
            outer.update(Sha256::digest(request));
        }
    }
    B256::new(outer.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_proved_by_nodes_that_hash_to_the_root() {
        for count in [1, 2, 16, 128, 129, 300_usize] {
            let values: Vec<Vec<u8>> = (0..count).map(|place| vec![place as u8; 40 + place]).collect();
            let trie = ListTrie::of(values.iter().cloned()).unwrap();
            assert_eq!(trie.prove(count).unwrap(), None);
            for position in [0, count / 2, count - 1] {
                let proof = trie.prove(position).unwrap().unwrap();

                let expected = ordered_trie_root_with_encoder(&values, |value, out| out.extend_from_slice(value));
                assert_eq!(proof.root, expected, "{position} of {count}");
                assert_eq!(proof.nodes.first().map(keccak256), Some(expected));
                for pair in proof.nodes.windows(2) {
                    let hash = keccak256(&pair[1]);
                    assert!(pair[0].windows(32).any(|window| window == hash), "{position} of {count}: a broken chain");
                }
                let leaf = proof.nodes.last().expect("the root is never left out");
                let value = &values[position];
                assert!(leaf.windows(value.len()).any(|window| window == value), "{position} of {count}");
            }
        }
    }

    #[test]
    fn embedded_nodes_are_left_out() {
        let values: Vec<Vec<u8>> = (0..3).map(|place| vec![place; 3]).collect();

        let proof = ListTrie::of(values.into_iter()).unwrap().prove(1).unwrap().unwrap();

        assert_eq!(proof.nodes.len(), 1, "all leaves are shorter than a hash");
        assert_eq!(keccak256(&proof.nodes[0]), proof.root);
    }
}

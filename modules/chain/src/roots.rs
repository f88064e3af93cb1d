//! Roots and hashes that a header says of its body.

use std::borrow::Borrow;

use alloy_primitives::{B256, Bloom, Bytes, keccak256};
use alloy_trie::{
    HashBuilder, Nibbles,
    proof::ProofRetainer,
    root::{adjust_index_for_rlp, ordered_trie_root_with_encoder},
};
use sha2::{Digest, Sha256};
use tenon_api::{EMPTY_OMMERS_HASH, Header, Receipt, Transaction, Withdrawal};

use crate::codec::rlp::write_list;
use crate::codec::{encode_header, encode_receipt_with_bloom, encode_transaction, encode_withdrawal, logs_bloom};

/// Root of the trie of transactions: RLP of the position → canonical bytes.
pub fn transactions_root<T: Borrow<Transaction>>(transactions: &[T]) -> B256 {
    ordered_trie_root_with_encoder(transactions, |transaction, out| {
        out.extend_from_slice(&encode_transaction(transaction.borrow()));
    })
}

/// The way from the root of a body's trie to one of its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PositionProof {
    /// The root.
    pub root: B256,
    /// The entry's key: RLP of its position.
    pub key: Bytes,
    /// RLP of the nodes from the root to the entry. One that is part of its parent, being shorter than a hash, is left
    /// out; the root never is.
    pub nodes: Vec<Bytes>,
}

/// Proves that a transaction stands at a position of a block.
pub fn prove_transaction<T: Borrow<Transaction>>(transactions: &[T], position: usize) -> PositionProof {
    let values: Vec<_> = transactions.iter().map(|transaction| encode_transaction(transaction.borrow())).collect();
    prove_position(&values, position)
}

/// Proves that a receipt stands at a position of a block.
pub fn prove_receipt(receipts: &[Receipt], position: usize) -> PositionProof {
    let encode = |receipt: &Receipt| encode_receipt_with_bloom(receipt, &logs_bloom(&receipt.logs));
    let values: Vec<_> = receipts.iter().map(encode).collect();
    prove_position(&values, position)
}

fn prove_position(values: &[Vec<u8>], position: usize) -> PositionProof {
    let key = alloy_rlp::encode_fixed_size(&position);
    let retainer = ProofRetainer::from_iter([Nibbles::unpack(&key)]);
    let mut builder = HashBuilder::default().with_proof_retainer(retainer);
    for place in 0..values.len() {
        let index = adjust_index_for_rlp(place, values.len());
        builder.add_leaf(Nibbles::unpack(alloy_rlp::encode_fixed_size(&index)), &values[index]);
    }
    let root = builder.root();
    let nodes = builder.take_proof_nodes().into_nodes_sorted().into_iter();
    let stands_alone = |(path, node): &(Nibbles, Bytes)| path.is_empty() || node.len() >= B256::len_bytes();
    let nodes = nodes.filter(stands_alone).map(|(_, node)| node).collect();
    PositionProof { root, key: Bytes::copy_from_slice(&key), nodes }
}

/// Root of the trie of receipts: RLP of the position → canonical bytes.
pub fn receipts_root(receipts: &[Receipt]) -> B256 {
    receipts_root_and_bloom(receipts).0
}

/// Root of the trie of receipts and the union of their blooms, each bloom computed once.
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
            for position in [0, count / 2, count - 1] {
                let proof = prove_position(&values, position);

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
    fn nodes_that_are_part_of_their_parent_are_left_out() {
        let values: Vec<Vec<u8>> = (0..3).map(|place| vec![place; 3]).collect();

        let proof = prove_position(&values, 1);

        assert_eq!(proof.nodes.len(), 1, "all leaves are shorter than a hash");
        assert_eq!(keccak256(&proof.nodes[0]), proof.root);
    }
}

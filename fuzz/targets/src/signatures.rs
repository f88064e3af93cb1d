//! Batch recovery of signatures.

use tenon_recovery::{Signature, recover, recover_batch};

/// Length of a signature here: hash, r, s, recovery id.
const BYTES: usize = 97;

/// For any signatures, a batch returns the same as single recoveries.
pub(crate) fn batch(input: &[u8]) {
    let signatures: Vec<([u8; 32], Signature)> = input
        .as_chunks::<BYTES>()
        .0
        .iter()
        .map(|bytes| {
            let (mut hash, mut signature) = ([0; 32], [0; 65]);
            hash.copy_from_slice(&bytes[..32]);
            signature.copy_from_slice(&bytes[32..]);
            (hash, Signature::from(&signature))
        })
        .collect();
    let alone: Vec<_> = signatures.iter().map(|(hash, signature)| recover(hash, signature)).collect();
    assert_eq!(recover_batch(&signatures), alone);
}

/// Batches of 2 to 17 transaction signatures, with a last one truncated.
pub(crate) fn examples(transactions: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let signed: Vec<Vec<u8>> = transactions
        .iter()
        .filter_map(|raw| tenon_chain::decode_transaction(raw).ok())
        .filter_map(|transaction| tenon_chain::signed_hash_of(&transaction, tenon_chain::HighS::Allowed).ok())
        .map(|(hash, signature)| [&hash[..], &signature.r, &signature.s, &[signature.recovery_id]].concat())
        .collect();
    let of = |count: usize| signed.iter().take(count).flatten().copied().collect::<Vec<u8>>();
    (2..18).map(of).chain([of(9)[..BYTES * 9 - 1].to_vec()]).collect()
}

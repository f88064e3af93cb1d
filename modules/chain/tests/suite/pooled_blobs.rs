//! Blob transactions with their sidecars.

use alloy_primitives::{Address, B256, Bytes, U256};
use tenon_api::{Transaction, TransactionPayload, TransactionSignature};
use tenon_chain::codec::{BLOB_BYTES, BlobSidecar, CELLS_PER_EXTENDED_BLOB, KzgPoint, versioned_hash};
use tenon_chain::{
    DecodeProblem, decode_pooled_transaction, decode_transaction, encode_pooled_transaction, transaction_hash,
};

fn transaction(hashes: Vec<B256>) -> Transaction {
    let mut transaction = Transaction {
        hash: B256::ZERO,
        chain_id: Some(1),
        nonce: 3,
        gas_limit: 21_000,
        to: Some(Address::repeat_byte(7)),
        value: U256::ZERO,
        input: Bytes::new(),
        payload: TransactionPayload::Blob {
            max_fee_per_gas: U256::from(100),
            max_priority_fee_per_gas: U256::from(1),
            access_list: vec![],
            max_fee_per_blob_gas: U256::from(5),
            blob_versioned_hashes: hashes,
        },
        signature: TransactionSignature { v: 1, r: U256::from(11), s: U256::from(12) },
    };
    transaction.hash = transaction_hash(&transaction);
    transaction
}

fn sidecar(version: u8) -> BlobSidecar {
    let proofs = if version == 0 { 2 } else { 2 * CELLS_PER_EXTENDED_BLOB };
    BlobSidecar {
        version,
        blobs: vec![vec![1; BLOB_BYTES].into(), vec![2; BLOB_BYTES].into()],
        commitments: vec![KzgPoint::repeat_byte(3), KzgPoint::repeat_byte(4)],
        proofs: vec![KzgPoint::repeat_byte(5); proofs],
    }
}

#[test]
fn both_versions_of_the_sidecar_round_trip() {
    for version in [0, 1] {
        let sidecar = sidecar(version);
        let transaction = transaction(sidecar.commitments.iter().map(versioned_hash).collect());
        let encoded = encode_pooled_transaction(&transaction, &sidecar);

        let (decoded, decoded_sidecar) = decode_pooled_transaction(&encoded).unwrap();

        assert_eq!(decoded, transaction, "the hash is that of the transaction without its blobs");
        assert_eq!(decoded_sidecar.as_ref(), Some(&sidecar));
        assert!(sidecar.belongs_to(&decoded));
        assert!(decode_transaction(&encoded).is_err(), "a block holds no blobs");
    }
}

#[test]
fn a_sidecar_of_other_commitments_does_not_belong() {
    let mut sidecar = sidecar(0);
    let transaction = transaction(sidecar.commitments.iter().map(versioned_hash).collect());
    sidecar.commitments.swap(0, 1);

    assert!(!sidecar.belongs_to(&transaction));
}

#[test]
fn a_blob_of_another_length_and_an_unknown_version_are_refused() {
    let mut short = sidecar(0);
    short.blobs[1] = Bytes::from_static(&[9; 100]);
    let encoded = encode_pooled_transaction(&transaction(vec![]), &short);
    let error = decode_pooled_transaction(&encoded).unwrap_err();
    assert_eq!(error.problem, DecodeProblem::WrongLength { wanted: BLOB_BYTES, found: 100 });

    let unknown = BlobSidecar { version: 2, ..sidecar(0) };
    let encoded = encode_pooled_transaction(&transaction(vec![]), &unknown);
    let error = decode_pooled_transaction(&encoded).unwrap_err();
    assert_eq!((error.what, error.problem), ("sidecar version", DecodeProblem::InvalidValue));
}

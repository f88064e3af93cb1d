//! RLP of both profiles: decoded values encode to the same bytes, and nothing panics.

use alloy_primitives::{B256, keccak256};
use tenon_api::{Header, TransactionType};
use tenon_chain::{BlockStream, HighS, SignerRules, StreamError};

/// Headers, from the front of the input.
pub(crate) fn header(input: &[u8]) {
    let mut rest = input;
    let Ok(sealed) = tenon_chain::decode_sealed_header(&mut rest) else {
        assert_eq!(rest.len(), input.len(), "a refused header leaves the input as it was");
        return;
    };
    let read = &input[..input.len() - rest.len()];
    assert_eq!(encoded_header(sealed.header()), read, "a header has one encoding");
    assert_eq!(sealed.hash(), keccak256(read));
    assert_eq!(tenon_chain::seal(sealed.header().clone()).hash(), sealed.hash());
    if let Some(seal) = &sealed.native_seal {
        let hashes = [
            tenon_native_consensus::v1_seal_hash(&sealed),
            tenon_native_consensus::v2_seal_hash(&sealed),
            tenon_native_consensus::hash_without_validator(&sealed),
        ];
        assert!(!hashes.contains(&B256::ZERO));
        let _ = tenon_native_consensus::recover(hashes[1], &seal.validator);
        let _ = tenon_native_consensus::v1_masternodes(&sealed.extra_data);
        let _ = tenon_native_consensus::v2::extra_of(&sealed);
    }
}

fn encoded_header(header: &Header) -> Vec<u8> {
    let mut encoded = Vec::new();
    tenon_chain::encode_header(header, &mut encoded);
    encoded
}

/// Blocks, from the front of the input.
pub(crate) fn block(input: &[u8]) {
    let mut rest = input;
    let Ok(block) = tenon_chain::decode_block(&mut rest) else {
        assert_eq!(rest.len(), input.len(), "a refused block leaves the input as it was");
        return;
    };
    let read = &input[..input.len() - rest.len()];
    assert_eq!(tenon_chain::encode_block(&block), read, "a block has one encoding");
    assert_eq!(block.size, read.len() as u64);
    let _ = (
        tenon_chain::transactions_root(&block.transactions),
        tenon_chain::ommers_hash(&block.ommers),
        block.withdrawals.as_deref().map(tenon_chain::withdrawals_root),
    );
}

/// Transactions: canonical, in lists, and with their blobs.
pub(crate) fn transaction(input: &[u8]) {
    if let Ok(transaction) = tenon_chain::decode_transaction(input) {
        assert_eq!(tenon_chain::encode_transaction(&transaction), input, "a transaction has one encoding");
        assert_eq!(transaction.hash, keccak256(input));
        let mut listed = Vec::new();
        tenon_chain::encode_list_transaction(&transaction, &mut listed);
        let mut rest = listed.as_slice();
        assert_eq!(tenon_chain::decode_list_transaction(&mut rest).as_ref(), Ok(&transaction));
        assert!(rest.is_empty());
        let rules = SignerRules {
            chain_id: 50,
            high_s: HighS::Refused,
            replay_protection: true,
            highest_type: TransactionType::SetCode,
            allows_blobs: true,
        };
        if rules.sender(&transaction).is_ok() {
            assert_eq!(rules.sender(&transaction), tenon_chain::recover_sender(&transaction));
        }
    }
    let mut rest = input;
    if let Ok(transaction) = tenon_chain::decode_list_transaction(&mut rest) {
        let mut listed = Vec::new();
        tenon_chain::encode_list_transaction(&transaction, &mut listed);
        assert_eq!(listed, input[..input.len() - rest.len()]);
    }
    match tenon_chain::decode_pooled_transaction(input) {
        Ok((transaction, Some(sidecar))) => {
            assert_eq!(tenon_chain::encode_pooled_transaction(&transaction, &sidecar), input);
            let _ = sidecar.belongs_to(&transaction);
        }
        Ok((transaction, None)) => assert_eq!(tenon_chain::encode_transaction(&transaction), input),
        Err(_) => {}
    }
}

/// Receipts. Their bloom is recomputed, so a wrong one cannot round-trip.
pub(crate) fn receipt(input: &[u8]) {
    let Ok(receipt) = tenon_chain::decode_receipt(input) else { return };
    let encoded = tenon_chain::encode_receipt(&receipt);
    assert_eq!(encoded.len(), input.len(), "nothing but the bloom may differ");
    let again = tenon_chain::decode_receipt(&encoded).expect("what was encoded decodes");
    assert_eq!(again.logs, receipt.logs);
    assert_eq!(tenon_chain::encode_receipt(&again), encoded);
    let _ = tenon_chain::receipts_root(&[receipt]);
}

/// Files of blocks: the stream reads the same as one block after the other, and names the position of an error.
pub(crate) fn chain_file(input: &[u8]) {
    const BOUND: u64 = 1 << 16;
    let mut stream = BlockStream::with_bound(input, BOUND);
    let (mut at, mut blocks) = (0_usize, 0_u64);
    loop {
        match stream.next() {
            None => break assert_eq!(at, input.len(), "the stream ends with the file"),
            Some(Ok(block)) => {
                let encoded = tenon_chain::encode_block(&block);
                assert!(input[at..].starts_with(&encoded), "a block comes back as it stood in the file");
                at += encoded.len();
                blocks += 1;
                assert_eq!(stream.offset(), at as u64);
            }
            Some(Err(error)) => {
                let (index, offset) = match error {
                    StreamError::Io { index, offset, .. }
                    | StreamError::Truncated { index, offset }
                    | StreamError::Decode { index, offset, .. } => (index, offset),
                };
                assert_eq!((index, offset), (blocks, at as u64), "the place of the damaged block is named");
                break assert!(stream.next().is_none(), "nothing follows a damaged block");
            }
        }
    }
}

/// Untyped RLP, and the values in the leaves of state tries: one encoding each.
pub(crate) fn items(input: &[u8]) {
    if let Ok(item) = tenon_chain::codec::decode_item(input) {
        assert_eq!(tenon_chain::codec::encode_item(&item), input, "an item has one encoding");
    }
    if let Ok(account) = tenon_chain::trie::decode_account(input) {
        let numbers = (alloy_rlp::encode(account.nonce), alloy_rlp::encode(account.whole_balance()));
        assert!(input.windows(numbers.0.len()).any(|part| part == numbers.0), "the nonce stands there");
        assert!(input.windows(numbers.1.len()).any(|part| part == numbers.1), "the balance stands there");
    }
    if let Ok(value) = tenon_chain::trie::decode_slot_value(input) {
        assert_eq!(alloy_rlp::encode(value), input, "a slot has one encoding");
    }
}

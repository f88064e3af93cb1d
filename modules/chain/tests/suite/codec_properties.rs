//! Properties of any header, block, transaction and receipt, and of any bytes.

use std::sync::Arc;

use alloy_primitives::{Address, B64, B256, Bloom, Bytes, U256};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tenon_api::{
    AccessListItem, Header, Log, NativeSeal, Receipt, ReceiptOutcome, SignedAuthorization, Transaction,
    TransactionPayload, TransactionSignature, TransactionType, Withdrawal,
};
use tenon_chain::{
    DecodeProblem, assemble_block, decode_block, decode_header, decode_pooled_transaction, decode_receipt,
    decode_sealed_header, decode_transaction, encode_block, encode_header, encode_receipt, encode_transaction, seal,
    transaction_hash,
};

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

fn hash() -> impl Strategy<Value = B256> {
    any::<[u8; 32]>().prop_map(B256::new)
}

fn address() -> impl Strategy<Value = Address> {
    any::<[u8; 20]>().prop_map(Address::new)
}

fn bytes(max: usize) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..max).prop_map(Bytes::from)
}

/// Integers of every length, zero included.
fn word() -> impl Strategy<Value = U256> {
    (any::<[u8; 32]>(), 0usize..=32).prop_map(|(bytes, length)| U256::from_be_slice(&bytes[..length]))
}

fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0u32..64).prop_map(|(number, shift)| number >> shift)
}

fn common_header() -> impl Strategy<Value = Header> {
    let hashes = (hash(), hash(), address(), hash(), hash(), hash());
    let numbers = (word(), number(), number(), number(), number());
    let rest = (bytes(120), hash(), any::<[u8; 8]>(), any::<u8>());
    (hashes, numbers, rest).prop_map(|(hashes, numbers, rest)| Header {
        parent_hash: hashes.0,
        ommers_hash: hashes.1,
        beneficiary: hashes.2,
        state_root: hashes.3,
        transactions_root: hashes.4,
        receipts_root: hashes.5,
        logs_bloom: Bloom::repeat_byte(rest.3),
        difficulty: numbers.0,
        number: numbers.1,
        gas_limit: numbers.2,
        gas_used: numbers.3,
        timestamp: numbers.4,
        extra_data: rest.0,
        mix_hash: rest.1,
        nonce: B64::new(rest.2),
        ..Header::default()
    })
}

fn header() -> impl Strategy<Value = Header> {
    let native = (bytes(90), bytes(70), bytes(50), option::of(number()));
    let ethereum = (0usize..5, number(), hash(), number(), number(), hash(), hash());
    (common_header(), any::<bool>(), native, ethereum).prop_map(|(mut header, is_native, native, ethereum)| {
        if is_native {
            header.native_seal = Some(NativeSeal { validators: native.0, validator: native.1, penalties: native.2 });
            header.base_fee_per_gas = native.3;
            return header;
        }
        let (era, base_fee, withdrawals, used, excess, beacon, requests) = ethereum;
        header.base_fee_per_gas = (era >= 1).then_some(base_fee);
        header.withdrawals_root = (era >= 2).then_some(withdrawals);
        header.blob_gas_used = (era >= 3).then_some(used);
        header.excess_blob_gas = (era >= 3).then_some(excess);
        header.parent_beacon_block_root = (era >= 3).then_some(beacon);
        header.requests_hash = (era >= 4).then_some(requests);
        header
    })
}

fn access_list() -> impl Strategy<Value = Vec<AccessListItem>> {
    let item = (address(), vec(hash(), 0..4));
    vec(item.prop_map(|(address, storage_keys)| AccessListItem { address, storage_keys }), 0..4)
}

fn authorization() -> impl Strategy<Value = SignedAuthorization> {
    (word(), address(), number(), any::<u8>(), word(), word()).prop_map(|(chain_id, address, nonce, y_parity, r, s)| {
        SignedAuthorization { chain_id, address, nonce, y_parity, r, s }
    })
}

fn payload() -> impl Strategy<Value = TransactionPayload> {
    let prices = (word(), word(), word());
    (0u8..5, prices, access_list(), vec(hash(), 0..4), vec(authorization(), 0..3)).prop_map(
        |(kind, (max_fee_per_gas, max_priority_fee_per_gas, max_fee_per_blob_gas), access_list, hashes, list)| {
            match kind {
                0 => TransactionPayload::Legacy { gas_price: max_fee_per_gas },
                1 => TransactionPayload::AccessList { gas_price: max_fee_per_gas, access_list },
                2 => TransactionPayload::DynamicFee { max_fee_per_gas, max_priority_fee_per_gas, access_list },
                3 => TransactionPayload::Blob {
                    max_fee_per_gas,
                    max_priority_fee_per_gas,
                    access_list,
                    max_fee_per_blob_gas,
                    blob_versioned_hashes: hashes,
                },
                _ => TransactionPayload::SetCode {
                    max_fee_per_gas,
                    max_priority_fee_per_gas,
                    access_list,
                    authorization_list: list,
                },
            }
        },
    )
}

fn transaction() -> impl Strategy<Value = Transaction> {
    let fields = (number(), number(), number(), option::of(address()), word(), bytes(80));
    (payload(), fields, (number(), word(), word())).prop_map(|(payload, fields, (v, r, s))| {
        let (chain_id, nonce, gas_limit, to, value, input) = fields;
        let mut transaction = Transaction {
            hash: B256::ZERO,
            chain_id: Some(chain_id),
            nonce,
            gas_limit,
            to,
            value,
            input,
            payload,
            signature: TransactionSignature { v, r, s },
        };
        match transaction.transaction_type() {
            TransactionType::Legacy => transaction.chain_id = (v >= 35).then(|| (v - 35) / 2),
            TransactionType::Blob | TransactionType::SetCode => transaction.to = Some(to.unwrap_or_default()),
            _ => {}
        }
        transaction.hash = transaction_hash(&transaction);
        transaction
    })
}

fn receipt() -> impl Strategy<Value = Receipt> {
    let outcome =
        prop_oneof![any::<bool>().prop_map(ReceiptOutcome::Status), hash().prop_map(ReceiptOutcome::StateRoot),];
    let log =
        (address(), vec(hash(), 0..5), bytes(60)).prop_map(|(address, topics, data)| Log { address, topics, data });
    let types = [
        TransactionType::Legacy,
        TransactionType::AccessList,
        TransactionType::DynamicFee,
        TransactionType::Blob,
        TransactionType::SetCode,
    ];
    (0usize..5, outcome, number(), vec(log, 0..4)).prop_map(move |(kind, outcome, cumulative_gas_used, logs)| Receipt {
        transaction_type: types[kind],
        outcome,
        cumulative_gas_used,
        gas_used: 0,
        logs,
    })
}

fn withdrawal() -> impl Strategy<Value = Withdrawal> {
    (number(), number(), address(), number()).prop_map(|(index, validator_index, address, amount)| Withdrawal {
        index,
        validator_index,
        address,
        amount,
    })
}

/// A valid encoding with one byte changed, truncated, or extended.
fn damage(mut encoded: Vec<u8>, at: prop::sample::Index, kind: u8, byte: u8) -> Vec<u8> {
    let at = at.index(encoded.len());
    match kind {
        0 => encoded[at] = byte,
        1 => encoded.truncate(at),
        2 => encoded.insert(at, byte),
        _ => encoded.push(byte),
    }
    encoded
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn headers_round_trip(header in header()) {
        let mut encoded = Vec::new();
        encode_header(&header, &mut encoded);
        let mut input = &encoded[..];
        let decoded = decode_sealed_header(&mut input).unwrap();
        prop_assert!(input.is_empty());
        prop_assert_eq!(decoded.header(), &header);
        prop_assert_eq!(decoded.hash(), seal(header).hash());
    }

    #[test]
    fn transactions_round_trip(transaction in transaction()) {
        let encoded = encode_transaction(&transaction);
        prop_assert_eq!(&decode_transaction(&encoded).unwrap(), &transaction);
        prop_assert_eq!(decode_pooled_transaction(&encoded).unwrap(), (transaction, None));
    }

    #[test]
    fn receipts_round_trip(receipt in receipt()) {
        prop_assert_eq!(decode_receipt(&encode_receipt(&receipt)).unwrap(), receipt);
    }

    #[test]
    fn damaged_transactions_are_refused_or_encode_another_one(
        transaction in transaction(), at: prop::sample::Index, kind in 0u8..4, byte: u8,
    ) {
        let damaged = damage(encode_transaction(&transaction), at, kind, byte);
        if let Ok(other) = decode_transaction(&damaged) {
            prop_assert_eq!(encode_transaction(&other), damaged);
        }
    }

    #[test]
    fn damaged_receipts_are_refused_or_encode_another_one(
        receipt in receipt(), at: prop::sample::Index, kind in 0u8..4, byte: u8,
    ) {
        let damaged = damage(encode_receipt(&receipt), at, kind, byte);
        if let Ok(other) = decode_receipt(&damaged) {
            prop_assert_eq!(encode_receipt(&other), damaged);
        }
    }

    #[test]
    fn any_bytes_are_decoded_without_panic(bytes in vec(any::<u8>(), 0..400)) {
        let _ = decode_block(&mut &bytes[..]);
        let _ = decode_header(&mut &bytes[..]);
        let _ = decode_pooled_transaction(&bytes);
        let _ = decode_receipt(&bytes);
    }
}

proptest! {
    #![proptest_config(config(96))]

    #[test]
    fn blocks_round_trip_and_damaged_ones_are_refused_or_encode_another_one(
        header in header(),
        transactions in vec(transaction(), 0..4),
        ommers in vec(header(), 0..3),
        withdrawals in option::of(vec(withdrawal(), 0..4)),
        at: prop::sample::Index, kind in 0u8..3, byte: u8,
    ) {
        let withdrawals = withdrawals.filter(|_| header.native_seal.is_none());
        let transactions = transactions.into_iter().map(Arc::new).collect();
        let block = assemble_block(seal(header), transactions, ommers, withdrawals);
        let encoded = encode_block(&block);
        prop_assert_eq!(block.size, encoded.len() as u64);
        prop_assert_eq!(&decode_block(&mut &encoded[..]).unwrap(), &block);

        let damaged = damage(encoded, at, kind, byte);
        let mut input = &damaged[..];
        if let Ok(other) = decode_block(&mut input) {
            prop_assert_eq!(encode_block(&other), &damaged[..damaged.len() - input.len()]);
        }
    }
}

#[test]
fn a_claimed_length_allocates_nothing() {
    // A list that claims 2^40 bytes.
    let claim = [0xfd, 0x01, 0, 0, 0, 0, 0];

    let error = decode_block(&mut &claim[..]).unwrap_err();

    assert_eq!((error.what, error.offset, error.problem), ("block", 0, DecodeProblem::TooShort));
}

#[test]
fn unknown_and_empty_types_are_named() {
    let cases: [(&[u8], DecodeProblem); 5] = [
        (&[], DecodeProblem::TypedTooShort),
        (&[0x02], DecodeProblem::TypedTooShort),
        (&[0x05, 0xc0], DecodeProblem::UnsupportedType { found: 5 }),
        (&[0x00, 0xc0], DecodeProblem::UnsupportedType { found: 0 }),
        (&[0x80, 0xc0], DecodeProblem::UnsupportedType { found: 0x80 }),
    ];
    for (encoded, wanted) in cases {
        assert_eq!(decode_transaction(encoded).unwrap_err().problem, wanted, "{encoded:?}");
    }
}

#[test]
fn header_shapes_with_other_item_counts_are_refused() {
    let mut native = Header { native_seal: Some(NativeSeal::default()), ..Header::default() };
    native.base_fee_per_gas = Some(1);
    let mut encoded = Vec::new();
    encode_header(&native, &mut encoded);
    // A twentieth item after the native base fee makes it an Ethereum header with items of the wrong length.
    let length = u16::from_be_bytes([encoded[1], encoded[2]]) + 1;
    encoded[1..3].copy_from_slice(&length.to_be_bytes());
    encoded.push(0x01);

    let error = decode_header(&mut &encoded[..]).unwrap_err();

    assert_eq!(error.problem, DecodeProblem::WrongLength { wanted: 32, found: 0 });
}

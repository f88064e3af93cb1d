//! Headers and blocks of the native networks.

use std::collections::HashMap;

use alloy_primitives::{Address, B256, Bloom, Bytes, U256, address, b256, keccak256};
use serde_json::Value;
use tenon_api::{
    EMPTY_OMMERS_HASH, EMPTY_ROOT_HASH, Header, Log, NativeSeal, Receipt, ReceiptOutcome, TransactionType,
};
use tenon_chain::{
    BlockStream, decode_block, decode_header, decode_receipt, decode_sealed_header, decode_transaction, encode_block,
    encode_header, encode_receipt, encode_transaction, logs_bloom, receipts_root, recover_senders, signing_hash,
    transactions_root, trie::prove_key,
};

use crate::support;

fn text<T: std::str::FromStr>(value: &Value) -> T
where
    T::Err: std::fmt::Debug,
{
    value.as_str().unwrap().parse().unwrap()
}

#[test]
fn real_headers_round_trip_and_have_their_recorded_hashes() {
    let headers = support::json("native-headers.json.gz");
    let headers = headers.as_array().unwrap();
    for recorded in headers {
        let rlp = support::bytes(&recorded["rlp"]);

        let header = decode_sealed_header(&mut &rlp[..]).unwrap();

        assert_eq!(header.hash(), text::<B256>(&recorded["hash"]), "{}", recorded["source"]);
        assert_eq!(header.number, recorded["number"].as_u64().unwrap());
        assert!(header.native_seal.is_some());
        let mut encoded = Vec::new();
        encode_header(&header, &mut encoded);
        assert_eq!(encoded, rlp);
    }
    assert_eq!(headers.len(), 14);
}

#[test]
fn real_blocks_have_their_recorded_size_root_and_senders() {
    let blocks = support::json("native-blocks.json.gz");
    for recorded in blocks.as_array().unwrap() {
        let rlp = support::bytes(&recorded["rlp"]);

        let block = recover_senders(decode_block(&mut &rlp[..]).unwrap()).unwrap();

        assert_eq!(block.hash(), text::<B256>(&recorded["hash"]));
        assert_eq!(U256::from(block.size), support::number(&recorded["size"]));
        assert_eq!(encode_block(&block), rlp);
        assert_eq!(transactions_root(&block.transactions), block.header.transactions_root);
        let transactions = recorded["transactions"].as_array().unwrap();
        assert_eq!(transactions.len(), block.transactions.len());
        for (index, wanted) in transactions.iter().enumerate() {
            let transaction = &block.transactions[index];
            let raw = support::bytes(&wanted["raw"]);
            assert_eq!(decode_transaction(&raw).unwrap(), **transaction);
            assert_eq!(encode_transaction(transaction), raw);
            assert_eq!(transaction.hash, text::<B256>(&wanted["hash"]));
            assert_eq!(signing_hash(transaction), text::<B256>(&wanted["signingHash"]));
            assert_eq!(block.senders[index], text::<Address>(&wanted["sender"]));
            assert_eq!(transaction.chain_id, Some(50));
        }
    }
}

fn real_receipt(recorded: &Value) -> Receipt {
    let log = |log: &Value| Log {
        address: text(&log["address"]),
        topics: log["topics"].as_array().unwrap().iter().map(text).collect(),
        data: support::bytes(&log["data"]).into(),
    };
    Receipt {
        transaction_type: TransactionType::Legacy,
        outcome: ReceiptOutcome::Status(recorded["status"] == "0x1"),
        cumulative_gas_used: support::number(&recorded["cumulativeGasUsed"]).to(),
        gas_used: support::number(&recorded["gasUsed"]).to(),
        logs: recorded["logs"].as_array().unwrap().iter().map(log).collect(),
    }
}

/// The receipts of a real block. Most of them belong to signing transactions, which use no gas and have one log each.
#[test]
fn real_receipts_have_their_recorded_blooms_gas_and_root() {
    let recorded = &support::json("native-receipts.json.gz")["receipts"];
    let recorded_receipts = recorded["receipts"].as_array().unwrap();
    let receipts: Vec<Receipt> = recorded_receipts.iter().map(real_receipt).collect();

    let mut cumulative = 0;
    for (receipt, recorded) in receipts.iter().zip(recorded_receipts) {
        cumulative += receipt.gas_used;
        assert_eq!(receipt.cumulative_gas_used, cumulative);
        assert_eq!(logs_bloom(&receipt.logs), text::<Bloom>(&recorded["logsBloom"]));
        assert_eq!(recorded["type"], "0x0");
    }

    let signing = receipts.iter().filter(|receipt| receipt.gas_used == 0 && receipt.logs.len() == 1).count();
    assert_eq!((receipts.len(), signing), (242, 236));
    assert_eq!(receipts_root(&receipts), text::<B256>(&recorded["receiptsRoot"]));
}

/// `eth_getTransactionAndReceiptProof` of the main network: both lists lead from the header's roots to the transaction
/// and to its receipt, which match block and header.
#[test]
fn a_real_proof_leads_from_the_headers_roots_to_the_transaction_and_its_receipt() {
    let recorded = &support::json("native-receipts.json.gz")["proof"];
    let block = support::json("native-blocks.json.gz");
    let block = block.as_array().unwrap().iter().map(|block| decode_block(&mut &support::bytes(&block["rlp"])[..]));
    let block = block.map(Result::unwrap).find(|block| recorded["blockNumber"] == block.header.number).unwrap();
    let proof = &recorded["result"];
    let key = support::bytes(&proof["key"]);
    let value_under = |root: B256, list: &str| {
        let hashes = proof[format!("{list}ProofKeys")].as_array().unwrap().iter().map(text::<B256>);
        let nodes = proof[format!("{list}ProofValues")].as_array().unwrap().iter().map(support::bytes);
        let nodes: HashMap<B256, Bytes> = hashes.zip(nodes.map(Bytes::from)).collect();
        assert!(nodes.iter().all(|(hash, node)| keccak256(node) == *hash));
        assert_eq!(proof[format!("{list}Root")], root.to_string());
        let (value, used) = prove_key(&nodes, root, &key).unwrap();
        assert_eq!(used.len(), nodes.len(), "every node of the proof is on the path");
        value.unwrap()
    };

    let transaction = value_under(block.header.transactions_root, "tx");
    let receipt = value_under(block.header.receipts_root, "receipt");

    assert_eq!(transaction, encode_transaction(&block.transactions[0]));
    assert_eq!(block.transactions[0].hash, text::<B256>(&recorded["transactionHash"]));
    let receipt = decode_receipt(&receipt).unwrap();
    assert_eq!(receipt.outcome, ReceiptOutcome::Status(true));
    assert!(receipt.cumulative_gas_used <= block.header.gas_used);
    assert_eq!(proof["blockHash"], block.hash().to_string());
}

#[test]
fn blocks_of_the_reference_client_round_trip() {
    let file = support::unpacked("native-sample.rlp.gz");
    let mut encoded = Vec::new();
    let mut transactions = 0;
    for block in BlockStream::new(&file[..]) {
        let block = recover_senders(block.unwrap()).unwrap();
        assert_eq!(transactions_root(&block.transactions), block.header.transactions_root);
        transactions += block.transactions.len();
        encoded.extend(encode_block(&block));
    }

    assert_eq!(encoded, file);
    assert!(transactions > 100, "{transactions}");
}

/// The fields that the specification's three headers share (`docs/spec/chain.md` 11).
fn common_header() -> Header {
    Header {
        parent_hash: B256::repeat_byte(0x11),
        ommers_hash: EMPTY_OMMERS_HASH,
        beneficiary: Address::repeat_byte(0x22),
        state_root: B256::repeat_byte(0x33),
        transactions_root: EMPTY_ROOT_HASH,
        receipts_root: EMPTY_ROOT_HASH,
        logs_bloom: Bloom::ZERO,
        number: 1000,
        gas_limit: 420_000_000,
        timestamp: 1_700_000_000,
        ..Header::default()
    }
}

#[test]
fn the_headers_of_the_specification_have_their_hashes() {
    let a = Header {
        difficulty: U256::from(3),
        extra_data: [vec![0; 32], vec![0x44; 65]].concat().into(),
        native_seal: Some(NativeSeal { validator: vec![0x55; 65].into(), ..NativeSeal::default() }),
        ..common_header()
    };
    let certificate = [
        &[0x02, 0xf8, 0x71, 0x07, 0xf8, 0x6e, 0xe5, 0xa0][..],
        &[0x11; 32],
        &[0x06, 0x82, 0x03, 0xe7, 0xf8, 0x43, 0xb8, 0x41],
        &[0x66; 65],
        &[0x82, 0x01, 0xc2],
    ]
    .concat();
    assert_eq!(certificate.len(), 116);
    let b = Header {
        difficulty: U256::from(1),
        extra_data: certificate.into(),
        native_seal: Some(NativeSeal {
            validators: vec![0x77; 40].into(),
            validator: vec![0x55; 65].into(),
            penalties: vec![0x88; 20].into(),
        }),
        ..common_header()
    };
    let c = Header { base_fee_per_gas: Some(12_500_000_000), ..b.clone() };
    let cases = [
        (a, 673, b256!("8657b4c8d21926cf6969d748a103a00881a930681e727705e4cd0ff27d371b4f")),
        (b, 752, b256!("a67feb29451276d8eab56120ad5f73224557d58668b2fb29d20126504b1438ab")),
        (c, 758, b256!("5ba2784409864035a871e7257a5d313011c1fabc49ad481ebfe473b8fdfb8c12")),
    ];
    for (header, length, hash) in cases {
        let mut encoded = Vec::new();
        encode_header(&header, &mut encoded);
        assert_eq!(encoded.len(), length);
        assert_eq!(keccak256(&encoded), hash);
        assert_eq!(decode_header(&mut &encoded[..]).unwrap(), header);
    }
}

#[test]
fn the_receipts_of_the_specification_have_their_roots() {
    let receipt_of = |address: Address| Receipt {
        transaction_type: TransactionType::Legacy,
        outcome: ReceiptOutcome::Status(true),
        cumulative_gas_used: 0,
        gas_used: 0,
        logs: vec![Log { address, topics: vec![], data: Bytes::new() }],
    };
    let sign = receipt_of(address!("0000000000000000000000000000000000000089"));

    let encoded = encode_receipt(&sign);

    assert_eq!(encoded.len(), 289);
    assert_eq!(keccak256(&encoded), b256!("0b2f9f1ca0124143bb8f9f9bb8b9bcba257c06754ac4e7495f33b7bf7afa8713"));
    assert_eq!(
        receipts_root(std::slice::from_ref(&sign)),
        b256!("366edb13de70ca9ce6e45cba9be37cbff41169ab5d68f659719c3737264d3191")
    );
    assert_eq!(
        receipts_root(&[sign.clone(), sign]),
        b256!("d4b798b2746e6e11eff0ea6803f7acd852a64069dbf6d39a0970c93c6e1d1a88")
    );
    assert_eq!(
        receipts_root(&[receipt_of(address!("0000000000000000000000000000000000000092"))]),
        b256!("bcd2a51669cdca54e5f28517bcd09ca95007951a7d7ec181cb3f361f783cde4a")
    );
}

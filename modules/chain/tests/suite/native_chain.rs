//! Headers, blocks and genesis files of the native networks.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bloom, Bytes, U256, address, b256, keccak256};
use serde_json::Value;
use tenon_api::{
    EMPTY_OMMERS_HASH, EMPTY_ROOT_HASH, Header, Log, NativeSeal, Receipt, ReceiptOutcome, StoreError, TransactionType,
    TrieReader, messages::Profile,
};
use tenon_chain::{
    BlockStream, Genesis, PublicNetwork, decode_block, decode_header, decode_receipt, decode_sealed_header,
    decode_transaction, encode_block, encode_header, encode_receipt, encode_transaction, logs_bloom, receipts_root,
    recover_senders, signing_hash, transactions_root, trie::prove_key,
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

/// Nodes by their hash, as a proof lists them.
struct ProofNodes(BTreeMap<B256, Bytes>);

impl TrieReader for ProofNodes {
    fn node(&self, _: Option<B256>, _: &[u8], hash: B256) -> Result<Option<Bytes>, StoreError> {
        Ok(self.0.get(&hash).cloned())
    }
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
        let nodes: BTreeMap<B256, Bytes> = hashes.zip(nodes.map(Bytes::from)).collect();
        assert!(nodes.iter().all(|(hash, node)| keccak256(node) == *hash));
        assert_eq!(proof[format!("{list}Root")], root.to_string());
        let (value, used) = prove_key(&ProofNodes(nodes.clone()), root, &key).unwrap();
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

#[test]
fn the_genesis_files_of_the_networks_give_their_hashes() {
    let networks = [
        (
            "mainnet",
            50,
            b256!("4a9d748bd78a8d0385b67788c2435dcdb914f98a96250b68863a1f8b7642d6b1"),
            b256!("49be235b0098b048f9805aed38a279d8c189b469ff9ba307b39c7ad3a3bc55ae"),
        ),
        (
            "testnet",
            51,
            b256!("bdea512b4f12ff1135ec92c00dc047ffb93890c2ea1aa0eefe9b013d80640075"),
            b256!("8e3faa435358e7027e68989700c2edd281c87518f82c127e8523df46c41c160f"),
        ),
        (
            "devnet",
            551,
            b256!("3c636c841ebee9121374fa76bd5480d17a23e1ba61d425dde21d7b3caba864f4"),
            b256!("2b7f0763d42031f27f11bd281a95b3a423dc9e02f2ea9a876b1ae656dd618f09"),
        ),
        (
            "devnet-5551",
            5551,
            b256!("b8be003946a9c2688e9f1e255a5567c3d144293ccde2ffb38452a5840081b402"),
            b256!("ce02d584d0a675e2c49ed3011c6923d88c0feb863d6784d1ac878e7dcb0bd098"),
        ),
        // A network of the reference on which every fork is active from the start, so its genesis has a base fee.
        (
            "local",
            5151,
            b256!("50ddb5d648de6d3e8eafed3032ed638ee29e976754cdc8ed6e3dfe0abb216d28"),
            b256!("53b098092b4936825c0eff2dcbac794fdb67bb6243fff3694f05be8336a6d8c2"),
        ),
    ];
    for (name, chain_id, hash, state_root) in networks {
        let genesis = match Genesis::of_network(name).unwrap() {
            Some(genesis) => genesis,
            None => Genesis::from_json(&support::unpacked(&format!("native-genesis-{name}.json.gz"))).unwrap(),
        };

        let block = genesis.commit().unwrap().block;

        assert_eq!(genesis.spec.chain_id, chain_id);
        assert_eq!(genesis.spec.profile(), Profile::Native);
        assert!(genesis.spec.native().is_some());
        assert_eq!(block.header.state_root, state_root, "{name}");
        assert_eq!(block.hash(), hash, "{name}");
    }
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

#[test]
fn the_networks_have_their_published_parameters() {
    let rows =
        [("mainnet", 80_370_000, 89_300, 5000, 7, 98_800_200), ("testnet", 56_828_700, 63_143, 5000, 4, 71_550_000)];
    for (name, switch_block, switch_epoch, reward, rounds, eip1559) in rows {
        let genesis = Genesis::from_json(&support::unpacked(&format!("native-genesis-{name}.json.gz"))).unwrap();
        let native = genesis.spec.native().unwrap();
        let consensus = &native.consensus;
        assert_eq!((consensus.switch_block, consensus.switch_epoch), (switch_block, switch_epoch), "{name}");
        assert_eq!((consensus.epoch, consensus.gap, consensus.reward, consensus.period), (900, 450, reward, 2));
        assert_eq!(consensus.rounds().len(), rounds);
        assert_eq!(native.heights.eip1559, eip1559);
        assert_eq!(native.denylist.len(), 61);
        assert_eq!(native.unchecked_checkpoints, [1_032_300, 1_033_200, 27_307_800, 28_270_800]);
        assert_eq!(native.skips_second_signer, name == "testnet");
    }
}

/// The built-in parameters of a known genesis replace the file's: devnet's file has a timeout of 10 seconds.
#[test]
fn the_key_of_a_round_decides_and_a_known_genesis_has_built_in_parameters() {
    let genesis = Genesis::from_json(&support::unpacked("native-genesis-devnet.json.gz")).unwrap();
    let consensus = &genesis.spec.native().unwrap().consensus;

    let masternodes = [0, 251_999, 252_000, 261_000, 300_000].map(|round| consensus.at_round(round).max_masternodes);

    assert_eq!(masternodes, [108, 108, 10, 12, 12]);
    assert_eq!(consensus.at_round(252_000).switch_round, 250_000);
    assert_eq!(consensus.at_round(0).timeout_period, 5);
    assert_eq!(consensus.reward, 10);
}

#[test]
fn an_unknown_network_has_the_main_networks_heights_and_its_own_consensus() {
    let text =
        br#"{"config":{"chainId":4243,"shanghaiBlock":500,"XDPoS":{"period":2,"epoch":0,"gap":450,"reward":250}},
        "difficulty":"0x1","gasLimit":"0x47b760","alloc":{}}"#;
    let native = Genesis::from_json(text).unwrap().spec.native().cloned().unwrap();

    assert_eq!(
        (native.heights.tip_signing, native.heights.shanghai, native.heights.cancun),
        (3_000_000, 500, 98_802_000)
    );
    assert_eq!(
        (native.consensus.epoch, native.consensus.switch_block, native.consensus.switch_epoch),
        (900, 80_370_000, 0)
    );
    assert_eq!(native.consensus.rounds().len(), 7);
}

/// A genesis file of a private network with these ids and members of `config`.
fn private(chain_id: u64, members: &str) -> Genesis {
    let text = format!(
        r#"{{"config":{{"chainId":{chain_id},{members}"XDPoS":{{"period":2,"epoch":900,"gap":450,"reward":250,
        "v2":{{"switchBlock":900,"allConfigs":{{"0":{{"maxMasternodes":4,"minePeriod":1,"certificateThreshold":0.667}}}}}}}}}},
        "difficulty":"0x1","gasLimit":"0x47b760","alloc":{{}}}}"#
    );
    Genesis::from_json(text.as_bytes()).unwrap()
}

/// The constants depend on the network id, which is the chain id unless the operator sets another one
/// (`docs/spec/chain.md` 5.1). Four ids have their own constants; every other id has the main network's.
#[test]
fn the_network_id_determines_the_built_in_heights_and_lists() {
    let rows = [
        (50, 38_383_838, 61, 4, false),
        (51, 23_779_191, 61, 4, true),
        (551, 0, 61, 4, false),
        (5151, 0, 0, 0, false),
        (5551, 0, 61, 4, false),
        (1, 38_383_838, 61, 4, false),
        (5152, 38_383_838, 61, 4, false),
    ];
    for (id, tip_xdcx, denied, unchecked, skips) in rows {
        let by_chain_id = private(id, "");
        let by_network_id = private(4243, "").with_network_id(id).unwrap();
        for genesis in [&by_chain_id, &by_network_id] {
            let native = genesis.spec.native().unwrap();
            assert_eq!(native.heights.tip_xdcx, tip_xdcx, "{id}");
            assert_eq!((native.denylist.len(), native.unchecked_checkpoints.len()), (denied, unchecked), "{id}");
            assert_eq!(native.skips_second_signer, skips, "{id}");
            // Only a known genesis has built-in consensus parameters; here they come from the file.
            assert_eq!((native.consensus.reward, native.consensus.switch_block), (250, 900), "{id}");
            assert_eq!(genesis.spec.network_id, id);
        }
        assert_eq!(by_network_id.spec.chain_id, 4243);
    }
    let local = private(5151, "");
    let heights = local.spec.native().unwrap().heights.named();
    assert!(heights.iter().all(|rule| rule.height.is_none_or(|height| height == 0)), "{heights:?}");
    assert_eq!(local.header.base_fee_per_gas, Some(12_500_000_000));
}

/// On every network the file can set an earlier height for a rule, but not a later one.
#[test]
fn a_file_can_bring_forks_forward_but_not_postpone_them() {
    let members = r#""berlinBlock":10,"londonBlock":20,"mergeBlock":30,"shanghaiBlock":40,"eip1559Block":50,"cancunBlock":60,
        "petersburgBlock":7,"istanbulBlock":8,"#;
    let heights = |id| private(id, members).spec.native().cloned().unwrap().heights;
    let early = heights(4243);
    assert_eq!((early.berlin, early.london, early.merge, early.shanghai), (10, 20, 30, 40));
    assert_eq!((early.eip1559, early.cancun, early.petersburg, early.istanbul), (50, 60, 7, 8));
    assert_eq!(early.tip_signing, 3_000_000, "no member of the file sets it");
    let local = heights(5151);
    assert_eq!((local.berlin, local.eip1559, local.cancun, local.petersburg), (0, 0, 0, 0));
}

/// The main network under another network id: it has other heights, but the same block 0 and the built-in consensus
/// parameters.
#[test]
fn a_known_genesis_keeps_its_consensus_under_another_network_id() {
    let genesis = Genesis::of_network("mainnet").unwrap().unwrap();
    let (hash, consensus) =
        (genesis.sealed_header().unwrap().hash(), genesis.spec.native().cloned().unwrap().consensus);

    let moved = genesis.with_network_id(5151).unwrap();

    assert_eq!(moved.sealed_header().unwrap().hash(), hash);
    let native = moved.spec.native().unwrap();
    assert_eq!(native.consensus, consensus);
    assert_eq!(native.heights.eip1559, 0);
}

#[test]
fn public_networks_are_found_by_every_name_they_have() {
    for network in PublicNetwork::ALL {
        for name in network.names() {
            assert_eq!(PublicNetwork::by_name(name), Some(network));
            let block = Genesis::of_network(name).unwrap().unwrap().sealed_header().unwrap();
            assert_eq!((block.hash(), block.state_root), (network.genesis_hash(), network.genesis_state_root()));
        }
        assert_eq!(PublicNetwork::by_chain_id(network.chain_id()), Some(network));
        assert_eq!(PublicNetwork::by_genesis_hash(network.genesis_hash()), Some(network));
    }
    assert_eq!((PublicNetwork::by_name("local"), PublicNetwork::by_chain_id(5151)), (None, None));
}

#[test]
fn an_invalid_consensus_part_is_refused_by_name() {
    let cases = [
        (
            r#""epoch":900,"gap":450,"v2":{"switchBlock":901,"allConfigs":{"0":ROUND}}"#,
            "v2 switch number is not epoch switch block 901, epoch 900",
        ),
        (
            r#""epoch":60,"gap":60,"v2":{"switchBlock":0,"allConfigs":{"0":ROUND}}"#,
            "genesis file: config.XDPoS: gap 60 is not below epoch 60",
        ),
        (
            r#""epoch":60,"gap":30,"v2":{"switchBlock":0,"allConfigs":{"1":ROUND}}"#,
            "genesis file: config.XDPoS.v2.allConfigs has no entry for round 0",
        ),
        (
            r#""epoch":60,"gap":30,"v2":{"switchBlock":0,"allConfigs":{"x":ROUND}}"#,
            "genesis file: config.XDPoS.v2.allConfigs: `x` is not a decimal number",
        ),
        (
            r#""epoch":60,"gap":30,"v2":{"switchBlock":0,"allConfigs":{"0":GROWING}}"#,
            "base^max_exponent (3^21) should be less than 2^32",
        ),
    ];
    let round = r#"{"maxMasternodes":4,"minePeriod":1,"certificateThreshold":0.667}"#;
    let growing = r#"{"maxMasternodes":4,"minePeriod":1,"certificateThreshold":0.667,"expTimeoutConfig":{"base":3.0,"maxExponent":21}}"#;
    for (engine, wanted) in cases {
        let engine = engine.replace("ROUND", round).replace("GROWING", growing);
        let text = format!(
            r#"{{"config":{{"chainId":5151,"XDPoS":{{{engine}}}}},"difficulty":"0x1","gasLimit":"0x1","alloc":{{}}}}"#
        );
        let error = Genesis::from_json(text.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), wanted);
    }
}

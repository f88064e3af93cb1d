//! The native profile against recordings of the reference (`tests/data/native`).

use std::sync::Arc;

use serde_json::Value;
use tenon_sdk::{prelude::*, testing::FakeHost};

use super::{call_method, head, host, plugin, recorded, with_block};
use crate::table::table;

/// The block in a recorded object.
fn native_block(object: &Value) -> StoredBlock {
    let mut stored = recorded::block(object);
    stored.total_difficulty = recorded::read(object, "totalDifficulty");
    let block = Arc::make_mut(&mut stored.block);
    let seal = NativeSeal {
        validators: recorded::read(object, "validators"),
        validator: recorded::read(object, "validator"),
        penalties: recorded::read(object, "penalties"),
    };
    let header = Header { native_seal: Some(seal), ..block.header.header().clone() };
    block.block.header = SealedHeader::new_unchecked(header, block.header.hash());
    stored
}

#[test]
fn recorded_blocks_come_out_byte_for_byte() {
    let mut blocks = 0;

    for line in include_str!("../../tests/data/native/blocks.jsonl").lines() {
        let exchange: Value = serde_json::from_str(line).expect("JSON");
        let block = native_block(&exchange["r"]);
        let node = with_block(host(Profile::Native), move || Some(block.clone()));
        let params = format!(r#"["0x1",{}]"#, exchange["p"][1] == Value::Bool(true));

        let text = node.call_method(&table(), &plugin(&node), "eth_getBlockByNumber", &params).expect("a block");

        let (_, result) = line.split_once("\"r\":").expect("a result");
        assert_eq!(text, result.trim_end_matches('\n').strip_suffix('}').expect("an object"));
        blocks += 1;
    }
    assert!(blocks > 5, "{blocks}");
}

#[test]
fn malformed_parameters_are_refused_with_the_texts_of_the_reference() {
    let node = host(Profile::Native);

    for line in include_str!("../../tests/data/native/bad-params.jsonl").lines() {
        let exchange: Value = serde_json::from_str(line).expect("JSON");
        let params = exchange.get("params").filter(|params| !params.is_null()).map(Value::to_string);
        let method = exchange["method"].as_str().unwrap_or_default();

        let answer = call_method(&node, method, &params.unwrap_or_default());

        let expected = exchange["error"].as_str().unwrap_or_default();
        assert_eq!(answer, Err(Failure::invalid_params(expected)), "{line}");
    }
}

#[test]
fn methods_of_native_chains_do_not_exist_on_ethereum_chains() {
    let hash = format!("[\"{}\"]", B256::ZERO);
    let account = r#"["0x0000000000000000000000000000000000000001","latest"]"#;
    let cases = [
        ("eth_getAccountInfo", account),
        ("eth_getOwnerByCoinbase", account),
        ("eth_getRewardByHash", hash.as_str()),
        ("eth_getTransactionAndReceiptProof", hash.as_str()),
        ("eth_getBlockSignersByHash", hash.as_str()),
        ("eth_getCandidates", r#"["latest"]"#),
        ("eth_getStakerROI", "[]"),
        ("eth_getTokenStats", r#"["latest"]"#),
        ("eth_fillTransaction", "[{}]"),
    ];
    for (method, params) in cases {
        let refused = call_method(&host(Profile::Ethereum), method, params).expect_err(method);

        assert_eq!(refused.code, FailureCode::METHOD_NOT_FOUND, "{method}");
        assert_eq!(refused.message, format!("the method {method} does not exist/is not available"));
    }
}

#[test]
fn candidates_are_shown_with_their_status() {
    let candidate = |digit: u8, is_masternode, is_slashed| CandidateStanding {
        address: Address::repeat_byte(digit),
        stake: (digit < 3).then_some(U256::from(10).pow(U256::from(25))),
        is_masternode,
        is_slashed,
    };
    let list = CandidateList {
        epoch: 4,
        is_known: true,
        candidates: vec![candidate(1, false, true), candidate(2, false, false), candidate(3, true, false)],
    };
    let node = host(Profile::Native)
        .answer(move |_: GetCandidates| Ok(list.clone()))
        .answer(|_: GetSpelling| Ok(Spelling::Reference));

    let all = call_method(&node, "eth_getCandidates", r#"["0x4"]"#).expect("candidates");
    let one = call_method(&node, "eth_getCandidateStatus", r#"["xdc0303030303030303030303030303030303030303","0x4"]"#);
    let unknown_account =
        call_method(&node, "eth_getCandidateStatus", r#"["0x0909090909090909090909090909090909090909","0x4"]"#);

    let expected = concat!(
        r#"{"candidates":{"xdc0101010101010101010101010101010101010101":{"capacity":10000000000000000000000000,"#,
        r#""status":"SLASHED"},"xdc0202020202020202020202020202020202020202":{"capacity":10000000000000000000000000,"#,
        r#""status":"PROPOSED"},"xdc0303030303030303030303030303030303030303":{"capacity":-1,"status":"MASTERNODE"}},"#,
        r#""epoch":4,"success":true}"#
    );
    assert_eq!(all, serde_json::from_str::<Value>(expected).expect("JSON"));
    let own = call_method(&node.answer(|_: GetSpelling| Ok(Spelling::Own)), "eth_getCandidates", r#"["0x4"]"#);
    let own = own.expect("candidates").to_string();
    assert!(own.contains("0x0101010101010101010101010101010101010101") && !own.contains("xdc"), "{own}");
    let standing = |capacity: i64, status: &str| serde_json::json!({"capacity": capacity, "epoch": 4, "status": status, "success": true});
    assert_eq!(one, Ok(standing(-1, "MASTERNODE")));
    assert_eq!(unknown_account, Ok(standing(0, "")));
}

/// A chain in epoch 7 whose supply record starts with epoch 5.
fn with_supply_record(nonce: u64) -> FakeHost {
    let record = Address::with_last_byte(0x9a);
    let slot = |figure: u8, epoch: u8| {
        let mut slot = B256::with_last_byte(epoch);
        slot[0] = figure;
        slot
    };
    let parameters = Arc::new(ConsensusParameters {
        chain_id: 50,
        validator_contract: Address::ZERO,
        relayer_registration: Address::ZERO,
        exchange_listing: Address::ZERO,
        token_issuer: Address::ZERO,
        lending_registration: Address::ZERO,
        period: 2,
        epoch: 9,
        reward: 10,
        reward_checkpoint: 9,
        gap: 4,
        foundation_wallet: Address::ZERO,
        skips_v1_validation: false,
        switch_epoch: 2,
        switch_block: 18,
        rounds: vec![],
        current: 0,
    });
    host(Profile::Native)
        .answer(|_: GetHead| Ok(head(30)))
        .answer(move |request: GetAccount| {
            assert_eq!(request.address, record);
            Ok(Account { nonce, ..Account::default() })
        })
        .answer(move |request: GetStorage| {
            Ok(match request.slot {
                at if at == slot(0, 1) => U256::from(5),
                at if at == slot(1, 6) => U256::from(600),
                at if at == slot(2, 6) => U256::from(60),
                at if at == slot(3, 6) => U256::from(27),
                _ => U256::ZERO,
            })
        })
        .answer(move |_: GetConsensusParameters| Ok(Arc::clone(&parameters)))
        .answer(|_: GetEpochMembers| Ok(Some(EpochMembers { number: 30, round: 45, ..EpochMembers::default() })))
        .answer(|request: GetHeader| match request.block {
            BlockId::Number(number) => Ok(Some(StoredHeader {
                header: Arc::clone(&head(number.0.max(1)).header),
                total_difficulty: U256::ZERO,
                is_canonical: true,
            })),
            _ => Ok(None),
        })
}

#[test]
fn token_stats_show_the_supply_record() {
    let node = with_supply_record(2);

    let stats = call_method(&node, "eth_getTokenStats", r#"["0x6"]"#).expect("statistics");

    let expected = serde_json::json!({
        "v1": {"minted": "0x22b1c8c1227a00000"},
        "v2": {"minted": "0x258", "burned": "0x3c"},
        "minted": "0x22b1c8c1227a00258",
        "upgradeEpochNum": "0x5",
        "epochNum": "0x6",
        "blockHash": head(27).header.hash(),
        "blockNumber": "0x1b",
    });
    assert_eq!(stats, expected);
    let latest = call_method(&node, "eth_getTokenStats", r#"["latest"]"#).expect("statistics");
    assert_eq!((&latest["epochNum"], &latest["v2"]["minted"]), (&"0x7".into(), &"0x0".into()), "no entry yet");
}

#[test]
fn token_stats_of_an_epoch_without_record_are_refused() {
    for (nonce, epoch, words) in [
        (0, "0x6", "mintedRecordAddress is not initialized due to Reward Upgrade is not applied"),
        (1, "0x4", "epoch number is before reward upgrade"),
        (1, "0x8", "epoch number is after current epoch"),
    ] {
        let refused = call_method(&with_supply_record(nonce), "eth_getTokenStats", &format!("[\"{epoch}\"]"));
        assert_eq!(refused, Err(Failure::server(words)), "{epoch}");
    }
}

#[test]
fn a_filled_transaction_has_the_bytes_of_the_reference() {
    // local/eth of tests/data/native/answers, request 78.
    let head = Arc::new(SealedHeader::new_unchecked(
        Header { number: 673, base_fee_per_gas: Some(12_500_000_000), ..Header::default() },
        B256::ZERO,
    ));
    let node = FakeHost::new()
        .answer(|_: GetChainInfo| {
            let genesis_hash = B256::ZERO;
            Ok(Arc::new(ChainInfo { chain_id: 5151, network_id: 5151, genesis_hash, profile: Profile::Native }))
        })
        .answer(move |_: GetHead| {
            let header = Arc::clone(&head);
            Ok(Arc::new(Head { header, total_difficulty: U256::ZERO, finalized: None, safe: None }))
        })
        .answer(|_: SuggestTip| Ok(U256::ZERO))
        .answer(|_: GetPoolNonce| Ok(0));

    let params = r#"[{"gas":"0x61a80","value":"0x0","input":"0x61000c80600c6000396000f35a600154505a900360005500"}]"#;
    let filled = call_method(&node, "eth_fillTransaction", params).expect("filled");

    let raw = "0x02ee82141f80808505d21dba0083061a8080809861000c80600c6000396000f35a600154505a900360005500c0808080";
    assert_eq!(filled["raw"], raw);
    assert_eq!(filled["tx"]["type"], "0x2");
    assert_eq!(filled["tx"]["gasPrice"], Value::Null);
    assert_eq!(filled["tx"]["hash"], keccak256(raw.parse::<Bytes>().expect("hex")).to_string());
}

//! Methods that clients call although the interface document does not list them.

use std::sync::Arc;

use serde_json::{Value, json};
use tenon_sdk::prelude::*;

use super::{call_method, hash_of, host, sealed, stored_header};

#[test]
fn a_header_is_a_block_without_transactions_uncles_and_size() {
    for profile in [Profile::Ethereum, Profile::Native] {
        let node = host(profile).answer(|request: GetHeader| {
            let is_known = request.block != BlockId::number(9);
            Ok(is_known.then(|| stored_header(4, true)))
        });

        let header = call_method(&node, "eth_getHeaderByNumber", r#"["0x4"]"#).expect("a header");
        let by_hash = call_method(&node, "eth_getHeaderByHash", &format!("[\"{}\"]", hash_of(4)));
        let pending = call_method(&node, "eth_getHeaderByNumber", r#"["pending"]"#).expect("a header");

        assert_eq!(by_hash.as_ref(), Ok(&header));
        assert_eq!((&header["number"], &header["hash"]), (&json!("0x4"), &json!(hash_of(4))));
        for absent in ["transactions", "uncles", "size", "totalDifficulty", "withdrawals"] {
            assert_eq!(header.get(absent), None, "{absent}");
        }
        assert_eq!(header.get("validators").is_some(), profile == Profile::Native);
        assert_eq!([&pending["hash"], &pending["nonce"], &pending["miner"]], [&Value::Null; 3]);
        assert_eq!(call_method(&node, "eth_getHeaderByNumber", r#"["0x9"]"#), Ok(Value::Null));
    }
}

#[test]
fn slots_of_several_accounts_are_read_after_one_block() {
    let node =
        host(Profile::Native).answer(|_: GetHeader| Ok(Some(stored_header(4, true)))).answer(|request: GetStorage| {
            assert_eq!(request.block, BlockId::hash(hash_of(4)), "the block is fixed, because the head may move");
            Ok(U256::from(request.address[19]) + U256::from(request.slot[31]))
        });
    let (first, second) = (Address::with_last_byte(0x10), Address::with_last_byte(0x20));
    let slot = |number: u8| B256::with_last_byte(number);
    let asked = json!([{format!("{second:#x}"): [slot(1)], format!("{first:#x}"): [slot(2), slot(3)]}]).to_string();

    let found = call_method(&node, "eth_getStorageValues", &asked);

    let expected = json!({format!("{first:#x}"): [slot(0x12), slot(0x13)], format!("{second:#x}"): [slot(0x21)]});
    assert_eq!(found, Ok(expected));
    let empty = json!([{format!("{first:#x}"): []}]).to_string();
    assert_eq!(call_method(&node, "eth_getStorageValues", &empty), Err(Failure::invalid_params("empty request")));
    let many = json!([{format!("{first:#x}"): vec![slot(1); 1025]}]).to_string();
    let refused = call_method(&node, "eth_getStorageValues", &many).expect_err("too many");
    assert_eq!((refused.code.0, refused.message.as_str()), (-38026, "too many slots (max 1024)"));
    for malformed in [r#"[{"0x12":[]}]"#, r#"[{"0x0000000000000000000000000000000000000010":1}]"#, "[1]", "[]"] {
        let refused = call_method(&node, "eth_getStorageValues", malformed).expect_err(malformed);
        assert_eq!(refused.code, FailureCode::INVALID_PARAMS, "{malformed}");
    }
}

#[test]
fn a_simulation_is_passed_on_as_written_and_answered_with_blocks_and_calls() {
    let log = |index| SimulatedLog {
        index,
        log: Log { address: Address::with_last_byte(7), topics: vec![hash_of(1)], data: Bytes::from_static(&[9]) },
    };
    let done = move |logs, failure| SimulatedCall {
        returned: Bytes::from_static(&[1, 2]),
        logs,
        gas_used: 21_000,
        max_gas_used: 22_000,
        failure,
    };
    for profile in [Profile::Ethereum, Profile::Native] {
        let node = host(profile).answer(move |request: Simulate| {
            assert_eq!((request.base, request.blocks.len(), request.validates), (BlockId::number(4), 2, true));
            assert_eq!(request.blocks[0].calls[0].to, Some(Address::with_last_byte(5)));
            let reverted = SimulatedFailure::Reverted { output: Bytes::new() };
            let halted = SimulatedFailure::Halted { cause: "out of gas".to_owned(), is_gas_capped: false };
            let calls = vec![
                done(vec![log(0), log(2)], None),
                done(Vec::new(), Some(reverted)),
                done(Vec::new(), Some(halted)),
            ];
            let block = Block {
                header: SealedHeader::clone(&sealed(4)),
                transactions: Vec::new(),
                ommers: Vec::new(),
                withdrawals: None,
                size: 600,
            };
            let block = Arc::new(RecoveredBlock { block, senders: Vec::new() });
            let block = StoredBlock { block, total_difficulty: U256::ZERO, is_canonical: false };
            Ok(Ok(vec![
                SimulatedBlock { stored: block.clone(), calls },
                SimulatedBlock { stored: block, calls: Vec::new() },
            ]))
        });
        let asked = r#"[{"blockStateCalls":[{"calls":[{"to":"0x0000000000000000000000000000000000000005"}]},{}],"validation":true},"0x4"]"#;

        let blocks = call_method(&node, "eth_simulateV1", asked).expect("blocks");

        let first = &blocks[0];
        assert_eq!(
            (&first["number"], &first["hash"], &blocks[1]["calls"]),
            (&json!("0x4"), &json!(hash_of(4)), &json!([]))
        );
        let calls = &first["calls"];
        assert_eq!((&calls[0]["returnData"], &calls[0]["status"]), (&json!("0x0102"), &json!("0x1")));
        assert_eq!((&calls[0]["gasUsed"], &calls[0]["maxUsedGas"]), (&json!("0x5208"), &json!("0x55f0")));
        assert_eq!(
            (&calls[0]["logs"][1]["logIndex"], &calls[0]["logs"][1]["blockHash"]),
            (&json!("0x2"), &json!(hash_of(4)))
        );
        assert_eq!(calls[0].get("error"), None);
        assert_eq!(calls[1]["status"], json!("0x0"));
        assert_eq!(calls[1]["error"], json!({"message": "execution reverted", "code": 3, "data": "0x"}));
        assert_eq!(calls[2]["error"], json!({"message": "out of gas", "code": -32015}));
    }
    let node = host(Profile::Ethereum);
    assert_eq!(call_method(&node, "eth_simulateV1", "[{}]"), Err(Failure::invalid_params("empty input")));
    let many = json!([{"blockStateCalls": vec![json!({}); 257]}]).to_string();
    let refused = call_method(&node, "eth_simulateV1", &many).expect_err("too many");
    assert_eq!((refused.code.0, refused.message.as_str()), (-38026, "too many blocks"));
}

#[test]
fn the_error_for_a_transaction_not_included_in_time_has_its_hash() {
    let node = host(Profile::Ethereum)
        .answer(|_: SubmitTransaction| Ok(Ok(hash_of(1))))
        .answer(|_: AwaitSealing| Ok(()))
        .answer(|_: GetReceipt| Ok(None));

    let refused = call_method(&node, "eth_sendRawTransactionSync", r#"["0x02c0", 40]"#).expect_err("no block has it");

    assert_eq!(refused.code, FailureCode(4));
    assert!(refused.message.contains("40 ms"), "{}", refused.message);
    assert_eq!(refused.data, Some(format!("\"{}\"", hash_of(1))));
}

#[test]
fn capabilities_name_the_oldest_state_and_the_window() {
    let availability = |oldest, state_window| {
        host(Profile::Native).answer(move |_: GetAvailability| {
            let head = (BlockNumber(300), hash_of(300));
            Ok(Availability { head, oldest_state: BlockNumber(oldest), state_window })
        })
    };

    let archive = call_method(&availability(0, None), "eth_capabilities", "[]").expect("capabilities");
    let pruned = call_method(&availability(172, Some(128)), "eth_capabilities", "[]").expect("capabilities");

    let whole = json!({"disabled": false, "oldestBlock": "0x0"});
    assert_eq!((&archive["head"]["number"], &archive["state"], &archive["logs"]), (&json!("0x12c"), &whole, &whole));
    let window = json!({"type": "window", "retentionBlocks": "0x80"});
    let part = json!({"disabled": false, "oldestBlock": "0xac", "deleteStrategy": window});
    assert_eq!((&pruned["state"], &pruned["stateproofs"], &pruned["blocks"]), (&part, &part, &whole));
}

#[test]
fn the_base_fee_is_the_next_blocks_and_the_accounts_are_the_wallets() {
    let fees = NextBlockFees { base_fee_per_gas: Some(U256::from(7)), blob_base_fee: None };
    let node = host(Profile::Ethereum)
        .answer(move |_: GetNextBlockFees| Ok(fees.clone()))
        .answer(|_: ListAccounts| Ok(vec![Address::with_last_byte(1)]));

    assert_eq!(call_method(&node, "eth_baseFee", "[]"), Ok(json!("0x7")));
    assert_eq!(call_method(&node, "eth_requestAccounts", "[]"), call_method(&node, "eth_accounts", "[]"));
}

#[test]
fn rules_of_native_chains_come_by_height() {
    let rules = NativeRules {
        activation: 98_802_000,
        fork_id: [0x8a, 0xd3, 0x36, 0x42],
        forks: vec!["Berlin".to_owned(), "XDPoSV2".to_owned()],
        precompiles: vec![
            ("SHA256".to_owned(), Address::with_last_byte(2)),
            ("ECREC".to_owned(), Address::with_last_byte(1)),
        ],
        system_contracts: vec![("MASTERNODE_VOTING_SMC".to_owned(), Address::with_last_byte(0x88))],
    };
    let schedule = NativeSchedule { chain_id: 50, current: rules, next: None, last: None };
    let node = host(Profile::Native).answer(move |_: GetNativeSchedule| Ok(schedule.clone()));

    let expected = json!({
        "current": {
            "activationBlock": 98_802_000,
            "chainId": "0x32",
            "forkId": "0x8ad33642",
            "activeForks": ["Berlin", "XDPoSV2"],
            "precompiles": {"ECREC": Address::with_last_byte(1), "SHA256": Address::with_last_byte(2)},
            "systemContracts": {"MASTERNODE_VOTING_SMC": Address::with_last_byte(0x88)},
        },
        "next": null,
        "last": null,
    });
    assert_eq!(call_method(&node, "eth_config", "[]"), Ok(expected));
}

//! Shapes that the public suite does not show: uncles, the pending block, the native profile, announcements.

use serde_json::{Value, json};
use tenon_sdk::{prelude::*, rlp::list_items};

use super::{call_method, hash_of, head, header, host, recorded, sealed, stored_header, with_block};

fn native_block() -> StoredBlock {
    let seal = NativeSeal {
        validators: vec![1, 2].into(),
        validator: vec![0xff, 0xfe, 0xfd, 0xfc].into(),
        penalties: Bytes::new(),
    };
    let header = Header { native_seal: Some(seal), difficulty: U256::from(1), ..sealed(9).header().clone() };
    let block = Block {
        header: SealedHeader::new_unchecked(header, hash_of(9)),
        transactions: vec![std::sync::Arc::new(Transaction { chain_id: Some(50), ..recorded::plain_transaction() })],
        ommers: Vec::new(),
        withdrawals: None,
        size: 600,
    };
    let block = RecoveredBlock { block, senders: vec![Address::repeat_byte(3)] };
    StoredBlock { block: block.into(), total_difficulty: U256::from(0x1234), is_canonical: true }
}

#[test]
fn a_native_block_has_its_own_members_and_none_of_ethereums() {
    let node = with_block(host(Profile::Native), || Some(native_block()));

    let block = call_method(&node, "eth_getBlockByNumber", r#"["0x9",true]"#).expect("a block");

    assert_eq!(block["totalDifficulty"], "0x1234");
    assert_eq!([&block["validators"], &block["validator"], &block["penalties"]], ["0x0102", "0xfffefdfc", "0x"]);
    for absent in ["withdrawals", "withdrawalsRoot", "baseFeePerGas", "requestsHash"] {
        assert_eq!(block.get(absent), None, "{absent}");
    }
    for absent in ["blockTimestamp", "chainId", "yParity"] {
        assert_eq!(block["transactions"][0].get(absent), None, "{absent}");
    }
}

#[test]
fn a_native_head_is_announced_with_base64() {
    let block = native_block().block;
    let event = NewHead { header: std::sync::Arc::new(block.header.clone()), total_difficulty: U256::ZERO, size: 0 };
    let node = host(Profile::Native).answer(|_: GetHead| Ok(head(8))).announce(&event);

    let items = node.subscribe(&crate::table::table(), &super::plugin(&node), "newHeads", "[]");

    let texts: Vec<String> = items.into_iter().map(|item| item.expect("an item")).collect();
    let announced: Value = serde_json::from_str(&texts[1]).expect("JSON");
    assert_eq!([&announced["validators"], &announced["validator"], &announced["penalties"]], ["AQI=", "//79/A==", ""]);
    assert_eq!(announced["baseFeePerGas"], Value::Null);
    assert_eq!(announced.get("size"), None);
}

#[test]
fn the_pending_block_is_the_head_without_hash_nonce_and_miner() {
    let node = with_block(host(Profile::Ethereum), || Some(native_block()));

    let block = call_method(&node, "eth_getBlockByNumber", r#"["pending",false]"#).expect("a block");

    for null in ["hash", "nonce", "miner"] {
        assert_eq!(block[null], Value::Null, "{null}");
    }
    assert_eq!(block["number"], "0x9");
}

#[test]
fn the_reference_requires_the_block_of_a_state_query() {
    let node = host(Profile::Native);

    let cases = [
        ("eth_getBalance", r#"["0x0100000000000000000000000000000000000000"]"#, 1),
        ("eth_getStorageAt", r#"["0x0100000000000000000000000000000000000000","0x0"]"#, 2),
    ];
    for (method, params, position) in cases {
        let message = format!("missing value for required argument {position}");
        assert_eq!(call_method(&node, method, params), Err(Failure::invalid_params(message)));
    }
}

#[test]
fn pending_nonces_come_from_the_pool() {
    let node = host(Profile::Ethereum)
        .answer(|_: GetPoolNonce| Ok(7))
        .answer(|_: GetAccount| Ok(Account { nonce: 5, ..Account::default() }));
    let count = |block: &str| {
        let params = format!(r#"["0x0100000000000000000000000000000000000000",{block}]"#);
        call_method(&node, "eth_getTransactionCount", &params)
    };

    assert_eq!(count(r#""pending""#), Ok(json!("0x7")));
    assert_eq!(count(r#"{"blockNumber":"pending"}"#), Ok(json!("0x7")));
    assert_eq!(count(r#""latest""#), Ok(json!("0x5")));
}

#[test]
fn uncles_are_hashed_from_the_blocks_own_bytes() {
    let file = include_str!("../../tests/data/execution-apis/debug_getRawBlock/get-block-n.io");
    let answer = file.lines().find_map(|line| line.strip_prefix("<< ")).expect("an answer");
    let raw: Bytes = recorded::read(&serde_json::from_str(answer).expect("JSON"), "result");
    let ommers_hash = B256::from_slice(&raw[3 + 3 + 1 + 32 + 1..][..32]);
    let file_bytes = raw.clone();
    let mut stored = native_block();
    let block = std::sync::Arc::make_mut(&mut stored.block);
    block.block.ommers = vec![Header { number: 2, ..Header::default() }];
    let node = with_block(host(Profile::Ethereum), move || Some(stored.clone()))
        .answer(move |_: GetRaw| Ok(Some(vec![raw.clone()])));

    let block = call_method(&node, "eth_getBlockByNumber", r#"["0x3",false]"#).expect("a block");
    let uncle = call_method(&node, "eth_getUncleByBlockNumberAndIndex", r#"["0x3","0x0"]"#).expect("an uncle");
    let beyond = call_method(&node, "eth_getUncleByBlockNumberAndIndex", r#"["0x3","0x1"]"#);
    let count = call_method(&node, "eth_getUncleCountByBlockHash", &format!("[\"{}\"]", hash_of(3)));

    assert_eq!(block["uncles"], json!([uncle["hash"]]));
    assert_eq!(uncle.get("transactions"), None);
    assert_eq!((beyond, count), (Ok(Value::Null), Ok(json!("0x1"))));
    // The header commits to the list whose only item was hashed.
    let parts = list_items(&file_bytes).expect("a block");
    let uncles = list_items(parts[2]).expect("a list of uncles");
    assert_eq!(keccak256(parts[2]), ommers_hash);
    assert_eq!(json!(keccak256(uncles[0])), uncle["hash"]);
    let size = recorded::number(&uncle, "size");
    assert!((500..=540).contains(&size), "{size}");
}

#[test]
fn only_the_header_is_requested_if_there_are_no_uncles() {
    // The host has no answer to any other request.
    let node = host(Profile::Ethereum).answer(|_: GetHeader| {
        let header = Header { ommers_hash: EMPTY_OMMERS_HASH, ..header(3) };
        Ok(Some(StoredHeader {
            header: std::sync::Arc::new(SealedHeader::new_unchecked(header, hash_of(3))),
            ..stored_header(3, true)
        }))
    });

    assert_eq!(call_method(&node, "eth_getUncleCountByBlockNumber", r#"["0x3"]"#), Ok(json!("0x0")));
    assert_eq!(call_method(&node, "eth_getUncleByBlockNumberAndIndex", r#"["0x3","0x0"]"#), Ok(Value::Null));
}

#[test]
fn missing_objects_are_null_or_empty() {
    let node = with_block(host(Profile::Ethereum), || None)
        .answer(|_: GetRaw| Ok(None))
        .answer(|_: GetTransaction| Ok(None))
        .answer(|_: GetPoolTransaction| Ok(None))
        .answer(|request: GetRawPoolTransaction| Ok((request.hash == hash_of(1)).then(|| vec![0x03].into())));
    let waiting = format!("[\"{}\"]", hash_of(1));
    let hash = format!("\"{}\"", B256::ZERO);

    let cases = [
        ("eth_getBlockByNumber", r#"["0x37",false]"#.to_owned(), Value::Null),
        ("eth_getBlockTransactionCountByHash", format!("[{hash}]"), Value::Null),
        ("eth_getUncleCountByBlockNumber", r#"["0x37"]"#.to_owned(), Value::Null),
        ("eth_getTransactionByBlockHashAndIndex", format!("[{hash},\"0x0\"]"), Value::Null),
        ("eth_getRawTransactionByHash", format!("[{hash}]"), json!("0x")),
        ("eth_getRawTransactionByHash", waiting, json!("0x03")),
        ("eth_getRawTransactionByBlockNumberAndIndex", r#"["latest","0x0"]"#.to_owned(), json!("0x")),
    ];
    for (method, params, expected) in cases {
        assert_eq!(call_method(&node, method, &params), Ok(expected), "{method}");
    }
    let finalized = call_method(&node, "eth_getBlockByNumber", r#"["finalized",false]"#);
    assert_eq!(finalized, Err(Failure::server("finalized block not found")));
}

#[test]
fn ranges_of_logs_follow_the_rules_of_the_profile() {
    let node = |profile| {
        host(profile).answer(|_: GetHead| Ok(head(10))).answer(|_: GetHeader| Ok(None)).answer(|request: GetLogs| {
            match request.range {
                LogRange::Numbers { from, to } => Err(Failure::server(format!("{from}..{to}"))),
                LogRange::Block(_) => Ok(Vec::new()),
            }
        })
    };
    let ask = |profile, criteria: &str| {
        let answer = call_method(&node(profile), "eth_getLogs", &format!("[{criteria}]"));
        answer.map_or_else(|failure| format!("{} {}", failure.code.0, failure.message), |list| list.to_string())
    };
    let (ethereum, native) = (Profile::Ethereum, Profile::Native);

    let cases = [
        (ethereum, "{}", "-32000 10..10"),
        (ethereum, r#"{"fromBlock":"earliest","toBlock":"0xa"}"#, "-32000 0..10"),
        (ethereum, r#"{"fromBlock":"0x5","toBlock":"0x4"}"#, "-32602 invalid block range params"),
        (native, r#"{"fromBlock":"0x5","toBlock":"0x4"}"#, "[]"),
        (ethereum, r#"{"toBlock":"0xb"}"#, "-32602 block range extends beyond current head block"),
        (native, r#"{"toBlock":"0xb"}"#, "-32000 header for number not found"),
        (ethereum, r#"{"fromBlock":"safe"}"#, "-32000 safe header not found"),
        (native, r#"{"fromBlock":"finalized"}"#, "-32000 committed header not found"),
        (ethereum, r#"{"toBlock":"pending"}"#, "-32000 10..10"),
        (native, r#"{"fromBlock":"0x1","toBlock":"pending"}"#, "-32000 1..10"),
        (ethereum, r#"{"fromBlock":"pending","toBlock":"pending"}"#, "[]"),
        (native, r#"{"fromBlock":"pending","toBlock":"pending"}"#, "[]"),
        (ethereum, r#"{"fromBlock":"pending"}"#, "-32602 invalid block range"),
        (native, r#"{"fromBlock":"safe"}"#, "-32000 safe header not found"),
        (native, r#"{"fromBlock":"pending"}"#, "-32000 invalid block range"),
        (native, r#"{"topics":[null,null,null,null,null]}"#, "-32000 exceed max topics"),
        (
            ethereum,
            r#"{"blockHash":"0x0000000000000000000000000000000000000000000000000000000000000001"}"#,
            "-32000 unknown block",
        ),
    ];
    for (profile, criteria, expected) in cases {
        assert_eq!(ask(profile, criteria), expected, "{criteria}");
    }
}

#[test]
fn the_first_account_is_the_etherbase_if_none_is_configured() {
    let account = Address::repeat_byte(7);
    for profile in [Profile::Ethereum, Profile::Native] {
        let node = not_sealing(profile).answer(move |_: ListAccounts| Ok(vec![account, Address::ZERO]));

        assert_eq!(call_method(&node, "eth_coinbase", ""), Ok(json!(account)));
        let not_ready = "mining not ready: no work available yet, don't panic";
        assert_eq!(call_method(&node, "eth_getWork", ""), Err(Failure::server(not_ready)));
    }
}

fn not_sealing(profile: Profile) -> tenon_sdk::testing::FakeHost {
    host(profile).answer(|_: GetSealing| Ok(SealingState::default()))
}

#[test]
fn a_sealing_node_is_mining_and_has_no_work_even_without_an_account() {
    for profile in [Profile::Ethereum, Profile::Native] {
        let node = host(profile)
            .answer(|_: GetSealing| Ok(SealingState { is_sealing: true, etherbase: None }))
            .answer(|_: ListAccounts| Ok(Vec::new()));

        assert_eq!(call_method(&node, "eth_mining", "[]"), Ok(json!(true)));
        assert_eq!(call_method(&node, "eth_hashrate", ""), Ok(json!("0x0")));
        let not_ready = "mining not ready: no work available yet, don't panic";
        assert_eq!(call_method(&node, "eth_getWork", ""), Err(Failure::server(not_ready)));
    }
}

#[test]
fn the_etherbase_of_miner_set_etherbase_takes_precedence() {
    let chosen = SealingState { is_sealing: true, etherbase: Some(Address::repeat_byte(9)) };
    let node = host(Profile::Native)
        .answer(|_: ListAccounts| Ok(vec![Address::repeat_byte(7)]))
        .answer(move |_: GetSealing| Ok(chosen));

    assert_eq!(call_method(&node, "eth_coinbase", ""), Ok(json!(chosen.etherbase)));
}

#[test]
fn mining_methods_answer_like_a_node_that_does_not_mine() {
    let node = not_sealing(Profile::Ethereum).answer(|_: ListAccounts| Ok(Vec::new()));

    assert_eq!(call_method(&node, "eth_mining", "[]"), Ok(json!(false)));
    assert_eq!(call_method(&node, "eth_hashrate", ""), Ok(json!("0x0")));
    assert_eq!(call_method(&node, "eth_protocolVersion", ""), Ok(json!("0x44")));
    assert_eq!(call_method(&node, "eth_coinbase", ""), Err(Failure::server("etherbase must be explicitly specified")));
    let missing = Failure::server("etherbase missing: etherbase must be explicitly specified");
    assert_eq!(call_method(&node, "eth_getWork", ""), Err(missing));
    let zero = format!("\"{}\"", B256::ZERO);
    let submitted = call_method(&node, "eth_submitWork", &format!(r#"["0x0000000000000001",{zero},{zero}]"#));
    assert_eq!(submitted, Ok(json!(false)));
}

#[test]
fn native_chains_have_the_etherbase_of_the_reference_and_no_work() {
    let node = not_sealing(Profile::Native).answer(|_: ListAccounts| Ok(Vec::new()));

    assert_eq!(call_method(&node, "eth_protocolVersion", ""), Ok(json!("0x64")));
    assert_eq!(call_method(&node, "eth_coinbase", ""), Ok(json!("0x000000000000000000000000000000000000abcd")));
    assert_eq!(call_method(&node, "eth_getWork", ""), Err(Failure::server("signer missing: unknown account")));
}

#[test]
fn the_configured_etherbase_is_shown_in_lower_case() {
    let node = host(Profile::Native);
    let settings = r#"{"etherbase":"0x000000000000000000000000000000000000ABcD"}"#;
    let eth = std::sync::Arc::new(crate::Eth::start(node.host(), settings, &[]).expect("settings"));

    let answer = super::call_on(&node, &eth, "eth_etherbase", "[]");

    assert_eq!(answer, Ok(json!("0x000000000000000000000000000000000000abcd")));
}

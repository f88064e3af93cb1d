//! The namespace as its callers see it: raw parameters in, JSON out, over a fake node.

use std::sync::Arc;

use serde_json::{Value, json};
use tenon_sdk::testing::FakeHost;

use super::*;

fn call(host: &FakeHost, method: &str, params: &str) -> Result<Value, Failure> {
    let answer = host.call(&table(), &Arc::new(Debug::default()), method, params)?;
    Ok(serde_json::from_str(&answer).expect("JSON"))
}

fn head(number: u64) -> Arc<Head> {
    let header = Header { number, ..Header::default() };
    let header = Arc::new(SealedHeader::new_unchecked(header, B256::ZERO));
    Arc::new(Head { header, total_difficulty: U256::ZERO, finalized: None, safe: None })
}

/// Knows the encodings of block 3, of one transaction of the chain and one of the pool.
fn raw_host() -> FakeHost {
    let host = FakeHost::new().answer(|request: GetRaw| {
        let block = |id: BlockId, bytes: Vec<Bytes>| (id == BlockId::number(3)).then_some(bytes);
        Ok(match request {
            GetRaw::Header(id) => block(id, vec![vec![0xf9].into()]),
            GetRaw::Block(id) => block(id, vec![vec![0x0f, 0x90].into()]),
            GetRaw::Receipts(id) => block(id, vec![vec![1].into(), vec![2].into()]),
            GetRaw::Transaction(hash) => (hash == B256::repeat_byte(1)).then(|| vec![vec![0x02].into()]),
            GetRaw::TransactionInBlock { .. } => None,
        })
    });
    host.answer(|request: GetRawPoolTransaction| Ok((request.hash == B256::repeat_byte(2)).then(|| vec![0x03].into())))
}

#[test]
fn raw_getters_give_data_and_name_what_is_missing() {
    let known = format!("[\"{}\"]", B256::repeat_byte(1));
    let waiting = format!("[\"{}\"]", B256::repeat_byte(2));
    let unknown = format!("[\"{}\"]", B256::ZERO);
    let cases = [
        ("debug_getRawHeader", r#"["0x3"]"#, Ok(json!("0xf9"))),
        ("debug_getRawBlock", r#"["0x3"]"#, Ok(json!("0x0f90"))),
        ("debug_getRawReceipts", r#"["0x3"]"#, Ok(json!(["0x01", "0x02"]))),
        ("debug_getRawTransaction", known.as_str(), Ok(json!("0x02"))),
        ("debug_getRawTransaction", waiting.as_str(), Ok(json!("0x03"))),
        ("debug_getRawTransaction", unknown.as_str(), Ok(Value::Null)),
        ("debug_getBlockRlp", "[3]", Ok(json!("0f90"))),
        ("debug_getBlockRlp", r#"["0x3"]"#, Ok(json!("0f90"))),
        ("debug_getBlockRlp", "[4]", Err(Failure::server("block #4 not found"))),
        ("debug_getRawBlock", r#"["0x4"]"#, Err(Failure::server("block #4 not found"))),
        ("debug_getRawHeader", r#"["finalized"]"#, Err(Failure::server("header #finalized not found"))),
        // The suite's own malformed requests (execution-apis, debug_getRaw*).
        (
            "debug_getRawBlock",
            r#"["2"]"#,
            Err(Failure::invalid_params("invalid argument 0: hex string without 0x prefix")),
        ),
        (
            "debug_getRawTransaction",
            r#"["1000000000000000000000000000000000000000000000000000000000000001"]"#,
            Err(Failure::invalid_params(
                "invalid argument 0: json: cannot unmarshal hex string without 0x prefix into Go value of type common.Hash",
            )),
        ),
    ];

    for (method, params, expected) in cases {
        assert_eq!(call(&raw_host(), method, params), expected, "{method} {params}");
    }
}

/// Answers a trace with what it was asked to trace.
fn tracing_host() -> FakeHost {
    FakeHost::new().answer(|request: Trace| {
        let target = match request.target {
            TraceTarget::Transaction(_) => "transaction".to_owned(),
            TraceTarget::Block(id) => format!("{id:?}"),
            TraceTarget::RawBlock(bytes) => format!("raw {bytes}"),
            TraceTarget::Call { request, block, transaction_index, state_overrides, block_overrides } => format!(
                "call gas {:?} at {block:?} index {transaction_index:?} overrides {} {}",
                request.gas,
                state_overrides.len(),
                *block_overrides != BlockOverrides::default()
            ),
        };
        Ok(TraceReply { json: json!({"target": target, "options": request.options}).to_string() })
    })
}

#[test]
fn traces_pass_their_target_and_options_on() {
    let hash = B256::ZERO;
    let options = r#"{"tracer": "callTracer"}"#;
    let cases = [
        ("debug_traceTransaction", format!("[\"{hash}\"]"), "transaction".to_owned(), "{}"),
        ("debug_traceTransaction", format!("[\"{hash}\",{options}]"), "transaction".to_owned(), options),
        ("debug_traceBlockByNumber", r#"["latest",null]"#.to_owned(), format!("{:?}", BlockId::LATEST), "{}"),
        ("debug_traceBlockByHash", format!("[\"{hash}\"]"), format!("{:?}", BlockId::hash(hash)), "{}"),
        ("debug_traceBlock", r#"["0xf901"]"#.to_owned(), "raw 0xf901".to_owned(), "{}"),
        (
            "debug_traceCall",
            r#"[{"gas":"0x5"},"0x2"]"#.to_owned(),
            format!("call gas Some(5) at {:?} index None overrides 0 false", BlockId::number(2)),
            "{}",
        ),
    ];

    for (method, params, target, options) in cases {
        let answer = call(&tracing_host(), method, &params);
        assert_eq!(answer, Ok(json!({"target": target, "options": options})), "{method} {params}");
    }
}

#[test]
fn a_traced_call_may_pretend_and_stop_inside_a_block() {
    let options = concat!(
        r#"{"txIndex":"0x1","blockOverrides":{"number":"0x9"},"#,
        r#""stateOverrides":{"0x0100000000000000000000000000000000000000":{"balance":"0x1"}}}"#
    );

    let answer = call(&tracing_host(), "debug_traceCall", &format!(r#"[{{}},"latest",{options}]"#)).expect("a trace");
    let pending = call(&tracing_host(), "debug_traceCall", r#"[{},"pending"]"#);

    let target = format!("call gas None at {:?} index Some(1) overrides 1 true", BlockId::LATEST);
    assert_eq!(answer, json!({"target": target, "options": options}));
    assert_eq!(pending, Err(Failure::server("tracing on top of pending is not supported")));
}

#[test]
fn the_head_moves_back_only() {
    let host = FakeHost::new().answer(|_: GetHead| Ok(head(9))).answer(|request: SetHead| {
        if request.number == BlockNumber(5) { Ok(()) } else { Err(Failure::server("moved")) }
    });

    assert_eq!(call(&host, "debug_setHead", r#"["0x5"]"#), Ok(Value::Null));
    assert_eq!(call(&host, "debug_setHead", "[5]"), Ok(Value::Null));
    let refused = Failure::server("not allowed to rewind to a future block");
    assert_eq!(call(&host, "debug_setHead", r#"["0x9"]"#), Err(refused));
}

#[test]
fn seeds_are_chains_of_hashes_one_an_epoch() {
    let host = FakeHost::new().answer(|request: GetHeader| {
        let BlockId::Number(number) = request.block else { return Ok(None) };
        let header = head(number.0).header.clone();
        Ok((number.0 < 70_000).then_some(StoredHeader { header, total_difficulty: U256::ZERO, is_canonical: true }))
    });

    assert_eq!(call(&host, "debug_seedHash", "[29999]"), Ok(json!(B256::ZERO)));
    assert_eq!(call(&host, "debug_seedHash", "[60000]"), Ok(json!(keccak256(keccak256(B256::ZERO)))));
    assert_eq!(call(&host, "debug_seedHash", "[70000]"), Err(Failure::server("block #70000 not found")));
}

#[test]
fn a_block_is_printed_for_people() {
    let transaction = Transaction {
        hash: B256::repeat_byte(1),
        chain_id: None,
        nonce: 5,
        gas_limit: 21_000,
        to: None,
        value: U256::from(16),
        input: vec![0xab].into(),
        payload: TransactionPayload::Legacy { gas_price: U256::from(3) },
        signature: TransactionSignature { v: 27, r: U256::from(1), s: U256::from(2) },
    };
    let block = Block {
        header: head(3).header.as_ref().clone(),
        transactions: vec![Arc::new(transaction)],
        ommers: Vec::new(),
        withdrawals: None,
        size: 1536,
    };
    let block = Arc::new(RecoveredBlock { block, senders: vec![Address::repeat_byte(2)] });
    let host = FakeHost::new().answer(move |_: GetBlock| {
        Ok(Some(StoredBlock { block: block.clone(), total_difficulty: U256::ZERO, is_canonical: true }))
    });

    let answer = call(&host, "debug_printBlock", "[3]").expect("a text");

    let text = answer.as_str().unwrap_or_default();
    assert!(text.starts_with("Block(#3): Size: 1.50 KiB {\n"), "{text}");
    for expected in ["\tNumber:\t\t    3\n", "TX(0101", "To:           [contract creation]", "Value:        0x10"] {
        assert!(text.contains(expected), "{expected:?} in {text}");
    }
}

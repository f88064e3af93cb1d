//! Traces on native chains, compared with the reference's recorded answers and with receipts.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, missing_docs, reason = "a failure fails the test")]

use std::{collections::BTreeMap, time::Duration};

use alloy_primitives::{Address, B256, Bytes, U256, address, hex};
use serde_json::Value;
use tenon_api::{
    BlockId, ChainReader, ReceiptOutcome,
    messages::{
        AccountOverride, BlockOverrides, Call, CallRequest, EstimateGas, GetStorageRange, Profile, StorageRange, Trace,
        TraceTarget,
    },
};
use tenon_bus::CallContext;
use tenon_native_test_node::recorded::NativeNode;
use tenon_sdk::{Failure, FailureCode};
use tenon_sdk::{
    error_texts::{RefusableAnswer as _, Refusal as _, call_failure_text},
    shapes::trace_options,
};
use tenon_simulation::CallLimits;
use tenon_test_node::{LIMITS, json_of_trace, test_data};

/// Traces as the plugin shows them.
trait JsonTraces {
    async fn trace(&self, target: TraceTarget, options: &str) -> Result<Value, Failure>;
    async fn trace_for(&self, caller: &CallContext, target: TraceTarget, options: &str) -> Result<Value, Failure>;
}

impl JsonTraces for NativeNode {
    async fn trace(&self, target: TraceTarget, options: &str) -> Result<Value, Failure> {
        self.trace_for(&CallContext::new(), target, options).await
    }

    async fn trace_for(&self, caller: &CallContext, target: TraceTarget, options: &str) -> Result<Value, Failure> {
        let options = trace_options(options, Profile::Native)?;
        let reply = self.bus.call(Trace { target, options }, caller).await.map_err(Failure::from).or_failure()?;
        Ok(json_of_trace(reply))
    }
}

/// A recorded request on a block or transaction that this node's messages can express, and the answer.
struct Case {
    text: String,
    target: TraceTarget,
    options: String,
    answer: Value,
}

fn cases(file: &str) -> Vec<Case> {
    String::from_utf8(test_data(file)).unwrap().lines().filter_map(case).collect()
}

fn case(line: &str) -> Option<Case> {
    // Calls a thousand deep exceed this decoder's limit; the suite `tests/recorded` covers them.
    let line: Value = serde_json::from_str(line).ok()?;
    let tags = line["tags"].to_string();
    let params = line["params"].as_array()?;
    // Requests refused before the node sees them belong to the plugin; words of another script engine are not reproduced.
    let is_refused = line["response"]["error"]["code"] == -32602 || line["response"]["error"]["code"] == -32601;
    if is_refused || tags.contains("js-error-text") || params.len() > 2 {
        return None;
    }
    let options = params.get(1).filter(|options| !options.is_null()).map_or_else(|| "{}".to_owned(), Value::to_string);
    let first = params.first()?.as_str()?;
    let target = match line["method"].as_str()? {
        "debug_traceTransaction" => TraceTarget::Transaction(first.parse().ok()?),
        "debug_traceBlockByHash" => TraceTarget::Block(BlockId::hash(first.parse().ok()?)),
        "debug_traceBlockByNumber" => {
            TraceTarget::Block(BlockId::number(u64::from_str_radix(first.strip_prefix("0x")?, 16).ok()?))
        }
        _ => return None,
    };
    let text = format!("{} {}", line["method"], line["params"]);
    Some(Case { text, target, options, answer: line["response"].clone() })
}

/// The path of the first difference between two answers.
fn difference(place: &str, computed: &Value, recorded: &Value) -> Option<String> {
    match (computed, recorded) {
        (Value::Object(left), Value::Object(right)) => {
            let missing = right.keys().find(|name| !left.contains_key(*name));
            let extra = left.keys().find(|name| !right.contains_key(*name));
            if let Some(name) = missing.or(extra) {
                return Some(format!("{place}.{name}: {:?}, recorded {:?}", left.get(name), right.get(name)));
            }
            left.iter().find_map(|(name, value)| difference(&format!("{place}.{name}"), value, &right[name]))
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            let mut pairs = left.iter().zip(right).enumerate();
            pairs.find_map(|(index, (left, right))| difference(&format!("{place}[{index}]"), left, right))
        }
        _ => (computed != recorded).then(|| format!("{place}: {computed}, recorded {recorded}")),
    }
}

/// Every n-th case is run; all if `TENON_TRACE_ALL` is set, as the suite `tests/recorded` does anyway.
fn stride() -> usize {
    if std::env::var_os("TENON_TRACE_ALL").is_some() { 1 } else { 7 }
}

/// Leaves entries of a block trace with script engine errors to the suite that lists them.
fn without_script_errors(answer: &Value) -> bool {
    let text = answer.to_string();
    !text.contains("Error: ") && !text.contains("has both 'state'")
}

async fn answers_as_recorded(name: &str) {
    let node = NativeNode::new(name, LIMITS);
    let mut failures = Vec::new();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let answers = cases(&format!("native/answers/{name}/debug.jsonl.gz"));
    let chosen = answers.into_iter().filter(|case| without_script_errors(&case.answer)).step_by(stride());
    for case in chosen {
        let found = match node.trace(case.target, &case.options).await {
            Ok(result) => difference("result", &result, &case.answer["result"]),
            Err(failure) => difference("error", &json_of(&failure), &case.answer["error"]),
        };
        let kind = if case.text.contains("Transaction") { "transactions" } else { "blocks" };
        *kinds.entry(kind).or_default() += 1;
        failures.extend(found.map(|difference| format!("{}: {difference}", case.text)));
    }
    println!("{name}: asked about {kinds:?}, {} differ", failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Removes values that depend on time or order.
fn comparable(mut answer: Value) -> Value {
    match &mut answer {
        Value::Object(members) => drop(members.remove("time")),
        Value::Array(items) if items.iter().all(Value::is_string) => items.sort_by_key(Value::to_string),
        _ => {}
    }
    answer
}

#[tokio::test]
async fn the_older_tracers_equal_the_recorded_answers() {
    let node = NativeNode::new("local", LIMITS);
    let cases = cases("native/traces/local.jsonl.gz");
    assert!(cases.len() > 100, "{} cases", cases.len());
    for case in cases {
        let found = comparable(node.trace(case.target, &case.options).await.unwrap());

        assert_eq!(difference("result", &found, &comparable(case.answer["result"].clone())), None, "{}", case.text);
    }
}

/// Not a sample: each of them.
#[tokio::test]
async fn tracers_written_in_javascript_answer_as_recorded() {
    let mut asked = 0;
    for name in ["local", "staged", "v1switch"] {
        let node = NativeNode::new(name, LIMITS);
        let cases = cases(&format!("native/answers/{name}/debug.jsonl.gz"));
        for case in
            cases.into_iter().filter(|case| case.options.contains("function(") || case.options.contains("\"{}\""))
        {
            asked += 1;
            match node.trace(case.target, &case.options).await {
                Ok(result) => assert_eq!(difference("", &result, &case.answer["result"]), None, "{}", case.text),
                Err(failure) => assert_eq!(json_of(&failure), case.answer["error"], "{}", case.text),
            }
        }
    }
    assert!(asked > 20, "{asked} cases");
}

fn json_of(failure: &Failure) -> Value {
    serde_json::json!({"code": failure.code.0, "message": failure.message})
}

#[tokio::test]
async fn traces_of_a_chain_with_all_forks_at_0_answer_as_recorded() {
    answers_as_recorded("local").await;
}

#[tokio::test]
async fn traces_of_a_chain_whose_forks_come_one_after_the_other_answer_as_recorded() {
    answers_as_recorded("staged").await;
}

#[tokio::test]
async fn traces_of_a_chain_that_switches_engines_answer_as_recorded() {
    answers_as_recorded("v1switch").await;
}

/// A transaction that the block does not execute has an empty receipt, even if its trace contains calls.
fn is_intercepted(receipt: &tenon_api::Receipt) -> bool {
    receipt.gas_used == 0
}

#[tokio::test]
async fn traces_match_the_receipts() {
    for name in ["local", "staged", "v1switch"] {
        let node = NativeNode::new(name, LIMITS);
        let mut compared = 0;
        for block in node.recorded.blocks[1..].iter().filter(|block| !block.transactions.is_empty()).step_by(stride()) {
            let receipts = node.chain.receipts(block.hash()).unwrap().unwrap();
            for (transaction, receipt) in block.transactions.iter().zip(&*receipts) {
                if is_intercepted(receipt) {
                    continue;
                }
                agrees_with_receipt(&node, transaction.hash, receipt).await;
                compared += 1;
            }
        }
        println!("{name}: {compared} transactions");
        assert!(compared > 50, "{name} has too few transactions to say anything");
    }
}

async fn agrees_with_receipt(node: &NativeNode, hash: B256, receipt: &tenon_api::Receipt) {
    let target = || TraceTarget::Transaction(hash);
    let options = r#"{"disableStack":true,"disableStorage":true}"#;
    let steps = node.trace(target(), options).await.unwrap();
    let calls = node.trace(target(), r#"{"tracer":"callTracer","tracerConfig":{"onlyTopCall":true}}"#).await.unwrap();

    let has_failed = receipt.outcome == ReceiptOutcome::Status(false);
    let is_known = matches!(receipt.outcome, ReceiptOutcome::Status(_));
    assert_eq!(steps["gas"], receipt.gas_used, "gas of {hash}");
    if is_known {
        assert_eq!(steps["failed"], has_failed, "status of {hash}");
        assert_eq!(calls["error"].is_string(), has_failed, "error of {hash}");
    }
    // Logs of frames that did not fail, in order, equal the receipt's.
    let logged = steps["structLogs"].as_array().unwrap().iter();
    let logged = logged.filter(|step| step["op"].as_str().is_some_and(|name| name.starts_with("LOG"))).count();
    assert!(logged >= receipt.logs.len(), "logs of {hash}");
}

#[tokio::test]
async fn ranges_of_storage_answer_as_recorded() {
    for name in ["local", "staged", "v1switch"] {
        let node = NativeNode::new(name, LIMITS);
        let file = String::from_utf8(test_data(format!("native/answers/{name}/debug.jsonl.gz"))).unwrap();
        let mut asked = 0;
        for line in file.lines().filter(|line| line.contains("debug_storageRangeAt")) {
            let line: Value = serde_json::from_str(line).unwrap();
            let Some(request) = storage_request(&line["params"]) else { continue };
            let answer = node.bus.call(request, &CallContext::new()).await;
            let found = match answer.map_err(Failure::from).or_failure() {
                Ok(range) => storage_json(&range),
                Err(failure) => json_of(&failure),
            };
            let response = &line["response"];
            let recorded = response.get("result").or(response.get("error")).unwrap();
            if recorded["code"] != -32602 {
                assert_eq!(difference("result", &found, recorded), None, "{}", line["params"]);
                asked += 1;
            }
        }
        println!("{name}: {asked} ranges");
        assert!(asked > 10, "{name}");
    }
}

fn storage_request(params: &Value) -> Option<GetStorageRange> {
    Some(GetStorageRange {
        block: params[0].as_str()?.parse().ok()?,
        transaction_index: params[1].as_i64()?,
        contract: params[2].as_str()?.replace("xdc", "0x").parse().ok()?,
        start: params[3].as_str()?.parse().ok()?,
        limit: params[4].as_i64().filter(|_| params[5].is_null())?,
    })
}

fn storage_json(range: &StorageRange) -> Value {
    let slots = range.slots.iter().map(|slot| {
        let entry = serde_json::json!({"key": slot.slot, "value": B256::from(slot.value)});
        (slot.hash.to_string(), entry)
    });
    serde_json::json!({"storage": slots.collect::<serde_json::Map<_, _>>(), "nextKey": range.next})
}

/// A call to a contract that jumps to itself until its gas is used up.
fn endless_call() -> TraceTarget {
    let contract = Address::repeat_byte(0x77);
    let code = Bytes::from_static(&[0x5b, 0x60, 0x00, 0x56]);
    let account = AccountOverride { code: Some(code), ..AccountOverride::default() };
    TraceTarget::Call {
        request: Box::new(CallRequest { to: Some(contract), gas: Some(50_000_000), ..CallRequest::default() }),
        block: BlockId::LATEST,
        transaction_index: None,
        state_overrides: vec![(contract, account)],
        block_overrides: Box::default(),
    }
}

#[tokio::test]
async fn a_self_destruction_that_would_make_an_account_shows_its_whole_price_when_it_fails() {
    let node = NativeNode::new("local", LIMITS);
    let contract = Address::repeat_byte(0x77);
    // PUSH20 of an address that does not exist, SELFDESTRUCT.
    let code = [&[0x73][..], &[0x79; 20], &[0xff]].concat();
    let account =
        AccountOverride { code: Some(code.into()), balance: Some(U256::from(1)), ..AccountOverride::default() };
    let price_with = |gas| {
        let target = TraceTarget::Call {
            request: Box::new(CallRequest { to: Some(contract), gas: Some(gas), ..CallRequest::default() }),
            block: BlockId::LATEST,
            transaction_index: None,
            state_overrides: vec![(contract, account.clone())],
            block_overrides: Box::default(),
        };
        let node = &node;
        async move {
            let traced = node.trace(target, "{}").await.unwrap();
            let last = traced["structLogs"].as_array().unwrap().last().unwrap().clone();
            (traced["failed"].as_bool().unwrap(), last["op"].clone(), last["gasCost"].clone())
        }
    };

    let failed = price_with(21_003 + 20_000).await;
    let destroyed = price_with(21_003 + 40_000).await;

    assert_eq!(failed, (true, "SELFDESTRUCT".into(), 32_600.into()));
    assert_eq!(destroyed, (false, "SELFDESTRUCT".into(), 32_600.into()));
}

#[tokio::test]
async fn calls_that_fail_without_an_instruction_have_a_reason_and_run_on_block_0() {
    const MODULUS: [u8; 32] = hex!("30644e72e131a029b85045b68181585d97816a916871ca8d3c208c16d87cfd47");
    let node = NativeNode::new("local", LIMITS);
    let precompile = |number: u8, input: Vec<u8>| CallRequest {
        to: Some(Address::with_last_byte(number)),
        input: input.into(),
        ..CallRequest::default()
    };
    // PUSH2 500 PUSH1 0 RETURN: code of 500 bytes costs 100,000 gas to keep.
    let large =
        CallRequest { input: Bytes::from_static(&hex!("6101f46000f3")), gas: Some(60_000), ..CallRequest::default() };
    let cases = [
        (precompile(0x06, MODULUS.to_vec()), "bn256: coordinate equals modulus"),
        (precompile(0x06, vec![0xff; 128]), "bn256: coordinate exceeds modulus"),
        (precompile(0x05, vec![0xff; 96]), "out of gas"),
        (large, "contract creation code storage out of gas"),
    ];
    for block in [BlockId::LATEST, BlockId::number(0)] {
        for (request, expected) in &cases {
            let call = Call {
                request: request.clone(),
                block,
                state_overrides: vec![],
                block_overrides: BlockOverrides::default(),
            };

            let failure = node.bus.call(call, &CallContext::new()).await.unwrap().unwrap_err();

            assert_eq!(call_failure_text(&failure), *expected, "{block:?}");
        }
    }
}

#[tokio::test]
async fn an_estimate_names_the_allowance_if_the_call_lacks_gas_and_otherwise_the_failure() {
    const CONTRACT: Address = address!("000000000000000000000000000000000000c0de");
    let node = NativeNode::new("local", LIMITS);
    let allowance = "gas required exceeds allowance (60000)";
    let to_code = |code: &[u8]| (Some(CONTRACT), Bytes::new(), Bytes::copy_from_slice(code));
    let cases = [
        // JUMPDEST PUSH1 0 JUMP: a loop.
        (to_code(&hex!("5b600056")), allowance),
        // RETURNDATACOPY(0, 0, 2^20): beyond the returned data, but the memory is too expensive anyway.
        (to_code(&hex!("62100000600060003e")), allowance),
        // The same with 32 bytes.
        (to_code(&hex!("6020600060003e")), "return data out of bounds"),
        // POP.
        (to_code(&hex!("50")), "stack underflow (0 <=> 1)"),
        // Powers of numbers with more bytes than any machine has.
        ((Some(Address::with_last_byte(0x05)), vec![0xff; 96].into(), Bytes::new()), allowance),
        // PUSH2 500 PUSH1 0 RETURN: code of 500 bytes costs 100,000 gas to keep.
        ((None, Bytes::from_static(&hex!("6101f46000f3")), Bytes::new()), "contract creation code storage out of gas"),
    ];
    for ((to, input, code), expected) in cases {
        let account = AccountOverride { code: Some(code.clone()), ..AccountOverride::default() };
        let estimate = EstimateGas {
            request: CallRequest { to, input, gas: Some(60_000), ..CallRequest::default() },
            block: BlockId::LATEST,
            state_overrides: vec![(CONTRACT, account)],
            block_overrides: BlockOverrides::default(),
            has_no_data: false,
        };

        let failure = node.bus.call(estimate, &CallContext::new()).await.unwrap().unwrap_err();

        assert_eq!(failure.into_failure(), Failure::server(expected), "{to:?} {code}");
    }
}

#[tokio::test]
async fn an_endless_trace_is_stopped_with_the_references_text() {
    let limits = CallLimits { trace_timeout: Duration::ZERO, ..LIMITS };
    let node = NativeNode::new("reorg", limits);

    let refused = node.trace(endless_call(), r#"{"tracer":"opcountTracer"}"#).await;
    let named = node.trace(endless_call(), r#"{"tracer":"opcountTracer","timeout":"0s"}"#).await;

    assert_eq!(refused, Err(Failure::server("execution timeout")));
    assert_eq!(named, Err(Failure::server("execution timeout")));
}

#[tokio::test]
async fn a_trace_stops_when_its_caller_has_gone() {
    let node = NativeNode::new("reorg", LIMITS);
    let caller = CallContext::new();
    caller.cancel();

    let stopped = node.trace_for(&caller, endless_call(), r#"{"tracer":"opcountTracer"}"#).await;

    assert_eq!(stopped, Err(Failure::limit("request timed out")));
}

#[tokio::test]
async fn a_trace_that_records_too_much_is_refused_with_advice() {
    let limits = CallLimits { trace_bytes: 1 << 20, ..LIMITS };
    let node = NativeNode::new("local", limits);
    let mut refusals = 0;
    for block in node.recorded.blocks[1..].iter().filter(|block| block.transactions.len() > 20).take(20) {
        for transaction in &block.transactions {
            let traced = node.trace(TraceTarget::Transaction(transaction.hash), r#"{"enableMemory":true}"#).await;
            if let Err(failure) = traced {
                assert_eq!(failure.code, FailureCode::LIMIT_EXCEEDED);
                assert!(failure.message.contains("use callTracer"), "{}", failure.message);
                refusals += 1;
            }
        }
    }
    assert!(refusals > 0, "no transaction of the chain records a mebibyte");
}

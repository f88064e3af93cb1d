//! Traces compared with the recorded answers of the public suite, and their limits.

use alloy_primitives::{B256, Bytes, U256, address, hex};
use serde_json::Value;
use tenon_api::{
    BlockId,
    messages::{AccountOverride, CallRequest, Profile, Trace, TraceTarget},
};
use tenon_bus::{MemoryBudget, MemoryLimits, MemoryUse};
use tenon_sdk::{Failure, FailureCode, error_texts::RefusableAnswer as _, shapes::trace_options};
use tenon_simulation::{CallLimits, CallResources};
use tenon_test_node::{LIMITS, TestNode, conformance_blocks, json_of_trace, recorded_cases, resources};

async fn trace(node: &TestNode, target: TraceTarget, options: &str) -> Result<Value, Failure> {
    let options = trace_options(options, Profile::Ethereum)?;
    let reply = node.ask(Trace { target, options }).await.or_failure()?;
    Ok(json_of_trace(reply))
}

fn options(params: &[Value]) -> String {
    params.get(1).map_or_else(|| "{}".to_owned(), Value::to_string)
}

fn target(case: &str, first: &Value) -> TraceTarget {
    let text = first.as_str().unwrap();
    if case.contains("traceTransaction") {
        return TraceTarget::Transaction(text.parse().unwrap());
    }
    if case.contains("ByHash") {
        return TraceTarget::Block(BlockId::hash(text.parse().unwrap()));
    }
    TraceTarget::Block(BlockId::number(text.parse::<U256>().unwrap().to()))
}

#[tokio::test]
async fn traces_equal_the_recorded_answers() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    for case in recorded_cases("debug_trace") {
        let outcome = trace(&node, target(&case.name, &case.params[0]), &options(&case.params)).await;
        match outcome {
            Ok(result) => assert_same(&case.name, &result, &case.answer["result"]),
            Err(failure) => {
                assert_eq!(Value::from(failure.message), case.answer["error"]["message"], "{}", case.name);
                assert_eq!(Value::from(failure.code.0), case.answer["error"]["code"], "{}", case.name);
            }
        }
    }
}

/// Like `assert_eq`, but names the first difference: a trace may have thousands of lines.
fn assert_same(place: &str, computed: &Value, recorded: &Value) {
    match (computed, recorded) {
        (Value::Object(left), Value::Object(right)) => {
            for (name, value) in right {
                let found = left.get(name).unwrap_or_else(|| panic!("{place}: {name} is missing, want {value}"));
                assert_same(&format!("{place}.{name}"), found, value);
            }
            let extra = left.keys().find(|name| !right.contains_key(*name));
            assert_eq!(extra, None, "{place}");
        }
        (Value::Array(left), Value::Array(right)) => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                assert_same(&format!("{place}[{index}]"), left, right);
            }
            assert_eq!(left.len(), right.len(), "{place}");
        }
        _ => assert_eq!(computed, recorded, "{place}"),
    }
}

#[tokio::test]
async fn every_block_can_be_traced_by_every_tracer() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    let tracers = [
        r#"{"tracer":"callTracer","tracerConfig":{"withLog":true}}"#,
        r#"{"tracer":"callTracer","tracerConfig":{"onlyTopCall":true}}"#,
        r#"{"tracer":"prestateTracer"}"#,
        r#"{"tracer":"prestateTracer","tracerConfig":{"diffMode":true}}"#,
        r#"{"tracer":"4byteTracer"}"#,
        r#"{"tracer":"noopTracer"}"#,
        r#"{"tracer":"flatCallTracer"}"#,
        r#"{"tracer":"muxTracer","tracerConfig":{"callTracer":{},"prestateTracer":{},"4byteTracer":null}}"#,
    ];
    for block in conformance_blocks() {
        for tracer in tracers {
            let target = TraceTarget::Block(BlockId::number(block.header.number));
            let result = trace(&node, target, tracer).await.unwrap();

            let traces = result.as_array().unwrap();
            assert_eq!(traces.len(), block.transactions.len());
            let receipts = tenon_api::ChainReader::receipts(&node.chain, block.hash()).unwrap().unwrap();
            for ((trace, transaction), receipt) in traces.iter().zip(&block.transactions).zip(&*receipts) {
                assert_eq!(trace["txHash"], Value::from(transaction.hash.to_string()));
                assert!(trace["error"].is_null(), "{tracer}: {trace}");
                if tracer.contains("\"callTracer\"") && !tracer.contains("mux") {
                    assert_eq!(trace["result"]["gasUsed"], Value::from(format!("{:#x}", receipt.gas_used)));
                }
            }
        }
    }
}

#[tokio::test]
async fn a_call_can_be_traced_on_a_past_state_and_between_transactions() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    let block = &conformance_blocks()[1];
    let sender = tenon_chain::recover_sender(&block.transactions[0]).unwrap();
    for (transaction_index, expected) in [(None, "after"), (Some(0), "before"), (Some(5), "between")] {
        let target = TraceTarget::Call {
            request: Box::new(CallRequest { from: Some(sender), to: Some(sender), ..CallRequest::default() }),
            block: BlockId::number(2),
            transaction_index,
            state_overrides: vec![],
            block_overrides: Box::default(),
        };

        let result = trace(&node, target, r#"{"tracer":"prestateTracer"}"#).await.unwrap();

        let key = format!("{sender:#x}");
        assert!(result[&key]["balance"].is_string(), "{expected}: {result}");
    }
}

#[tokio::test]
async fn a_block_given_as_bytes_traces_like_the_same_block_of_the_chain() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    let block = &conformance_blocks()[44];
    let bytes = tenon_chain::encode_block(block).into();

    let by_number = trace(&node, TraceTarget::Block(BlockId::number(45)), "{}").await.unwrap();
    let by_bytes = trace(&node, TraceTarget::RawBlock(bytes), "{}").await.unwrap();

    assert_eq!(by_bytes, by_number);
}

#[tokio::test]
async fn a_trace_that_records_too_much_is_refused_and_a_limit_helps() {
    let (node, _served) = TestNode::serving(3, CallLimits { trace_steps: 50, ..LIMITS });
    let hash = conformance_blocks()[1].transactions[0].hash;

    let refused = trace(&node, TraceTarget::Transaction(hash), "{}").await.unwrap_err();
    let limited = trace(&node, TraceTarget::Transaction(hash), r#"{"limit":10}"#).await.unwrap();

    assert!(refused.message.starts_with("the trace records more than 50 steps"), "{}", refused.message);
    assert_eq!(limited["structLogs"].as_array().map(Vec::len), Some(10));
}

/// A call that loops until its gas is used up.
fn looping_call(gas: u64) -> TraceTarget {
    const LOOP: &[u8] = &hex!("5b600056");
    call_of(LOOP, gas)
}

/// A call of some code.
fn call_of(code: &'static [u8], gas: u64) -> TraceTarget {
    let target = address!("00000000000000000000000000000000c0de0001");
    let code = AccountOverride { code: Some(Bytes::from_static(code)), ..AccountOverride::default() };
    TraceTarget::Call {
        request: Box::new(CallRequest { to: Some(target), gas: Some(gas), ..CallRequest::default() }),
        block: BlockId::LATEST,
        transaction_index: None,
        state_overrides: vec![(target, code)],
        block_overrides: Box::default(),
    }
}

#[tokio::test]
async fn recordings_share_their_memory_and_release_it() {
    let node = TestNode::with_conformance_chain(1);
    // Memory for one small trace at a time, with its text.
    let _served = node.serve(CallLimits { trace_bytes: 2 << 20, ..LIMITS });

    for _ in 0..3 {
        let refused = trace(&node, looping_call(1_000_000), "{}").await.unwrap_err();
        let result = trace(&node, looping_call(25_000), "{}").await.unwrap();

        assert!(refused.message.contains("more memory than is left for traces"), "{}", refused.message);
        assert_eq!(result["failed"], Value::from(true));
    }
}

#[tokio::test]
async fn a_running_trace_that_cannot_grow_within_its_clients_share_is_refused() {
    let node = TestNode::with_conformance_chain(54);
    let memory = MemoryBudget::new(MemoryLimits { total: 64 << 20, client: 4 << 20 });
    let limits = CallLimits { call_gas_cap: 0, ..LIMITS };
    let _served = node.serve(CallResources { memory: memory.clone(), ..resources(limits) });

    let small = trace(&node, looping_call(25_000), "{}").await;
    for options in ["{}", r#"{"tracer":"callTracer"}"#] {
        // JUMPDEST, CALL(gas 0, address 0x11, value 0, one megabyte of input, no output), POP, JUMP to 0.
        const HUNGRY: &[u8] = &hex!("5b5f5f620fffff5f5f60115ff1505f56");
        let refused = trace(&node, call_of(HUNGRY, 1 << 40), options).await.unwrap_err();

        assert_eq!(refused.code, FailureCode::LIMIT_EXCEEDED, "{options}: {refused}");
        assert!(refused.message.contains("more memory than is left for traces"), "{options}: {refused}");
    }

    assert!(small.is_ok(), "{small:?}");
    let usage = memory.usage();
    assert_eq!(usage.held, [0; MemoryUse::ALL.len()], "all is given back");
    assert_eq!(usage.refused[MemoryUse::Traces as usize], 2);
}

#[tokio::test]
async fn the_deepest_call_tree_can_be_traced() {
    let (node, _served) = TestNode::serving(54, CallLimits { call_gas_cap: 0, ..LIMITS });
    // Calls itself with all gas until the depth limit of 1024 ends it.
    const RECURSION: &[u8] = &hex!("5f5f5f5f5f305af1");

    for tracer in ["callTracer", "flatCallTracer", "prestateTracer", "4byteTracer"] {
        let options = format!("{{\"tracer\":\"{tracer}\"}}");
        let options = trace_options(&options, Profile::Ethereum).unwrap();
        let result = node.ask(Trace { target: call_of(RECURSION, 1 << 40), options }).await.or_failure();

        assert!(result.is_ok(), "{tracer}: {result:?}");
    }
}

#[tokio::test]
async fn calls_with_large_inputs_cannot_fill_the_memory() {
    let node = TestNode::with_conformance_chain(54);
    let limits = CallLimits { call_gas_cap: 0, trace_bytes: 16 << 20, ..LIMITS };
    let _served = node.serve(limits);
    // JUMPDEST, CALL(gas 0, address 0x11, value 0, one megabyte of input, no output), POP, JUMP to 0.
    const HUNGRY: &[u8] = &hex!("5b5f5f620fffff5f5f60115ff1505f56");

    let refused = trace(&node, call_of(HUNGRY, 1 << 40), r#"{"tracer":"callTracer"}"#).await.unwrap_err();

    assert!(refused.message.contains("more memory than is left for traces"), "{}", refused.message);
}

#[tokio::test]
async fn an_endless_trace_ends_at_its_callers_timeout() {
    let (node, _served) = TestNode::serving(1, CallLimits { call_gas_cap: 0, ..LIMITS });

    let stopped =
        trace(&node, looping_call(u64::MAX), r#"{"tracer":"callTracer","timeout":"50ms"}"#).await.unwrap_err();

    assert_eq!(stopped.message, "execution timeout");
}

#[tokio::test]
async fn untraceable_requests_have_an_error() {
    let (node, _served) = TestNode::serving(2, LIMITS);
    let cases = [
        (TraceTarget::Block(BlockId::number(0)), "{}", "genesis is not traceable"),
        (TraceTarget::Block(BlockId::number(9)), "{}", "block #9 not found"),
        (TraceTarget::Transaction(B256::ZERO), "{}", "transaction not found"),
        (TraceTarget::Block(BlockId::number(1)), r#"{"timeout":"10"}"#, "time: missing unit in duration \"10\""),
        (TraceTarget::Block(BlockId::number(1)), r#"{"tracer":"noSuch"}"#, "tracer \"noSuch\" is not available"),
    ];
    for (target, options, expected) in cases {
        let failure = trace(&node, target, options).await.unwrap_err();

        assert!(failure.message.starts_with(expected), "{}", failure.message);
    }
}

#[tokio::test]
async fn a_failed_call_has_go_ethereums_error_text() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    let cases: [(&[u8], &str); 6] = [
        (&hex!("1f"), "invalid opcode: opcode 0x1f not defined"),
        (&hex!("fe"), "invalid opcode: INVALID"),
        (&hex!("01"), "stack underflow (0 <=> 2)"),
        (&hex!("5f56"), "invalid jump destination"),
        (&hex!("5b5f5f56"), "stack limit reached 1024 (1023)"),
        (&hex!("5f600160401b53"), "gas uint64 overflow"),
    ];
    for (code, expected) in cases {
        let result = trace(&node, call_of(code, 100_000), r#"{"tracer":"callTracer"}"#).await.unwrap();

        assert_eq!(result["error"], Value::from(expected), "{}", hex::encode(code));
    }
}

#[tokio::test]
async fn an_error_text_is_attached_to_the_call_that_failed() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    // Creates a contract that destroys itself in its first code, then one whose first code adds on an empty stack.
    // PUSH2 30ff, PUSH0, MSTORE, CREATE(0, 30, 2), POP, MSTORE8(0, 1), CREATE(0, 0, 1), STOP.
    const TWO_CREATIONS: &[u8] = &hex!("6130ff5f526002601e5ff05060015f5360015f5ff000");

    let result = trace(&node, call_of(TWO_CREATIONS, 1_000_000), r#"{"tracer":"callTracer"}"#).await.unwrap();

    let calls = result["calls"].as_array().unwrap();
    assert_eq!(calls[0]["calls"][0]["type"], Value::from("SELFDESTRUCT"));
    assert_eq!((calls[0]["error"].is_null(), &result["error"]), (true, &Value::Null));
    assert_eq!(calls[1]["error"], Value::from("stack underflow (0 <=> 2)"));
}

#[tokio::test]
async fn a_contract_that_sends_itself_its_balance_when_it_destroys_itself_is_named() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    // SELFDESTRUCT to its own ADDRESS.
    let mut target = call_of(&hex!("30ff"), 100_000);
    let TraceTarget::Call { state_overrides, .. } = &mut target else { unreachable!() };
    state_overrides[0].1.balance = Some(U256::from(0x300));

    let result = trace(&node, target, r#"{"tracer":"callTracer"}"#).await.unwrap();

    let destruction = &result["calls"][0];
    let contract = Value::from("0x00000000000000000000000000000000c0de0001");
    assert_eq!((&destruction["type"], &destruction["value"]), (&Value::from("SELFDESTRUCT"), &Value::from("0x300")));
    assert_eq!((&destruction["from"], &destruction["to"]), (&contract, &contract));
}

#[tokio::test]
async fn a_failed_destruction_is_not_listed() {
    let (node, _served) = TestNode::serving(54, LIMITS);

    // Gas for all but the instruction itself.
    let result = trace(&node, call_of(&hex!("30ff"), 21_100), r#"{"tracer":"callTracer"}"#).await.unwrap();

    assert_eq!((&result["error"], &result["calls"]), (&Value::from("out of gas"), &Value::Null));
}

#[tokio::test]
async fn accounts_that_did_not_exist_are_not_in_the_prestate() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    let receiver = address!("00000000000000000000000000000000c0de0002");
    let sender = address!("00000000000000000000000000000000c0de0003");
    let rich = AccountOverride { balance: Some(U256::from(1000)), ..AccountOverride::default() };
    let target = TraceTarget::Call {
        request: Box::new(CallRequest {
            from: Some(sender),
            to: Some(receiver),
            value: Some(U256::from(7)),
            ..CallRequest::default()
        }),
        block: BlockId::LATEST,
        transaction_index: None,
        state_overrides: vec![(sender, rich)],
        block_overrides: Box::default(),
    };

    let options = r#"{"tracer":"prestateTracer","tracerConfig":{"diffMode":true}}"#;
    let result = trace(&node, target, options).await.unwrap();

    assert_eq!(result["post"][receiver.to_string().to_lowercase()]["balance"], Value::from("0x7"), "{result}");
    assert_eq!(result["pre"][sender.to_string().to_lowercase()]["balance"], Value::from("0x3e8"));
    assert!(result["pre"].get(receiver.to_string().to_lowercase()).is_none(), "{result}");
}

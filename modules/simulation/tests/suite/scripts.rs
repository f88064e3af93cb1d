//! Tracers written in JavaScript, on both profiles.

use alloy_primitives::{U256, address, hex};
use serde_json::{Value, json};
use tenon_api::{
    BlockId, TransactionPayload,
    messages::{AccountOverride, CallRequest, Profile, Trace, TraceTarget},
};
use tenon_bus::{MemoryBudget, MemoryLimits, MemoryUse};
use tenon_chain::recover_authorities;
use tenon_sdk::{Failure, FailureCode, error_texts::RefusableAnswer as _, shapes::trace_options};
use tenon_simulation::{CallLimits, CallResources};
use tenon_test_node::{LIMITS, TestNode, conformance_blocks, json_of_trace, resources};

async fn trace(node: &TestNode, target: TraceTarget, script: &str) -> Result<Value, Failure> {
    trace_with(node, target, json!({ "tracer": script })).await
}

async fn trace_with(node: &TestNode, target: TraceTarget, options: Value) -> Result<Value, Failure> {
    let options = trace_options(&options.to_string(), Profile::Ethereum)?;
    let reply = node.ask(Trace { target, options }).await.or_failure()?;
    Ok(json_of_trace(reply))
}

/// A call to code that an override installs.
fn call_of(code: &'static [u8], gas: u64) -> TraceTarget {
    let contract = address!("000000000000000000000000000000000000c0de");
    let request = CallRequest { to: Some(contract), gas: Some(gas), ..CallRequest::default() };
    let code = AccountOverride { code: Some(code.into()), ..AccountOverride::default() };
    TraceTarget::Call {
        request: Box::new(request),
        block: BlockId::LATEST,
        transaction_index: None,
        state_overrides: vec![(contract, code)],
        block_overrides: Box::default(),
    }
}

/// Produces the struct logger's output from what a script sees.
const STRUCT_LOGS: &str = "{logs: [], \
    step: function(log, db) { \
        var stack = []; \
        for (var i = log.stack.length() - 1; i >= 0; i--) stack.push('0x' + log.stack.peek(i).toString(16)); \
        this.logs.push({pc: log.getPC(), op: log.op.toString(), gas: log.getGas(), gasCost: log.getCost(), \
            depth: log.getDepth(), stack: stack, memory: toHex(log.memory.slice(0, log.memory.length())), \
            refund: log.getRefund()}); \
    }, \
    fault: function(log) { this.fault_ = log.getError(); }, \
    result: function(ctx) { return {gas: ctx.gasUsed, structLogs: this.logs}; }}";

/// Every step of every transaction of the public suite's chain, compared with the struct logger, which records from the
/// EVM itself.
#[tokio::test]
async fn a_script_sees_what_the_struct_logger_records() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    let mut steps = 0;
    for block in conformance_blocks() {
        let target = || TraceTarget::Block(BlockId::number(block.header.number));
        let seen = trace(&node, target(), STRUCT_LOGS).await.unwrap();
        let recorded = trace_with(&node, target(), json!({ "enableMemory": true })).await.unwrap();

        for (seen, recorded) in seen.as_array().unwrap().iter().zip(recorded.as_array().unwrap()) {
            assert_eq!(seen["txHash"], recorded["txHash"]);
            let (seen, recorded) = (&seen["result"], &recorded["result"]);
            assert_eq!(seen["gas"], recorded["gas"], "{seen}");
            let (seen, recorded) = (seen["structLogs"].as_array().unwrap(), recorded["structLogs"].as_array().unwrap());
            assert_eq!(seen.len(), recorded.len());
            for (seen, recorded) in seen.iter().zip(recorded) {
                steps += 1;
                for name in ["pc", "op", "gas", "gasCost", "depth", "stack"] {
                    // The struct logger of these chains shows no gas cost for an instruction that was not paid for.
                    if name == "gasCost" && recorded["error"].as_str().is_some_and(|error| error.contains("OutOfGas")) {
                        continue;
                    }
                    assert_eq!(seen[name], recorded[name], "{name} at {recorded} in block {}", block.header.number);
                }
                let memory: String = recorded["memory"].as_array().into_iter().flatten().map(word).collect();
                assert_eq!(seen["memory"], json!(format!("0x{memory}")), "{recorded}");
                assert_eq!(seen["refund"].as_u64().unwrap(), recorded["refund"].as_u64().unwrap_or_default());
            }
        }
    }
    assert!(steps > 1000, "{steps} steps");
}

fn word(word: &Value) -> String {
    word.as_str().unwrap().trim_start_matches("0x").to_owned()
}

// PUSH1 7, PUSH0, SSTORE; PUSH0, SLOAD, POP; PUSH1 9, PUSH0, SSTORE; STOP.
const STORING: &[u8] = &hex!("60075f555f545060095f5500");

#[tokio::test]
async fn a_script_reads_the_state_of_its_step() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    let script = "{seen: [], step: function(log, db) { \
        var slot = db.getState(log.contract.getAddress(), toWord('0x00')); \
        this.seen.push(log.op.toString() + ' ' + slot[31]); }, fault: function() {}, \
        result: function(ctx, db) { return this.seen.concat(db.getState(ctx.to, toWord('0x00'))[31]); }}";

    let seen = trace(&node, call_of(STORING, 100_000), script).await.unwrap();

    let expected =
        ["PUSH1 0", "PUSH0 0", "SSTORE 0", "PUSH0 7", "SLOAD 7", "POP 7", "PUSH1 7", "PUSH0 7", "SSTORE 7", "STOP 9"];
    let mut expected: Vec<Value> = expected.iter().map(|text| json!(text)).collect();
    expected.push(json!(9));
    assert_eq!(seen, Value::from(expected));
}

#[tokio::test]
async fn faults_and_refused_instructions_have_their_error_texts() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    let script = "{seen: [], step: function(log) { if (log.getError() !== undefined) this.seen.push(['step', log.op.toString(), log.getCost(), log.getError()]); }, \
        fault: function(log) { this.seen.push(['fault', log.op.toString(), log.getError()]); }, \
        result: function(ctx) { return [this.seen, ctx.error]; }}";
    let cases: [(&'static [u8], u64, Value); 7] = [
        (&hex!("5f5ffd"), 100_000, json!([[["fault", "REVERT", "execution reverted"]], "execution reverted"])),
        (&hex!("5f56"), 100_000, json!([[["fault", "JUMP", "invalid jump destination"]], "invalid jump destination"])),
        (&hex!("50"), 100_000, json!([[["step", "POP", 2, "stack underflow (0 <=> 1)"]], "stack underflow (0 <=> 1)"])),
        (&hex!("fe"), 100_000, json!([[["fault", "INVALID", "invalid opcode: INVALID"]], "invalid opcode: INVALID"])),
        (&hex!("60075f55"), 25_000, json!([[["step", "SSTORE", 22_100, "out of gas"]], "out of gas"])),
        // With less gas than any SSTORE needs, it has no cost.
        (&hex!("60075f55"), 23_000, json!([[["step", "SSTORE", 0, "out of gas"]], "out of gas"])),
        (&hex!("5f5f5fa0"), 21_010, json!([[["step", "LOG0", 375, "out of gas"]], "out of gas"])),
    ];
    for (code, gas, expected) in cases {
        let seen = trace(&node, call_of(code, gas), script).await.unwrap();
        assert_eq!(seen, expected, "{}", hex::encode(code));
    }
}

#[tokio::test]
async fn a_failing_script_fails_only_its_transaction_and_not_the_later_ones() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    let blocks = conformance_blocks();
    let block = blocks.iter().max_by_key(|block| block.transactions.len()).unwrap();
    let target = || TraceTarget::Block(BlockId::number(block.header.number));
    let script = "{fault: function() {}, result: function(ctx) { if (ctx.txIndex == 0) throw new Error('not this'); return [ctx.txIndex, ctx.block, toHex(ctx.txHash), ctx.gasUsed]; }}";

    let traces = trace(&node, target(), script).await.unwrap();

    let calls = trace(&node, target(), "callTracer").await.unwrap();
    let traces = traces.as_array().unwrap();
    assert!(traces.len() > 1);
    assert_eq!(traces[0]["error"], json!("Error: not this    in server-side tracer function 'result'"));
    for (index, (seen, call)) in traces.iter().zip(calls.as_array().unwrap()).enumerate().skip(1) {
        let gas: U256 = call["result"]["gasUsed"].as_str().unwrap().parse().unwrap();
        let expected = json!([index, block.header.number, call["txHash"], gas.to::<u64>()]);
        assert_eq!(seen["result"], expected);
    }
    let compiled = trace(&node, target(), "{}").await.unwrap();
    let missing = json!("trace object must expose a function result()");
    assert!(compiled.as_array().unwrap().iter().all(|entry| entry["error"] == missing), "{compiled}");
}

#[tokio::test]
async fn a_script_gets_its_configuration_and_the_time_that_the_caller_names() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    let configured = "{setup: function(c) { this.c = JSON.parse(c).a; }, fault: function() {}, result: function() { return this.c; }}";
    let options = json!({ "tracer": configured, "tracerConfig": { "a": [1] } });
    assert_eq!(trace_with(&node, call_of(STORING, 100_000), options).await.unwrap(), json!([1]));

    for script in [
        "{fault: function() {}, result: function() { for (;;) {} }}",
        "{step: function() { for (;;) {} }, fault: function() {}, result: function() {}}",
    ] {
        let options = json!({ "tracer": script, "timeout": "50ms" });
        let refused = trace_with(&node, call_of(STORING, 100_000), options).await.unwrap_err();
        assert_eq!(refused.message, "execution timeout", "{script}");
    }
}

#[tokio::test]
async fn the_memory_of_a_script_is_charged_to_its_client_and_given_back() {
    let node = TestNode::with_conformance_chain(54);
    let memory = MemoryBudget::new(MemoryLimits { total: 1 << 30, client: 80 << 20 });
    let scripts = resources(LIMITS).scripts;
    // Less memory than a process needs: only the client's share limits scripts.
    let limits = CallLimits { trace_bytes: 16 << 20, ..LIMITS };
    let _served = node.serve(CallResources { limits, memory: memory.clone(), scripts: scripts.clone() });
    let script = "{fault: function() {}, result: function() { return 1; }}";

    let refused = trace(&node, call_of(STORING, 100_000), script).await.unwrap_err();

    assert_eq!(refused.code, FailureCode::LIMIT_EXCEEDED);
    assert!(
        refused.message.starts_with("there is no memory left for a script, which needs 100663296 bytes"),
        "{refused}"
    );
    let enough = TestNode::with_conformance_chain(54);
    let memory = MemoryBudget::new(MemoryLimits { total: 1 << 30, client: 120 << 20 });
    let _served = enough.serve(CallResources { limits, memory: memory.clone(), scripts });
    assert_eq!(trace(&enough, call_of(STORING, 100_000), script).await.unwrap(), json!(1));
    assert_eq!(memory.usage().held, [0; MemoryUse::ALL.len()], "all is given back");
}

/// EIP-7702: go-ethereum adds the refund of an authorization whose authority exists before the first instruction.
#[tokio::test]
async fn the_refund_counter_begins_with_that_of_authorizations() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    let signed = conformance_blocks().into_iter().flat_map(|block| block.transactions).find_map(|transaction| {
        let TransactionPayload::SetCode { authorization_list, .. } = &transaction.payload else { return None };
        authorization_list.first().cloned()
    });
    let signed = signed.unwrap();
    let authority = *recover_authorities(std::slice::from_ref(&signed))[0].as_ref().unwrap();
    let counters = "{seen: [], step: function(log) { this.seen.push(log.getRefund()); }, fault: function() {}, \
        result: function() { return this.seen; }}";
    let first_of = async |times: usize, nonce: u64| {
        let mut target = call_of(STORING, 200_000);
        let TraceTarget::Call { request, state_overrides, .. } = &mut target else { panic!("not a call") };
        request.authorization_list = Some(vec![signed.clone(); times]);
        state_overrides.push((authority, AccountOverride { nonce: Some(nonce), ..AccountOverride::default() }));
        trace(&node, target, counters).await.unwrap()[0].clone()
    };

    assert_eq!(first_of(1, signed.nonce).await, 12_500);
    // The second one has the nonce of the first.
    assert_eq!(first_of(2, signed.nonce).await, 12_500);
    assert_eq!(first_of(1, signed.nonce + 1).await, 0);
}

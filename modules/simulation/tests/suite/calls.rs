//! Calls, estimates, access lists and fees compared with the recorded answers of the public suite.

use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U256, address, hex};
use serde_json::Value;
use tenon_api::{
    BlockId, Request, codec,
    messages::{
        AccountOverride, BlockOverrides, Call, CallRequest, CreateAccessList, EstimateGas, GetFeeHistory,
        GetNextBlockFees, Profile, SuggestTip, Trace, TraceTarget,
    },
};
use tenon_bus::{CallContext, MemoryBudget, MemoryLimits};
use tenon_chain::Genesis;
use tenon_sdk::{Failure, FailureCode};
use tenon_sdk::{error_texts::RefusableAnswer as _, shapes::trace_options};
use tenon_simulation::{CallLimits, CallResources};
use tenon_test_node::{LIMITS, RecordedCase, TestNode, call_request, recorded_cases, resources, test_data};

fn call(request: CallRequest) -> Call {
    Call { request, block: BlockId::LATEST, state_overrides: vec![], block_overrides: BlockOverrides::default() }
}

fn estimate(request: CallRequest) -> EstimateGas {
    EstimateGas {
        request,
        block: BlockId::LATEST,
        state_overrides: vec![],
        block_overrides: BlockOverrides::default(),
        has_no_data: false,
    }
}

fn assert_recorded(case: &RecordedCase, outcome: Result<Value, Failure>) {
    match outcome {
        Ok(result) => assert_eq!(result, case.answer["result"], "{}", case.name),
        Err(failure) => {
            let error = &case.answer["error"];
            assert_eq!(Value::from(failure.code.0), error["code"], "{}: {failure}", case.name);
            assert_eq!(Value::from(failure.message), error["message"], "{}", case.name);
            let data = failure.data.map(|data| serde_json::from_str::<Value>(&data).unwrap());
            assert_eq!(data.unwrap_or_default(), error["data"], "{}", case.name);
        }
    }
}

#[tokio::test]
async fn calls_equal_the_recorded_answers() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    for case in recorded_cases("eth_call/") {
        let outcome = node.ask(call(call_request(&case.params[0]))).await.or_failure();
        assert_recorded(&case, outcome.map(|output| Value::from(output.to_string())));
    }
}

/// The results of the attempt on the caller's task, and of the pool.
async fn attempt_and_pool_answers<R: Request>(
    node: &TestNode,
    request: &R,
) -> (Option<Result<R::Reply, Failure>>, Result<R::Reply, Failure>) {
    let context = CallContext::new();
    let frame = codec::encode(request).unwrap();
    let decoded = |answer: Vec<u8>| codec::decode::<R::Reply>(&answer).unwrap();
    let tried = node.bus.try_read_frame(R::TOPIC, R::SCHEMA, &frame, &context);
    let worked = node.bus.call_frame(R::TOPIC, R::SCHEMA, &frame, &context).await;
    (tried.map(|answer| Ok(decoded(answer?))), worked.map(decoded).map_err(Failure::from))
}

fn access_list(request: CallRequest) -> CreateAccessList {
    CreateAccessList { request, block: BlockId::LATEST, state_overrides: vec![] }
}

fn trace(request: CallRequest, options: &str) -> Trace {
    let target = TraceTarget::Call {
        request: Box::new(request),
        block: BlockId::LATEST,
        transaction_index: None,
        state_overrides: vec![],
        block_overrides: Box::default(),
    };
    Trace { target, options: trace_options(options, Profile::Ethereum).unwrap() }
}

const CALL_TRACER: &str = r#"{"tracer":"callTracer"}"#;

/// Number of requests that were answered by an attempt, each with the same answer as the pool's. Stops after the first
/// round in which an attempt succeeded: each attempt may give up because of a context switch, and the pool then records
/// that the call was short.
async fn answered_at_once<R: Request>(node: &TestNode, make: impl Fn(CallRequest) -> R) -> usize
where
    R::Reply: PartialEq + std::fmt::Debug,
{
    for _ in 0..100 {
        let mut answered = 0;
        for case in recorded_cases("eth_call/") {
            let (tried, worked) = attempt_and_pool_answers(node, &make(call_request(&case.params[0]))).await;
            if let Some(tried) = tried {
                assert_eq!(tried, worked, "{}", case.name);
                answered += 1;
            }
        }
        if answered > 0 {
            return answered;
        }
    }
    0
}

#[tokio::test]
async fn an_attempt_answers_like_the_pool_or_gives_up() {
    let node = TestNode::with_conformance_chain(54);
    // Debug builds on busy machines take longer than a release may.
    let _served = node.serve(CallLimits { attempt_time: Duration::from_secs(1), ..LIMITS });

    assert!(answered_at_once(&node, call).await > 0);
    assert!(answered_at_once(&node, estimate).await > 0);
    assert!(answered_at_once(&node, access_list).await > 0);
    assert!(answered_at_once(&node, |request| trace(request, CALL_TRACER)).await > 0);
}

#[tokio::test]
async fn traces_of_steps_are_not_attempted() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    for options in ["{}", r#"{"tracer":"prestateTracer"}"#, r#"{"tracer":"{step(){},fault(){},result(){}}"}"#] {
        for case in recorded_cases("eth_call/") {
            let (tried, _) = attempt_and_pool_answers(&node, &trace(call_request(&case.params[0]), options)).await;
            assert!(tried.is_none(), "{options}: {}", case.name);
        }
    }
}

#[tokio::test]
async fn long_calls_go_to_the_pool() {
    let mut genesis: Value = serde_json::from_slice(&test_data("chain/conformance-genesis.json.gz")).unwrap();
    let long = [
        ("0x5b600056", "a loop"),
        ("0x600060006120006000600060026161a8f100", "a precompiled contract with much to do"),
        ("0x6210000060002000", "the hash of a megabyte"),
        ("0x621000006000600037", "a copy of a megabyte"),
        ("0x6210000060006000f0", "a creation from a megabyte"),
        ("0x50", "a failure whose words want a second run"),
    ];
    let contract = |index: usize| Address::with_last_byte(0xc0 + u8::try_from(index).unwrap());
    for (index, (code, _)) in long.iter().enumerate() {
        genesis["alloc"][contract(index).to_string()] = serde_json::json!({ "balance": "0x0", "code": code });
    }
    let node = TestNode::new(&Genesis::from_json(&serde_json::to_vec(&genesis).unwrap()).unwrap());
    let limits = CallLimits { call_timeout: Duration::from_millis(50), ..LIMITS };
    let _served = node.serve(limits);

    for (index, (_, what)) in long.iter().enumerate() {
        let request = CallRequest { to: Some(contract(index)), gas: Some(30_000_000), ..CallRequest::default() };
        let (tried, worked) = attempt_and_pool_answers(&node, &call(request.clone())).await;
        assert_eq!(tried, None, "{what}");
        assert_eq!(node.ask(call(request.clone())).await, worked, "{what}");
        assert_eq!(attempt_and_pool_answers(&node, &estimate(request.clone())).await.0, None, "an estimate: {what}");
        assert_eq!(attempt_and_pool_answers(&node, &access_list(request.clone())).await.0, None, "a list: {what}");
        if !what.starts_with("a failure") {
            assert_eq!(attempt_and_pool_answers(&node, &trace(request, CALL_TRACER)).await.0, None, "a trace: {what}");
        }
    }
}

#[tokio::test]
async fn estimates_equal_the_recorded_answers() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    for case in recorded_cases("eth_estimateGas/") {
        let outcome = node.ask(estimate(call_request(&case.params[0]))).await.or_failure();
        assert_recorded(&case, outcome.map(|gas| Value::from(format!("{gas:#x}"))));
    }
}

#[tokio::test]
async fn access_lists_equal_the_recorded_answers() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    for case in recorded_cases("eth_createAccessList/") {
        let request = call_request(&case.params[0]);
        let reply = node
            .ask(CreateAccessList { request, block: BlockId::LATEST, state_overrides: vec![] })
            .await
            .or_failure()
            .unwrap();
        let recorded = &case.answer["result"];
        assert_eq!(Value::from(format!("{:#x}", reply.gas_used)), recorded["gasUsed"], "{}", case.name);
        let list: Vec<Value> = reply
            .access_list
            .iter()
            .map(|item| serde_json::json!({ "address": item.address, "storageKeys": item.storage_keys }))
            .collect();
        let lower = |value: &Value| value.to_string().to_lowercase();
        assert_eq!(lower(&Value::from(list)), lower(&recorded["accessList"]), "{}", case.name);
    }
}

#[tokio::test]
async fn the_fee_history_of_the_first_london_block_is_as_recorded() {
    let (node, _served) = TestNode::serving(54, LIMITS);

    let history =
        node.ask(GetFeeHistory { block_count: 1, newest: BlockId::number(27), percentiles: vec![95.0, 99.0] }).await;

    let history = history.or_failure().unwrap();
    assert_eq!(history.oldest.0, 27);
    assert_eq!(history.reward, Some(vec![vec![U256::from(1), U256::from(1)]]));
    assert_eq!(history.base_fee_per_gas, [U256::from(0x3b9a_ca00_u64), U256::from(0x342a_385a_u64)]);
    assert_eq!(history.gas_used_ratio, [0.000_728_68]);
    assert_eq!(history.base_fee_per_blob_gas, [U256::ZERO, U256::ZERO]);
    assert_eq!(history.blob_gas_used_ratio, [0.0]);
}

#[tokio::test]
async fn fees_of_the_next_block_follow_the_head() {
    let (node, _served) = TestNode::serving(54, LIMITS);

    let fees = node.ask(GetNextBlockFees).await.unwrap();
    let tip = node.ask(SuggestTip).await.unwrap();

    assert_eq!(fees.blob_base_fee, Some(U256::from(1)));
    assert!(fees.base_fee_per_gas.is_some());
    assert!(tip > U256::ZERO);
}

#[tokio::test]
async fn the_suggested_tip_is_at_least_the_pools_minimum() {
    let node = TestNode::with_conformance_chain(54);
    let min_tip = U256::from(7_000_000_000_u64);
    let _served = node.serve(CallLimits { min_tip, ..LIMITS });

    assert_eq!(node.ask(SuggestTip).await.unwrap(), min_tip);
}

#[tokio::test]
async fn a_fee_history_beyond_the_head_is_refused() {
    let (node, _served) = TestNode::serving(3, LIMITS);

    let refused = node.ask(GetFeeHistory { block_count: 1, newest: BlockId::number(9), percentiles: vec![] }).await;

    assert_eq!(refused.unwrap_err().message, "request beyond head block: requested 9, head 3");
}

#[tokio::test]
async fn refused_percentiles_of_a_fee_history_have_the_text_of_clients() {
    let (node, _served) = TestNode::serving(3, LIMITS);

    let refused = node.ask(GetFeeHistory { block_count: 1, newest: BlockId::LATEST, percentiles: vec![50.0, 20.0] });

    let text = "invalid reward percentile: #0:50.000000 >= #1:20.000000";
    assert_eq!(refused.await.or_failure().unwrap_err(), Failure::server(text));
}

#[tokio::test]
async fn an_overridden_time_selects_its_forks_rules() {
    let (node, _served) = TestNode::serving(36, LIMITS);
    // PUSH0 (Shanghai, time 390) ... return one zero word.
    let mut push0 = with_code(&hex!("5f5f5260205ff3"));

    let before = node.ask(push0.clone()).await.or_failure().unwrap_err();
    push0.block_overrides.time = Some(390);
    let in_shanghai = node.ask(push0.clone()).await.or_failure().unwrap();
    push0.block_overrides.time = Some(600);
    let in_osaka = node.ask(push0).await.or_failure().unwrap();

    assert!(before.message.starts_with("invalid opcode"), "{}", before.message);
    assert_eq!((in_shanghai, in_osaka), (Bytes::from([0; 32]), Bytes::from([0; 32])));
}

/// Code that an override installs at an unused address.
fn with_code(code: &[u8]) -> Call {
    let target = address!("00000000000000000000000000000000c0de0001");
    let request = CallRequest { to: Some(target), ..CallRequest::default() };
    let code = AccountOverride { code: Some(Bytes::copy_from_slice(code)), ..AccountOverride::default() };
    Call { state_overrides: vec![(target, code)], ..call(request) }
}

/// JUMPDEST, PUSH1 0, JUMP: runs until it is stopped.
const ENDLESS: &[u8] = &hex!("5b600056");

#[tokio::test]
async fn an_endless_call_ends_with_its_gas_or_its_time() {
    let hurried = TestNode::with_conformance_chain(1);
    let limits = CallLimits { call_gas_cap: 0, call_timeout: Duration::from_millis(50), ..LIMITS };
    let _hurried = hurried.serve(limits);
    // A time limit so long that even a busy machine uses up the gas first.
    let unhurried = TestNode::with_conformance_chain(1);
    let _patient = unhurried.serve(CallLimits { call_timeout: Duration::from_secs(3600), ..limits });

    let timed_out = hurried.ask(with_code(ENDLESS)).await.or_failure().unwrap_err();
    let mut small = with_code(ENDLESS);
    small.request.gas = Some(100_000);
    let out_of_gas = unhurried.ask(small).await.or_failure().unwrap_err();

    assert_eq!(timed_out.message, "execution aborted (timeout = 50ms)");
    assert_eq!((out_of_gas.code, out_of_gas.message.as_str()), (FailureCode::SERVER, "out of gas"));
}

#[tokio::test]
async fn a_call_stops_when_its_caller_is_gone() {
    let node = TestNode::with_conformance_chain(1);
    let limits = CallLimits { call_gas_cap: 0, call_timeout: Duration::from_secs(3600), ..LIMITS };
    let _served = node.serve(limits);
    // The pool has a free thread, so the job begins, and only its own check of the caller can end it.
    let caller = CallContext::with_timeout(Duration::from_millis(100));

    let stopped = node.bus.call(with_code(ENDLESS), &caller).await.unwrap_err();

    assert_eq!(stopped.to_string(), "request timed out");
}

#[tokio::test]
async fn overrides_of_block_storage_and_precompiles_are_seen() {
    let (node, _served) = TestNode::serving(54, LIMITS);

    // NUMBER, TIMESTAMP, SLOAD(1) in three words.
    let mut probe = with_code(&hex!("435f52426020526001545f5460405260606000f3"));
    probe.block_overrides = BlockOverrides { number: Some(U256::from(777)), ..BlockOverrides::default() };
    probe.state_overrides[0].1.state = Some(vec![(B256::ZERO, B256::with_last_byte(9))]);
    let output = node.ask(probe).await.or_failure().unwrap();

    assert_eq!(U256::from_be_slice(&output[..32]), U256::from(777));
    assert_eq!(output[95], 9);

    // The identity contract (4), moved elsewhere.
    let elsewhere = address!("00000000000000000000000000000000c0de0002");
    let identity = Address::with_last_byte(4);
    let moved = AccountOverride { move_precompile_to: Some(elsewhere), ..AccountOverride::default() };
    let input = Bytes::from_static(b"hello");
    let mut request = call(CallRequest { to: Some(elsewhere), input: input.clone(), ..CallRequest::default() });
    request.state_overrides = vec![(identity, moved)];
    let at_new_place = node.ask(request.clone()).await.or_failure().unwrap();
    request.request.to = Some(identity);
    let at_old_place = node.ask(request).await.or_failure().unwrap();

    assert_eq!((at_new_place, at_old_place), (input, Bytes::new()));
}

#[tokio::test]
async fn contradictory_members_are_refused_with_the_usual_texts() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    let price = Some(U256::from(1));
    let cases = [
        (
            CallRequest { gas_price: price, max_fee_per_gas: price, ..CallRequest::default() },
            "both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified",
        ),
        (
            CallRequest { chain_id: Some(5), ..CallRequest::default() },
            "chainId does not match node's (have=5, want=3503995874084926)",
        ),
        (
            CallRequest { to: Some(Address::ZERO), gas: Some(20_000), ..CallRequest::default() },
            "err: intrinsic gas too low: have 20000, want 21000 (supplied gas 20000)",
        ),
        (
            CallRequest { to: Some(Address::ZERO), gas: Some(21_000), gas_price: price, ..CallRequest::default() },
            "err: max fee per gas less than block base fee: address 0x0000000000000000000000000000000000000000, \
             maxFeePerGas: 1, baseFee:",
        ),
    ];
    for (request, expected) in cases {
        let failure = node.ask(call(request)).await.or_failure().unwrap_err();

        assert!(failure.message.starts_with(expected), "{}", failure.message);
    }
}

#[tokio::test]
async fn a_run_that_outgrows_its_client_s_memory_ends_and_gives_all_back() {
    let node = TestNode::with_conformance_chain(54);
    let memory = MemoryBudget::new(MemoryLimits { total: 64 << 20, client: 4 << 20 });
    let limits = CallLimits { call_gas_cap: 0, ..LIMITS };
    let _served = node.serve(CallResources { memory: memory.clone(), ..resources(limits) });
    let to = address!("0x00000000000000000000000000000000000000aa");
    let request = || CallRequest { to: Some(to), gas: Some(10_u64.pow(15)), ..CallRequest::default() };
    let with_code = |code: &[u8]| {
        let code = Some(Bytes::copy_from_slice(code));
        vec![(to, AccountOverride { code, ..AccountOverride::default() })]
    };
    let growing = [
        // PUSH0, JUMPDEST, TSTORE(i, i), i += 1, JUMP.
        with_code(&hex!("5f5b80805d600101600156")),
        // The same with SSTORE.
        with_code(&hex!("5f5b808055600101600156")),
        // The same with SLOAD.
        with_code(&hex!("5f5b805450600101600156")),
        // JUMPDEST, LOG0(0, 64 KiB), JUMP.
        with_code(&hex!("5b620100005fa05f56")),
        // MSTORE(2^24, 0): one instruction.
        with_code(&hex!("5f630100000052")),
        // RETURN(0, 2^30).
        with_code(&hex!("63400000005ff3")),
        // JUMPDEST, CALL of itself with all gas.
        with_code(&hex!("5b5f5f5f5f5f305af1505f56")),
        (0..40_000_u64)
            .map(|number| (Address::left_padding_from(&number.to_be_bytes()), AccountOverride::default()))
            .collect(),
    ];
    for overrides in growing {
        let asked = Call { state_overrides: overrides.clone(), ..call(request()) };

        let refused = node.ask(asked).await.or_failure().unwrap_err();

        assert_eq!(refused.code, FailureCode::LIMIT_EXCEEDED, "{}: {refused}", overrides.len());
        assert!(refused.message.contains("memory"), "{refused}");
        assert_eq!(memory.usage().held, MemoryBudget::unbounded().usage().held);
    }
    // MSTORE(2^40, 0), for which the call has too little gas: the instruction fails, and no memory is requested.
    let unpaid = Call { state_overrides: with_code(&hex!("5f6501000000000052")), ..call(request()) };
    assert_eq!(node.ask(unpaid).await.or_failure().unwrap_err().message, "out of gas");
    let small = Call { state_overrides: with_code(&hex!("5f5ff3")), ..call(request()) };
    assert_eq!(node.ask(small).await.or_failure(), Ok(Bytes::new()), "what is small goes on");
}

#[tokio::test]
async fn blobs_without_a_price_are_free_in_calls_and_estimates() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    let contract = address!("c200000000000000000000000000000000000000");
    // Returns BLOBBASEFEE.
    let code = Some(Bytes::from(hex!("4a5f5260205ff3")));
    let overrides = vec![(contract, AccountOverride { code, ..AccountOverride::default() })];
    // A versioned hash begins with 1.
    let mut hash = B256::ZERO;
    hash[0] = 1;
    // The sender has no balance.
    let request = |cap: Option<u64>| CallRequest {
        from: Some(Address::repeat_byte(0xcc)),
        to: Some(contract),
        blob_versioned_hashes: Some(vec![hash]),
        max_fee_per_blob_gas: cap.map(U256::from),
        ..CallRequest::default()
    };

    for cap in [None, Some(0)] {
        let asked = Call { state_overrides: overrides.clone(), ..call(request(cap)) };
        assert_eq!(node.ask(asked).await.or_failure().unwrap()[..], B256::ZERO[..], "{cap:?}");
        let asked = EstimateGas { state_overrides: overrides.clone(), ..estimate(request(cap)) };
        assert!(node.ask(asked).await.or_failure().is_ok(), "{cap:?}");
    }
    let asked = Call { state_overrides: overrides, ..call(request(Some(1))) };
    let refused = node.ask(asked).await.or_failure().unwrap_err();
    assert!(refused.message.contains("insufficient funds"), "{}", refused.message);
}

#[tokio::test]
async fn a_large_answer_is_charged_until_its_message_is_answered() {
    const MIB: usize = 1 << 20;
    let node = TestNode::with_conformance_chain(54);
    let memory = MemoryBudget::new(MemoryLimits { total: 64 * MIB, client: 7 * MIB });
    let _served = node.serve(CallResources { memory: memory.clone(), ..resources(LIMITS) });
    let contract = address!("000000000000000000000000000000000000c0de");
    // RETURN(0, 2^20), and the same as a REVERT.
    for code in [hex!("621000005ff3"), hex!("621000005ffd")] {
        let code = AccountOverride { code: Some(code.into()), ..AccountOverride::default() };
        let request = CallRequest { to: Some(contract), gas: Some(10_000_000), ..CallRequest::default() };
        let asked = Call { state_overrides: vec![(contract, code)], ..call(request) };
        let held = || memory.usage().held.iter().sum::<usize>();
        let (first, second) = (CallContext::new(), CallContext::new());

        let answered = node.bus.call(asked.clone(), &first).await;
        assert!(held() >= 4 * MIB, "{} for {answered:?}", held());
        let refused = node.bus.call(asked.clone(), &second).await.unwrap_err();
        assert_eq!(Failure::from(refused).code, FailureCode::LIMIT_EXCEEDED);

        drop((first, second));
        // The job's thread may still have a share of the message.
        while held() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

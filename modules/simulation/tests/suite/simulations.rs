//! Simulations of blocks: which effects of other transactions they see, which rules apply, and their limits. The public
//! suite's recorded cases are run by `tests/conformance`.

use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U256, address, hex};
use tenon_api::{
    BlockId, ChainReader,
    messages::{BlockOverrides, BlockToSimulate, CallRequest, Simulate, SimulatedBlock, SimulatedFailure},
};
use tenon_bus::{MemoryBudget, MemoryLimits};
use tenon_sdk::Failure;
use tenon_sdk::error_texts::RefusableAnswer as _;
use tenon_simulation::{CallLimits, CallResources};
use tenon_test_node::{
    LIMITS, TestNode, resources,
    simulations::{
        CONTRACT, POOR, RICH, account, block, calls, rich, simulation, to_contract, transfer, with_code, with_overrides,
    },
};

const COINS: Address = address!("eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee");

/// Returns the value of slot 0, and sets it to 0.
const TAKE: [u8; 11] = hex!("5f545f525f5f5560205ff3");
/// Returns the hash of the parent block.
const PARENT_HASH: [u8; 11] = hex!("60014303405f5260205ff3");
/// Loops until it is stopped.
const LOOP: [u8; 4] = hex!("5b5f5600");
/// Reverts with 64 KiB of output.
const REVERT_LARGE: [u8; 6] = hex!("620100005ffd");
/// Logs and reverts.
const LOG_AND_REVERT: [u8; 6] = hex!("5f5fa05f5ffd");

async fn simulate(node: &TestNode, blocks: Vec<BlockToSimulate>) -> Result<Vec<SimulatedBlock>, (i32, String)> {
    ask(node, simulation(blocks)).await
}

async fn ask(node: &TestNode, simulation: Simulate) -> Result<Vec<SimulatedBlock>, (i32, String)> {
    node.ask(simulation).await.or_failure().map_err(|failure: Failure| (failure.code.0, failure.message))
}

fn code_of(outcome: Result<Vec<SimulatedBlock>, (i32, String)>) -> i32 {
    outcome.unwrap_err().0
}

#[tokio::test]
async fn simulated_blocks_see_the_changes_and_hashes_of_earlier_ones() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    let slot = account(CONTRACT, |account| {
        account.code = Some(Bytes::copy_from_slice(&TAKE));
        account.state = Some(vec![(B256::ZERO, B256::with_last_byte(7))]);
    });
    let takes = with_overrides(block(vec![to_contract(), to_contract()]), vec![slot]);
    let reads_hash = with_overrides(block(vec![to_contract()]), vec![with_code(&PARENT_HASH)]);

    let simulated = simulate(&node, vec![takes, block(vec![]), reads_hash]).await.unwrap();

    let returned: Vec<U256> = calls(&simulated).iter().map(|call| U256::from_be_slice(&call.returned)).collect();
    assert_eq!(returned[..2], [U256::from(7), U256::ZERO]);
    let hashes: Vec<B256> = simulated.iter().map(|block| block.stored.block.header.hash()).collect();
    assert_eq!(B256::from(returned[2]), hashes[1]);
    let parents: Vec<B256> = simulated.iter().map(|block| block.stored.block.header.parent_hash).collect();
    assert_eq!(parents, [node.chain.head().header.hash(), hashes[0], hashes[1]]);
    assert!(node.chain.canonical_hash(55_u64.into()).unwrap().is_none(), "nothing is kept");
}

#[tokio::test]
async fn the_gas_of_a_call_is_shared_by_all_transactions() {
    let (node, _served) = TestNode::serving(54, CallLimits { call_gas_cap: 50_000, ..LIMITS });
    let blocks = |count: usize| {
        let first = with_overrides(block(vec![transfer(1)]), vec![rich()]);
        [vec![first], vec![block(vec![transfer(1)]); count - 1]].concat()
    };

    let two = simulate(&node, blocks(2)).await.unwrap();

    let limits: Vec<u64> = two.iter().map(|block| block.stored.block.transactions[0].gas_limit).collect();
    assert_eq!(limits, [50_000, 29_000]);
    let refused = simulate(&node, blocks(3)).await.unwrap_err();
    assert_eq!(refused, (-38013, "err: intrinsic gas too low: have 8000, want 21000 (supplied gas 8000)".to_owned()));
}

#[tokio::test]
async fn the_output_of_a_reverted_call_counts_towards_the_size_of_the_answer() {
    let (node, _served) = TestNode::serving(54, CallLimits { trace_answer_bytes: 200_000, ..LIMITS });
    let reverting = |count: usize| {
        let calls = block(vec![CallRequest { gas: Some(100_000), ..to_contract() }; count]);
        vec![with_overrides(calls, vec![with_code(&REVERT_LARGE)])]
    };

    let one = simulate(&node, reverting(1)).await.unwrap();

    let Some(SimulatedFailure::Reverted { output, .. }) = &calls(&one)[0].failure else { panic!("it reverts") };
    assert_eq!(output.len(), 1 << 16);
    let refused = simulate(&node, reverting(2)).await.unwrap_err();
    assert_eq!(refused, (-38026, "the answer is longer than 200000 bytes; simulate fewer calls".to_owned()));
}

#[tokio::test]
async fn transfers_are_logs_on_request_and_failed_calls_have_no_logs() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    let reverts = CallRequest { value: Some(U256::from(5)), ..to_contract() };
    let first = block(vec![transfer(3), reverts, transfer(4)]);
    let blocks = vec![with_overrides(first, vec![rich(), with_code(&LOG_AND_REVERT)])];

    let silent = simulate(&node, blocks.clone()).await.unwrap();
    let traced = ask(&node, Simulate { traces_transfers: true, ..simulation(blocks) }).await.unwrap();

    assert!(calls(&silent).iter().all(|call| call.logs.is_empty()));
    let traced = calls(&traced);
    let places: Vec<Vec<u64>> = traced.iter().map(|call| call.logs.iter().map(|log| log.index).collect()).collect();
    assert_eq!(places, [vec![0], vec![], vec![3]], "a failed call's two logs are counted");
    let log = &traced[0].logs[0].log;
    assert_eq!((log.address, U256::from_be_slice(&log.data)), (COINS, U256::from(3)));
    assert_eq!(log.topics[1..], [RICH.into_word(), POOR.into_word()]);
    let reverted = SimulatedFailure::Reverted { output: Bytes::new() };
    assert_eq!(traced[1].failure, Some(reverted));
    assert!(traced[1].returned.is_empty());
}

#[tokio::test]
async fn with_validation_calls_must_obey_the_rules_of_transactions() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    let node = &node;
    let validated = |call: CallRequest| {
        let overrides = BlockOverrides { base_fee_per_gas: Some(U256::from(15)), ..BlockOverrides::default() };
        let nonce = account(RICH, |account| {
            account.nonce = Some(5);
            account.balance = Some(U256::from(1_000_000_000_000_000_000_u64));
        });
        let block = BlockToSimulate { overrides, ..with_overrides(block(vec![call]), vec![nonce]) };
        let simulation = Simulate { validates: true, ..simulation(vec![block]) };
        async move { ask(node, simulation).await }
    };
    let priced = |call: CallRequest| CallRequest { max_fee_per_gas: Some(U256::from(16)), ..call };
    let nonce = |nonce| priced(CallRequest { nonce: Some(nonce), ..transfer(1) });
    let tip = Some(U256::from(17));

    assert_eq!(code_of(validated(nonce(4)).await), -38010);
    assert_eq!(code_of(validated(nonce(6)).await), -38011);
    assert_eq!(code_of(validated(transfer(1)).await), -38012);
    assert_eq!(code_of(validated(priced(CallRequest { gas: Some(20_999), ..transfer(1) })).await), -38013);
    assert_eq!(code_of(validated(priced(CallRequest { from: Some(POOR), ..transfer(1) })).await), -38014);
    let unpayable = CallRequest { max_fee_per_gas: Some(U256::ONE << 128), ..nonce(5) };
    assert_eq!(code_of(validated(unpayable).await), -38014);
    assert_eq!(code_of(validated(priced(CallRequest { gas: Some(u64::MAX), ..transfer(1) })).await), -38015);
    let above_cap = CallRequest { max_priority_fee_per_gas: tip, ..nonce(5) };
    assert_eq!(code_of(validated(above_cap).await), -32602);
    let large = CallRequest { to: None, input: vec![0; 49_153].into(), value: None, ..nonce(5) };
    assert_eq!(code_of(validated(large).await), -38025);
    let done = validated(nonce(5)).await.unwrap();
    assert_eq!(done[0].calls[0].gas_used, 21_000);
    assert_eq!(done[0].stored.block.header.base_fee_per_gas, Some(15));
    // Without validation nonce and price are not checked, except that a given price must not be too low.
    let free = simulate(node, vec![with_overrides(block(vec![transfer(1)]), vec![rich()])]).await.unwrap();
    assert_eq!(free[0].stored.block.header.base_fee_per_gas, Some(0));
}

#[tokio::test]
async fn a_simulation_ends_at_the_limits_of_time_answer_size_and_client_memory() {
    let endless = || vec![with_overrides(block(vec![to_contract()]), vec![with_code(&LOOP)])];
    let limits = CallLimits { call_timeout: Duration::from_millis(50), ..LIMITS };
    let unbounded_gas = CallLimits { call_gas_cap: 0, ..limits };
    let (node, _served) = TestNode::serving(54, unbounded_gas);
    let wide = BlockOverrides { gas_limit: Some(u64::MAX / 2), ..BlockOverrides::default() };
    let forever = BlockToSimulate { overrides: wide, ..endless().remove(0) };
    assert_eq!(
        simulate(&node, vec![forever]).await.unwrap_err(),
        (-32000, "execution aborted (timeout = 50ms)".to_owned())
    );

    let (node, _served) = TestNode::serving(54, CallLimits { trace_answer_bytes: 6_000, ..LIMITS });
    assert_eq!(simulate(&node, vec![block(vec![]); 2]).await.unwrap().len(), 2);
    assert_eq!(code_of(simulate(&node, vec![block(vec![]); 3]).await), -38026);

    let node = TestNode::with_conformance_chain(54);
    let memory = MemoryBudget::new(MemoryLimits { total: 1 << 20, client: 128 << 10 });
    let _served = node.serve(CallResources { memory: memory.clone(), ..resources(LIMITS) });
    let large = (1..9_u8).map(|byte| with_overrides(block(vec![]), vec![with_code(&vec![byte; 40_000])]));
    let refused = simulate(&node, large.collect()).await.unwrap_err();
    assert_eq!(refused.0, -32005, "{}", refused.1);
    assert_eq!(memory.usage().held.iter().sum::<usize>(), 0, "all memory was released");
    assert!(simulate(&node, vec![block(vec![])]).await.is_ok());
}

#[tokio::test]
async fn overrides_that_contradict_one_another_are_refused() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    let node = &node;
    let refused = |overrides| {
        let blocks = vec![with_overrides(block(vec![]), overrides)];
        async move { simulate(node, blocks).await.unwrap_err() }
    };
    let both = account(RICH, |account| (account.state, account.state_diff) = (Some(vec![]), Some(vec![])));
    let moved = |to| account(Address::with_last_byte(2), |account| account.move_precompile_to = Some(to));

    assert!(refused(vec![both]).await.1.ends_with("has both 'state' and 'stateDiff'"));
    assert!(refused(vec![moved(RICH), rich()]).await.1.ends_with("is already overridden"));
    let base_fee = BlockOverrides { base_fee_per_gas: Some(U256::MAX), ..BlockOverrides::default() };
    let block = BlockToSimulate { overrides: base_fee, ..BlockToSimulate::default() };
    assert_eq!(code_of(simulate(node, vec![block]).await), -32602);
    let unknown = Simulate { base: BlockId::number(99), ..simulation(vec![BlockToSimulate::default()]) };
    assert!(ask(node, unknown).await.is_err());
}

#[tokio::test]
async fn blobs_without_a_price_are_free_unless_calls_are_validated() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    // Returns BLOBBASEFEE.
    let price_of_blobs = hex!("4a5f5260205ff3");
    // A versioned hash begins with 1.
    let mut hash = B256::ZERO;
    hash[0] = 1;
    let with_blob = |cap: Option<u64>| CallRequest {
        blob_versioned_hashes: Some(vec![hash]),
        max_fee_per_blob_gas: cap.map(U256::from),
        ..to_contract()
    };
    let run = |wanted, validates| {
        let poor = account(RICH, |account| account.balance = Some(U256::ZERO));
        let overrides = if validates { rich() } else { poor };
        let blocks = vec![with_overrides(block(wanted), vec![overrides, with_code(&price_of_blobs)])];
        Simulate { validates, ..simulation(blocks) }
    };

    let free = ask(&node, run(vec![with_blob(None), with_blob(Some(0)), to_contract()], false)).await.unwrap();
    assert!(calls(&free).iter().all(|call| call.failure.is_none()), "{:?}", calls(&free));
    let prices: Vec<U256> = calls(&free).iter().map(|call| U256::from_be_slice(&call.returned)).collect();
    assert_eq!(prices, [U256::ZERO, U256::ZERO, U256::from(1)], "a call without blobs sees the price of the block");
    assert!(
        ask(&node, run(vec![with_blob(Some(1))], false)).await.is_err(),
        "the price cannot be paid, as no account has coins"
    );
    assert!(ask(&node, run(vec![with_blob(None)], true)).await.is_err(), "with validation, blobs cost");
}

//! Simulations of blocks on a native chain: they follow its own rules.

use alloy_primitives::{Address, U256, address, hex};
use tenon_api::{
    ChainReader,
    messages::{CallRequest, Simulate},
};
use tenon_bus::CallContext;
use tenon_native_test_node::recorded::NativeNode;
use tenon_test_node::{
    LIMITS,
    simulations::{
        CONTRACT, RICH, account, block, calls, rich, simulation, to_contract, transfer, with_code, with_overrides,
    },
};

#[tokio::test]
async fn a_native_chains_blocks_are_simulated_with_its_own_rules() {
    let NativeNode { chain, bus, .. } = NativeNode::new("reorg", LIMITS);
    let random = with_code(&hex!("4460005260206000f3"));
    let wanted = vec![with_overrides(block(vec![transfer(9), to_contract()]), vec![rich(), random]), block(vec![])];

    let simulated = bus.call(simulation(wanted), &CallContext::new()).await.unwrap().unwrap();

    let header = &simulated[0].stored.block.header;
    let head = chain.head().header.clone();
    assert_eq!((header.number, header.parent_hash), (head.number + 1, head.hash()));
    assert!(header.native_seal.is_some() && header.withdrawals_root.is_none() && header.state_root != head.state_root);
    assert_eq!(simulated[0].calls[0].gas_used, 21_000);
    assert!(simulated[0].calls.iter().all(|call| call.failure.is_none()), "{:?}", simulated[0].calls);
    assert_eq!(simulated[1].stored.block.header.state_root, header.state_root, "an empty block changes nothing");
}

#[tokio::test]
async fn the_log_of_a_transaction_that_a_native_block_does_not_execute_is_returned_and_numbered() {
    const SIGNERS: Address = address!("0000000000000000000000000000000000000089");
    /// LOG0 of nothing.
    const LOG: [u8; 5] = hex!("5f5fa05f00");
    let NativeNode { bus, .. } = NativeNode::new("reorg", LIMITS);
    let price = Some(U256::from(100_000_000_000_u64));
    let call = |to| CallRequest {
        from: Some(RICH),
        to: Some(to),
        gas: Some(100_000),
        gas_price: price,
        ..CallRequest::default()
    };
    let rich = account(RICH, |account| account.balance = Some(U256::from(10).pow(U256::from(20))));
    let wanted = vec![call(SIGNERS), call(CONTRACT), call(SIGNERS)];
    let wanted = vec![with_overrides(block(wanted), vec![rich, with_code(&LOG)])];

    let asked = Simulate { validates: true, ..simulation(wanted) };
    let simulated = bus.call(asked, &CallContext::new()).await.unwrap().unwrap();

    let logs: Vec<_> = calls(&simulated).iter().map(|call| &call.logs[..]).collect();
    let places: Vec<_> =
        logs.iter().map(|logs| logs.iter().map(|log| (log.index, log.log.address)).collect::<Vec<_>>()).collect();
    let expected: [Vec<(u64, Address)>; 3] = [vec![(0, SIGNERS)], vec![(1, CONTRACT)], vec![(2, SIGNERS)]];
    assert_eq!(places, expected);
    assert!(logs[0][0].log.topics.is_empty() && logs[0][0].log.data.is_empty());
    assert_eq!(calls(&simulated)[0].gas_used, 0, "it was executed");
}

//! Blocks of a native chain executed again: state roots after their transactions, and witnesses, from which a block is
//! executed without a database.

use tenon_api::{
    BlockId, ChainReader, ConsensusEngine,
    messages::{GetExecutionWitness, GetIntermediateRoots},
};
use tenon_bus::CallContext;
use tenon_native_test_node::{recorded::NativeNode, rules_of_blocks};
use tenon_test_node::{
    LIMITS,
    witness::{canonical_block, execute_from},
};

#[tokio::test]
async fn blocks_of_a_native_chain_are_executed_from_their_witnesses() {
    let node = NativeNode::new("reorg", LIMITS);
    let caller = CallContext::new();
    let head = node.chain.head().header.number;
    let mut with_transactions = 0;
    for number in 1..=head {
        let block = canonical_block(&node.chain, number);
        with_transactions += usize::from(!block.transactions.is_empty());
        let witness = node.bus.call(GetExecutionWitness { block: BlockId::number(number) }, &caller).await;
        let witness = witness.unwrap().unwrap();

        let rules = rules_of_blocks(&node.spec);
        execute_from(&witness, rules, &*node.engine, &block).unwrap_or_else(|error| panic!("{number}: {error}"));
    }
    assert!(with_transactions > 0);
}

#[tokio::test]
async fn roots_inside_blocks_of_a_native_chain_end_with_the_block() {
    let node = NativeNode::new("reorg", LIMITS);
    let caller = CallContext::new();
    let mut ends = 0;
    for number in 1..=node.chain.head().header.number {
        let block = canonical_block(&node.chain, number);
        let roots = node.bus.call(GetIntermediateRoots { block: block.hash() }, &caller).await.unwrap().unwrap();

        assert_eq!(roots.len(), block.transactions.len(), "{number}");
        let has_rewards = !node.engine.rewards(&block, &node.chain).unwrap().credits.is_empty();
        if !roots.is_empty() && !has_rewards {
            assert_eq!(roots.last(), Some(&block.header.state_root), "{number}");
            ends += 1;
        }
    }
    assert!(ends > 0);
}

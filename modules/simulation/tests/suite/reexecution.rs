//! Blocks executed again: state roots after their transactions, and witnesses, from which a block is executed without a
//! database.

use std::collections::BTreeSet;

use alloy_primitives::B256;
use tenon_api::{
    BlockId, ChainReader, ReceiptOutcome,
    messages::{GetExecutionWitness, GetIntermediateRoots},
};
use tenon_bus::{MemoryBudget, MemoryLimits};
use tenon_sdk::{Failure, FailureCode, error_texts::RefusableAnswer as _};
use tenon_simulation::{CallLimits, CallResources};
use tenon_test_node::{
    LIMITS, TestNode, resources, rules_of_blocks,
    witness::{canonical_block, execute_from},
};

#[tokio::test]
async fn every_block_is_executed_from_its_witness_which_has_nothing_superfluous() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    for number in 1..=54 {
        let block = canonical_block(&node.chain, number);
        let witness = node.ask(GetExecutionWitness { block: BlockId::number(number) }).await.unwrap().unwrap();

        let rules = rules_of_blocks(&node.spec);
        execute_from(&witness, rules, &*node.engine, &block).unwrap_or_else(|error| panic!("{number}: {error}"));

        assert!(witness.nodes.is_sorted() && witness.codes.is_sorted(), "{number}");
        for lacks in 0..witness.nodes.len() {
            let mut less = witness.clone();
            less.nodes.remove(lacks);
            assert!(
                execute_from(&less, rules_of_blocks(&node.spec), &*node.engine, &block).is_err(),
                "{number}: node {lacks}"
            );
        }
        for lacks in 0..witness.codes.len() {
            let mut less = witness.clone();
            less.codes.remove(lacks);
            assert!(
                execute_from(&less, rules_of_blocks(&node.spec), &*node.engine, &block).is_err(),
                "{number}: code {lacks}"
            );
        }
    }
}

#[tokio::test]
async fn roots_inside_a_block_lead_from_its_parent_to_its_end() {
    let (node, _served) = TestNode::serving(54, LIMITS);
    let (mut ends, mut recorded) = (0, 0);
    for number in 1..=54 {
        let block = canonical_block(&node.chain, number);
        let roots = node.ask(GetIntermediateRoots { block: block.hash() }).await.unwrap().unwrap();

        assert_eq!(roots.len(), block.transactions.len(), "{number}");
        let different: BTreeSet<_> = roots.iter().collect();
        assert_eq!(different.len(), roots.len(), "{number}: every transaction changes its sender");
        let receipts = node.chain.receipts(block.hash()).unwrap().unwrap();
        for (root, receipt) in roots.iter().zip(&*receipts) {
            // Receipts before Byzantium have the root.
            if let ReceiptOutcome::StateRoot(expected) = receipt.outcome {
                assert_eq!(*root, expected, "{number}");
                recorded += 1;
            }
        }
        // Without rewards, withdrawals and calls at its end a block ends with its last transaction.
        let is_bare = block.header.difficulty.is_zero() && block.withdrawals.iter().flatten().next().is_none();
        if is_bare && block.header.requests_hash.is_none() && !roots.is_empty() {
            assert_eq!(roots.last(), Some(&block.header.state_root), "{number}");
            ends += 1;
        }
    }
    assert!(ends + recorded > 0, "{ends} {recorded}");
}

#[tokio::test]
async fn blocks_that_are_unknown_or_first_have_no_witness_and_no_roots() {
    let (node, _served) = TestNode::serving(3, LIMITS);
    let genesis = canonical_block(&node.chain, 0).hash();
    let text = |failure: Failure| failure.message;

    let witness = |block| node.ask(GetExecutionWitness { block });
    assert_eq!(witness(BlockId::number(9)).await.or_failure().map_err(text), Err("block #9 not found".to_owned()));
    assert_eq!(
        witness(BlockId::number(0)).await.or_failure().map_err(text),
        Err("genesis is not traceable".to_owned())
    );
    let roots = |block| node.ask(GetIntermediateRoots { block });
    assert_eq!(roots(genesis).await.or_failure().map_err(text), Err("genesis is not traceable".to_owned()));
    assert_eq!(roots(B256::ZERO).await.or_failure().map_err(text), Err(format!("block {} not found", B256::ZERO)));
}

#[tokio::test]
async fn a_witness_beyond_its_bounds_is_refused_and_releases_its_memory() {
    let node = TestNode::with_conformance_chain(54);
    let short = CallLimits { trace_answer_bytes: 1000, ..LIMITS };
    let memory = MemoryBudget::new(MemoryLimits { total: 1 << 30, client: 1 << 30 });
    let _served = node.serve(CallResources { memory: memory.clone(), ..resources(short) });

    let refused = node.ask(GetExecutionWitness { block: BlockId::number(2) }).await.unwrap_err();

    assert_eq!(refused.code, FailureCode::LIMIT_EXCEEDED, "{}", refused.message);
    assert_eq!(memory.usage().held.iter().sum::<usize>(), 0);
}

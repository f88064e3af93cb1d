//! Random chains of the development network, along every pair of paths. `TENON_BLOCKS` is their length (default 40),
//! `TENON_CHAINS` their number (default 1), `TENON_SEED` repeats a run.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use std::collections::BTreeMap;
use std::sync::Arc;

use tenon_api::{Block, BlockNumber, ChainReader as _, ReceiptOutcome, TransactionType};
use tenon_chain::Genesis;
use tenon_consensus::DevEngine;
use tenon_differential_tests::{
    Memory, Node, SplitMix64, Traffic, compare, development_genesis, genesis_through_forks,
};

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

fn node(genesis: &Genesis) -> Node {
    Node::new(genesis, |spec| Arc::new(DevEngine::new(spec).unwrap()))
}

/// A node that has sealed a random chain, and its answers about every block while that was the newest.
fn grown(genesis: &Genesis, random: &mut SplitMix64, length: u64) -> (Node, Memory) {
    let (node, mut memory, mut traffic) = (node(genesis), Memory::default(), Traffic::new());
    for _ in 0..length {
        traffic.seal(&node, random);
        let calls = (0..4).map(|_| traffic.call(random)).collect();
        memory.remember(&node, &traffic.addresses(), calls);
    }
    (node, memory)
}

/// Number of transactions of each type, and of failed ones.
fn types(node: &Node, blocks: &[Block]) -> BTreeMap<TransactionType, (u64, u64)> {
    let mut types = BTreeMap::<_, (u64, u64)>::new();
    for block in blocks {
        let receipts = node.store.receipts(block.hash()).unwrap().unwrap();
        for receipt in receipts.iter() {
            let (all, failed) = types.entry(receipt.transaction_type).or_default();
            *all += 1;
            *failed += u64::from(receipt.outcome == ReceiptOutcome::Status(false));
        }
    }
    types
}

fn both_ways(genesis: &Genesis, length: u64) {
    let mut random = SplitMix64::from_environment();
    for _ in 0..number("TENON_CHAINS", 1) {
        let (grown, memory) = grown(genesis, &mut random, length);
        let blocks = grown.blocks();
        let types = types(&grown, &blocks);
        compare::is_whole(&grown);

        let past = memory.compare(&grown);
        let (searches, logs) = compare::log_index_and_scan(&grown, &mut random, 60);
        let traced = compare::traces_and_receipts(&grown, 1..=length);

        let fresh = node(genesis);
        fresh.import(&blocks);
        compare::same_chain(&grown, &fresh);
        compare::is_whole(&fresh);
        assert_eq!(memory.compare(&fresh), past);

        let mut unwindings = Vec::new();
        for _ in 0..4 {
            let target = random.below(length);
            fresh.importer.set_head(BlockNumber(target)).unwrap();
            compare::is_whole(&fresh);
            memory.compare(&fresh);
            // In one call or block by block.
            if random.chance(50) {
                fresh.import(&blocks);
            } else {
                let rest = blocks.iter().filter(|block| block.header.number > target);
                rest.for_each(|block| drop(fresh.importer.insert(block.clone()).unwrap()));
            }
            compare::same_chain(&grown, &fresh);
            compare::is_whole(&fresh);
            unwindings.push(target);
        }
        assert_eq!(memory.compare(&fresh), past);
        assert_eq!(fresh.store.head().header, grown.store.head().header);
        println!(
            "{length} blocks, transactions (failed ones) by type {types:?}: fresh = incremental = after unwinding to \
             {unwindings:?}; {past:?} at their height as when it was the newest; {searches} log searches = scans ({logs} \
             logs); {traced} traces = receipts"
        );
        assert!(types.len() >= 4 && past.calls > past.failed_calls, "the chain has shown nothing");
    }
}

#[test]
fn both_paths_to_a_random_chain_give_the_same_answers() {
    both_ways(&development_genesis(), number("TENON_BLOCKS", 40));
}

#[test]
fn both_paths_to_a_random_chain_through_the_forks_since_paris_give_the_same_answers() {
    let length = number("TENON_BLOCKS", 40);
    // Blocks are 15.5 seconds apart on average: a fork at every sixth of the length leaves a third for the last.
    both_ways(&genesis_through_forks(length * 31 / 12), length);
}

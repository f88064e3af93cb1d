//! Recorded native chains through the native engine, along every pair of paths. `TENON_SEED` repeats a run,
//! `TENON_TRACED` is the percentage of blocks that are traced (default 5).

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use tenon_api::BlockNumber;
use tenon_differential_tests::{Memory, SplitMix64, compare, native_traces, recorded::RecordedChain};

/// Grows a node block by block, recording answers at some heights; then compares other paths.
fn both_ways(genesis: &str, chain: &str, max: usize) {
    let mut random = SplitMix64::from_environment();
    let mut recorded = RecordedChain::read(genesis, chain);
    recorded.blocks.truncate(max);
    let (blocks, length) = (&recorded.blocks, recorded.blocks.len() as u64);
    let addresses = RecordedChain::addresses(blocks);

    let grown = recorded.node();
    let mut memory = Memory::default();
    for block in blocks {
        grown.importer.insert(block.clone()).unwrap_or_else(|error| panic!("{error}"));
        if random.chance(10) {
            let calls = RecordedChain::calls(blocks, &mut random, 4);
            memory.remember(&grown, &addresses, calls);
        }
    }
    compare::is_whole(&grown);
    let past = memory.compare(&grown);
    let (searches, logs) = compare::log_index_and_scan(&grown, &mut random, 40);
    let percent = std::env::var("TENON_TRACED").map_or(5, |text| text.parse().unwrap());
    let traces = native_traces::compare(&grown, &mut random, percent);

    let fresh = recorded.node();
    fresh.import(blocks);
    compare::same_chain(&grown, &fresh);
    compare::is_whole(&fresh);
    assert_eq!(memory.compare(&fresh), past);

    let target = random.below(length);
    fresh.importer.set_head(BlockNumber(target)).unwrap();
    compare::is_whole(&fresh);
    memory.compare(&fresh);
    fresh.import(blocks);
    compare::same_chain(&grown, &fresh);
    compare::is_whole(&fresh);
    assert_eq!(memory.compare(&fresh), past);
    println!(
        "{chain}: {length} blocks: fresh = incremental = after unwinding to {target}; {past:?} at their height as when it \
         was the newest; {searches} log searches = scans ({logs} logs); traces = receipts: {traces:?}"
    );
    assert!(traces.traced > 0, "{traces:?} show nothing");
}

#[test]
fn both_paths_to_a_chain_of_engine_v2_give_the_same_answers() {
    both_ways("chain/native-genesis-local.json.gz", "native/chains/local.rlp.gz", usize::MAX);
}

#[test]
fn both_paths_to_a_chain_through_every_fork_give_the_same_answers() {
    both_ways("chain/native-genesis-staged.json.gz", "native/chains/staged.rlp.gz", usize::MAX);
}

#[test]
fn both_paths_to_a_chain_that_switches_engines_give_the_same_answers() {
    both_ways("chain/native-genesis-v1switch.json.gz", "native/chains/v1switch.rlp.gz", usize::MAX);
}

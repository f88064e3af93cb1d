//! Recorded chains of the reference: unwound across their gap blocks, epoch switches and the switch of the engines, and
//! re-imported, which leaves the same data as on a node that was never unwound, including the engine's records.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use tenon_api::{BlockNumber, ChainReader as _};
use tenon_differential_tests::{compare, recorded::RecordedChain};
use tenon_native_model::Follower;

/// Unwinds to the blocks before, at and after each height, in descending order, and then imports again in as many
/// parts.
fn back_and_on(name: &str, heights: &[u64]) {
    let genesis = format!("chain/native-genesis-{name}.json.gz");
    let chain = RecordedChain::read(&genesis, &format!("native/chains/{name}.rlp.gz"));
    let (straight, other) = (Follower::of_genesis(&chain.genesis), Follower::of_genesis(&chain.genesis));
    straight.node.import(&chain.blocks);
    other.node.import(&chain.blocks);
    assert!(straight.records().iter().flatten().count() > 0, "nothing is kept");
    let mut targets: Vec<u64> = heights.iter().flat_map(|height| [height - 1, *height, height + 1]).collect();
    targets.sort_unstable();

    for target in targets.iter().rev() {
        other.node.importer.set_head(BlockNumber(*target)).unwrap();
        assert_eq!(other.node.block(*target).header, straight.node.block(*target).header);
    }
    for target in targets.iter().map(|target| usize::try_from(*target).unwrap()).chain([chain.blocks.len()]) {
        other.node.import(&chain.blocks[..target]);
        assert_eq!(other.node.height(), target as u64);
    }

    compare::same_chain(&straight.node, &other.node);
    compare::is_whole(&other.node);
    assert_eq!(straight.node.store.head().finalized, other.node.store.head().finalized);
    assert_eq!(straight.records(), other.records());
    println!(
        "{name}: {} blocks, back to {targets:?} and on: same roots, same finalized block, same {} records of the engine",
        chain.blocks.len(),
        straight.records().iter().flatten().count(),
    );
}

#[test]
fn a_chain_of_engine_v2_can_be_unwound_across_its_epochs_and_continued() {
    back_and_on("local", &[30, 60, 90, 120, 168, 348, 580]);
}

#[test]
fn a_chain_through_every_fork_can_be_unwound_across_its_switch_and_continued() {
    back_and_on("staged", &[450, 900]);
}

#[test]
fn a_chain_that_switches_engines_can_be_unwound_across_the_switch_and_continued() {
    back_and_on("v1switch", &[1_350, 1_800, 2_250, 2_700]);
}

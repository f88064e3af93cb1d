//! Chains of the reference client through the importer and the native engine: every header verified, every block
//! executed, in one call.
#![allow(missing_docs, clippy::unwrap_used, reason = "a failure fails the test")]

mod support;

use std::sync::Arc;

use support::{MemoryChain, native::RecordedChain};
use tenon_api::{Block, ChainReader, InsertOutcome};
use tenon_bus::Bus;
use tenon_consensus::native::NativeEngine;
use tenon_execution::{ImportObserver, ImportedBlock, Importer};

struct Nobody;

impl ImportObserver for Nobody {
    fn passed(&mut self, _: &ImportedBlock) {}
}

fn importer(recorded: &RecordedChain) -> (Importer, MemoryChain) {
    let chain = MemoryChain::new(&recorded.genesis.commit().unwrap());
    let engine = NativeEngine::new(&recorded.genesis.spec).unwrap();
    let (reader, writer) = (Arc::new(chain.clone()), Arc::new(chain.clone()));
    let spec = Arc::clone(&recorded.genesis.spec);
    (Importer::new(spec, reader, writer, Arc::new(engine), Bus::new()), chain)
}

fn blocks(recorded: &RecordedChain) -> impl Iterator<Item = Result<Block, String>> + Send + '_ {
    recorded.blocks.iter().map(|block| Ok(block.block.clone()))
}

/// Imports a whole chain in one call.
fn import(genesis: &str, name: &str) {
    let recorded = RecordedChain::read(genesis, &format!("native/chains/{name}.rlp.gz"), None);
    let (importer, chain) = importer(&recorded);
    let summary = importer.import(blocks(&recorded), &mut Nobody).unwrap_or_else(|error| panic!("{error}"));
    let last = recorded.blocks.last().unwrap();
    assert_eq!(summary.imported, last.number().0);
    assert_eq!(chain.head().header.hash(), last.hash());
}

#[test]
fn a_chain_of_engine_v2_is_imported_in_one_call() {
    import("chain/native-genesis-local.json.gz", "local");
}

#[test]
fn a_chain_whose_forks_come_one_after_the_other_is_imported_in_one_call() {
    import("chain/native-genesis-staged.json.gz", "staged");
}

#[test]
fn a_chain_that_switches_engines_is_imported_in_one_call() {
    import("chain/native-genesis-v1switch.json.gz", "v1switch");
}

#[test]
fn the_branch_with_the_later_block_wins() {
    let read = |branch: &str| RecordedChain::read("native/chains/reorg.genesis.json.gz", branch, None);
    let (first, second) = (read("native/chains/reorg-a.rlp.gz"), read("native/chains/reorg-b.rlp.gz"));
    let (importer, chain) = importer(&first);
    for block in &first.blocks[1..] {
        importer.insert(block.block.clone()).unwrap_or_else(|error| panic!("{error}"));
    }
    for block in &second.blocks[11..16] {
        let outcome = importer.insert(block.block.clone()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(outcome, InsertOutcome::SideBranch);
    }
    for block in &second.blocks[16..] {
        importer.insert(block.block.clone()).unwrap_or_else(|error| panic!("{error}"));
    }
    assert_eq!(chain.head().header.hash(), second.blocks.last().unwrap().hash());
}

/// Both branches in one file: the second is kept aside while it is shorter, then the chain moves over to it, between
/// blocks that are executed ahead.
#[test]
fn an_import_moves_to_the_better_branch_on_its_way() {
    let read = |branch: &str| RecordedChain::read("native/chains/reorg.genesis.json.gz", branch, None);
    let (first, second) = (read("native/chains/reorg-a.rlp.gz"), read("native/chains/reorg-b.rlp.gz"));
    let (importer, chain) = importer(&first);

    let both = blocks(&first).chain(second.blocks[11..].iter().map(|block| Ok(block.block.clone())));
    let summary = importer.import(both, &mut Nobody).unwrap_or_else(|error| panic!("{error}"));

    assert_eq!(summary.imported, 15 + 10);
    assert_eq!(chain.head().header.hash(), second.blocks.last().unwrap().hash());
}

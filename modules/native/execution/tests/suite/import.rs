//! Imports chains of the reference client with the native engine: every header is verified, every block executed, in
//! one call.

use std::{collections::HashMap, sync::Arc};

use alloy_primitives::{Address, B256, U256};
use tenon_api::{Block, ChainReader, EngineRecords, Header, InsertOutcome};
use tenon_bus::Bus;
use tenon_execution::Importer;
use tenon_memory_chain::MemoryRecords;
use tenon_native_consensus::{
    NativeEngine,
    v2::{self, MasternodeKey},
};
use tenon_native_execution::family_of;
use tenon_native_test_node::recorded::RecordedChain;
use tenon_test_node::MemoryChain;

fn importer(recorded: &RecordedChain) -> (Importer, MemoryChain) {
    importer_with(recorded, NativeEngine::new(&recorded.genesis.spec).unwrap())
}

fn importer_with(recorded: &RecordedChain, engine: NativeEngine) -> (Importer, MemoryChain) {
    let chain = MemoryChain::new(&recorded.genesis.commit().unwrap());
    let (reader, writer) = (Arc::new(chain.clone()), Arc::new(chain.clone()));
    let spec = Arc::clone(&recorded.genesis.spec);
    (Importer::new(family_of(&spec).unwrap(), reader, writer, Arc::new(engine), Bus::new()), chain)
}

fn blocks(recorded: &RecordedChain) -> impl Iterator<Item = Result<Block, String>> + Send + '_ {
    recorded.blocks.iter().map(|block| Ok(block.block.clone()))
}

/// Imports a whole chain in one call.
fn import(genesis: &str, name: &str) {
    let recorded = RecordedChain::read(genesis, &format!("native/chains/{name}.rlp.gz"), None);
    let (importer, chain) = importer(&recorded);
    let summary = importer.import(blocks(&recorded), &mut ()).unwrap_or_else(|error| panic!("{error}"));
    let last = recorded.blocks.last().unwrap();
    assert_eq!(summary.imported, last.number().0);
    assert_eq!(chain.head().header.hash(), last.hash());
}

#[test]
fn a_chain_of_engine_v2_is_imported_in_one_call() {
    import("chain/native-genesis-local.json.gz", "local");
}

/// The gap block is inside a group of blocks that are committed together, and its epoch begins after the imported blocks.
#[test]
fn the_candidates_of_an_imported_gap_block_are_recorded_before_they_are_needed() {
    let recorded = RecordedChain::read("chain/native-genesis-local.json.gz", "native/chains/local.rlp.gz", None);
    let records = Arc::new(MemoryRecords::default());
    let engine = NativeEngine::keeping(&recorded.genesis.spec, Arc::clone(&records) as _).unwrap();
    let (importer, chain) = importer_with(&recorded, engine);
    chain.take_groups_of(64);

    importer.import(blocks(&recorded).take(636), &mut ()).unwrap();

    let record = records.record("candidates/10").unwrap().unwrap();
    assert_eq!(record[..32], recorded.blocks[630].hash()[..]);
}

#[test]
fn a_chain_whose_forks_come_one_after_the_other_is_imported_in_one_call() {
    import("chain/native-genesis-staged.json.gz", "staged");
}

#[test]
fn a_chain_that_switches_engines_is_imported_in_one_call() {
    import("chain/native-genesis-v1switch.json.gz", "v1switch");
}

/// Headers are verified too, including penalties of two epochs, parole, and the masternode limits of the three entries
/// of `allConfigs` (`docs/spec/upgrades.md` 5).
#[test]
fn a_chain_with_the_upgrade_inside_is_imported_in_one_call() {
    import("native/chains/upgrade.genesis.json.gz", "upgrade");
}

#[test]
fn the_longer_branch_wins() {
    let read = |branch: &str| RecordedChain::read("native/chains/reorg.genesis.json.gz", branch, None);
    let (first, second) = (read("native/chains/reorg-a.rlp.gz"), read("native/chains/reorg-b.rlp.gz"));
    let (importer, chain) = importer(&first);
    for block in &first.blocks[1..] {
        importer.insert(block.block.clone()).unwrap_or_else(|error| panic!("{error}"));
    }
    for block in &second.blocks[11..16] {
        let outcome = importer.insert(block.block.clone()).unwrap_or_else(|error| panic!("{error}"));
        assert!(matches!(outcome, InsertOutcome::SideBranch { .. }), "{outcome:?}");
    }
    for block in &second.blocks[16..] {
        importer.insert(block.block.clone()).unwrap_or_else(|error| panic!("{error}"));
    }
    assert_eq!(chain.head().header.hash(), second.blocks.last().unwrap().hash());
}

/// Both branches in one file: the second is stored aside while it is shorter, then the chain switches to it, between
/// blocks that are executed ahead.
#[test]
fn an_import_switches_to_the_better_branch() {
    let read = |branch: &str| RecordedChain::read("native/chains/reorg.genesis.json.gz", branch, None);
    let (first, second) = (read("native/chains/reorg-a.rlp.gz"), read("native/chains/reorg-b.rlp.gz"));
    let (importer, chain) = importer(&first);

    let both = blocks(&first).chain(second.blocks[11..].iter().map(|block| Ok(block.block.clone())));
    let summary = importer.import(both, &mut ()).unwrap_or_else(|error| panic!("{error}"));

    assert_eq!(summary.imported, 15 + 10);
    assert_eq!(chain.head().header.hash(), second.blocks.last().unwrap().hash());
}

/// The keys of a chain's masternodes, by address.
fn masternode_keys(name: &str) -> HashMap<Address, MasternodeKey> {
    let text = tenon_test_node::test_data(format!("native/chains/{name}.keys.json.gz"));
    let keys: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let key = |account: &serde_json::Value| {
        let secret: B256 = account["privateKey"].as_str().unwrap().parse().unwrap();
        let key = MasternodeKey::from_bytes(secret.0).unwrap();
        (key.address(), key)
    };
    keys["accounts"].as_array().unwrap().iter().map(key).collect()
}

/// The makers of blocks sign wrong state roots, so every header rule holds and only execution detects them. The blocks
/// are an ordinary one, and an epoch switch, which also gets the state root without its rewards.
#[test]
fn a_block_whose_maker_signs_a_wrong_state_root_is_refused_by_the_root() {
    let recorded = RecordedChain::read("chain/native-genesis-local.json.gz", "native/chains/local.rlp.gz", None);
    let keys = masternode_keys("local");
    let (importer, chain) = importer(&recorded);
    for number in 1..=120_u64 {
        let original = &recorded.blocks[number as usize].block;
        if [100, 120].contains(&number) {
            let nothing_paid = recorded.blocks[number as usize - 1].header.state_root;
            let flipped = B256::from(U256::from_be_bytes(original.header.state_root.0) ^ U256::ONE);
            // The ordinary block is empty, so its root is the parent's.
            let wrong = if number == 100 { vec![flipped] } else { vec![flipped, nothing_paid] };
            for state_root in wrong {
                let header = Header { state_root, ..original.header.header().clone() };
                let header = v2::seal(header, &keys[&original.header.beneficiary]).unwrap();
                let block = tenon_chain::assemble_block(header, original.transactions.clone(), Vec::new(), None);

                let error = importer.insert(block).unwrap_err().to_string();

                let (computed, wanted) = (original.header.state_root, state_root);
                assert_eq!(error, format!("block {number}: state root is {computed}, the header says {wanted}"));
                assert_eq!(chain.head().header.number, number - 1);
            }
        }
        importer.insert(original.clone()).unwrap_or_else(|error| panic!("{error}"));
    }
}

//! Chains of the reference client, block by block: execution must match their headers.

use std::sync::Arc;

use tenon_api::{BlockNumber, ChainReader, ChainWriter, ReceiptOutcome};
use tenon_bus::Bus;
use tenon_execution::Importer;
use tenon_execution_block::{Executor, ReferenceBlock};
use tenon_native_execution::family_of;
use tenon_native_test_node::recorded::{RecordedChain, TrustingEngine};
use tenon_test_node::{MemoryChain, test_data};

/// Executes a whole chain; every root is compared by the executor.
fn replay(recorded: &RecordedChain) -> MemoryChain {
    let genesis = recorded.genesis.commit().unwrap();
    assert_eq!(genesis.block.hash(), recorded.blocks[0].hash(), "genesis");
    let chain = MemoryChain::new(&genesis);
    let engine = TrustingEngine::new(&recorded.genesis.spec, chain.clone());
    let executor = Executor::new(family_of(&recorded.genesis.spec).unwrap());
    for block in &recorded.blocks[1..] {
        let number = block.number();
        let parent = chain.head().header.clone();
        let commit = executor.execute(&chain, &engine, Arc::clone(block), &parent);
        let commit = commit.unwrap_or_else(|error| {
            let explained = executor.explain(&chain, &engine, block, &parent, &ReferenceBlock::default());
            panic!("{error}: {}", explained.map_or_else(|error| error.to_string(), |it| it.to_string()))
        });
        compare_with_line(recorded, number, &commit);
        chain.commit(&Arc::new(commit)).unwrap();
    }
    chain
}

fn compare_with_line(recorded: &RecordedChain, number: BlockNumber, commit: &tenon_api::BlockCommit) {
    let Some(line) = recorded.lines.get(&number.0) else { return };
    let failed = commit.receipts.iter().filter(|receipt| receipt.outcome == ReceiptOutcome::Status(false)).count();
    let logs: usize = commit.receipts.iter().map(|receipt| receipt.logs.len()).sum();
    assert_eq!(line["hash"], commit.block.hash().to_string(), "hash of block {number}");
    assert_eq!(line["failed"].as_u64(), Some(failed as u64), "failed transactions of block {number}");
    assert_eq!(line["logs"].as_u64(), Some(logs as u64), "logs of block {number}");
    assert_eq!(line["totalDifficulty"].as_u64(), Some(commit.total_difficulty.to()), "block {number}");
}

#[test]
fn every_block_of_a_chain_with_all_forks_at_0_has_its_recorded_roots() {
    let _ = replay(&RecordedChain::read(
        "chain/native-genesis-local.json.gz",
        "native/chains/local.rlp.gz",
        Some("native/chains/local.blocks.jsonl.gz"),
    ));
}

#[test]
fn every_block_of_a_chain_whose_forks_come_one_after_the_other_has_its_recorded_roots() {
    let _ = replay(&RecordedChain::read(
        "chain/native-genesis-staged.json.gz",
        "native/chains/staged.rlp.gz",
        Some("native/chains/staged.blocks.jsonl.gz"),
    ));
}

#[test]
fn every_block_of_a_chain_that_switches_engines_has_its_recorded_roots() {
    let _ = replay(&RecordedChain::read(
        "chain/native-genesis-v1switch.json.gz",
        "native/chains/v1switch.rlp.gz",
        Some("native/chains/v1switch.blocks.jsonl.gz"),
    ));
}

#[test]
fn both_branches_of_a_chain_that_is_reorganised_have_their_recorded_roots() {
    for branch in ["native/chains/reorg-a.rlp.gz", "native/chains/reorg-b.rlp.gz"] {
        let _ = replay(&RecordedChain::read("native/chains/reorg.genesis.json.gz", branch, None));
    }
}

#[test]
fn every_full_block_of_the_load_chain_has_its_recorded_roots() {
    let _ = replay(&RecordedChain::read(
        "native/chains/load.genesis.json.gz",
        "native/chains/load.rlp.gz",
        Some("native/chains/load.blocks.jsonl.gz"),
    ));
}

/// Every rule of the upgrade begins at its own height inside the chain (`docs/spec/upgrades.md` 1): Prague with set-code
/// transactions, the floor of the price of data and the history contract, stepped gas limits, the new rewards with their
/// supply record, the new penalties.
#[test]
fn every_block_of_a_chain_with_the_upgrade_inside_has_its_recorded_roots() {
    let _ = replay(&RecordedChain::read(
        "native/chains/upgrade.genesis.json.gz",
        "native/chains/upgrade.rlp.gz",
        Some("native/chains/upgrade.blocks.jsonl.gz"),
    ));
}

/// Accounts with balances above 2^256 wei pay, receive, call, create contracts, sponsor and self-destruct. Some gas
/// prices exceed 2^128, and the masternode's owner has such a balance (`docs/spec/chain.md` 8.1).
#[test]
fn every_block_of_chains_with_balances_above_256_bits_has_its_recorded_roots() {
    for name in ["wide", "wide-old", "wide-fees", "wide-fees-old"] {
        let genesis = format!("native/chains/{name}.genesis.json.gz");
        let blocks = format!("native/chains/{name}.rlp.gz");
        let chain = replay(&RecordedChain::read(&genesis, &blocks, None));
        let answers = String::from_utf8(test_data(format!("native/answers/{name}/eth.jsonl.gz"))).unwrap();
        let mut above = 0;
        for line in answers.lines().filter(|line| line.contains("\"eth_getBalance\"")) {
            let case: serde_json::Value = serde_json::from_str(line).unwrap();
            let (address, height) = (case["params"][0].as_str().unwrap(), case["params"][1].as_str().unwrap());
            let number = BlockNumber(u64::from_str_radix(height.trim_start_matches("0x"), 16).unwrap());
            let state = chain.state_at(number).unwrap();
            let account = state.account(address.parse().unwrap()).unwrap().unwrap_or_default();
            let balance = format!("{:#x}", account.whole_balance());
            assert_eq!(case["response"]["result"], balance, "{name}, {address} after block {number}");
            above += usize::from(account.balance_high > 0);
        }
        assert!(above > 200, "{above} balances above 256 bits");
    }
}

#[test]
fn a_failing_block_is_explained_with_its_first_difference() {
    let recorded = RecordedChain::read("native/chains/reorg.genesis.json.gz", "native/chains/reorg-a.rlp.gz", None);
    let genesis = recorded.genesis.commit().unwrap();
    let chain = MemoryChain::new(&genesis);
    let engine = TrustingEngine::new(&recorded.genesis.spec, chain.clone());
    let executor = Executor::new(family_of(&recorded.genesis.spec).unwrap());
    let explain = |number: usize, reference: &str| {
        let reference: ReferenceBlock = serde_json::from_str(reference).unwrap();
        let parent = chain.head().header.clone();
        executor.explain(&chain, &engine, &recorded.blocks[number], &parent, &reference).unwrap()
    };
    let eventful = recorded.blocks.iter().position(|block| block.header.gas_used > 0).unwrap();
    for block in &recorded.blocks[1..eventful] {
        let parent = chain.head().header.clone();
        let commit = executor.execute(&chain, &engine, Arc::clone(block), &parent).unwrap();
        chain.commit(&Arc::new(commit)).unwrap();
    }
    let agreed = explain(eventful, "{}");
    assert!(agreed.differences.is_empty(), "{agreed}");
    let address = agreed.accounts[0].address;
    let reference = format!(
        r#"{{"receipts": [{{"status": "0x1", "gasUsed": "0x1", "logs": []}}], "accounts": {{"{address}": {{"nonce": "0x3e7"}}}}}}"#
    );
    let differing = explain(eventful, &reference);
    assert!(differing.differences[0].contains("gas used is"), "{differing}");
    assert!(differing.differences.iter().any(|text| text.contains("nonce is")), "{differing}");
    assert!(differing.to_string().starts_with("differences, the most important first:"), "{differing}");
}

#[test]
fn the_importer_explains_the_block_that_it_refused() {
    let recorded = RecordedChain::read("native/chains/reorg.genesis.json.gz", "native/chains/reorg-a.rlp.gz", None);
    let chain = MemoryChain::new(&recorded.genesis.commit().unwrap());
    let spec = Arc::clone(&recorded.genesis.spec);
    let engine = Arc::new(TrustingEngine::new(&spec, chain.clone()));
    let (reader, writer) = (Arc::new(chain.clone()), Arc::new(chain));
    let importer = Importer::new(family_of(&spec).unwrap(), reader, writer, engine, Bus::new());
    assert!(importer.explain_failure(&ReferenceBlock::default()).is_none());
    let mut header = recorded.blocks[1].header.header().clone();
    header.gas_used += 1;
    let mut block = recorded.blocks[1].block.clone();
    block.header = tenon_chain::seal(header);
    importer.insert(block).unwrap_err();
    let explanation = importer.explain_failure(&ReferenceBlock::default()).unwrap().unwrap();
    assert_eq!(explanation.differences, ["gas used is 0, the header says 1"]);
}

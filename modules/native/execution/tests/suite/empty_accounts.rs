//! Empty accounts of a genesis file (`docs/spec/chain.md` 5.3): random blocks that touch them, send them coins and
//! create contracts at their addresses, in successful and failed calls, compared with the reference client.
//! `TENON_RANDOM_CHAINS=FILE` runs the chains of another file of this form instead, one per line.

use std::sync::Arc;

use alloy_primitives::{Address, hex};
use serde_json::Value;
use tenon_api::{BlockNumber, ChainReader, ChainWriter, Receipt};
use tenon_chain::{decode_block, recover_senders_under};
use tenon_execution_block::{Executor, ReferenceBlock};
use tenon_native_spec::read_genesis;
use tenon_native_test_node::rules_of_blocks;
use tenon_test_node::{MemoryChain, sealess::SealessEngine, test_data};

/// Executes a case's blocks; the executor compares every root, and the test the empty accounts after each.
fn run(case: &Value) -> Result<(), String> {
    let genesis = read_genesis(case["genesis"].to_string().as_bytes()).map_err(|error| error.to_string())?;
    let chain = MemoryChain::new(&genesis.commit().unwrap());
    if !case["genesisHash"].as_str().unwrap().ends_with(&format!("{:x}", chain.head().header.hash())) {
        return Err("another genesis hash".to_owned());
    }
    let executor = Executor::new(rules_of_blocks(&genesis.spec));
    for line in case["blocks"].as_array().unwrap() {
        let rlp = hex::decode(line["rlp"].as_str().unwrap()).unwrap();
        let block = decode_block(&mut &rlp[..]).unwrap();
        let rules = genesis.spec.signer_rules(block.header.number, block.header.timestamp);
        let block = Arc::new(recover_senders_under(block, &rules).map_err(|error| error.to_string())?);
        let parent = chain.head().header.clone();
        let engine = SealessEngine::default();
        let commit = executor.execute(&chain, &engine, Arc::clone(&block), &parent).map_err(|error| {
            let explained = executor.explain(&chain, &engine, &block, &parent, &ReferenceBlock::default());
            let explained = explained.unwrap();
            let receipts: Vec<String> = explained.receipts.iter().map(in_a_line).collect();
            let changed: Vec<String> = explained.accounts.iter().map(|change| format!("{change:?}")).collect();
            format!("{error}\n    {}\n    {}", receipts.join("\n    "), changed.join("\n    "))
        })?;
        let commit = Arc::new(commit);
        chain.commit(&commit).unwrap();
        let state = chain.state_at(BlockNumber(commit.block.header.number)).unwrap();
        for address in line["empty"].as_array().into_iter().flatten() {
            let address: Address = address.as_str().unwrap().parse().unwrap();
            let account = state.account(address).unwrap();
            let is_empty = account.is_some_and(|account| account.nonce == 0 && account.balance.is_zero());
            if !is_empty {
                return Err(format!("{address} should be there, and empty, not {account:?}"));
            }
        }
    }
    Ok(())
}

fn in_a_line(receipt: &Receipt) -> String {
    format!("{:?}, gas {}, {} logs", receipt.outcome, receipt.gas_used, receipt.logs.len())
}

#[test]
fn empty_accounts_of_a_genesis_file_stay_or_are_deleted_as_in_the_reference() {
    let others = std::env::var_os("TENON_RANDOM_CHAINS");
    let text = match &others {
        Some(file) => std::fs::read_to_string(file).unwrap(),
        None => String::from_utf8(test_data("native/empty-accounts.jsonl.gz")).unwrap(),
    };
    let cases: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(others.is_some() || cases.len() == 153, "{} chains", cases.len());

    let failures: Vec<String> = cases
        .iter()
        .filter_map(|case| Some(format!("{} {}: {}", case["rules"], case["seed"], run(case).err()?)))
        .collect();

    assert!(failures.is_empty(), "{} of {} differ:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

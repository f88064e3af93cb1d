//! What becomes of empty accounts of a genesis file (`spec/chain.md` 5.3): random blocks that touch them, send them coins
//! and create contracts in their places, in calls that fail and that do not, as the reference client executed them.
#![allow(missing_docs, clippy::unwrap_used, reason = "a failure fails the test")]

mod support;

use std::sync::Arc;

use alloy_primitives::{Address, hex};
use serde_json::Value;
use support::{MemoryChain, sealess::SealessEngine, test_data};
use tenon_api::{BlockNumber, ChainReader, ChainWriter};
use tenon_chain::{Genesis, decode_block, recover_senders_under};
use tenon_execution::Executor;

/// Executes a case's blocks; every root is compared by the executor, and the accounts that are empty after each.
fn run(case: &Value) -> Result<(), String> {
    let genesis = Genesis::from_json(case["genesis"].to_string().as_bytes()).map_err(|error| error.to_string())?;
    let chain = MemoryChain::new(&genesis.commit().unwrap());
    if !case["genesisHash"].as_str().unwrap().ends_with(&format!("{:x}", chain.head().header.hash())) {
        return Err("another genesis hash".to_owned());
    }
    let executor = Executor::new(Arc::clone(&genesis.spec));
    for line in case["blocks"].as_array().unwrap() {
        let rlp = hex::decode(line["rlp"].as_str().unwrap()).unwrap();
        let block = decode_block(&mut &rlp[..]).unwrap();
        let rules = genesis.spec.signer_rules(block.header.number, block.header.timestamp);
        let block = Arc::new(recover_senders_under(block, &rules).map_err(|error| error.to_string())?);
        let parent = chain.head().header.clone();
        let commit =
            executor.execute(&chain, &SealessEngine::default(), block, &parent).map_err(|error| error.to_string())?;
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

#[test]
fn empty_accounts_of_a_genesis_file_stay_or_go_as_in_the_reference() {
    let text = String::from_utf8(test_data("native/empty-accounts.jsonl.gz")).unwrap();
    let cases: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(cases.len(), 152);

    let failures: Vec<String> = cases
        .iter()
        .filter_map(|case| Some(format!("{} {}: {}", case["rules"], case["seed"], run(case).err()?)))
        .collect();

    assert!(failures.is_empty(), "{} of {} differ:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

//! The small suites of ethereum/tests: transactions, difficulty, genesis.

#![allow(clippy::unwrap_used, reason = "a helper of tests may panic like a test")]

mod support;

use alloy_primitives::{Address, B256, U256};
use serde_json::Value;
use tenon_api::{EMPTY_OMMERS_HASH, Header, Transaction};
use tenon_chain::{Activation, ChainSpec, Fork, Genesis, decode_transaction, encode_block, intrinsic_gas};

/// A chain on which `fork` and all before it are active from genesis, also when it is an old one.
fn spec_at(fork: Fork) -> ChainSpec {
    ChainSpec::ethereum_at(1, fork)
}

/// Hash, sender and intrinsic gas, as the suite judges a transaction; none if it is not valid.
fn judge(encoded: &[u8], fork: Fork) -> Option<(Transaction, Address, u64)> {
    let transaction = decode_transaction(encoded).ok()?;
    let sender = spec_at(fork).signer_rules(0, 0).sender(&transaction).ok()?;
    let gas = intrinsic_gas(&transaction, fork);
    let fits = gas <= transaction.gas_limit;
    let initcode_fits = fork < Fork::Shanghai || transaction.to.is_some() || transaction.input.len() <= 49_152;
    let caps_fit = transaction.max_priority_fee_per_gas() <= transaction.max_fee_per_gas();
    let nonce_fits = transaction.nonce < u64::MAX;
    let payable = transaction.max_fee_per_gas().checked_mul(U256::from(transaction.gas_limit)).is_some();
    (fits && initcode_fits && caps_fit && nonce_fits && payable).then_some((transaction, sender, gas))
}

#[test]
fn transaction_tests_are_judged_as_recorded() {
    let suite = support::json("ethereum-TransactionTests.json.gz");
    let mut failures = Vec::new();
    let mut judged = 0;
    for (file, cases) in suite.as_object().unwrap() {
        for (name, case) in cases.as_object().unwrap() {
            let encoded = support::bytes(&case["txbytes"]);
            for (fork_name, wanted) in case["result"].as_object().unwrap() {
                let fork = Fork::from_name(fork_name).unwrap();
                let found = judge(&encoded, fork);
                judged += 1;
                let agrees = match (&found, wanted.get("exception")) {
                    (None, Some(_)) => true,
                    (Some((transaction, sender, gas)), None) => {
                        transaction.hash == wanted["hash"].as_str().unwrap().parse::<B256>().unwrap()
                            && *sender == wanted["sender"].as_str().unwrap().parse::<Address>().unwrap()
                            && U256::from(*gas) == support::number(&wanted["intrinsicGas"])
                    }
                    _ => false,
                };
                if !agrees {
                    failures.push(format!("{file} {name} {fork_name}: {found:?}, wanted {wanted}"));
                }
            }
        }
    }

    assert!(failures.is_empty(), "{} of {judged}:\n{}", failures.len(), failures.join("\n"));
    assert!(judged > 1000, "{judged}");
}

#[test]
fn difficulty_tests_give_their_values() {
    let suite = support::json("ethereum-DifficultyTests.json.gz");
    let mut count = 0;
    for (fork_name, cases) in suite.as_object().unwrap() {
        let fork = Fork::from_name(fork_name).unwrap();
        let spec = ChainSpec::ethereum(
            1,
            Fork::ALL.into_iter().filter(|each| *each <= fork).map(|each| (each, Activation::Block(0))),
        );
        for case in cases.as_array().unwrap() {
            let parent_difficulty = support::number(&case["parentDifficulty"]);
            if parent_difficulty < U256::from(131_072) {
                continue;
            }
            let has_ommers = !support::number(&case["parentUncles"]).is_zero();
            let parent = Header {
                number: support::number(&case["currentBlockNumber"]).to::<u64>() - 1,
                difficulty: parent_difficulty,
                timestamp: support::number(&case["parentTimestamp"]).to(),
                ommers_hash: if has_ommers { B256::ZERO } else { EMPTY_OMMERS_HASH },
                ..Header::default()
            };
            let found = spec.ethash_difficulty(&parent, support::number(&case["currentTimestamp"]).to());
            assert_eq!(found, support::number(&case["currentDifficulty"]), "{fork_name} {case}");
            count += 1;
        }
    }
    assert!(count > 500, "{count}");
}

#[test]
fn genesis_tests_give_their_blocks() {
    let suite = support::json("ethereum-GenesisTests.json.gz");
    let mut count = 0;
    for (name, case) in suite["basic_genesis_tests.json"].as_object().unwrap() {
        // One case spells the balance as files of 2014 did.
        let mut file: Value = serde_json::from_str(&case.to_string().replace("\"wei\"", "\"balance\"")).unwrap();
        file["config"] = serde_json::json!({ "chainId": 1 });
        let genesis = Genesis::from_json(file.to_string().as_bytes()).unwrap();

        let block = genesis.commit().unwrap().block;

        assert_eq!(alloy_primitives::hex::encode(encode_block(&block)), case["result"].as_str().unwrap(), "{name}");
        count += 1;
    }
    assert_eq!(count, 3);
}

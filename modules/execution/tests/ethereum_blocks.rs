//! The public block tests (`spec/conformance.md` 6.1): thousands of small chains, valid and invalid, of every fork
//! from Frontier to Cancun and across the transitions between them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure here fails the test")]

mod support;

use std::sync::{Arc, OnceLock};

use alloy_primitives::{B256, Bytes, U256};
use rayon::prelude::*;
use serde_json::Value;
use support::{TestNode, archive};
use tenon_api::{Block, ChainReader};
use tenon_chain::{Activation, ChainSpec, Fork, Genesis, GenesisAccount};

/// Cases that are not run, with the reason.
const EXCLUDED: [(&str, &str); 3] = [
    ("vmPerformance/", "seconds of pure computation; go-ethereum does not run them either"),
    (
        "blockChainFrontierWithLargerTDvsHomesteadBlockchain.json",
        "wants a block on a losing branch refused for what only its execution shows; go-ethereum does not run it either",
    ),
    ("bcHomesteadToDao/", "the balance move of the DAO fork is not built: no chain that this node serves has it"),
];

struct Case {
    name: String,
    network: String,
    body: Value,
}

fn cases() -> &'static [Case] {
    static CASES: OnceLock<Vec<Case>> = OnceLock::new();
    CASES.get_or_init(|| {
        let files = archive("ethereum-tests/blocks.tar.gz");
        let wanted = |path: &str| !EXCLUDED.iter().any(|(excluded, _)| path.contains(excluded));
        files.into_iter().filter(|(path, _)| wanted(path)).flat_map(|(path, content)| parse(&path, &content)).collect()
    })
}

fn parse(path: &str, content: &[u8]) -> Vec<Case> {
    let file: serde_json::Map<String, Value> = serde_json::from_slice(content).unwrap();
    file.into_iter()
        .map(|(name, body)| {
            let network = body["network"].as_str().unwrap().to_owned();
            Case { name: format!("{path}: {name}"), network, body }
        })
        .collect()
}

/// The rules of a network of the suite: one fork from genesis on, or two with a transition between them.
fn spec(network: &str) -> ChainSpec {
    if let Some(fork) = Fork::from_name(network) {
        return ChainSpec::ethereum_at(1, fork);
    }
    let (before, rest) = network.split_once("To").unwrap();
    let (after, at) = rest.split_once("At").unwrap();
    let before = Fork::from_name(before).unwrap();
    let after = Fork::from_name(after).unwrap();
    let transition = match at {
        "5" => Activation::Block(5),
        "Time15k" => Activation::Time(15_000),
        "DiffC0000" => Activation::TotalDifficulty(U256::from(0xC0000)),
        other => panic!("unknown transition {other}"),
    };
    let base = ChainSpec::ethereum_at(1, before);
    let between = Fork::ALL.into_iter().filter(|fork| *fork > before && *fork <= after);
    let new = between.map(|fork| (fork, transition));
    ChainSpec::ethereum(1, base.activations().iter().copied().chain(new))
}

fn number(value: &Value) -> U256 {
    let digits = value.as_str().unwrap().trim_start_matches("0x");
    if digits.is_empty() { U256::ZERO } else { U256::from_str_radix(digits, 16).unwrap() }
}

fn bytes(value: &Value) -> Bytes {
    value.as_str().unwrap().parse().unwrap()
}

fn account(value: &Value) -> GenesisAccount {
    let slots = value["storage"].as_object().unwrap();
    let slot = |(slot, value): (&String, &Value)| (B256::from(number(&Value::from(slot.as_str()))), number(value));
    GenesisAccount {
        balance: number(&value["balance"]),
        nonce: number(&value["nonce"]).to(),
        code: bytes(&value["code"]),
        storage: slots.iter().map(slot).collect(),
    }
}

fn genesis(case: &Case) -> Genesis {
    let block = tenon_chain::decode_block(&mut &bytes(&case.body["genesisRLP"])[..]).unwrap();
    let accounts = case.body["pre"].as_object().unwrap();
    Genesis {
        spec: Arc::new(spec(&case.network)),
        header: block.header.header().clone(),
        alloc: accounts.iter().map(|(address, value)| (address.parse().unwrap(), account(value))).collect(),
        config: Value::Null,
    }
}

/// The block, which must be all of the bytes.
fn decode(bytes: &[u8]) -> Result<Block, String> {
    let mut rest = bytes;
    let block = tenon_chain::decode_block(&mut rest).map_err(|error| error.to_string())?;
    if rest.is_empty() { Ok(block) } else { Err("trailing bytes".to_owned()) }
}

fn run(case: &Case) -> Result<(), String> {
    let node = TestNode::new(&genesis(case));
    for (index, block) in case.body["blocks"].as_array().unwrap().iter().enumerate() {
        let outcome = decode(&bytes(&block["rlp"]))
            .and_then(|block| node.importer.insert(block).map_err(|error| error.to_string()));
        match (outcome, block["valid"].as_bool().unwrap()) {
            (Ok(_), true) | (Err(_), false) => {}
            (Err(error), true) => return Err(format!("block at {index} refused: {error}")),
            (Ok(outcome), false) => return Err(format!("block at {index} accepted: {outcome:?}")),
        }
    }
    let (head, expected) = (node.chain.head().header.hash(), &case.body["lastblockhash"]);
    let expected: B256 = expected.as_str().unwrap().parse().unwrap();
    if head == expected { Ok(()) } else { Err(format!("the head is {head}, not {expected}")) }
}

#[test]
fn every_block_test_ends_as_it_must() {
    let failures: Vec<String> = cases()
        .par_iter()
        .filter_map(|case| run(case).err().map(|reason| format!("{}: {reason}", case.name)))
        .collect();

    println!("{} block tests, {} failed", cases().len(), failures.len());
    assert!(
        failures.is_empty(),
        "{} failures, the first:\n{}",
        failures.len(),
        failures[..failures.len().min(40)].join("\n")
    );
}

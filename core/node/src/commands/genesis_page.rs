//! The output of `tenon genesis show`.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tenon_chain::Activation;

use super::genesis_subject::Subject;
use crate::family::{PublicNetwork, native_bootnodes};

/// The activation of a fork, as readable text.
fn moment(activation: Activation) -> String {
    match activation {
        Activation::Block(number) => format!("block {number}"),
        Activation::Time(seconds) => format!("time {seconds}"),
        Activation::TotalDifficulty(difficulty) => format!("total difficulty {difficulty}"),
    }
}

/// Names and heights of all rule changes: of the genesis file, and of the chain's family.
fn forks(subject: &Subject) -> Vec<(String, Value, String)> {
    let (spec, family) = (&subject.genesis.spec, &subject.family);
    let scheduled = spec.activations().iter().map(|(fork, activation)| {
        let value = match *activation {
            Activation::Block(number) => json!({ "block": number }),
            Activation::Time(seconds) => json!({ "time": seconds }),
            Activation::TotalDifficulty(difficulty) => json!({ "totalDifficulty": difficulty.to_string() }),
        };
        (fork.name().to_owned(), value, moment(*activation))
    });
    let own = family.rule_heights().into_iter().map(|rule| {
        let (name, source) = (rule.name.to_owned(), rule.source);
        let when = rule.first.map_or_else(|| "never".to_owned(), |block| format!("block {block}"));
        (name, json!({ "block": rule.first, "source": source }), format!("{when:<16} {source}"))
    });
    let count = spec.activations().iter().filter(|(fork, _)| family.is_scheduled_by_file(*fork)).count();
    scheduled.take(count).chain(own).collect()
}

pub(super) fn as_json(subject: &Subject) -> String {
    let (spec, block, family) = (&subject.genesis.spec, &subject.block, &subject.family);
    let forks: serde_json::Map<_, _> = forks(subject).into_iter().map(|(name, value, _)| (name, value)).collect();
    let object = json!({
        "name": subject.name,
        "network": PublicNetwork::by_genesis_hash(block.hash()).map(|network| network.to_string()),
        "chainId": spec.chain_id,
        "constantsOf": family.network_id_of_constants(),
        "networkId": spec.network_id,
        "profile": format!("{:?}", spec.profile()).to_lowercase(),
        "hash": block.hash(),
        "stateRoot": block.state_root,
        "timestamp": block.timestamp,
        "gasLimit": block.gas_limit,
        "difficulty": block.difficulty,
        "extraData": block.extra_data,
        "baseFeePerGas": block.base_fee_per_gas,
        "accounts": subject.genesis.alloc.len(),
        "contracts": subject.contracts().count(),
        "signers": family.first_signers(block),
        "forks": forks,
        "consensus": family.consensus_as_json(),
        "bootnodes": native_bootnodes(spec.network_id).len(),
        "config": subject.genesis.config,
    });
    format!("{object:#}\n")
}

pub(super) fn as_table(subject: &Subject) -> String {
    let (spec, block) = (&subject.genesis.spec, &subject.block);
    let network = PublicNetwork::by_genesis_hash(block.hash());
    let known = network.map(|network| format!(", {}", network.names().join(" or "))).unwrap_or_default();
    let mut text = format!("Chain {}{known}\n", spec.chain_id);
    let rows = [
        ("hash", block.hash().to_string()),
        ("state root", block.state_root.to_string()),
        ("timestamp", block.timestamp.to_string()),
        ("gas limit", block.gas_limit.to_string()),
        ("difficulty", block.difficulty.to_string()),
        ("base fee", block.base_fee_per_gas.map_or_else(|| "none".to_owned(), |fee| format!("{fee} wei"))),
        ("extra data", format!("{} bytes", block.extra_data.len())),
        ("accounts", format!("{}, {} of them contracts", subject.genesis.alloc.len(), subject.contracts().count())),
        ("network id", spec.network_id.to_string()),
        ("bootnodes", native_bootnodes(spec.network_id).len().to_string()),
    ];
    for (name, value) in rows {
        let _ = writeln!(text, "  {name:<12} {value}");
    }
    text.push_str("\nRules\n");
    for (name, _, when) in forks(subject) {
        let _ = writeln!(text, "  {name:<24} {when}");
    }
    text.push_str(&subject.family.consensus_as_table(block));
    text
}

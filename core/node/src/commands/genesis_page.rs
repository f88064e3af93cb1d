//! The output of `tenon genesis show`.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tenon_api::Address;
use tenon_chain::{Activation, ChainSpec, Fork};
use tenon_native_consensus::v1_masternodes;
use tenon_native_spec::{HeightSource, NativeSettings, PublicNetwork, native_bootnodes};

use super::genesis::Subject;

/// The activation of a fork, as readable text.
fn moment(activation: Activation) -> String {
    match activation {
        Activation::Block(number) => format!("block {number}"),
        Activation::Time(seconds) => format!("time {seconds}"),
        Activation::TotalDifficulty(difficulty) => format!("total difficulty {difficulty}"),
    }
}

/// The origin of a native rule's height, as readable text.
pub(super) fn source_of(source: HeightSource) -> String {
    match source {
        HeightSource::BuiltIn(id) => format!("built in for network id {id}"),
        HeightSource::GenesisFile => "genesis file".to_owned(),
    }
}

/// Names and heights of all rule changes: those in the file, and on native chains those of the program.
fn forks(spec: &ChainSpec) -> Vec<(String, Value, String)> {
    let scheduled = spec.activations().iter().map(|(fork, activation)| {
        let value = match *activation {
            Activation::Block(number) => json!({ "block": number }),
            Activation::Time(seconds) => json!({ "time": seconds }),
            Activation::TotalDifficulty(difficulty) => json!({ "totalDifficulty": difficulty.to_string() }),
        };
        (fork.name().to_owned(), value, moment(*activation))
    });
    let named = NativeSettings::of(spec).into_iter().flat_map(NativeSettings::heights_with_source);
    let native = named.map(|(rule, source)| {
        let source = source_of(source);
        let when = rule.height.map_or_else(|| "never".to_owned(), |block| format!("block {block}"));
        (rule.name.to_owned(), json!({ "block": rule.height, "source": source }), format!("{when:<16} {source}"))
    });
    // From Petersburg on, a native chain has its own list of heights, which includes those from its file.
    let is_shown = |fork: &Fork| NativeSettings::of(spec).is_none() || *fork < Fork::Petersburg;
    let count = spec.activations().iter().filter(|(fork, _)| is_shown(fork)).count();
    scheduled.take(count).chain(native).collect()
}

fn signers(subject: &Subject) -> Vec<Address> {
    match NativeSettings::of(&subject.genesis.spec) {
        Some(_) => v1_masternodes(&subject.block.extra_data),
        None => Vec::new(),
    }
}

pub(super) fn as_json(subject: &Subject) -> String {
    let (spec, block) = (&subject.genesis.spec, &subject.block);
    let forks: serde_json::Map<_, _> = forks(spec).into_iter().map(|(name, value, _)| (name, value)).collect();
    let object = json!({
        "name": subject.name,
        "network": PublicNetwork::by_genesis_hash(block.hash()).map(|network| network.to_string()),
        "chainId": spec.chain_id,
        "constantsOf": NativeSettings::of(spec).map(|_| NativeSettings::built_in_network_id(spec.network_id)),
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
        "signers": signers(subject),
        "forks": forks,
        "consensus": NativeSettings::of(spec).map(consensus_as_json),
        "bootnodes": native_bootnodes(spec.network_id).len(),
        "config": subject.genesis.config,
    });
    format!("{object:#}\n")
}

fn consensus_as_json(native: &NativeSettings) -> Value {
    let consensus = &native.consensus;
    let rounds: Vec<_> = consensus
        .rounds()
        .iter()
        .map(|(first, round)| {
            json!({
                "firstRound": first,
                "maxMasternodes": round.max_masternodes,
                "certificateThreshold": round.certificate_threshold,
                "timeoutPeriod": round.timeout_period,
                "timeoutSyncThreshold": round.timeout_sync_threshold,
                "minePeriod": round.mine_period,
            })
        })
        .collect();
    let contracts = &native.contracts;
    json!({
        "switchBlock": consensus.switch_block,
        "switchEpoch": consensus.switch_epoch,
        "epoch": consensus.epoch,
        "gap": consensus.gap,
        "period": consensus.period,
        "reward": consensus.reward,
        "rewardCheckpoint": consensus.reward_checkpoint,
        "foundationWallet": consensus.foundation_wallet,
        "rounds": rounds,
        "denied": native.denylist.len(),
        "contracts": {
            "trc21Issuer": contracts.trc21_issuer,
            "xdcxListing": contracts.xdcx_listing,
            "relayerRegistration": contracts.relayer_registration,
            "lendingRegistration": contracts.lending_registration,
        },
    })
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
    for (name, _, when) in forks(spec) {
        let _ = writeln!(text, "  {name:<24} {when}");
    }
    if let Some(native) = NativeSettings::of(spec) {
        consensus_table(&mut text, native);
        text.push_str("\nSigners of the first epoch\n");
        for signer in signers(subject) {
            let _ = writeln!(text, "  {signer:#x}");
        }
    }
    text
}

fn consensus_table(text: &mut String, native: &NativeSettings) {
    let consensus = &native.consensus;
    let rows = [
        (
            "engine v1",
            if consensus.switch_block == 0 {
                "never".to_owned()
            } else {
                format!("up to block {}", consensus.switch_block)
            },
        ),
        (
            "engine v2",
            format!("from block {}, epoch {}", consensus.switch_block.saturating_add(1), consensus.switch_epoch),
        ),
        ("epoch", format!("{} blocks (v1) or rounds (v2), gap {}", consensus.epoch, consensus.gap)),
        ("period", format!("{} s", consensus.period)),
        ("reward", format!("{} coins every {} blocks", consensus.reward, consensus.reward_checkpoint)),
        ("foundation", format!("{:#x}", consensus.foundation_wallet)),
        ("denied", format!("{} addresses", native.denylist.len())),
    ];
    text.push_str("\nConsensus\n");
    for (name, value) in rows {
        let _ = writeln!(text, "  {name:<12} {value}");
    }
    let _ = writeln!(
        text,
        "\n  {:>12} {:>12} {:>10} {:>10} {:>8}",
        "from round", "masternodes", "quorum", "timeout s", "period s"
    );
    for (first, round) in consensus.rounds() {
        let _ = writeln!(
            text,
            "  {first:>12} {:>12} {:>10} {:>10} {:>8}",
            round.max_masternodes, round.certificate_threshold, round.timeout_period, round.mine_period
        );
    }
}

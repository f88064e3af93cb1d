//! What native chains have in addition to the rules of all chains: heights of their own rules, consensus parameters, and
//! what a genesis must contain.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tenon_api::{
    Account, Address, B256, BlockNumber, Bytes, EMPTY_CODE_HASH, SealedHeader, StateReader, StoreError, U256,
};
use tenon_chain::{Fork, Genesis};
use tenon_native_consensus::{read_candidates, v1_masternodes};
use tenon_native_spec::{HeightSource, NativeSettings, PublicNetwork};

use super::NativeNode;
use crate::family::{ChainDescription, GenesisCheck, RuleHeight};

/// Length of the vanity and the seal, which surround the signers in the extra data of a native block 0.
const AROUND_SIGNERS: usize = 32 + 65;
/// Contracts that every native chain calls, by the last byte of their address (`docs/spec/chain.md` 10).
const SYSTEM_CONTRACTS: [(&str, u8); 3] = [("validator", 0x88), ("block signer", 0x89), ("randomize", 0x90)];

impl ChainDescription for NativeNode {
    fn rule_heights(&self) -> Vec<RuleHeight> {
        let heights = self.settings.heights_with_source();
        heights
            .map(|(rule, source)| RuleHeight { name: rule.name, first: rule.height, source: source_of(source) })
            .collect()
    }

    /// From Petersburg on, a native chain has its own list of heights, which includes those from its file.
    fn is_scheduled_by_file(&self, fork: Fork) -> bool {
        fork < Fork::Petersburg
    }

    fn network_id_of_constants(&self) -> Option<u64> {
        Some(NativeSettings::built_in_network_id(self.spec.network_id))
    }

    fn first_signers(&self, genesis: &SealedHeader) -> Vec<Address> {
        v1_masternodes(&genesis.extra_data)
    }

    fn consensus_as_json(&self) -> Option<Value> {
        Some(consensus_json(&self.settings))
    }

    fn consensus_as_table(&self, genesis: &SealedHeader) -> String {
        let mut text = String::new();
        consensus_table(&mut text, &self.settings);
        text.push_str("\nSigners of the first epoch\n");
        for signer in self.first_signers(genesis) {
            let _ = writeln!(text, "  {signer:#x}");
        }
        text
    }

    fn genesis_checks(&self, file: &Genesis, block: &SealedHeader) -> Vec<GenesisCheck> {
        let mut checks = vec![constants(self.spec.network_id)];
        checks.extend(rules(self.rule_heights()));
        checks.push(signers(file, &block.extra_data));
        checks.extend(contracts(file));
        checks.push(consensus(&self.settings));
        checks
    }
}

/// The origin of a native rule's height, as readable text.
fn source_of(source: HeightSource) -> String {
    match source {
        HeightSource::BuiltIn(id) => format!("built in for network id {id}"),
        HeightSource::GenesisFile => "genesis file".to_owned(),
    }
}

fn consensus_json(native: &NativeSettings) -> Value {
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

/// The network whose built-in fork heights apply. For an id without heights of its own, they are those of another
/// network.
fn constants(id: u64) -> GenesisCheck {
    let of = NativeSettings::built_in_network_id(id);
    let name =
        PublicNetwork::by_chain_id(of).map_or_else(|| "private networks".to_owned(), |network| network.to_string());
    let note = if of == id { "" } else { ", because this id has none of its own" };
    GenesisCheck::new("fork heights", true, format!("network id {id} has the built-in heights of {of} ({name}){note}"))
}

/// The first block of each native rule, and the origin of that number (`docs/spec/upgrades.md` 1).
fn rules(heights: Vec<RuleHeight>) -> impl Iterator<Item = GenesisCheck> {
    heights.into_iter().map(|RuleHeight { name, first, source }| {
        let when = first.map_or_else(|| "never".to_owned(), |height| format!("from block {height}"));
        GenesisCheck::new("rule", true, format!("{name} {when}: {source}"))
    })
}

/// The extra data of block 0 lists the first signers (`docs/spec/chain.md` 7.2).
fn signers(genesis: &Genesis, extra: &Bytes) -> GenesisCheck {
    let list = extra.len().checked_sub(AROUND_SIGNERS).filter(|bytes| bytes.is_multiple_of(Address::len_bytes()));
    let Some(list) = list else {
        let finding = format!("extra data has {} bytes; expected 32 + 20 per signer + 65", extra.len());
        return GenesisCheck::new("signers", false, finding);
    };
    if list == 0 {
        return GenesisCheck::new(
            "signers",
            false,
            "can't start XDPoS chain without signers: extra data names none".into(),
        );
    }
    let mut signers = v1_masternodes(extra);
    let state = GenesisState(genesis);
    let mut candidates: Vec<Address> = match read_candidates(&state) {
        Ok(candidates) => candidates.into_iter().map(|(candidate, _)| candidate).collect(),
        Err(error) => return GenesisCheck::new("signers", false, error.to_string()),
    };
    signers.sort_unstable();
    candidates.sort_unstable();
    let (is_passed, about) = match (candidates.len(), signers == candidates) {
        (_, true) => (true, "the candidates of the validator contract".to_owned()),
        (0, _) => {
            (false, "but the validator contract has no candidate; the second epoch would have no masternode".into())
        }
        // The reference accepts it; the second epoch is drawn from the contract.
        (count, false) => (true, format!("other than the {count} candidates of the validator contract")),
    };
    GenesisCheck::new("signers", is_passed, format!("{} in the extra data, {about}", signers.len()))
}

fn contracts(genesis: &Genesis) -> impl Iterator<Item = GenesisCheck> {
    SYSTEM_CONTRACTS.into_iter().map(|(name, last)| {
        let address = Address::with_last_byte(last);
        let code = genesis.alloc.get(&address).map_or(0, |account| account.code.len());
        let finding = match code {
            0 => format!("no {name} contract at {address:#x}"),
            bytes => format!("{name} at {address:#x}, {bytes} bytes"),
        };
        GenesisCheck::new("contract", code > 0, finding)
    })
}

fn consensus(native: &NativeSettings) -> GenesisCheck {
    let consensus = &native.consensus;
    let engines = match consensus.switch_block {
        0 => "engine v2 from block 1".to_owned(),
        last => format!("engine v1 up to block {last}, v2 from then on"),
    };
    let epochs = format!("epochs of {}, gap {}", consensus.epoch, consensus.gap);
    GenesisCheck::new(
        "consensus",
        true,
        format!("{engines}; {epochs}; {} sets of parameters", consensus.rounds().len()),
    )
}

/// The state of block 0, from the file.
struct GenesisState<'a>(&'a Genesis);

impl StateReader for GenesisState<'_> {
    fn account(&self, address: Address) -> Result<Option<Account>, StoreError> {
        Ok(self.0.alloc.get(&address).map(|account| Account {
            nonce: account.nonce,
            balance: account.balance,
            code_hash: EMPTY_CODE_HASH,
            ..Account::default()
        }))
    }

    fn storage(&self, address: Address, slot: B256) -> Result<U256, StoreError> {
        let account = self.0.alloc.get(&address);
        Ok(account.and_then(|account| account.storage.get(&slot)).copied().unwrap_or_default())
    }

    fn code(&self, _: B256) -> Result<Option<Bytes>, StoreError> {
        Ok(None)
    }

    fn block_hash(&self, _: BlockNumber) -> Result<Option<B256>, StoreError> {
        Ok(None)
    }
}

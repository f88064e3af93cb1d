//! The checks of `tenon genesis verify`.

use std::fmt::Write as _;

use serde_json::json;
use tenon_api::{Account, Address, B256, BlockNumber, Bytes, EMPTY_CODE_HASH, StateReader, StoreError, U256};
use tenon_chain::Genesis;
use tenon_native_consensus::{read_candidates, v1_masternodes};
use tenon_native_spec::{NativeSettings, PublicNetwork};

use super::genesis::Subject;
use super::genesis_page::source_of;

/// Length of the vanity and the seal, which surround the signers in the extra data of a native block 0.
const AROUND_SIGNERS: usize = 32 + 65;
/// Contracts that every native chain calls, by the last byte of their address (`docs/spec/chain.md` 10).
const SYSTEM_CONTRACTS: [(&str, u8); 3] = [("validator", 0x88), ("block signer", 0x89), ("randomize", 0x90)];

/// One statement about a genesis.
pub(super) struct Check {
    /// The checked part.
    pub(super) subject: &'static str,
    /// The result.
    pub(super) finding: String,
    /// Whether a chain can start from it.
    pub(super) is_passed: bool,
}

impl Check {
    const fn new(subject: &'static str, is_passed: bool, finding: String) -> Self {
        Self { subject, finding, is_passed }
    }
}

/// All checks that apply, in a fixed order. `expected` is the hash given by the operator.
pub(super) fn run(subject: &Subject, expected: Option<B256>) -> Vec<Check> {
    let mut checks = vec![hash(subject, expected), state_root(subject)];
    if let Some(native) = NativeSettings::of(&subject.genesis.spec) {
        checks.push(constants(subject));
        checks.extend(rules(native));
        checks.push(signers(subject));
        checks.extend(contracts(&subject.genesis));
        checks.push(consensus(native));
    }
    checks
}

/// The network that this genesis belongs to: the one given by name, or the one with its chain id.
fn claimed(subject: &Subject) -> Option<PublicNetwork> {
    subject.network.or_else(|| PublicNetwork::by_chain_id(subject.genesis.spec.chain_id))
}

fn hash(subject: &Subject, expected: Option<B256>) -> Check {
    let found = subject.block.hash();
    let (is_passed, about) = match (expected, claimed(subject)) {
        (Some(wanted), _) if wanted != found => (false, format!(", wanted {wanted}")),
        (Some(_), _) => (true, " as expected".to_owned()),
        (None, Some(network)) if network.genesis_hash() == found => (true, format!(", that of {network}")),
        (None, Some(network)) => {
            let (id, wanted) = (subject.genesis.spec.chain_id, network.genesis_hash());
            (false, format!("; chain id {id} is that of {network}, whose genesis is {wanted}"))
        }
        (None, None) => (true, String::new()),
    };
    Check::new("hash", is_passed, format!("{found}{about}"))
}

fn state_root(subject: &Subject) -> Check {
    let found = subject.block.state_root;
    let accounts = subject.genesis.alloc.len();
    let known = claimed(subject).filter(|network| network.genesis_hash() == subject.block.hash());
    let is_passed = known.is_none_or(|network| network.genesis_state_root() == found);
    let contracts = subject.contracts().count();
    Check::new("state root", is_passed, format!("{found} of {accounts} accounts, {contracts} of them contracts"))
}

/// The network whose built-in fork heights apply. For an id without heights of its own, they are those of another
/// network.
fn constants(subject: &Subject) -> Check {
    let id = subject.genesis.spec.network_id;
    let of = NativeSettings::built_in_network_id(id);
    let name =
        PublicNetwork::by_chain_id(of).map_or_else(|| "private networks".to_owned(), |network| network.to_string());
    let note = if of == id { "" } else { ", because this id has none of its own" };
    Check::new("fork heights", true, format!("network id {id} has the built-in heights of {of} ({name}){note}"))
}

/// The first block of each native rule, and the origin of that number (`docs/spec/upgrades.md` 1).
fn rules(native: &NativeSettings) -> impl Iterator<Item = Check> {
    native.heights_with_source().map(|(rule, source)| {
        let when = rule.height.map_or_else(|| "never".to_owned(), |height| format!("from block {height}"));
        Check::new("rule", true, format!("{} {when}: {}", rule.name, source_of(source)))
    })
}

/// The extra data of block 0 lists the first signers (`docs/spec/chain.md` 7.2).
fn signers(subject: &Subject) -> Check {
    let extra = &subject.block.extra_data;
    let list = extra.len().checked_sub(AROUND_SIGNERS).filter(|bytes| bytes.is_multiple_of(Address::len_bytes()));
    let Some(list) = list else {
        let finding = format!("extra data has {} bytes; expected 32 + 20 per signer + 65", extra.len());
        return Check::new("signers", false, finding);
    };
    if list == 0 {
        return Check::new("signers", false, "can't start XDPoS chain without signers: extra data names none".into());
    }
    let mut signers = v1_masternodes(extra);
    let state = GenesisState(&subject.genesis);
    let mut candidates: Vec<Address> = match read_candidates(&state) {
        Ok(candidates) => candidates.into_iter().map(|(candidate, _)| candidate).collect(),
        Err(error) => return Check::new("signers", false, error.to_string()),
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
    Check::new("signers", is_passed, format!("{} in the extra data, {about}", signers.len()))
}

fn contracts(genesis: &Genesis) -> impl Iterator<Item = Check> {
    SYSTEM_CONTRACTS.into_iter().map(|(name, last)| {
        let address = Address::with_last_byte(last);
        let code = genesis.alloc.get(&address).map_or(0, |account| account.code.len());
        let finding = match code {
            0 => format!("no {name} contract at {address:#x}"),
            bytes => format!("{name} at {address:#x}, {bytes} bytes"),
        };
        Check::new("contract", code > 0, finding)
    })
}

fn consensus(native: &NativeSettings) -> Check {
    let consensus = &native.consensus;
    let engines = match consensus.switch_block {
        0 => "engine v2 from block 1".to_owned(),
        last => format!("engine v1 up to block {last}, v2 from then on"),
    };
    let epochs = format!("epochs of {}, gap {}", consensus.epoch, consensus.gap);
    Check::new("consensus", true, format!("{engines}; {epochs}; {} sets of parameters", consensus.rounds().len()))
}

pub(super) fn as_table(subject: &Subject, checks: &[Check]) -> String {
    let spec = &subject.genesis.spec;
    let mut text = format!("{}: chain {}, {:?} profile\n", subject.name, spec.chain_id, spec.profile());
    for check in checks {
        let outcome = if check.is_passed { "ok    " } else { "FAILED" };
        let _ = writeln!(text, "{outcome} {:<13} {}", check.subject, check.finding);
    }
    text
}

pub(super) fn as_json(subject: &Subject, checks: &[Check]) -> String {
    let list: Vec<_> = checks
        .iter()
        .map(|check| json!({ "subject": check.subject, "passed": check.is_passed, "finding": check.finding }))
        .collect();
    let object = json!({
        "name": subject.name,
        "chainId": subject.genesis.spec.chain_id,
        "network": PublicNetwork::by_genesis_hash(subject.block.hash()).map(|network| network.to_string()),
        "hash": subject.block.hash(),
        "stateRoot": subject.block.state_root,
        "passed": checks.iter().all(|check| check.is_passed),
        "checks": list,
    });
    format!("{object:#}\n")
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

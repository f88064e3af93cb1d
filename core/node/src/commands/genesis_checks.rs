//! The checks of `tenon genesis verify`.

use std::fmt::Write as _;

use serde_json::json;
use tenon_api::B256;

use super::genesis_subject::Subject;
use crate::family::{GenesisCheck, PublicNetwork};

/// All checks that apply, in a fixed order. `expected` is the hash given by the operator.
pub(super) fn run(subject: &Subject, expected: Option<B256>) -> Vec<GenesisCheck> {
    let mut checks = vec![hash(subject, expected), state_root(subject)];
    checks.extend(subject.family.genesis_checks(&subject.genesis, &subject.block));
    checks
}

/// The network that this genesis belongs to: the one given by name, or the one with its chain id.
fn claimed(subject: &Subject) -> Option<PublicNetwork> {
    subject.network.or_else(|| PublicNetwork::by_chain_id(subject.genesis.spec.chain_id))
}

fn hash(subject: &Subject, expected: Option<B256>) -> GenesisCheck {
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
    GenesisCheck::new("hash", is_passed, format!("{found}{about}"))
}

fn state_root(subject: &Subject) -> GenesisCheck {
    let found = subject.block.state_root;
    let accounts = subject.genesis.alloc.len();
    let known = claimed(subject).filter(|network| network.genesis_hash() == subject.block.hash());
    let is_passed = known.is_none_or(|network| network.genesis_state_root() == found);
    let contracts = subject.contracts().count();
    GenesisCheck::new("state root", is_passed, format!("{found} of {accounts} accounts, {contracts} of them contracts"))
}

pub(super) fn as_table(subject: &Subject, checks: &[GenesisCheck]) -> String {
    let spec = &subject.genesis.spec;
    let mut text = format!("{}: chain {}, {:?} profile\n", subject.name, spec.chain_id, spec.profile());
    for check in checks {
        let outcome = if check.is_passed { "ok    " } else { "FAILED" };
        let _ = writeln!(text, "{outcome} {:<13} {}", check.subject, check.finding);
    }
    text
}

pub(super) fn as_json(subject: &Subject, checks: &[GenesisCheck]) -> String {
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

//! `DifficultyTests`: the difficulty of a block from its parent's header.

use std::collections::BTreeMap;

use alloy_primitives::{B256, U256};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tenon_api::{EMPTY_OMMERS_HASH, Header};
use tenon_chain::{Activation, ChainSpec, Fork, spec::MINIMUM_DIFFICULTY};

use super::{Cases, FileReports, parse, parse_case};
use crate::{
    lenient::Number,
    network::{CHAIN_ID, at_fork},
    outcome::{Check, Passed, Unmet, require_equal},
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DifficultyCase {
    parent_timestamp: Number,
    parent_difficulty: Number,
    parent_uncles: Option<String>,
    current_timestamp: Number,
    current_block_number: Number,
    current_difficulty: Number,
}

pub(super) fn run(text: &[u8], cases: &Cases<'_>) -> FileReports {
    let file: BTreeMap<String, BTreeMap<String, &RawValue>> = parse(text)?;
    let mut reports = Vec::new();
    for (network, steps) in file.into_values().flatten().filter(|(name, _)| name != "_info") {
        match run_network(&network, steps, cases) {
            Ok(steps) => reports.extend(steps),
            Err(unmet) => reports.extend(cases.unmet(&network, unmet)),
        }
    }
    Ok(reports)
}

fn run_network(network: &str, steps: &RawValue, cases: &Cases<'_>) -> FileReports {
    let spec = chain(network)?;
    let steps: BTreeMap<String, Value> = parse_case(steps)?;
    let run_step = |(name, step): (String, Value)| {
        cases.run(&format!("{network} {name}"), || {
            serde_json::from_value::<DifficultyCase>(step).map_err(super::unreadable)?.run(&spec)
        })
    };
    Ok(steps.into_iter().filter_map(run_step).collect())
}

/// The older form: steps without the name of a network, which is in the file's name instead.
pub(super) fn run_unnamed(steps: BTreeMap<String, DifficultyCase>, cases: &Cases<'_>) -> FileReports {
    let heights: &[(Fork, u64)] = if cases.path.contains("Ropsten") {
        &[(Fork::Homestead, 0), (Fork::Byzantium, 1_700_000), (Fork::Constantinople, 4_230_000)]
    } else if cases.path.contains("Homestead") {
        &[(Fork::Homestead, 0)]
    } else {
        &[(Fork::Homestead, 1_150_000), (Fork::Byzantium, 4_370_000)]
    };
    let activations = heights.iter().map(|(fork, height)| (*fork, Activation::Block(*height)));
    let spec = ChainSpec::ethereum(CHAIN_ID, activations);
    Ok(steps.into_iter().filter_map(|(name, step)| cases.run(&name, || step.run(&spec))).collect())
}

/// Some files are named after the EIP that delays the bomb instead of its fork.
fn chain(network: &str) -> Result<ChainSpec, Unmet> {
    let fork = if network == "EIP2384" { "MuirGlacier" } else { network };
    Ok(at_fork(fork)?.1)
}

impl DifficultyCase {
    fn run(&self, spec: &ChainSpec) -> Check {
        let has_ommers = match self.parent_uncles.as_deref() {
            None | Some("0x00" | "0x" | "0x0") => false,
            Some("0x01" | "0x1") => true,
            // Older files give the hash of the list.
            Some(hash) => hash.parse::<B256>().is_ok_and(|hash| hash != EMPTY_OMMERS_HASH),
        };
        let parent = Header {
            number: self.current_block_number.to_u64().saturating_sub(1),
            difficulty: self.parent_difficulty.saturated(),
            timestamp: self.parent_timestamp.to_u64(),
            ommers_hash: if has_ommers { B256::ZERO } else { EMPTY_OMMERS_HASH },
            ..Header::default()
        };
        if parent.difficulty < U256::from(MINIMUM_DIFFICULTY) {
            // No such parent exists: a header below the minimum is invalid (`docs/spec/conformance.md` 6.4).
            return Ok(Passed { not_compared: 1 });
        }
        let found = spec.ethash_difficulty(&parent, self.current_timestamp.to_u64());
        require_equal("difficulty", found, self.current_difficulty.saturated())?;
        Ok(Passed::default())
    }
}

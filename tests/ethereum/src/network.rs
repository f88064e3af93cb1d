//! The names by which the block tests call their chains.

use alloy_primitives::U256;
use tenon_chain::{Activation, ChainSpec, Fork};

use crate::outcome::Unmet;

/// All suites are about chain 1.
pub(crate) const CHAIN_ID: u64 = 1;

/// The rules of a chain that has this fork, and all before it, from genesis on.
pub(crate) fn at_fork(name: &str) -> Result<(Fork, ChainSpec), Unmet> {
    let fork = Fork::from_name(name).ok_or_else(|| unknown(name))?;
    Ok((fork, ChainSpec::ethereum_at(CHAIN_ID, fork)))
}

/// The rules of a network: one fork from genesis on, or two with a transition between them, `XToYAtZ`.
pub(crate) fn spec(name: &str) -> Result<ChainSpec, Unmet> {
    let Some((before, rest)) = name.split_once("To") else { return Ok(at_fork(name)?.1) };
    let (after, at) = rest.split_once("At").ok_or_else(|| unknown(name))?;
    let activation = activation(at).ok_or_else(|| unknown(name))?;
    let (before, base) = at_fork(before)?;
    if after == "Dao" {
        let Activation::Block(block) = activation else { return Err(unknown(name)) };
        let mut spec = base;
        (spec.dao_fork_block, spec.dao_fork_support) = (Some(block), true);
        return Ok(spec);
    }
    let after = Fork::from_name(after).ok_or_else(|| unknown(name))?;
    let between = Fork::ALL.into_iter().filter(|fork| *fork > before && *fork <= after);
    let new = between.map(|fork| (fork, activation));
    Ok(ChainSpec::ethereum(CHAIN_ID, base.activations().iter().copied().chain(new)))
}

fn activation(text: &str) -> Option<Activation> {
    if let Some(time) = text.strip_prefix("Time") {
        let (digits, unit) = time.strip_suffix('k').map_or((time, 1), |digits| (digits, 1000));
        return digits.parse::<u64>().ok()?.checked_mul(unit).map(Activation::Time);
    }
    if let Some(difficulty) = text.strip_prefix("Diff") {
        return U256::from_str_radix(difficulty, 16).ok().map(Activation::TotalDifficulty);
    }
    text.parse().ok().map(Activation::Block)
}

fn unknown(name: &str) -> Unmet {
    Unmet::NotBuilt(format!("the rules of {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transitions_keep_the_older_forks_and_add_those_between() {
        let spec = spec("ShanghaiToCancunAtTime15k").unwrap();

        assert_eq!(spec.fork_at(1, 14_999), Fork::Shanghai);
        assert_eq!(spec.fork_at(1, 15_000), Fork::Cancun);
        assert_eq!(super::spec("EIP158ToByzantiumAt5").unwrap().fork_at(4, 0), Fork::SpuriousDragon);
        assert_eq!(super::spec("EIP158ToByzantiumAt5").unwrap().fork_at(5, 0), Fork::Byzantium);
        assert!(super::spec("HomesteadToAtlantisAt5").is_err());
    }
}

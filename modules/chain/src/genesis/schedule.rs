//! Converts the members of `config` to a [`ChainSpec`].

use alloy_primitives::U256;

use super::GenesisError;
use super::file::{BlobFile, ConfigFile};
use super::lenient::Number64;
use crate::spec::{Activation, BlobParameters, ChainSpec, Fork};

/// Ethereum's rules that `config` describes.
pub(super) fn chain_spec(config: &ConfigFile) -> Result<ChainSpec, GenesisError> {
    for (name, time) in [("amsterdamTime", config.amsterdam_time), ("verkleTime", config.verkle_time)] {
        if time.is_some() {
            return Err(GenesisError::UnsupportedFork { name });
        }
    }
    let chain_id = config.chain_id.ok_or(GenesisError::Missing { member: "config.chainId" })?.0;
    let activations = activations(config);
    check_order(&activations)?;
    let mut spec = ChainSpec::ethereum(chain_id, activations).with_blob_schedule(blob_schedule(config)?);
    spec.eip155_block = config.eip155_block.or(config.eip158_block).map(|number| number.0);
    spec.dao_fork_block = config.dao_fork_block.map(|number| number.0);
    spec.dao_fork_support = config.dao_fork_support.unwrap_or_default();
    spec.merge_netsplit_block = config.merge_netsplit_block.map(|number| number.0);
    spec.deposit_contract = config.deposit_contract_address.map(|address| address.0);
    Ok(spec)
}

fn activations(config: &ConfigFile) -> Vec<(Fork, Activation)> {
    let block = |number: Option<Number64>| number.map(|number| Activation::Block(number.0));
    let time = |number: Option<Number64>| number.map(|number| Activation::Time(number.0));
    let has_timed = config.shanghai_time.is_some();
    // A chain with timed forks and no terminal total difficulty has been merged from the start.
    let merge = config
        .terminal_total_difficulty
        .map(|number| number.0)
        .or(has_timed.then_some(U256::ZERO))
        .map(Activation::TotalDifficulty);
    [
        (Fork::Homestead, block(config.homestead_block)),
        (Fork::TangerineWhistle, block(config.eip150_block)),
        (Fork::SpuriousDragon, block(config.eip158_block)),
        (Fork::Byzantium, block(config.byzantium_block)),
        (Fork::Constantinople, block(config.constantinople_block)),
        // Without this member Petersburg came together with Constantinople.
        (Fork::Petersburg, block(config.petersburg_block.or(config.constantinople_block))),
        (Fork::Istanbul, block(config.istanbul_block)),
        (Fork::MuirGlacier, block(config.muir_glacier_block)),
        (Fork::Berlin, block(config.berlin_block)),
        (Fork::London, block(config.london_block)),
        (Fork::ArrowGlacier, block(config.arrow_glacier_block)),
        (Fork::GrayGlacier, block(config.gray_glacier_block)),
        (Fork::Paris, merge),
        (Fork::Shanghai, time(config.shanghai_time)),
        (Fork::Cancun, time(config.cancun_time)),
        (Fork::Prague, time(config.prague_time)),
        (Fork::Osaka, time(config.osaka_time)),
        (Fork::Bpo1, time(config.bpo1_time)),
        (Fork::Bpo2, time(config.bpo2_time)),
        (Fork::Bpo3, time(config.bpo3_time)),
        (Fork::Bpo4, time(config.bpo4_time)),
        (Fork::Bpo5, time(config.bpo5_time)),
    ]
    .into_iter()
    .filter_map(|(fork, activation)| activation.map(|activation| (fork, activation)))
    .collect()
}

/// Rejects a schedule in which a later fork begins before an earlier one: [`ChainSpec`] uses the newest active fork and
/// would silently skip the rules in between.
fn check_order(activations: &[(Fork, Activation)]) -> Result<(), GenesisError> {
    let (mut block, mut time) = ((Fork::Frontier, 0), (Fork::Frontier, 0));
    for (fork, activation) in activations {
        let (last, at) = match activation {
            Activation::Block(at) => (&mut block, *at),
            Activation::Time(at) => (&mut time, *at),
            Activation::TotalDifficulty(_) => continue,
        };
        if at < last.1 {
            return Err(GenesisError::ForkOrder { earlier: last.0, earlier_at: last.1, later: *fork, later_at: at });
        }
        *last = (*fork, at);
    }
    Ok(())
}

fn blob_schedule(config: &ConfigFile) -> Result<Vec<(Fork, BlobParameters)>, GenesisError> {
    let mut schedule = Vec::new();
    for (name, parameters) in config.blob_schedule.iter().flatten() {
        let fork = match name.as_str() {
            "cancun" => Fork::Cancun,
            "prague" => Fork::Prague,
            "osaka" => Fork::Osaka,
            "bpo1" => Fork::Bpo1,
            "bpo2" => Fork::Bpo2,
            "bpo3" => Fork::Bpo3,
            "bpo4" => Fork::Bpo4,
            "bpo5" => Fork::Bpo5,
            // An entry for a fork that is not scheduled has no effect.
            _ => continue,
        };
        if let Some(parameters) = parameters {
            schedule.push((fork, blob_parameters(name, parameters)?));
        }
    }
    Ok(schedule)
}

fn blob_parameters(name: &str, file: &BlobFile) -> Result<BlobParameters, GenesisError> {
    if file.base_fee_update_fraction.0 == 0 || file.target.0 > file.max.0 || file.max.0 > u64::from(u16::MAX) {
        return Err(GenesisError::BlobSchedule { fork: name.to_owned() });
    }
    Ok(BlobParameters { target: file.target.0, max: file.max.0, update_fraction: file.base_fee_update_fraction.0 })
}

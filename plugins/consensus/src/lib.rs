//! The `Consensus` namespace: what a native chain's consensus knows about its blocks, epochs and masternodes. The
//! reference client calls it `XDPoS`.
//!
//! It owns how callers name blocks here and the JSON shapes of the answers; everything else is asked of the node. What
//! must always hold: numbers are plain JSON numbers, names and nulls are the reference's, byte by byte. On chains of the
//! Ethereum profile none of its methods exists.
//!
//! Sources: `docs/spec/rpc-node.md` 2, and what the reference answered about its chains (`tests/recorded`).

#![deny(unsafe_code)]

mod authorised;
mod blocks;
mod epochs;
mod header;
mod parameters;
mod pool;
mod selector;

#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use tenon_sdk::{prelude::*, shapes::JsonWriter};

/// The running plugin; it keeps nothing of the chain.
#[derive(Default)]
pub struct Consensus {
    /// The family of rules of the chain, asked of the node the first time only.
    profile: OnceLock<Profile>,
}

impl Plugin for Consensus {
    fn start(_host: Host, _settings: &str, _handover: &[u8]) -> Result<Self, Failure> {
        Ok(Self::default())
    }
}

/// One call of this plugin.
type ConsensusContext = Context<Consensus>;
/// A result that is written as JSON directly.
type Answer = Result<JsonWriter, Failure>;

/// Refuses a method on chains that have no such consensus, as the reference does not serve the namespace there.
async fn require_native(context: &ConsensusContext, method: &str) -> Result<(), Failure> {
    let profile = match context.profile.get() {
        Some(profile) => *profile,
        None => {
            let profile = context.call(GetChainInfo).await?.profile;
            *context.profile.get_or_init(|| profile)
        }
    };
    match profile {
        Profile::Native => Ok(()),
        Profile::Ethereum => Err(Failure {
            code: FailureCode::METHOD_NOT_FOUND,
            ..Failure::server(format!("the method Consensus_{method} does not exist/is not available"))
        }),
    }
}

/// Writes a list of addresses.
fn write_addresses(json: &mut JsonWriter, addresses: &[Address]) {
    json.begin_list();
    for address in addresses {
        json.data(address);
    }
    json.end_list();
}

/// Writes a plain number.
fn write_number(json: &mut JsonWriter, number: u64) {
    json.raw(&number.to_string());
}

fn table() -> Table<Consensus> {
    const NUMBER: [&str; 1] = ["number"];
    const HASH: [&str; 1] = ["hash"];
    Table::new("Consensus", "1.0")
        .capabilities(&[Capability::ReadChain])
        .slow_read("Consensus_getSnapshot", &NUMBER, "Who may make blocks as of a block.", authorised::snapshot)
        .slow_read(
            "Consensus_getSnapshotAtHash",
            &HASH,
            "Who may make blocks as of a block.",
            authorised::snapshot_at_hash,
        )
        .slow_read("Consensus_getSigners", &NUMBER, "Addresses that may make blocks.", authorised::signers)
        .slow_read("Consensus_getSignersAtHash", &HASH, "Addresses that may make blocks.", authorised::signers_at_hash)
        .read(
            "Consensus_getMasternodesByNumber",
            &NUMBER,
            "Masternodes, penalised and standby nodes of a block's epoch.",
            epochs::masternodes,
        )
        .read(
            "Consensus_getLatestPoolStatus",
            &[],
            "Votes and timeouts that wait at this node for others of their kind.",
            pool::status,
        )
        .read("Consensus_getV2BlockByNumber", &NUMBER, "Round and standing of a block.", blocks::by_number)
        .read("Consensus_getV2BlockByHash", &HASH, "Round and standing of a block.", blocks::by_hash)
        .read(
            "Consensus_getV2BlockByHeader",
            &["header", "isUncle"],
            "Round and standing of a header.",
            blocks::by_header,
        )
        .read(
            "Consensus_networkInformation",
            &[],
            "Contracts and parameters of the chain's consensus.",
            parameters::network_information,
        )
        .read(
            "Consensus_XDPoS_networkInformation",
            &[],
            "The same as `XDPoS_networkInformation` answers it: with the reference's names of its members.",
            parameters::network_information_by_reference,
        )
        .slow_read(
            "Consensus_getMissedRoundsInEpochByBlockNum",
            &NUMBER,
            "Rounds without a block, from a block back to the first of its epoch.",
            epochs::missed_rounds,
        )
        .slow_read(
            "Consensus_getEpochNumbersBetween",
            &["begin", "end"],
            "Heights of the first blocks of epochs in a range of at most 50,000 blocks.",
            epochs::numbers_between,
        )
        .read(
            "Consensus_getBlockInfoByEpochNum",
            &["epochNumber"],
            "First and last block of an epoch.",
            epochs::block_info,
        )
}

tenon_sdk::export!(Consensus, table);

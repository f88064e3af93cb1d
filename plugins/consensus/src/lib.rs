//! The `Consensus` namespace: a native chain's consensus data about its blocks, epochs and masternodes. The reference
//! client calls it `XDPoS`.
//!
//! It owns the parsing of block parameters and the JSON shapes of the answers; all data is requested from the node.
//! Invariants: methods under the namespace's own names answer with the types of the interface document, or with the
//! reference's where the document specifies none. Methods under the reference's names (`Consensus_XDPoS_…` in the
//! table) answer byte for byte like the reference. On chains of the Ethereum profile none of its methods exists.
//!
//! Sources: `docs/spec/rpc-node.md` 2, and the reference's answers about its chains (`tests/recorded`).

#![deny(unsafe_code)]

mod authorised;
mod blocks;
mod epochs;
mod family;
mod header;
mod parameters;
mod pool;
mod selector;

#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use tenon_sdk::{
    prelude::*,
    shapes::{JsonWriter, schema},
};

use family::require_native;
use selector::ChosenBlock;

/// The running plugin; it keeps no data of the chain.
#[derive(Default)]
pub struct Consensus {
    /// Whether the chain has this namespace. Requested from the node the first time only.
    is_served: OnceLock<bool>,
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

/// Writes a list of addresses.
fn write_addresses(json: &mut JsonWriter, addresses: &[Address]) {
    json.begin_list();
    for address in addresses {
        json.data(address);
    }
    json.end_list();
}

/// The types of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Types {
    /// The interface document's: quantities are hexadecimal strings.
    Document,
    /// The reference's: numbers are plain.
    Reference,
}

impl Types {
    /// Writes a quantity.
    fn write_quantity(self, json: &mut JsonWriter, number: u64) {
        match self {
            Self::Document => json.quantity(number),
            Self::Reference => write_number(json, number),
        }
    }

    /// The block that a caller chose. The document accepts all tags for every block number; the reference refuses some,
    /// as `by_reference` decides.
    fn block(
        self,
        chosen: ChosenBlock,
        by_reference: impl FnOnce(ChosenBlock) -> Result<BlockId, Failure>,
    ) -> Result<BlockId, Failure> {
        match self {
            Self::Document => Ok(chosen.block()),
            Self::Reference => by_reference(chosen),
        }
    }
}

/// Writes a plain number.
fn write_number(json: &mut JsonWriter, number: u64) {
    json.raw(&number.to_string());
}

/// Results of methods under the document's names.
const RESULTS: &[(&str, &str)] = &[
    (
        "Consensus_getEpochNumbersBetween",
        r#"{"type":"array","items":{"type":"string","pattern":"^0x(0|[1-9a-f][0-9a-f]*)$"}}"#,
    ),
    ("Consensus_getSnapshot", schema::OBJECT),
    ("Consensus_getSnapshotAtHash", schema::OBJECT),
    ("Consensus_getMasternodesByNumber", schema::OBJECT),
    ("Consensus_getLatestPoolStatus", schema::OBJECT),
    ("Consensus_getV2BlockByNumber", schema::OBJECT),
    ("Consensus_getV2BlockByHash", schema::OBJECT),
    ("Consensus_getV2BlockByHeader", schema::OBJECT),
    ("Consensus_networkInformation", schema::OBJECT),
    ("Consensus_getMissedRoundsInEpochByBlockNum", schema::OBJECT),
    ("Consensus_getBlockInfoByEpochNum", schema::OBJECT),
    ("Consensus_getSigners", schema::ADDRESSES),
    ("Consensus_getSignersAtHash", schema::ADDRESSES),
];
const NUMBER: [&str; 1] = ["number"];
const HASH: [&str; 1] = ["hash"];

fn table() -> Table<Consensus> {
    let table = Table::new("Consensus", "1.0").capabilities(&[Capability::ReadChain]);
    let table = with_epochs(with_authorised(table));
    with_reference_types(table.results(RESULTS))
}

/// Methods about the authorised block producers.
fn with_authorised(table: Table<Consensus>) -> Table<Consensus> {
    table
        .slow_read("Consensus_getSnapshot", &NUMBER, "Authorised block producers as of a block.", authorised::snapshot)
        .slow_read(
            "Consensus_getSnapshotAtHash",
            &HASH,
            "Authorised block producers as of a block.",
            authorised::snapshot_at_hash,
        )
        .slow_read("Consensus_getSigners", &NUMBER, "Addresses of the authorised block producers.", authorised::signers)
        .slow_read(
            "Consensus_getSignersAtHash",
            &HASH,
            "Addresses of the authorised block producers.",
            authorised::signers_at_hash,
        )
}

/// Methods about epochs, rounds and votes.
fn with_epochs(table: Table<Consensus>) -> Table<Consensus> {
    table
        .read(
            "Consensus_getMasternodesByNumber",
            &NUMBER,
            "Masternodes, penalised and standby nodes of a block's epoch.",
            epochs::masternodes,
        )
        .read(
            "Consensus_getLatestPoolStatus",
            &[],
            "Votes and timeouts at this node that have no certificate yet.",
            pool::status,
        )
        .read("Consensus_getV2BlockByNumber", &NUMBER, "Round and status of a block.", blocks::by_number)
        .read("Consensus_getV2BlockByHash", &HASH, "Round and status of a block.", blocks::by_hash)
        .read(
            "Consensus_getV2BlockByHeader",
            &["header", "isUncle"],
            "Round and status of a header.",
            blocks::by_header,
        )
        .read(
            "Consensus_networkInformation",
            &[],
            "Contracts and parameters of the chain's consensus.",
            parameters::network_information,
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

/// Methods under the reference's names with other types. The other methods are the same under both names.
fn with_reference_types(table: Table<Consensus>) -> Table<Consensus> {
    const SAME: &str = "The same method with the reference's types.";
    table
        .slow_read("Consensus_XDPoS_getSnapshot", &NUMBER, SAME, authorised::snapshot_by_reference)
        .slow_read("Consensus_XDPoS_getSnapshotAtHash", &HASH, SAME, authorised::snapshot_at_hash_by_reference)
        .slow_read("Consensus_XDPoS_getSigners", &NUMBER, SAME, authorised::signers_by_reference)
        .read("Consensus_XDPoS_getMasternodesByNumber", &NUMBER, SAME, epochs::masternodes_by_reference)
        .read("Consensus_XDPoS_getV2BlockByNumber", &NUMBER, SAME, blocks::by_number_by_reference)
        .read("Consensus_XDPoS_getV2BlockByHash", &HASH, SAME, blocks::by_hash_by_reference)
        .read("Consensus_XDPoS_getV2BlockByHeader", &["header", "isUncle"], SAME, blocks::by_header_by_reference)
        .read("Consensus_XDPoS_networkInformation", &[], SAME, parameters::network_information_by_reference)
        .slow_read(
            "Consensus_XDPoS_getMissedRoundsInEpochByBlockNum",
            &NUMBER,
            SAME,
            epochs::missed_rounds_by_reference,
        )
        .slow_read(
            "Consensus_XDPoS_getEpochNumbersBetween",
            &["begin", "end"],
            SAME,
            epochs::numbers_between_by_reference,
        )
}

tenon_sdk::export!(Consensus, table);

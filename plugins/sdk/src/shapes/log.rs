//! Logs (`docs/spec/rpc-eth.md` 6.6, `docs/spec/conformance.md` 3.2).

use alloy_primitives::B256;
use tenon_api::{LocatedLog, Log, messages::Profile};

use super::{JsonWriter, family_members::FamilyMembers};

/// Capacity for the JSON of a log without its data: topics and position.
pub const LOG_JSON_BYTES: usize = 900;

/// Position of a log: the fields of [`LocatedLog`] without the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogPlace {
    pub(super) block_number: u64,
    pub(super) block_hash: B256,
    pub(super) block_timestamp: u64,
    pub(super) transaction_hash: B256,
    pub(super) transaction_index: u64,
    pub(super) log_index: u64,
    pub(super) removed: bool,
}

/// A log of the chain.
pub fn write_located_log(json: &mut JsonWriter, profile: Profile, located: &LocatedLog) {
    let place = LogPlace {
        block_number: located.block_number.0,
        block_hash: located.block_hash,
        block_timestamp: located.block_timestamp,
        transaction_hash: located.transaction_hash,
        transaction_index: located.transaction_index,
        log_index: located.log_index,
        removed: located.removed,
    };
    write_log(json, profile, &located.log, &place);
}

/// Maximum length of [`logs_json`]'s text in bytes.
pub fn logs_json_bytes(logs: &[LocatedLog]) -> usize {
    let data: usize = logs.iter().map(|located| located.log.data.len() * 2).sum();
    data + logs.len() * LOG_JSON_BYTES + 2
}

/// A list of logs.
pub fn logs_json(profile: Profile, logs: &[LocatedLog]) -> JsonWriter {
    let mut json = JsonWriter::with_capacity(logs_json_bytes(logs));
    json.begin_list();
    for located in logs {
        write_located_log(&mut json, profile, located);
    }
    json.end_list();
    json
}

/// A log of a transaction that is not in a block yet: its position is null.
pub fn write_pending_log(json: &mut JsonWriter, log: &Log) {
    write_content(json, log);
    for name in ["blockNumber", "transactionHash", "transactionIndex", "blockHash", "logIndex"] {
        json.key(name).null();
    }
    json.key("removed").boolean(false);
    json.end_object();
}

/// Opens a log's object with the members that do not depend on its position.
fn write_content(json: &mut JsonWriter, log: &Log) {
    json.begin_object();
    json.key("address").data(log.address);
    json.key("topics");
    json.begin_list();
    for topic in &log.topics {
        json.data(topic);
    }
    json.end_list();
    json.key("data").data(&log.data);
}

/// A log and its position. The native profile has no block time.
pub(super) fn write_log(json: &mut JsonWriter, profile: Profile, log: &Log, place: &LogPlace) {
    write_content(json, log);
    json.key("blockNumber").quantity(place.block_number);
    json.key("transactionHash").data(place.transaction_hash);
    json.key("transactionIndex").quantity(place.transaction_index);
    json.key("blockHash").data(place.block_hash);
    if FamilyMembers::of(profile).has_block_timestamp {
        json.key("blockTimestamp").quantity(place.block_timestamp);
    }
    json.key("logIndex").quantity(place.log_index);
    json.key("removed").boolean(place.removed);
    json.end_object();
}

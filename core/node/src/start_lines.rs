//! The first lines of a node's log.

use std::fs::Metadata;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenon_api::ChainReader as _;
use tenon_api::messages::ChainInfo;
use tenon_config::{HistoryMode, Settings};
use tenon_file_access::{FileExposure, check_secret, check_unchangeable};

use crate::data_folder::DataFolder;
use crate::endpoints::Endpoints;
use crate::family::PublicNetwork;
use crate::front_ends;
use crate::health::Health;
use crate::opened_chain::OpenedChain;
use crate::version::version;

/// Logs the first line: what is started, the chain, and its head.
pub(crate) fn starting(settings: &Settings, folder: &DataFolder, chain: &OpenedChain) {
    let head = chain.store.head();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    tracing::info!(
        version = version(),
        chain = chain_name(&chain.info),
        head = head.header.number,
        head_age = head_age(head.header.timestamp, now),
        mode = mode(settings),
        datadir = %front_ends::absolute(folder.path()).display(),
        "Tenon starts"
    );
}

/// Warns of a data folder that others can change, and of a token secret that they can read.
pub(crate) fn exposed_files(settings: &Settings) {
    let datadir = &settings.node.datadir;
    let warn = |path: &Path, check: fn(&Metadata) -> Result<(), FileExposure>, effect: &str| {
        if let Some(access) = std::fs::metadata(path).ok().and_then(|metadata| check(&metadata).err()) {
            tracing::warn!(path = %path.display(), %access, "{effect}");
        }
    };
    warn(datadir, check_unchangeable, "other users can replace files of the data folder");
    warn(&settings.in_data_folder(&settings.auth.jwtsecret), check_secret, "other users can make bearer tokens");
}

/// Logs the last line of a start: where the node listens.
pub(crate) fn serving(endpoints: &Endpoints) {
    let Endpoints { http, ws, ipc, metrics, .. } = endpoints;
    let ipc = ipc.as_ref().map(|path| path.display().to_string());
    let [http, ws, ipc, metrics] = [http, ws, &ipc, metrics].map(|address| address.as_deref().unwrap_or("off"));
    tracing::info!(%http, %ws, %ipc, %metrics, "serving");
}

/// Logs that the node has no source of new blocks if its network is off.
pub(crate) fn no_network(health: &Health) {
    if health.has_network() {
        return;
    }
    let report = health.report();
    let (head, instead) = (
        report.head.number,
        "blocks can only be imported, by admin_importChain or, while the node is stopped, by `tenon import`",
    );
    if report.head.is_old() {
        tracing::warn!(
            head,
            "the node does not follow the network, because it is off (--p2p turns it on), and the head is old; \
             {instead}"
        );
    } else {
        tracing::info!(head, "the node does not follow the network, because it is off (--p2p turns it on); {instead}");
    }
}

/// `mainnet (50)`, or `chain 31337`.
pub(crate) fn chain_name(info: &ChainInfo) -> String {
    match PublicNetwork::by_genesis_hash(info.genesis_hash) {
        Some(network) => format!("{network} ({})", info.chain_id),
        None => format!("chain {}", info.chain_id),
    }
}

fn mode(settings: &Settings) -> String {
    match settings.database.mode {
        HistoryMode::Archive => "archive".to_owned(),
        HistoryMode::Pruned => format!("pruned to {} blocks", settings.database.history),
    }
}

/// The age of a head. Genesis files may omit the time, which makes it 0.
fn head_age(timestamp: u64, now: Duration) -> String {
    if timestamp == 0 {
        return "unknown (the genesis has no time)".to_owned();
    }
    age_text(now.saturating_sub(Duration::from_secs(timestamp)))
}

/// The two largest units of a time: `3 d 4 h`.
fn age_text(age: Duration) -> String {
    let seconds = age.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_shown_in_their_two_largest_units() {
        let told = [5, 61, 3_700, 90_000].map(|seconds| age_text(Duration::from_secs(seconds)));

        assert_eq!(told, ["5 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"]);
    }

    #[test]
    fn a_genesis_without_a_time_has_no_age() {
        let now = Duration::from_secs(1_700_000_000);

        assert_eq!(head_age(0, now), "unknown (the genesis has no time)");
        assert_eq!(head_age(1_699_999_940, now), "1 min 0 s");
    }
}

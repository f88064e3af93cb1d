//! The answer to `GET /health`: each member with a state of its own.

use std::collections::HashSet;

use serde::Serialize;

/// State of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display, Serialize)]
#[serde(rename_all = "camelCase")]
#[display(rename_all = "camelCase")]
pub(crate) enum State {
    /// Healthy.
    Ok,
    /// The head is older than allowed.
    Old,
    /// There are fewer peers than required.
    Few,
    /// There is less space than required.
    Low,
    /// The last write of the database failed.
    WritesFail,
    /// The last changes of the chain panicked, or one did and the database could not be read again.
    WritesPanic,
    /// The database accepts no writes.
    WritesStopped,
    /// A flush or compaction of the database failed.
    BackgroundErrors,
    /// The folder of the database was renamed or replaced.
    FolderReplaced,
    /// A checksum of the database was wrong.
    Damaged,
    /// Parts of the node have failed.
    Failed,
    /// The system or the database does not report it.
    Unknown,
}

/// The whole answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Report {
    /// The head of the chain.
    pub(crate) head: HeadReport,
    /// Connected peers.
    pub(crate) peers: PeersReport,
    /// The database.
    pub(crate) database: DatabaseReport,
    /// Free space.
    pub(crate) disk: DiskReport,
    /// Actors and the parts of the node that are modules.
    pub(crate) actors: ActorsReport,
    /// Plugins.
    pub(crate) plugins: PluginsReport,
}

/// The head of the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HeadReport {
    pub(crate) state: State,
    pub(crate) number: u64,
    /// Unix seconds.
    pub(crate) timestamp: u64,
    /// Seconds.
    pub(crate) age: u64,
    /// Seconds; `None` if no maximum age applies.
    pub(crate) max_age: Option<u64>,
}

impl HeadReport {
    /// Whether it is older than it may be.
    pub(crate) fn is_old(&self) -> bool {
        self.state == State::Old
    }
}

/// Connected peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PeersReport {
    state: State,
    pub(crate) count: u64,
    #[serde(rename = "least")]
    min: u32,
}

impl PeersReport {
    pub(crate) fn new(count: u64, min: u32) -> Self {
        Self { state: if count < u64::from(min) { State::Few } else { State::Ok }, count, min }
    }
}

/// The database. Its engine's words are in the log only: they name paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DatabaseReport {
    pub(crate) state: State,
    /// Unix seconds; `None` if nothing was written since the start.
    pub(crate) last_write: Option<u64>,
    /// Unix seconds of the first failure or panic; `None` if the last write succeeded.
    pub(crate) failing_since: Option<u64>,
    /// If writes fail because the disk is full: bytes that must be free before they succeed again.
    pub(crate) space_needed: Option<u64>,
    /// Since the start; `None` if the engine does not report it.
    pub(crate) background_errors: Option<u64>,
}

/// Free space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct DiskReport {
    state: State,
    /// Bytes; `None` if the system does not report them.
    free: Option<u64>,
    /// Bytes.
    #[serde(rename = "least")]
    min: u64,
}

impl DiskReport {
    pub(crate) fn new(free: Option<u64>, min: u64) -> Self {
        let state = match free {
            _ if min == 0 => State::Ok,
            None => State::Unknown,
            Some(free) if free < min => State::Low,
            Some(_) => State::Ok,
        };
        Self { state, free, min }
    }
}

/// Parts of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ActorsReport {
    state: State,
    failed: Vec<String>,
}

impl ActorsReport {
    /// An actor may have the name of its module.
    pub(crate) fn new(mut failed: Vec<String>) -> Self {
        let mut known = HashSet::new();
        failed.retain(|name| known.insert(name.clone()));
        Self { state: if failed.is_empty() { State::Ok } else { State::Failed }, failed }
    }
}

/// Enabled plugins. Failed third-party plugins are listed but do not make the node unhealthy: its own functions do not
/// depend on them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PluginsReport {
    state: State,
    /// Plugins that come with the node.
    failed: Vec<String>,
    /// Third-party plugins.
    others_failed: Vec<String>,
}

impl PluginsReport {
    pub(crate) fn new(failed: Vec<String>, others_failed: Vec<String>) -> Self {
        let state = if failed.is_empty() { State::Ok } else { State::Failed };
        Self { state, failed, others_failed }
    }
}

impl Report {
    fn states(&self) -> [(&'static str, State); 6] {
        [
            ("head", self.head.state),
            ("peers", self.peers.state),
            ("database", self.database.state),
            ("disk", self.disk.state),
            ("actors", self.actors.state),
            ("plugins", self.plugins.state),
        ]
    }

    /// The unhealthy members.
    pub(crate) fn bad_members(&self) -> Vec<(&'static str, State)> {
        self.states().into_iter().filter(|(_, state)| *state != State::Ok).collect()
    }

    /// Whether all members are healthy.
    pub(crate) fn is_healthy(&self) -> bool {
        self.bad_members().is_empty()
    }

    /// The whole answer, as JSON.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let mut json = serde_json::to_value(self).unwrap_or_default();
        json["healthy"] = self.is_healthy().into();
        json
    }

    /// One member, as JSON.
    pub(crate) fn member(&self, name: &str) -> serde_json::Value {
        self.to_json()[name].take()
    }
}

//! What an operator watches: metrics, health and the log.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::LOOPBACK;
use crate::table::section;
use crate::value::{ByteSize, LogFormat, LogRotation};

section! {
    "Metrics";
    /// Metrics for Prometheus, served at `/metrics` on a port of their own.
    MetricsSettings {
        /// Serve metrics. While the node runs: `tenon module enable metrics`.
        enabled: bool = false, "metrics.enabled", "metrics";
        /// Address to listen on. Any address except loopback opens the metrics to the network.
        addr: IpAddr = LOOPBACK, "metrics.addr", "metrics.addr", old "metrics-addr";
        /// Port to listen on; 0 chooses a free one.
        port: u16 = 6060, "metrics.port", "metrics.port", old "metrics-port";
    }
}

section! {
    "Health";
    /// When `GET /health` answers 503. The answer names the failed checks; the log names them when they change.
    HealthSettings {
        /// Maximum age of the head; `0s` means no limit. Without it: 30 times the time between blocks that the rules of the
        /// chain set, at least one minute; no limit for chains that set no such time. While the head is older,
        /// `eth_syncing` reports syncing; without this setting it does so on the public networks only.
        head_age: Option<Duration> = None, "health.head-age", "health.head-age";
        /// Minimum free space where the database is; 0 means no limit.
        disk_free: ByteSize = ByteSize::mebibytes(256), "health.disk-free", "health.disk-free";
        /// Minimum number of peers.
        peers: u32 = 0, "health.peers", "health.peers";
        /// How long a failed flush or compaction of the database makes the node unhealthy. Failed writes do so until one
        /// succeeds.
        database_errors: Duration = Duration::from_secs(60), "health.database-errors", "health.database-errors";
    }
}

section! {
    "Log";
    /// What the node logs to standard error.
    LogSettings {
        /// 0 silent, 1 errors, 2 warnings, 3 information, 4 debug, 5 everything.
        verbosity: u8 = 3, "log.verbosity", "verbosity";
        /// `text` for people, `json` for programs.
        format: LogFormat = LogFormat::Text, "log.format", "log.format";
        /// Log levels by module, as in `tenon_storage=debug,warn`; overrides the verbosity.
        filter: Option<String> = None, "log.filter", "log.filter";
        /// File that gets the same lines, in addition to standard error. The date when it was started is added to its name,
        /// as in `node.log.2026-11-22`. A bare file name is placed in the data folder.
        file: Option<PathBuf> = None, "log.file", "log.file";
        /// When a new file is started: `daily`, `hourly`, or `never`, which adds no date to the name. Dates are UTC.
        rotation: LogRotation = LogRotation::Daily, "log.rotation", "log.rotation";
        /// Number of these files to keep; 0 keeps all.
        keep: u32 = 7, "log.keep", "log.keep";
    }
}

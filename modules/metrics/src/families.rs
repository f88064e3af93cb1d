//! The list of all metrics, from which the documentation page is generated.

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows while the node runs. Its name in the text ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts in buckets of `le` seconds, with `_sum` and `_count`.
    Histogram,
    /// Always 1; its labels carry information. Its name in the text ends in `_info`.
    Info,
}

impl Kind {
    /// The name in the documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }

    /// The suffix that the text adds to the name.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Counter => "_total",
            Self::Info => "_info",
            Self::Gauge | Self::Histogram => "",
        }
    }
}

/// One metric: a family of series that differ in labels.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// The part of the node that it describes, a heading of the page.
    pub room: &'static str,
    /// The name without the suffix of its kind.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// The unit, if any; the name ends with it.
    pub unit: Option<&'static str>,
    /// The labels of each series, in order.
    pub labels: &'static [&'static str],
    /// Its meaning, without a full stop.
    pub help: &'static str,
}

impl Family {
    /// The name as in the text.
    pub fn full_name(&self) -> String {
        format!("{}{}", self.name, self.kind.suffix())
    }
}

macro_rules! families {
    ($($room:literal { $($constant:ident: $kind:ident $name:literal $(in $unit:literal)? [$($label:literal)*] $help:literal;)* })*) => {
        $($(
            #[doc = concat!($help, ".")]
            pub static $constant: Family = Family {
                room: $room,
                name: $name,
                kind: Kind::$kind,
                unit: families!(@unit $($unit)?),
                labels: &[$($label),*],
                help: $help,
            };
        )*)*

        /// All families, in the order of the page.
        pub static ALL: &[&Family] = &[$($(&$constant),*),*];
    };
    (@unit) => { None };
    (@unit $unit:literal) => { Some($unit) };
}

families! {
    "Requests" {
        CALLS: Counter "tenon_rpc_requests" ["method" "transport"]
            "Calls that ended, however they did; methods that were not called yet have no series";
        FAILED_CALLS: Counter "tenon_rpc_errors" ["method" "transport"]
            "Of the requests, those that were answered by an error, also one of the caller's making";
        CANCELLED_CALLS: Counter "tenon_rpc_cancelled" ["method" "transport"]
            "Of the requests, those whose client left or whose time was over before they were answered";
        UNKNOWN_CALLS: Counter "tenon_rpc_unknown_methods" ["transport"]
            "Calls of methods that nobody serves, or not to that client";
        CALL_DURATIONS: Histogram "tenon_rpc_duration_seconds" in "seconds" ["namespace" "class" "transport"]
            "Time from the routing of a call to its result, by namespace and cost class (fast, slow); counts only while the module runs";
        SLOW_CALLS_WAITING: Gauge "tenon_rpc_slow_calls_waiting" []
            "Calls of class slow that wait for their turn";
        POOL_JOBS: Gauge "tenon_rpc_work_jobs" ["state"]
            "Jobs of calls, traces and scans on the threads of rpc.threads (running), those that gave way to another client's (parked), and those that wait for a thread (waiting)";
        REQUEST_MEMORY: Gauge "tenon_rpc_memory_bytes" in "bytes" ["use"]
            "Memory that requests hold of rpc.memory, by what it is held for";
        REQUEST_MEMORY_LIMIT: Gauge "tenon_rpc_memory_limit_bytes" in "bytes" ["holder"]
            "Memory that all requests together (all) and those of one client (client) may hold";
        REQUEST_MEMORY_REFUSED: Counter "tenon_rpc_memory_refused" ["use"]
            "Requests for memory that were refused, because the client or all together held as much as they may";
        REQUEST_MEMORY_CLIENTS: Gauge "tenon_rpc_memory_clients" [] "Clients that are connected or hold memory";
        REQUEST_MEMORY_LARGEST: Gauge "tenon_rpc_memory_largest_client_bytes" in "bytes" ["client"]
            "Memory that the client holds which holds most";
    }
    "Front-ends" {
        LISTENING: Gauge "tenon_listening" ["transport"] "1 while the front-end listens, 0 while it does not";
        CONNECTIONS: Gauge "tenon_connections" ["transport"] "Connections that are open";
        ACCEPTED: Counter "tenon_connections_accepted" ["transport"]
            "Connections that were taken; a WebSocket on the port of HTTP begins as one of HTTP";
        REFUSED: Counter "tenon_connections_refused" ["transport"]
            "Connections that were closed at once because as many were open as may be";
        RECEIVED: Counter "tenon_received_bytes" in "bytes" ["transport"]
            "Bytes that clients sent; an open connection adds its own every 4 KiB and at its end";
        SENT: Counter "tenon_sent_bytes" in "bytes" ["transport"]
            "Bytes that clients were sent; added as those that they sent";
        NOTIFICATIONS: Counter "tenon_notifications" ["transport"] "Notifications of subscriptions";
    }
    "Chain" {
        HEAD: Gauge "tenon_head_number" [] "Number of the head";
        HEAD_TIME: Gauge "tenon_head_timestamp_seconds" in "seconds" [] "Time that the head's header names, since 1970";
        SAFE: Gauge "tenon_safe_number" [] "Number of the last block that is unlikely to be undone; none when the engine knows none";
        FINALIZED: Gauge "tenon_finalized_number" [] "Number of the last block that will not be undone; none when the engine knows none";
        PEERS: Gauge "tenon_peers" [] "Connected peers";
        BLOCKS: Counter "tenon_blocks_committed" [] "Blocks that became the head since the node started";
        TRANSACTIONS: Counter "tenon_transactions_committed" [] "Transactions of these blocks";
        GAS: Counter "tenon_gas_committed" [] "Gas that these blocks used";
        COMMITS: Histogram "tenon_commit_duration_seconds" in "seconds" [] "Time that the database took for each of these blocks";
        UNWOUND: Counter "tenon_unwinds" [] "Times that blocks were taken off the head: reorganisations, and the head moved by hand";
        RECOVERED: Counter "tenon_recovered_signers" []
            "Signers of transactions, headers and votes that were recovered eight at a time";
        RECOVERED_TWICE: Counter "tenon_recovered_signers_checked" [] "Of these, how many were recovered again by the C library (recovery.check)";
        RECOVERED_WRONGLY: Counter "tenon_recovered_signers_wrong" [] "Of these, how many were wrong: from the first on the node recovers one by one";
        SIDE_BLOCKS: Counter "tenon_side_blocks" [] "Blocks that were kept on a branch that does not win";
    }
    "Transaction pool" {
        POOL: Gauge "tenon_pool_transactions" ["state"]
            "Transactions that wait for a block (pending) or for a gap to close (queued); none while the module pool is stopped";
    }
    "Storage" {
        DISK: Gauge "tenon_database_disk_bytes" in "bytes" ["column"] "Bytes in table files";
        MEMORY: Gauge "tenon_database_memory_bytes" in "bytes" ["column"] "Bytes that stand in memory and the log only";
        RECORDS: Gauge "tenon_database_records" ["column"] "Records, as the engine estimates them";
        TABLES: Gauge "tenon_database_files" [] "Table files";
        CACHE: Gauge "tenon_database_cache_bytes" in "bytes" [] "Memory that the engine's block cache uses";
        CACHE_CAPACITY: Gauge "tenon_database_cache_capacity_bytes" in "bytes" [] "Memory that the engine's block cache may use";
        TABLE_READERS: Gauge "tenon_database_table_reader_bytes" in "bytes" [] "Memory that open table files take beside the block cache";
        COMPACTION: Gauge "tenon_database_compaction_pending_bytes" in "bytes" [] "Bytes that wait to be compacted";
        STOPPED_WRITES: Gauge "tenon_database_writes_stopped" [] "1 while the engine takes no writes because compaction is behind";
        BACKGROUND_ERRORS: Gauge "tenon_database_background_errors" [] "Flushes and compactions that failed since the database was opened";
        OLDEST_STATE: Gauge "tenon_oldest_state_number" [] "Number of the oldest block whose state can be read";
    }
    "Modules" {
        MODULE_STATE: Gauge "tenon_module_state" ["module" "kind" "state"] "1 for the state that a module is in, 0 for the others";
        MODULE_CALLS: Gauge "tenon_module_calls_running" ["module"] "Calls that run in a plugin";
        MODULE_SUBSCRIPTIONS: Gauge "tenon_module_subscriptions" ["module"] "Subscriptions that are open in a plugin";
        MODULE_RESTARTS: Counter "tenon_module_restarts" ["module"] "Times that a module was started again after it ended by itself";
        MODULE_FAILED: Counter "tenon_module_failed_calls" ["module"]
            "Calls that ended in a panic or with the plugin's process, or whose answer was none";
        MODULE_PANICS: Counter "tenon_module_panics" ["module"] "Handlers that panicked";
        MODULE_REFUSED: Counter "tenon_module_refused_calls" ["module"] "Calls that were refused because too many ran in the plugin";
        MODULE_OMITTED: Counter "tenon_module_omitted_log_lines" ["module"] "Lines that were left out of the log because the plugin wrote too many";
        MODULE_STORAGE: Gauge "tenon_module_storage_bytes" in "bytes" ["module"] "What a plugin stores in the node's database; none when it may not";
        ACTOR_RUNNING: Gauge "tenon_actor_running" ["actor"] "1 while a supervised actor runs, 0 while it is started again or has failed";
        ACTOR_RESTARTS: Counter "tenon_actor_restarts" ["actor"] "Times that a supervised actor was started again after a panic";
    }
    "Process" {
        CPU: Counter "process_cpu_seconds" in "seconds" [] "Processor time of the process";
        RESIDENT: Gauge "process_resident_memory_bytes" in "bytes" [] "Memory of the process that is in physical memory";
        ALLOCATOR: Gauge "tenon_allocator_bytes" in "bytes" ["state"]
            "Memory of the process's allocator: asked for by the program (allocated), in pages that hold some of it (active), in physical memory (resident), addresses kept without memory (retained)";
        VIRTUAL: Gauge "process_virtual_memory_bytes" in "bytes" [] "Memory of the process in all mappings";
        OPEN_FILES: Gauge "process_open_fds" [] "Open file descriptors, sockets among them";
        MAX_FILES: Gauge "process_max_fds" [] "Most file descriptors that may be open";
        THREADS: Gauge "process_threads" [] "Threads";
        STARTED: Gauge "process_start_time_seconds" in "seconds" [] "When the process started, since 1970";
        BUILD: Info "tenon_build" ["version" "commit" "compiler"] "What the program was built from";
        CHAIN: Info "tenon_chain" ["chain_id" "network_id" "genesis"] "The chain that the node serves";
        SCRAPES: Counter "tenon_scrapes" [] "Scrapes of this page, this one included";
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fmt::Write as _};

    use super::*;

    #[test]
    fn names_end_with_their_units_and_are_unique() {
        let names: BTreeSet<_> = ALL.iter().map(|family| family.name).collect();
        assert_eq!(names.len(), ALL.len());
        for family in ALL {
            let is_plain =
                family.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
            assert!(is_plain, "{}", family.name);
            if let Some(unit) = family.unit {
                assert!(family.name.ends_with(&format!("_{unit}")), "{} does not end in its unit", family.name);
            }
            assert!(!family.name.ends_with("_total") && !family.help.ends_with('.'), "{}", family.name);
        }
    }

    /// The generated part of the page: one table per heading.
    fn tables() -> String {
        let mut text = String::new();
        let mut room = "";
        for family in ALL {
            if family.room != room {
                room = family.room;
                let _ = write!(text, "\n### {room}\n\n| Metric | Kind | Labels | Meaning |\n|---|---|---|---|\n");
            }
            let labels: Vec<_> = family.labels.iter().map(|label| format!("`{label}`")).collect();
            let (name, kind, labels) = (family.full_name(), family.kind.name(), labels.join(", "));
            let _ = writeln!(text, "| `{name}` | {kind} | {labels} | {} |", family.help);
        }
        text
    }

    #[test]
    fn the_page_of_the_documentation_lists_every_metric() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (begin, end) = ("cargo test -p tenon-metrics -->\n", "\n<!-- end -->");
        let (head, rest) = page.split_once(begin).unwrap();
        let (_, tail) = rest.rsplit_once(end).or_else(|| rest.split_once(&end[1..])).unwrap();
        let wanted = format!("{head}{begin}{}{end}{tail}", tables());
        if std::env::var_os("TENON_WRITE_PAGES").is_some() {
            std::fs::write(path, &wanted).unwrap();
        } else {
            assert!(
                page == wanted,
                "docs/metrics.md is stale; write it anew with: TENON_WRITE_PAGES=1 cargo test -p tenon-metrics"
            );
        }
    }
}

//! The list of all metrics, from which the documentation page is generated.

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
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
    pub fn name(self) -> &'static str {
        self.into()
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
    pub section: &'static str,
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
    ($($section:literal { $($constant:ident: $kind:ident $name:literal $(in $unit:literal)? [$($label:literal)*] $help:literal;)* })*) => {
        $($(
            #[doc = concat!($help, ".")]
            pub static $constant: Family = Family {
                section: $section,
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
            "Calls that ended, in any way; methods not called yet have no series";
        FAILED_CALLS: Counter "tenon_rpc_errors" ["method" "transport"]
            "Requests answered with an error, including errors of the caller";
        CANCELLED_CALLS: Counter "tenon_rpc_cancelled" ["method" "transport"]
            "Requests whose client disconnected or whose time limit passed before they were answered";
        UNKNOWN_CALLS: Counter "tenon_rpc_unknown_methods" ["transport"]
            "Calls of methods that do not exist or are not exposed to that client";
        CALL_DURATIONS: Histogram "tenon_rpc_duration_seconds" in "seconds" ["namespace" "class" "transport"]
            "Time from the routing of a call to its result, by namespace and cost class (fast, slow); counts only while the module runs";
        SLOW_CALLS_WAITING: Gauge "tenon_rpc_slow_calls_waiting" []
            "Calls of class slow that are waiting";
        POOL_JOBS: Gauge "tenon_rpc_work_jobs" ["state"]
            "Jobs of calls, traces and scans on the threads of rpc.threads (running), paused for another client's job (parked), and waiting for a thread (waiting)";
        REQUEST_MEMORY: Gauge "tenon_rpc_memory_bytes" in "bytes" ["use"]
            "Memory of rpc.memory held by requests, by use";
        REQUEST_MEMORY_LIMIT: Gauge "tenon_rpc_memory_limit_bytes" in "bytes" ["holder"]
            "Maximum memory of all requests together (all) and of one client's (client)";
        REQUEST_MEMORY_REFUSED: Counter "tenon_rpc_memory_refused" ["use"]
            "Requests for memory that were refused because a limit was reached, the client's or the total";
        REQUEST_MEMORY_CLIENTS: Gauge "tenon_rpc_memory_clients" [] "Clients that are connected or hold memory";
        REQUEST_MEMORY_LARGEST: Gauge "tenon_rpc_memory_largest_client_bytes" in "bytes" ["client"]
            "Memory of the client that holds the most";
    }
    "Front-ends" {
        LISTENING: Gauge "tenon_listening" ["transport"] "1 while the front-end listens, 0 while it does not";
        CONNECTIONS: Gauge "tenon_connections" ["transport"] "Open connections";
        ACCEPTED: Counter "tenon_connections_accepted" ["transport"]
            "Accepted connections; a WebSocket on the port of HTTP first counts as HTTP";
        REFUSED: Counter "tenon_connections_refused" ["transport"]
            "New connections that were refused because the maximum was open";
        RECEIVED: Counter "tenon_received_bytes" in "bytes" ["transport"]
            "Bytes received from clients; an open connection is counted every 4 KiB and at its end";
        SENT: Counter "tenon_sent_bytes" in "bytes" ["transport"]
            "Bytes sent to clients; counted like those received";
        NOTIFICATIONS: Counter "tenon_notifications" ["transport"] "Notifications of subscriptions";
    }
    "Chain" {
        HEAD: Gauge "tenon_head_number" [] "Number of the head";
        HEAD_TIME: Gauge "tenon_head_timestamp_seconds" in "seconds" [] "Timestamp of the head, since 1970";
        SAFE: Gauge "tenon_safe_number" [] "Number of the safe block; no series if the engine knows none";
        FINALIZED: Gauge "tenon_finalized_number" [] "Number of the finalized block; no series if the engine knows none";
        PEERS: Gauge "tenon_peers" [] "Connected peers";
        BLOCKS: Counter "tenon_blocks_committed" [] "Blocks that became canonical since the node started";
        TRANSACTIONS: Counter "tenon_transactions_committed" [] "Transactions of these blocks";
        GAS: Counter "tenon_gas_committed" [] "Gas used by these blocks";
        COMMITS: Histogram "tenon_commit_duration_seconds" in "seconds" [] "Database time of a commit: of a block, of a branch that replaces another, or of up to 64 old blocks";
        UNWOUND: Counter "tenon_unwinds" [] "Unwinds of the head: reorganisations, and moves by an operator";
        RECOVERED: Counter "tenon_recovered_signers" []
            "Signers of transactions, headers and votes recovered in vectors of eight";
        RECOVERED_TWICE: Counter "tenon_recovered_signers_checked" [] "Of these, recovered again by the C library (recovery.check)";
        RECOVERED_WRONGLY: Counter "tenon_recovered_signers_wrong" [] "Of these, wrong ones; after the first, the \
            node recovers signers one by one";
        SIDE_BLOCKS: Counter "tenon_side_blocks" [] "Blocks stored on side branches";
    }
    "Network" {
        NETWORK_MESSAGES: Counter "tenon_network_messages" ["message" "direction"]
            "Messages of peers (received) and to them (sent), by their names in the protocol; no series before the first";
        NETWORK_BYTES: Counter "tenon_network_bytes" in "bytes" ["message" "direction"]
            "Bytes of their payloads, before compression and framing";
        NETWORK_BANS: Counter "tenon_network_bans" [] "Peers that were banned for faults";
    }
    "Voting" {
        VOTING_ROUND: Gauge "tenon_voting_round" [] "Round of engine v2 that the node is in; 0 where it does not follow the rounds";
        VOTING_FAILED_ROUNDS: Counter "tenon_voting_failed_rounds" [] "Rounds that timed out";
        VOTING_MESSAGES: Counter "tenon_voting_messages" ["kind" "direction"]
            "Votes, timeouts and certificates: those of peers that were examined (received), and those signed or \
             verified and forwarded (sent)";
        VOTING_BLOCKS: Counter "tenon_voting_blocks" [] "Blocks that this node made as a masternode";
        VOTING_BLOCK_TO_VOTE: Histogram "tenon_voting_block_to_vote_seconds" in "seconds" []
            "Time from the execution of a peer's block to this node's vote for it, with the record on the disk";
    }
    "Transaction pool" {
        POOL: Gauge "tenon_pool_transactions" ["state"]
            "Transactions that wait for a block (pending) or for a nonce gap to close (queued); no series while the module pool is stopped";
    }
    "Storage" {
        DISK: Gauge "tenon_database_disk_bytes" in "bytes" ["column"] "Bytes in table files";
        MEMORY: Gauge "tenon_database_memory_bytes" in "bytes" ["column"] "Bytes that are only in memory and in the log";
        RECORDS: Gauge "tenon_database_records" ["column"] "Records, estimated by the engine";
        TABLES: Gauge "tenon_database_files" [] "Table files";
        CACHE: Gauge "tenon_database_cache_bytes" in "bytes" [] "Memory used by the engine's block cache";
        CACHE_CAPACITY: Gauge "tenon_database_cache_capacity_bytes" in "bytes" [] "Capacity of the engine's block cache";
        TABLE_READERS: Gauge "tenon_database_table_reader_bytes" in "bytes" [] "Memory of open table files outside the block cache";
        COMPACTION: Gauge "tenon_database_compaction_pending_bytes" in "bytes" [] "Bytes waiting for compaction";
        STOPPED_WRITES: Gauge "tenon_database_writes_stopped" [] "1 while the engine has stopped writes because compaction is behind";
        BACKGROUND_ERRORS: Gauge "tenon_database_background_errors" [] "Flushes and compactions that failed since the database was opened";
        OLDEST_STATE: Gauge "tenon_oldest_state_number" [] "Number of the oldest block whose state can be read";
    }
    "Modules" {
        MODULE_STATE: Gauge "tenon_module_state" ["module" "kind" "state"] "1 for the current state of a module, 0 for the others";
        MODULE_CALLS: Gauge "tenon_module_calls_running" ["module"] "Running calls in a plugin";
        MODULE_SUBSCRIPTIONS: Gauge "tenon_module_subscriptions" ["module"] "Open subscriptions in a plugin";
        MODULE_RESTARTS: Counter "tenon_module_restarts" ["module"] "Restarts of a module after it ended by itself";
        MODULE_FAILED: Counter "tenon_module_failed_calls" ["module"]
            "Calls that ended in a panic, with the plugin's process, or without an answer";
        MODULE_PANICS: Counter "tenon_module_panics" ["module"] "Handlers that panicked";
        MODULE_REFUSED: Counter "tenon_module_refused_calls" ["module"] "Calls refused because too many were running in the plugin";
        MODULE_OMITTED: Counter "tenon_module_omitted_log_lines" ["module"] "Log lines omitted because the plugin \
            logged too many";
        MODULE_STORAGE: Gauge "tenon_module_storage_bytes" in "bytes" ["module"] "Bytes stored by a plugin in the node's database; no series if it may not store any";
        ACTOR_RUNNING: Gauge "tenon_actor_running" ["actor"] "1 while a supervised actor runs, 0 while it restarts or has failed";
        ACTOR_RESTARTS: Counter "tenon_actor_restarts" ["actor"] "Restarts of a supervised actor after a panic";
    }
    "Process" {
        CPU: Counter "process_cpu_seconds" in "seconds" [] "Processor time of the process";
        RESIDENT: Gauge "process_resident_memory_bytes" in "bytes" [] "Resident memory of the process";
        ALLOCATOR: Gauge "tenon_allocator_bytes" in "bytes" ["state"]
            "Memory of the process's allocator: requested by the program (allocated), in pages in use (active), in \
             physical memory (resident), and address space kept without memory (retained)";
        VIRTUAL: Gauge "process_virtual_memory_bytes" in "bytes" [] "Virtual memory of the process";
        OPEN_FILES: Gauge "process_open_fds" [] "Open file descriptors, including sockets";
        MAX_FILES: Gauge "process_max_fds" [] "Maximum number of open file descriptors";
        THREADS: Gauge "process_threads" [] "Threads";
        STARTED: Gauge "process_start_time_seconds" in "seconds" [] "Start time of the process, since 1970";
        BUILD: Info "tenon_build" ["version" "commit" "compiler"] "Version and build of the program";
        CHAIN: Info "tenon_chain" ["chain_id" "network_id" "genesis"] "The chain that the node serves";
        SCRAPES: Counter "tenon_scrapes" [] "Scrapes of this page, including this one";
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
        let mut section = "";
        for family in ALL {
            if family.section != section {
                section = family.section;
                let _ = write!(text, "\n### {section}\n\n| Metric | Kind | Labels | Meaning |\n|---|---|---|---|\n");
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
                "docs/metrics.md is stale; regenerate it with: TENON_WRITE_PAGES=1 cargo test -p tenon-metrics"
            );
        }
    }
}

//! The node as a whole, and its database.

use std::path::PathBuf;
use std::time::Duration;

use crate::table::section;
use crate::value::{Durability, HistoryMode};

fn default_data_folder() -> PathBuf {
    std::env::home_dir().filter(|home| !home.as_os_str().is_empty()).unwrap_or_default().join(".tenon")
}

section! {
    "Node";
    /// The node as a whole: its data folder and its chain.
    NodeSettings {
        /// Folder with the database, the socket, `endpoints.json` and `tenon.toml`. Only one node at a time can use it.
        datadir: PathBuf = default_data_folder(), "datadir", "datadir";
        /// The chain to follow: `mainnet` (or `xinfin`), `testnet` (`apothem`), `devnet`, `devnet-5551`, or the path of a
        /// genesis file. Needed at the first start only: the data folder keeps a copy, and refuses another chain.
        network: Option<String> = None, "network", "network";
        /// Genesis file (JSON in the format of go-ethereum). `network` accepts such a path too.
        genesis: Option<PathBuf> = None, "genesis", "genesis";
        /// The number that `net_version` returns, if it differs from the chain id. On native chains it also selects the
        /// built-in fork heights and lists: 51, 551, 5151 and 5551 have their own, every other number uses those of 50.
        network_id: Option<u64> = None, "networkid", "networkid";
        /// Text of your choice that is included in the name that `web3_clientVersion` returns.
        identity: String = String::new(), "identity", "identity";
        /// How long a stopping node waits for running requests to finish. A stop that takes 24 s longer than this and
        /// `plugins.grace` together is ended with exit code 130.
        grace: Duration = Duration::from_secs(4), "grace", "grace";
    }
}

section! {
    "Database";
    /// How the chain is stored.
    DatabaseSettings {
        /// `archive` answers queries for every block since the first. `pruned` keeps the state of the newest blocks only,
        /// and deletes older state for good.
        mode: HistoryMode = HistoryMode::Archive, "database.mode", "gcmode";
        /// Number of blocks whose state history `pruned` keeps. Native chains need at least their gap plus one: 451 on
        /// public networks.
        history: u64 = 90_000, "database.history", "history.state";
        /// Number of newest blocks for which `archive` keeps whole state tries. Proofs of these blocks cost the same as of
        /// the head; those of older blocks are computed (docs/chain-data.md). With the default, an import of blocks that are
        /// older than a day keeps fewer. `pruned` keeps the tries of all its states.
        trie_window: u64 = 1_024, "database.triewindow", "database.triewindow";
        /// Memory for cached records, in MiB. Pending writes, trie nodes, decoded blocks and read state together use up to
        /// the same amount again, and never more than with the default.
        cache: u32 = 512, "database.cache", "cache";
        /// Number of table files that are held open; others are opened when they are read. If the system allows the process
        /// too few open files for these and the connections, the numbers of both are reduced.
        // Below the usual limit of 1,024 descriptors per process.
        open_files: u32 = 512, "database.openfiles", "database.openfiles";
        /// `process`: nothing is lost when the process is killed; a power failure can lose the last few blocks, but never
        /// consistency. `block`: every block is on the disk before it is announced.
        durability: Durability = Durability::Process, "database.durability", "database.durability";
    }
}

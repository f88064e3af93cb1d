//! The settings: one struct per section, with a description of every field.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use crate::lists::{MethodPatterns, OriginList};
use crate::mnemonic::Mnemonic;
use crate::table::{Section, SettingInfo, section};
use crate::value::{
    ByteSize, CertificateChecks, DevProfile, Durability, HistoryMode, LogFormat, LogRotation, Percent, SettingValue,
    Value,
};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

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
        /// How long a stopping node waits for running requests to finish.
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

section! {
    "HTTP";
    /// JSON-RPC over HTTP/1.1.
    HttpSettings {
        /// Serve HTTP; `--http=false` turns it off.
        enabled: bool = true, "http.enabled", "http", old "rpc";
        /// Address to listen on. Any address except loopback opens the node to the network.
        addr: IpAddr = LOOPBACK, "http.addr", "http.addr", old "http-addr" "rpcaddr";
        /// Port to listen on; 0 chooses a free one.
        port: u16 = 8545, "http.port", "http.port", old "http-port" "rpcport";
        /// Namespaces to serve. Those in `auth.namespaces` also require a bearer token.
        api: Vec<String> = words(&["eth", "net", "web3"]), "http.api", "http.api", old "http-api" "rpcapi";
        /// Methods to refuse although their namespace is served, by name or by pattern: `eth_sign*`. A method with several
        /// names is refused under all of them if one matches.
        methods_deny: MethodPatterns = MethodPatterns::default(), "http.methods.deny", "http.methods.deny";
        /// Origins whose web pages may call the node (CORS); `*` allows all.
        corsdomain: OriginList = OriginList::default(), "http.corsdomain", "http.corsdomain", old "http-corsdomain" "rpccorsdomain";
        /// Host names that requests may be addressed to; `*` allows all. IP addresses are always allowed.
        vhosts: Vec<String> = words(&["localhost"]), "http.vhosts", "http.vhosts", old "http-vhosts" "rpcvhosts";
        /// Addresses and networks of trusted proxies (`127.0.0.1`, `10.0.0.0/8`). The client address that they give in
        /// `Forwarded` or `X-Forwarded-For` is believed, over HTTP and WebSocket, and decides whose share of the limits a
        /// request uses.
        proxies: Vec<String> = Vec::new(), "http.proxies", "http.proxies";
        /// Maximum size of a request body.
        body_limit: ByteSize = ByteSize(5 << 20), "http.bodylimit", "http.bodylimit";
        /// Maximum number of connections. One address may use all that are free. When none is free, a new connection
        /// replaces the longest idle one of the address that has the most.
        connections: u32 = 1000, "http.connections", "http.connections";
        /// Maximum time of a request; after it the client gets status 503.
        // One second less than `write_timeout`, as in the reference.
        request_timeout: Duration = Duration::from_secs(29), "http.requesttimeout", "http.requesttimeout", old "http-readtimeout";
        /// Maximum time that one write waits for the client to read.
        write_timeout: Duration = Duration::from_secs(30), "http.writetimeout", "http.writetimeout", old "http-writetimeout";
        /// How long a connection may be idle between requests.
        idle_timeout: Duration = Duration::from_secs(120), "http.idletimeout", "http.idletimeout", old "http-idletimeout";
    }
}

section! {
    "WebSocket";
    /// JSON-RPC over WebSocket. With the same address and port as HTTP, both share one listener; with port 0 each gets a
    /// free port of its own.
    WsSettings {
        /// Serve WebSocket; `--ws=false` turns it off.
        enabled: bool = true, "ws.enabled", "ws";
        /// Address to listen on. Any address except loopback opens the node to the network.
        addr: IpAddr = LOOPBACK, "ws.addr", "ws.addr", old "ws-addr" "wsaddr";
        /// Port to listen on; 0 chooses a free one.
        port: u16 = 8546, "ws.port", "ws.port", old "ws-port" "wsport";
        /// Namespaces to serve. Those in `auth.namespaces` also require a bearer token.
        api: Vec<String> = words(&["eth", "net", "web3"]), "ws.api", "ws.api", old "ws-api" "wsapi";
        /// Methods to refuse, as `http.methods.deny` does.
        methods_deny: MethodPatterns = MethodPatterns::default(), "ws.methods.deny", "ws.methods.deny";
        /// Origins whose web pages may connect; `*` allows all. If the list is empty, only pages of this machine may.
        origins: OriginList = OriginList::default(), "ws.origins", "ws.origins", old "ws-origins" "wsorigins";
        /// Maximum size of a message.
        // The reference's.
        message_limit: ByteSize = ByteSize(15 << 20), "ws.messagelimit", "ws.messagelimit";
        /// Maximum number of connections.
        connections: u32 = 500, "ws.connections", "ws.connections";
    }
}

section! {
    "Unix socket";
    /// JSON-RPC over a Unix socket with mode 0600, which serves every namespace.
    IpcSettings {
        /// Do not open the socket.
        disabled: bool = false, "ipc.disabled", "ipcdisable";
        /// Path of the socket. A bare file name is placed in the data folder. The system limits the path to 107 bytes.
        path: PathBuf = PathBuf::from("tenon.ipc"), "ipc.path", "ipcpath";
        /// Maximum number of connections.
        connections: u32 = 500, "ipc.connections", "ipc.connections";
        /// Maximum size of a message.
        message_limit: ByteSize = ByteSize::mebibytes(64), "ipc.messagelimit", "ipc.messagelimit";
    }
}

section! {
    "Authentication";
    /// The bearer token (JWT, HS256) that some namespaces require over TCP.
    AuthSettings {
        /// File with the secret, 32 bytes in hexadecimal. Created with mode 0600 if it does not exist. A bare file name is
        /// placed in the data folder.
        jwtsecret: PathBuf = PathBuf::from("jwt.hex"), "auth.jwtsecret", "authrpc.jwtsecret";
        /// Namespaces that require a token over HTTP and WebSocket wherever they are served, under any of their names; `*`
        /// means all, including `rpc`.
        namespaces: Vec<String> = words(&["admin", "debug", "miner", "personal"]), "auth.namespaces", "auth.namespaces";
    }
}

section! {
    "Requests";
    /// Limits on what requests may cost.
    RpcSettings {
        /// Maximum gas of `eth_call`, of `eth_estimateGas`, of a trace of calls, and of all calls of one `eth_simulateV1`
        /// together; 0 means no limit.
        gas_cap: u64 = 50_000_000, "rpc.gascap", "rpc.gascap", old "rpc-gascap";
        /// Maximum time of one EVM call.
        evm_timeout: Duration = Duration::from_secs(5), "rpc.evmtimeout", "rpc.evmtimeout";
        /// Maximum time to trace one transaction, if the caller gives no timeout; callers may give up to 5 minutes.
        trace_timeout: Duration = Duration::from_secs(5), "rpc.tracetimeout", "rpc.tracetimeout";
        /// Maximum number of instructions recorded for one traced transaction.
        trace_steps: u64 = 10_000_000, "rpc.tracesteps", "rpc.tracesteps";
        /// Maximum memory of all traces together, for recordings and results; 0 means as much as one client may hold. It also
        /// counts towards `rpc.memory`.
        trace_memory: ByteSize = ByteSize(0), "rpc.tracememory", "rpc.tracememory";
        /// Maximum number of JavaScript tracers that run at the same time, each in a sandboxed process of its own; further
        /// ones are refused. 0 refuses all.
        scripts: u64 = 4, "rpc.scripts", "rpc.scripts";
        /// Heap size of a JavaScript tracer. While the tracer runs, its heap and 64 MiB for its process count towards
        /// `rpc.memory`, charged to its client.
        script_memory: ByteSize = ByteSize::mebibytes(32), "rpc.scriptmemory", "rpc.scriptmemory";
        /// Maximum memory of all requests together: messages, parameters, calls, unread answers, filters, subscriptions,
        /// traces, and data in transit between the node and plugin processes. Requests that do not fit are refused
        /// (`-32005`; over HTTP status 503 if the body does not fit); running ones continue. Must be at least the maximum
        /// size of a message.
        memory: ByteSize = ByteSize::mebibytes(512), "rpc.memory", "rpc.memory";
        /// Maximum part of `rpc.memory` that one client may hold, at least `http.bodylimit`; 0 means a quarter. A client is
        /// identified by its token, otherwise by its address; on the Unix socket, by its process.
        client_memory: ByteSize = ByteSize(0), "rpc.clientmemory", "rpc.clientmemory";
        /// Maximum time of any request over WebSocket and the Unix socket; HTTP requests are also limited by
        /// `http.requesttimeout`.
        request_timeout: Duration = Duration::from_secs(600), "rpc.requesttimeout", "rpc.requesttimeout";
        /// Maximum computing time of one message (a request or a batch), summed over all threads. Its calls, traces and log
        /// searches beyond that are refused; 0 means no limit.
        computing_time: Duration = Duration::from_secs(30), "rpc.computingtime", "rpc.computingtime";
        /// Maximum number of requests in a batch.
        // The reference has no limit, and recordings of it contain batches of a little over 1,000.
        batch_items: u32 = 10_000, "rpc.batch-request-limit", "rpc.batch-request-limit";
        /// Maximum size of all answers of a batch together.
        batch_bytes: ByteSize = ByteSize(25_000_000), "rpc.batch-response-max-size", "rpc.batch-response-max-size";
        /// Maximum size of one answer.
        response_bytes: ByteSize = ByteSize::mebibytes(64), "rpc.response-max-size", "rpc.response-max-size";
        /// Maximum number of blocks that one `eth_getLogs` may span; 0 means no limit.
        log_blocks: u64 = 0, "rpc.rangelimit", "rpc.rangelimit";
        /// Maximum number of logs in the answer of one `eth_getLogs`.
        log_results: u64 = 20_000, "rpc.logslimit", "rpc.logslimit";
        /// Maximum fee, in ether, that a transaction submitted to this node may pay for its gas; 0 means no limit.
        transaction_fee_cap: f64 = 1.0, "rpc.txfeecap", "rpc.txfeecap", old "rpc-txfeecap";
        /// Accept transactions without replay protection (signed without a chain id, as before EIP-155).
        allow_unprotected: bool = true, "rpc.allow-unprotected-txs", "rpc.allow-unprotected-txs";
        /// Maximum number of subscriptions per connection.
        subscriptions: u32 = 256, "rpc.subscriptions", "rpc.subscriptions";
        /// Maximum number of subscriptions per client, over all its connections.
        client_subscriptions: u32 = 4096, "rpc.clientsubscriptions", "rpc.clientsubscriptions";
        /// Number of threads for calls, traces and log searches; 0 means one per core. Clients share them by the time that
        /// their requests take.
        threads: u32 = 0, "rpc.threads", "rpc.threads";
        /// Maximum number of calls, traces and log searches that wait for a thread; one client may use half of the places.
        /// When the queue is full, requests of the client with the most waiting requests are refused.
        queue: u32 = 1024, "rpc.queue", "rpc.queue";
        /// Folders for the files that requests name (`admin_exportChain`, `admin_importChain`, `debug_traceBlockFromFile`).
        /// A bare folder name is placed in the data folder. A file that is named without a folder, and every profile, is
        /// placed in the first one.
        files: Vec<String> = words(&["files"]), "rpc.files", "rpc.files";
        /// Serve the namespaces of native chains under the reference client's names too: `XDPoS` in addition to
        /// `Consensus`.
        aliases: bool = true, "rpc.aliases", "rpc.aliases";
    }
}

impl RpcSettings {
    /// How much of [`RpcSettings::memory`] one client may hold.
    pub const fn client_share(&self) -> ByteSize {
        if self.client_memory.0 == 0 { ByteSize(self.memory.0 / 4) } else { self.client_memory }
    }
}

section! {
    "Block verification";
    /// How blocks from peers and from files are verified.
    SyncSettings {
        /// `all`: verify every certificate of engine v2. `sampled`: of blocks older than a day, verify only the
        /// certificates of epoch switches, of every hundredth block, and of about one block in thirty, which binds the
        /// others by hash (docs/running.md, Sampled certificates).
        certificates: CertificateChecks = CertificateChecks::All, "sync.certificates", "sync.certificates";
    }
}

section! {
    "Signer recovery";
    /// Recovers the signers of transactions, headers and votes from their signatures. Processors with AVX-512 IFMA,
    /// or with AVX2 and FMA, recover eight at a time.
    RecoverySettings {
        /// Recover one in this many signers a second time with the C library, to detect a processor that computes wrongly;
        /// 0 turns the check off. After a wrong result an error is logged, and the C library recovers all signers.
        check: u32 = 0, "recovery.check", "recovery.check";
    }
}

section! {
    "Transaction pool";
    /// Transactions that wait for a block.
    PoolSettings {
        /// File that keeps local transactions across restarts. A bare file name is placed in the data folder. A symbolic
        /// link is followed. A pipe, a device, or a file with other content is refused and left unchanged.
        journal: PathBuf = PathBuf::from("transactions.rlp"), "txpool.journal", "txpool.journal", old "txpool-journal";
        /// Minimum tip per gas, in wei, also for this node's own accounts; `eth_gasPrice` and `eth_maxPriorityFeePerGas`
        /// suggest at least this. Native chains have a minimum price of their own, 12.5 gwei today.
        price_limit: u64 = 1, "txpool.pricelimit", "txpool.pricelimit", old "txpool-pricelimit";
        /// By how many per cent a replacement must raise the price.
        price_bump: u64 = 10, "txpool.pricebump", "txpool.pricebump", old "txpool-pricebump";
        /// Number of 32 KiB slots that one account may use; its local transactions do not count.
        account_slots: u64 = 80, "txpool.accountslots", "txpool.accountslots", old "txpool-accountslots";
        /// Number of 32 KiB slots in the whole pool. It bounds the memory of the pool.
        global_slots: u64 = 10_240, "txpool.globalslots", "txpool.globalslots", old "txpool-globalslots";
        /// Share of the pool that is reserved for local transactions, which also survive a restart. A transaction is local
        /// if an account of this node sends it, or if it arrives over the Unix socket.
        local_share: Percent = Percent::new(25), "txpool.localshare", "txpool.localshare";
        /// How long the pool keeps a transaction that no block can include: one after a nonce gap, or one with a lower
        /// price than blocks require.
        lifetime: Duration = Duration::from_secs(3 * 3600), "txpool.lifetime", "txpool.lifetime", old "txpool-lifetime";
    }
}

section! {
    "Development network";
    /// The chain that `tenon dev` creates.
    DevSettings {
        /// Rules: `ethereum`, `native` (one masternode, engine v2, the system contracts) or `native-v1`.
        profile: DevProfile = DevProfile::Ethereum, "dev.profile", "profile";
        /// Length of an epoch of the `native` profile, in rounds; at least 2.
        epoch: u64 = 30, "dev.epoch", "epoch";
        /// Time between blocks. Without it, a block is made for every transaction.
        block_time: Option<Duration> = None, "dev.block-time", "block-time", old "dev.period";
        /// Number of funded accounts.
        accounts: u32 = 10, "dev.accounts", "accounts";
        /// Balance of each funded account, in ether.
        balance: u64 = 10_000, "dev.balance", "balance";
        /// Mnemonic from which the keys of the accounts are derived. Give a mnemonic of your own in a file or as
        /// `TENON_DEV_MNEMONIC`: other users can see a program's flags. Your own mnemonic and its keys are not printed.
        mnemonic: Mnemonic = Mnemonic::default(), "dev.mnemonic", "mnemonic";
        /// File with the mnemonic, instead of `dev.mnemonic`.
        mnemonic_file: Option<PathBuf> = None, "dev.mnemonic-file", "mnemonic-file";
        /// Let HTTP and WebSocket listen on an address that other machines can reach. Without it, such an address is
        /// refused, because the node signs for everyone who reaches it.
        expose: bool = false, "dev.expose", "dev.expose";
        /// Chain id. Native profiles always have 5151; on it, all native rules up to the reference's v2.7.0 apply from the
        /// first block.
        chain_id: u64 = 31_337, "dev.chain-id", "chain-id";
        /// Gas limit of every block.
        gas_limit: u64 = 30_000_000, "dev.gas-limit", "gas-limit", old "dev.gaslimit";
    }
}

section! {
    "Plugins";
    /// Shared libraries that serve the namespaces. A table `[plugins.NAME]` in a settings file configures one of them.
    /// `path`: its library. `enabled`: whether it is started. `required`: whether the node refuses to start without it.
    /// `isolation`: `in-process`, or `process` for a process of its own, the default for foreign builds. `capabilities`:
    /// which of the capabilities that it requests are granted, by name; `all` means all except `Sign` and `Administer`.
    /// Without `capabilities`, a foreign build is granted none, and a built-in or trusted build all. `settings`: a table
    /// that is passed to the plugin. `limits`: a table. Its entries `memory` (default 512 MiB), `call-time` (processor time
    /// of one call, default 5 s) and `restarts` (of its process, per minute, default 5) apply to a plugin in a process of
    /// its own. `calls` (at the same time, no default), `log-lines` (per second, default 50 in a process of its own),
    /// `storage` (bytes in the database of the node, default 1 GiB) and `storage-records` (default 4 million) apply to
    /// every plugin. `tenon module reload` and SIGHUP apply changes.
    PluginSettings {
        /// Folder of the plugins. Default: `plugins` in the program's folder, then the program's folder itself. Built-in
        /// plugins that are missing from the given folder are taken from there; `[plugins.NAME] enabled = false` disables
        /// one.
        dir: Option<PathBuf> = None, "plugins.dir", "plugins";
        /// How long a plugin may take to finish its calls when it is stopped.
        grace: Duration = Duration::from_secs(2), "plugins.grace", "plugins.grace";
        /// SHA-256 hashes (hex) of further builds that are trusted like the built-in ones: they run in the process of the
        /// node and get the capabilities that they request, unless their own table says otherwise.
        trusted: Vec<String> = Vec::new(), "plugins.trusted", "plugins.trusted";
        /// Names of plugins whose foreign build is started even if the kernel cannot sandbox its process (seccomp, and
        /// Landlock of Linux 5.13).
        unsandboxed: Vec<String> = Vec::new(), "plugins.unsandboxed", "plugins.unsandboxed";
    }
}

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
    "Peers";
    /// The peer-to-peer network, for native chains only: this node follows the chain of its peers and serves them.
    PeerSettings {
        /// Connect to peers and accept connections from them. While the node runs: `tenon module enable network`.
        enabled: bool = false, "p2p.enabled", "p2p";
        /// Address to listen on, for connections (TCP) and discovery (UDP).
        addr: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED), "p2p.addr", "p2p.addr";
        /// Port for both; 0 chooses a free one.
        port: u16 = 30303, "p2p.port", "port";
        /// Maximum number of peers. One slot in three is for peers that this node dials; 0 leaves the network off.
        maxpeers: u32 = 50, "p2p.maxpeers", "maxpeers";
        /// Maximum number of concurrent handshakes with peers; 0 means 50. One address may use a fifth of them.
        maxpendpeers: u32 = 0, "p2p.maxpendpeers", "maxpendpeers";
        /// enode URLs where discovery starts, instead of the network's own.
        bootnodes: Vec<String> = Vec::new(), "p2p.bootnodes", "bootnodes", old "bootnodesv4";
        /// Turn discovery off: only the nodes of `p2p.static` are dialed, and the UDP port is not opened.
        nodiscover: bool = false, "p2p.nodiscover", "nodiscover";
        /// enode URLs of nodes to stay connected with.
        statics: Vec<String> = Vec::new(), "p2p.static", "p2p.static";
        /// enode URLs of nodes that are exempt from the limits on peers.
        trusted: Vec<String> = Vec::new(), "p2p.trusted", "p2p.trusted";
        /// Networks (`10.0.0.0/8`): nothing is exchanged with addresses outside them.
        netrestrict: Vec<String> = Vec::new(), "p2p.netrestrict", "netrestrict";
        /// Maximum bytes per second received from all peers together; 0 means no limit. Each of these four limits must be
        /// at least 128 KiB.
        download_limit: ByteSize = ByteSize(0), "p2p.download-limit", "p2p.download-limit";
        /// Maximum bytes per second sent to all peers together; 0 means no limit. Votes and blocks are sent first, then
        /// answers, then transactions.
        upload_limit: ByteSize = ByteSize(0), "p2p.upload-limit", "p2p.upload-limit";
        /// Maximum bytes per second received from each peer; 0 means no limit.
        peer_download_limit: ByteSize = ByteSize(0), "p2p.peer-download-limit", "p2p.peer-download-limit";
        /// Maximum bytes per second sent to each peer; 0 means no limit.
        peer_upload_limit: ByteSize = ByteSize(0), "p2p.peer-upload-limit", "p2p.peer-upload-limit";
        /// `none`; `extip:ADDRESS`, the address at which others reach this node; or a method to map the port in the router
        /// and to learn the address: `upnp`, `natpmp` (also PCP; `natpmp:ROUTER` names the router), `any`. The reference
        /// client's default is `any`.
        nat: String = "none".to_owned(), "p2p.nat", "nat";
        /// File with the node key: 64 hexadecimal digits, readable by its owner only. Without it: `network/nodekey` in the
        /// data folder, created at the first start.
        nodekey: Option<PathBuf> = None, "p2p.nodekey", "nodekey";
    }
}

section! {
    "Masternode";
    /// A masternode's key, with which this node votes and makes blocks on a native chain, over the peer-to-peer network.
    /// Never run two nodes with the same key at the same time.
    MasternodeSettings {
        /// File with the key: 64 hexadecimal digits, readable by its owner only. A bare file name is placed in the data
        /// folder.
        key: Option<PathBuf> = None, "masternode.key", "masternode.key";
        /// Instead of a file: an account of this node's wallets. It must be unlocked (`accounts.unlock`).
        account: Option<String> = None, "masternode.account", "masternode.account";
        /// Instead of both: an account of the signing service (`signer.url`) that the service lists among its validators.
        signer: Option<String> = None, "masternode.signer", "masternode.signer";
        /// Gas limit of the blocks that this node makes. The rules bound its change from block to block.
        gas_limit: u64 = 50_000_000, "masternode.gas-limit", "miner-gaslimit";
    }
}

section! {
    "Accounts";
    /// The keys that this node signs with.
    AccountSettings {
        /// Folder of encrypted key files, which other clients can also use. A bare folder name is placed in the data
        /// folder.
        keystore: PathBuf = PathBuf::from("keystore"), "accounts.keystore", "keystore";
        /// Encrypt new key files with a tenth of the usual work and 4 MiB of memory: for small machines, and for keys without
        /// value.
        light_kdf: bool = false, "accounts.lightkdf", "lightkdf";
        /// Maximum memory for deriving keys from passwords. The standard cost takes 256 MiB per key; two keys are derived
        /// at the same time. A key file that needs more than the maximum is refused.
        memory: ByteSize = ByteSize::mebibytes(512), "accounts.memory", "accounts.memory";
        /// Accounts to unlock at the start, until the node ends: addresses, or positions in the list of key files. Their
        /// passwords are in the file `accounts.password`.
        unlock: Vec<String> = Vec::new(), "accounts.unlock", "unlock";
        /// File with the passwords of `accounts.unlock`, one per line; the last line is used for all further accounts.
        password: Option<PathBuf> = None, "accounts.password", "password";
        /// Allow unlocking accounts, and signing with unlocked ones, over HTTP and WebSocket without a bearer token.
        /// Everyone who reaches the port can then spend their funds.
        allow_insecure_unlock: bool = false, "accounts.allowinsecureunlock", "allow-insecure-unlock";
    }
}

section! {
    "Hardware wallets";
    /// Devices whose accounts this node signs with: USB devices of this machine, and simulators (`docs/device.md`). The
    /// module `device` can be enabled and disabled while the node runs.
    DeviceSettings {
        /// Look for hardware wallets. A wallet that asks for neither PIN nor passphrase is opened when it is found.
        enabled: bool = false, "device.enabled", "device.enabled";
        /// How long a device waits for a person to answer its prompt, and how long a request waits for its turn. After that
        /// it is cancelled.
        prompt: Duration = Duration::from_mins(5), "device.prompt", "device.prompt";
        /// UDP addresses of simulators and emulators on this machine, such as 127.0.0.1:21324.
        udp: Vec<String> = Vec::new(), "device.udp", "device.udp";
    }
}

section! {
    "Signing service";
    /// A process that holds keys, enforces rules for signing, and signs for this node (`docs/signer.md`).
    SignerSettings {
        /// Address of the service: the path of its socket, or http://ADDRESS:PORT on this machine.
        url: Option<String> = None, "signer.url", "signer";
        /// File with the bearer token of this node, for HTTP.
        token: Option<PathBuf> = None, "signer.token", "signer.token";
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

/// A plugin's entry in a settings file.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginEntry {
    /// Its library; by default the plugin folder is searched.
    pub path: Option<PathBuf>,
    /// Whether it is started with the node.
    pub is_enabled: bool,
    /// Whether the node refuses to start without it.
    pub is_required: bool,
    /// `in-process` or `process`; `None` uses the node's default.
    pub isolation: Option<String>,
    /// Granted capabilities of those that it requests. `None`: nothing for a foreign build, everything for others.
    pub capabilities: Option<Vec<String>>,
    /// Its limits.
    pub limits: PluginLimits,
    /// Its settings at start, as JSON text.
    pub settings_json: String,
}

/// `[plugins.NAME.limits]`: limits of one plugin; missing ones are the node's defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PluginLimits {
    /// `memory`: in a process of its own.
    pub memory: Option<ByteSize>,
    /// `call-time`: processor time per call, in a process of its own.
    pub call_time: Option<Duration>,
    /// `calls`: maximum number of concurrent calls, everywhere.
    pub calls: Option<u32>,
    /// `restarts`: per minute, of a process of its own.
    pub restarts: Option<u32>,
    /// `log-lines`: per second, everywhere.
    pub log_lines: Option<u32>,
    /// `storage`: bytes of keys and values in the node's database, everywhere.
    pub storage: Option<ByteSize>,
    /// `storage-records`: number of records there, everywhere.
    pub storage_records: Option<u64>,
}

impl Default for PluginEntry {
    fn default() -> Self {
        Self {
            path: None,
            is_enabled: true,
            is_required: false,
            isolation: None,
            capabilities: None,
            limits: PluginLimits::default(),
            settings_json: "{}".into(),
        }
    }
}

impl PluginEntry {
    /// The lines of its table in a settings file, keys and values, which parse to the same entry.
    pub fn show(&self) -> Vec<(String, Value)> {
        let limits = &self.limits;
        let bound = |name: &str, value: Value| (format!("limits.{name}"), value);
        let settings = serde_json::from_str(&self.settings_json).unwrap_or_default();
        let lines = [
            ("path".to_owned(), self.path.show()),
            ("enabled".to_owned(), self.is_enabled.show()),
            ("required".to_owned(), self.is_required.then_some(true).show()),
            ("isolation".to_owned(), self.isolation.show()),
            ("capabilities".to_owned(), self.capabilities.show()),
            bound("memory", limits.memory.show()),
            bound("call-time", limits.call_time.show()),
            bound("calls", limits.calls.show()),
            bound("restarts", limits.restarts.show()),
            bound("log-lines", limits.log_lines.show()),
            bound("storage", limits.storage.show()),
            bound("storage-records", limits.storage_records.show()),
            ("settings".to_owned(), Value::from_json(&settings)),
        ];
        let is_said = |value: &Value| !matches!(value, Value::Absent) && *value != Value::Table(Vec::new());
        lines.into_iter().filter(|(_, value)| is_said(value)).collect()
    }
}

/// Every setting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The node as a whole.
    pub node: NodeSettings,
    /// The database.
    pub database: DatabaseSettings,
    /// HTTP.
    pub http: HttpSettings,
    /// WebSocket.
    pub ws: WsSettings,
    /// Unix socket.
    pub ipc: IpcSettings,
    /// Bearer token.
    pub auth: AuthSettings,
    /// Cost limits of one request.
    pub rpc: RpcSettings,
    /// Verification of blocks.
    pub sync: SyncSettings,
    /// Signers of transactions, headers and votes.
    pub recovery: RecoverySettings,
    /// Transaction pool.
    pub pool: PoolSettings,
    /// Development network.
    pub dev: DevSettings,
    /// Plugins.
    pub plugins: PluginSettings,
    /// Metrics.
    pub metrics: MetricsSettings,
    /// The peer-to-peer network.
    pub peers: PeerSettings,
    /// A masternode's key.
    pub masternode: MasternodeSettings,
    /// Keys.
    pub accounts: AccountSettings,
    /// Hardware wallets.
    pub device: DeviceSettings,
    /// Signing service.
    pub signer: SignerSettings,
    /// Thresholds of health.
    pub health: HealthSettings,
    /// The log.
    pub log: LogSettings,
    /// `[plugins.NAME]` of the settings file.
    pub plugin_entries: BTreeMap<String, PluginEntry>,
}

impl Settings {
    fn sections(&mut self) -> [&mut dyn SectionObject; 20] {
        [
            &mut self.node,
            &mut self.database,
            &mut self.http,
            &mut self.ws,
            &mut self.ipc,
            &mut self.auth,
            &mut self.rpc,
            &mut self.sync,
            &mut self.recovery,
            &mut self.pool,
            &mut self.dev,
            &mut self.plugins,
            &mut self.metrics,
            &mut self.peers,
            &mut self.masternode,
            &mut self.accounts,
            &mut self.device,
            &mut self.signer,
            &mut self.health,
            &mut self.log,
        ]
    }

    /// Sets a value; `None` if there is no such setting.
    pub(crate) fn put(&mut self, key: &str, value: &Value) -> Option<Result<(), String>> {
        self.sections().into_iter().find_map(|section| section.put_value(key, value))
    }

    /// The value of a setting as written in files; `None` if there is no such setting.
    pub fn show(&self, key: &str) -> Option<Value> {
        // `sections` only returns mutable references; the copy avoids a second list.
        self.clone().sections().into_iter().find_map(|section| section.show_value(key))
    }

    /// The path of a setting: a bare name is inside the data folder, others are taken as they are.
    pub fn in_data_folder(&self, path: &std::path::Path) -> PathBuf {
        let is_bare_name = path.components().count() == 1 && !path.is_absolute();
        if is_bare_name { self.node.datadir.join(path) } else { path.to_owned() }
    }
}

/// [`Section`] without its associated function, so that it is object-safe.
trait SectionObject {
    fn put_value(&mut self, key: &str, value: &Value) -> Option<Result<(), String>>;
    fn show_value(&self, key: &str) -> Option<Value>;
}

impl<S: Section> SectionObject for S {
    fn put_value(&mut self, key: &str, value: &Value) -> Option<Result<(), String>> {
        self.put(key, value)
    }

    fn show_value(&self, key: &str) -> Option<Value> {
        self.show(key)
    }
}

/// The table of settings, in the order of the reference page.
pub fn all_settings() -> Vec<SettingInfo> {
    let mut rows = Vec::new();
    NodeSettings::describe(&mut rows);
    DatabaseSettings::describe(&mut rows);
    HttpSettings::describe(&mut rows);
    WsSettings::describe(&mut rows);
    IpcSettings::describe(&mut rows);
    AuthSettings::describe(&mut rows);
    RpcSettings::describe(&mut rows);
    SyncSettings::describe(&mut rows);
    RecoverySettings::describe(&mut rows);
    PoolSettings::describe(&mut rows);
    DevSettings::describe(&mut rows);
    PluginSettings::describe(&mut rows);
    MetricsSettings::describe(&mut rows);
    PeerSettings::describe(&mut rows);
    MasternodeSettings::describe(&mut rows);
    AccountSettings::describe(&mut rows);
    DeviceSettings::describe(&mut rows);
    SignerSettings::describe(&mut rows);
    HealthSettings::describe(&mut rows);
    LogSettings::describe(&mut rows);
    rows
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_setting_has_a_unique_key_and_flags() {
        let rows = all_settings();
        let keys: BTreeSet<_> = rows.iter().map(|row| row.key).collect();
        let flags: Vec<_> =
            rows.iter().flat_map(|row| std::iter::once(row.flag).chain(row.old_flags.iter().copied())).collect();

        assert_eq!(keys.len(), rows.len());
        assert_eq!(flags.iter().collect::<BTreeSet<_>>().len(), flags.len());
    }

    #[test]
    fn every_default_parses_as_a_value() {
        let mut settings = Settings::default();
        for row in all_settings() {
            assert_eq!(settings.put(row.key, &row.default), Some(Ok(())), "{}", row.key);
            assert_eq!(settings.show(row.key), Some(row.default.clone()), "{}", row.key);
        }
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn serves_only_the_safe_namespaces_on_loopback_by_default() {
        let settings = Settings::default();
        assert!(settings.http.addr.is_loopback() && settings.ws.addr.is_loopback());
        assert_eq!(settings.http.api, ["eth", "net", "web3"]);
        assert_eq!(settings.ws.api, ["eth", "net", "web3"]);
        assert!(settings.http.corsdomain.is_empty() && settings.ws.origins.is_empty());
    }
}

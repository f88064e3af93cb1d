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
    /// The node as a whole: where its data lies and which chain it follows.
    NodeSettings {
        /// Folder of the database, the socket, `endpoints.json` and `tenon.toml`. One node at a time uses it.
        datadir: PathBuf = default_data_folder(), "datadir", "datadir";
        /// The chain to follow: `mainnet` (or `xinfin`), `testnet` (`apothem`), `devnet`, `devnet-5551`, or the path of
        /// a genesis file. Needed once: the data folder keeps a copy, and refuses another chain.
        network: Option<String> = None, "network", "network";
        /// Genesis file (JSON as go-ethereum writes it), as `network` takes it too.
        genesis: Option<PathBuf> = None, "genesis", "genesis";
        /// The number that `net_version` gives, when it is not the chain id. On native chains it chooses the built-in
        /// fork heights and lists too: 51, 551, 5151 and 5551 have their own, every other number has those of 50.
        network_id: Option<u64> = None, "networkid", "networkid";
        /// A word of yours in the name that `web3_clientVersion` gives.
        identity: String = String::new(), "identity", "identity";
        /// How long a stopping node lets running requests finish.
        grace: Duration = Duration::from_secs(4), "grace", "grace";
    }
}

section! {
    "Database";
    /// How the chain is kept.
    DatabaseSettings {
        /// `archive` answers for every block since the first; `pruned` keeps the state of the last blocks only, and
        /// drops older state for good.
        mode: HistoryMode = HistoryMode::Archive, "database.mode", "gcmode";
        /// How many blocks of state history `pruned` keeps. Native chains need those of a gap and one: 451 on public networks.
        history: u64 = 90_000, "database.history", "history.state";
        /// How many of the newest blocks an `archive` keeps whole state tries of. Proofs of these blocks cost the same as of
        /// the head; those of older blocks are computed (docs/chain-data.md). `pruned` keeps the tries of all its states.
        trie_window: u64 = 1_024, "database.triewindow", "database.triewindow";
        /// Memory for cached records, MiB. What waits to be written, trie nodes, decoded blocks and read state take up to as
        /// much again, and never more than with the default.
        cache: u32 = 512, "database.cache", "cache";
        /// Table files held open; more are opened as they are read. Where the system allows the process fewer files than these
        /// and the connections, all get fewer.
        open_files: u32 = 512, "database.openfiles", "database.openfiles";
        /// `process`: nothing is lost when the process dies, at most the last few blocks when the power fails, never
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
        /// Address to listen on. Anything but a loopback address opens the node to the network.
        addr: IpAddr = LOOPBACK, "http.addr", "http.addr", old "http-addr" "rpcaddr";
        /// Port to listen on; 0 takes a free one.
        port: u16 = 8545, "http.port", "http.port", old "http-port" "rpcport";
        /// Namespaces to serve. Those of `auth.namespaces` need a bearer token too.
        api: Vec<String> = words(&["eth", "net", "web3"]), "http.api", "http.api", old "http-api" "rpcapi";
        /// Methods to refuse though their namespace is served, by name or by pattern: `eth_sign*`. A method that is refused
        /// by one of its names is refused by all.
        methods_deny: MethodPatterns = MethodPatterns::default(), "http.methods.deny", "http.methods.deny";
        /// Origins whose web pages may call (CORS); `*` allows all.
        corsdomain: OriginList = OriginList::default(), "http.corsdomain", "http.corsdomain", old "http-corsdomain" "rpccorsdomain";
        /// Host names that requests may be addressed to; `*` allows all. IP addresses always pass.
        vhosts: Vec<String> = words(&["localhost"]), "http.vhosts", "http.vhosts", old "http-vhosts" "rpcvhosts";
        /// Addresses and networks of proxies (`127.0.0.1`, `10.0.0.0/8`) that are believed, over HTTP and WebSocket, when they name
        /// the client of a request by `Forwarded` or `X-Forwarded-For`. Whose shares a request draws on is decided by that.
        proxies: Vec<String> = Vec::new(), "http.proxies", "http.proxies";
        /// Largest request body.
        body_limit: ByteSize = ByteSize(5 << 20), "http.bodylimit", "http.bodylimit";
        /// Most connections at a time. One address may have all that are free; when none is, the longest idle one of the address that
        /// holds most is closed for a newcomer.
        connections: u32 = 1000, "http.connections", "http.connections";
        /// Longest time that a request may take, until the client gets status 503.
        request_timeout: Duration = Duration::from_secs(29), "http.requesttimeout", "http.requesttimeout", old "http-readtimeout";
        /// Longest time that one write may wait for the client to read.
        write_timeout: Duration = Duration::from_secs(30), "http.writetimeout", "http.writetimeout", old "http-writetimeout";
        /// How long a connection may stay silent between requests.
        idle_timeout: Duration = Duration::from_secs(120), "http.idletimeout", "http.idletimeout", old "http-idletimeout";
    }
}

section! {
    "WebSocket";
    /// JSON-RPC over WebSocket. With the address and port of HTTP it shares the listener; with port 0 each takes a free
    /// port of its own.
    WsSettings {
        /// Serve WebSocket; `--ws=false` turns it off.
        enabled: bool = true, "ws.enabled", "ws";
        /// Address to listen on. Anything but a loopback address opens the node to the network.
        addr: IpAddr = LOOPBACK, "ws.addr", "ws.addr", old "ws-addr" "wsaddr";
        /// Port to listen on; 0 takes a free one.
        port: u16 = 8546, "ws.port", "ws.port", old "ws-port" "wsport";
        /// Namespaces to serve. Those of `auth.namespaces` need a bearer token too.
        api: Vec<String> = words(&["eth", "net", "web3"]), "ws.api", "ws.api", old "ws-api" "wsapi";
        /// Methods to refuse, as `http.methods.deny` does.
        methods_deny: MethodPatterns = MethodPatterns::default(), "ws.methods.deny", "ws.methods.deny";
        /// Origins whose web pages may connect; `*` allows all. Without any: pages of this machine.
        origins: OriginList = OriginList::default(), "ws.origins", "ws.origins", old "ws-origins" "wsorigins";
        /// Largest message.
        message_limit: ByteSize = ByteSize(15 << 20), "ws.messagelimit", "ws.messagelimit";
        /// Most connections at a time.
        connections: u32 = 500, "ws.connections", "ws.connections";
    }
}

section! {
    "Unix socket";
    /// JSON-RPC over a Unix socket with mode 0600, which serves every namespace.
    IpcSettings {
        /// Don't open the socket.
        disabled: bool = false, "ipc.disabled", "ipcdisable";
        /// The socket. A bare name lies in the data folder. The system takes paths of 107 bytes at most.
        path: PathBuf = PathBuf::from("tenon.ipc"), "ipc.path", "ipcpath";
        /// Most connections at a time.
        connections: u32 = 500, "ipc.connections", "ipc.connections";
        /// Largest message.
        message_limit: ByteSize = ByteSize::mebibytes(64), "ipc.messagelimit", "ipc.messagelimit";
    }
}

section! {
    "Authentication";
    /// The bearer token (JWT, HS256) that namespaces ask for over TCP.
    AuthSettings {
        /// File with the secret, 32 bytes in hexadecimal. Made with mode 0600 when it does not exist. A bare name lies
        /// in the data folder.
        jwtsecret: PathBuf = PathBuf::from("jwt.hex"), "auth.jwtsecret", "authrpc.jwtsecret";
        /// Namespaces that need a token over HTTP and WebSocket wherever they are served, by any of their names; `*` for
        /// all, `rpc` among them.
        namespaces: Vec<String> = words(&["admin", "debug", "miner", "personal"]), "auth.namespaces", "auth.namespaces";
    }
}

section! {
    "Requests";
    /// What one request may cost.
    RpcSettings {
        /// Most gas that `eth_call`, `eth_estimateGas`, traces of calls, and all calls of an `eth_simulateV1` together may use; 0 sets no bound.
        gas_cap: u64 = 50_000_000, "rpc.gascap", "rpc.gascap", old "rpc-gascap";
        /// Longest time of one call of the EVM.
        evm_timeout: Duration = Duration::from_secs(5), "rpc.evmtimeout", "rpc.evmtimeout";
        /// Longest trace of one transaction, when the caller names no time-out; callers may name up to 5 minutes.
        trace_timeout: Duration = Duration::from_secs(5), "rpc.tracetimeout", "rpc.tracetimeout";
        /// Most instructions that one traced transaction may record.
        trace_steps: u64 = 10_000_000, "rpc.tracesteps", "rpc.tracesteps";
        /// Most memory that traces may take together, recordings and texts; 0 takes as much as one client may hold. It counts
        /// in `rpc.memory` too.
        trace_memory: ByteSize = ByteSize(0), "rpc.tracememory", "rpc.tracememory";
        /// Most tracers written in JavaScript that run at the same time, each in a sandboxed process of its own; more are
        /// refused. 0 refuses all.
        scripts: u64 = 4, "rpc.scripts", "rpc.scripts";
        /// Heap of a tracer written in JavaScript. While it runs, it and 64 MiB for its process count in `rpc.memory`, in its
        /// client's name.
        script_memory: ByteSize = ByteSize::mebibytes(32), "rpc.scriptmemory", "rpc.scriptmemory";
        /// Most memory that requests may take together: messages, parameters, calls, answers that are not read, filters,
        /// subscriptions, traces, and what lies between the node and plugins' processes. What does not fit is refused
        /// (`-32005`; over HTTP status 503 when the body does not), while what runs goes on. No less than one message may have.
        memory: ByteSize = ByteSize::mebibytes(512), "rpc.memory", "rpc.memory";
        /// Most of `rpc.memory` that one client may hold, `http.bodylimit` at least; 0 takes a quarter. A client is who has a token,
        /// else an address, on the socket a process.
        client_memory: ByteSize = ByteSize(0), "rpc.clientmemory", "rpc.clientmemory";
        /// Longest time of one request of any kind over WebSocket and the socket; HTTP has `http.requesttimeout` too.
        request_timeout: Duration = Duration::from_secs(600), "rpc.requesttimeout", "rpc.requesttimeout";
        /// Most computing time of one message, a call or a batch, added up over all threads: calls, traces and log searches of it
        /// beyond that are refused; 0 sets no bound.
        computing_time: Duration = Duration::from_secs(30), "rpc.computingtime", "rpc.computingtime";
        /// Most requests of a batch.
        batch_items: u32 = 10_000, "rpc.batch-request-limit", "rpc.batch-request-limit";
        /// Most bytes of the answers of a batch.
        batch_bytes: ByteSize = ByteSize(25_000_000), "rpc.batch-response-max-size", "rpc.batch-response-max-size";
        /// Most bytes of one answer.
        response_bytes: ByteSize = ByteSize::mebibytes(64), "rpc.response-max-size", "rpc.response-max-size";
        /// Most blocks that one `eth_getLogs` may span; 0 sets no bound.
        log_blocks: u64 = 0, "rpc.rangelimit", "rpc.rangelimit";
        /// Most logs that one `eth_getLogs` may give.
        log_results: u64 = 20_000, "rpc.logslimit", "rpc.logslimit";
        /// Most that a transaction which is handed to this node may pay for its gas, in ether; 0 sets no bound.
        transaction_fee_cap: f64 = 1.0, "rpc.txfeecap", "rpc.txfeecap", old "rpc-txfeecap";
        /// Accept transactions that are valid on every chain (signed before EIP-155).
        allow_unprotected: bool = true, "rpc.allow-unprotected-txs", "rpc.allow-unprotected-txs";
        /// Most subscriptions of one connection.
        subscriptions: u32 = 256, "rpc.subscriptions", "rpc.subscriptions";
        /// Most subscriptions of one client, over all its connections.
        client_subscriptions: u32 = 4096, "rpc.clientsubscriptions", "rpc.clientsubscriptions";
        /// Threads for calls, traces and scans; 0 takes as many as the machine has cores. Clients share them by the time that
        /// their requests take.
        threads: u32 = 0, "rpc.threads", "rpc.threads";
        /// Calls, traces and scans that may wait for a thread, half of them those of one client. More are refused: where the queue
        /// is full, those of the client that has most.
        queue: u32 = 1024, "rpc.queue", "rpc.queue";
        /// Folders in which requests may name files (`admin_exportChain`, `admin_importChain`, `debug_traceBlockFromFile`). A
        /// bare name lies in the data folder; a file that is named without a folder, and every profile, lies in the first.
        files: Vec<String> = words(&["files"]), "rpc.files", "rpc.files";
        /// Serve native chains under the reference's names of namespaces too: `XDPoS` beside `Consensus`.
        aliases: bool = true, "rpc.aliases", "rpc.aliases";
    }
}

section! {
    "Blocks of others";
    /// How blocks of peers and of files are verified.
    SyncSettings {
        /// `all`: every certificate of engine v2. `sampled`: of blocks older than a day, only those of epoch switches, of every
        /// hundredth block, and one for some thirty blocks, which binds the others by hash (docs/running.md, Sampled certificates).
        certificates: CertificateChecks = CertificateChecks::All, "sync.certificates", "sync.certificates";
    }
}

section! {
    "Recovery of signers";
    /// Who made signatures of transactions, headers and votes. Processors with AVX-512 IFMA recover eight at a time.
    RecoverySettings {
        /// Recovers one of this many signers again with the C library, to notice a processor that computes wrongly; 0: none. After a
        /// wrong one an error is logged, and all are recovered by the C library.
        check: u32 = 0, "recovery.check", "recovery.check";
    }
}

section! {
    "Transaction pool";
    /// Transactions that wait for a block.
    PoolSettings {
        /// File that carries local transactions over a restart. A bare name lies in the data folder. A link is followed; a file that
        /// holds something else, a pipe and a device are refused, and left as they are.
        journal: PathBuf = PathBuf::from("transactions.rlp"), "txpool.journal", "txpool.journal", old "txpool-journal";
        /// Lowest tip per gas that is accepted, from this node's own accounts too, wei; `eth_gasPrice` and
        /// `eth_maxPriorityFeePerGas` suggest no less. Native chains have a least price of their own, 12.5 gwei today.
        price_limit: u64 = 1, "txpool.pricelimit", "txpool.pricelimit", old "txpool-pricelimit";
        /// How much more a replacement must pay, per cent.
        price_bump: u64 = 10, "txpool.pricebump", "txpool.pricebump", old "txpool-pricebump";
        /// Slots of 32 KiB that one account may take; those of its local transactions don't count.
        account_slots: u64 = 80, "txpool.accountslots", "txpool.accountslots", old "txpool-accountslots";
        /// Slots of 32 KiB of the whole pool; they bound its memory.
        global_slots: u64 = 10_240, "txpool.globalslots", "txpool.globalslots", old "txpool-globalslots";
        /// Share of the pool in which local transactions are kept when it is full, and over a restart. Local is what this
        /// node's own accounts send, and what comes over the Unix socket.
        local_share: Percent = Percent::new(25), "txpool.localshare", "txpool.localshare";
        /// How long a transaction is kept that no block can take: after a gap of nonces, or at a price below what blocks
        /// ask.
        lifetime: Duration = Duration::from_secs(3 * 3600), "txpool.lifetime", "txpool.lifetime", old "txpool-lifetime";
    }
}

section! {
    "Development network";
    /// The chain that `tenon dev` makes.
    DevSettings {
        /// Rules: `ethereum`, `native` (one masternode, engine v2, the system contracts) or `native-v1`.
        profile: DevProfile = DevProfile::Ethereum, "dev.profile", "profile";
        /// Rounds of an epoch of the `native` profile, 2 at least.
        epoch: u64 = 30, "dev.epoch", "epoch";
        /// Time between blocks. Without it a block is made for every transaction.
        block_time: Option<Duration> = None, "dev.block-time", "block-time", old "dev.period";
        /// How many funded accounts.
        accounts: u32 = 10, "dev.accounts", "accounts";
        /// Balance of each, in ether.
        balance: u64 = 10_000, "dev.balance", "balance";
        /// The words that the accounts' keys are derived from. Words of your own are better given in a file or as
        /// `TENON_DEV_MNEMONIC`: others can see the flags of a program. They and their keys are not printed.
        mnemonic: Mnemonic = Mnemonic::default(), "dev.mnemonic", "mnemonic";
        /// File with these words, in place of `dev.mnemonic`.
        mnemonic_file: Option<PathBuf> = None, "dev.mnemonic-file", "mnemonic-file";
        /// Let HTTP and WebSocket listen on an address that other machines reach. Without it such an address is refused:
        /// the node signs for everyone who reaches it.
        expose: bool = false, "dev.expose", "dev.expose";
        /// Chain id. Native networks have 5151, the one for which all native rules hold from the first block.
        chain_id: u64 = 31_337, "dev.chain-id", "chain-id";
        /// Gas limit of every block.
        gas_limit: u64 = 30_000_000, "dev.gas-limit", "gas-limit", old "dev.gaslimit";
    }
}

section! {
    "Plugins";
    /// The shared libraries that serve the namespaces. `[plugins.NAME]` in a settings file sets up one of them:
    /// `path`, `enabled`, `required` (the node does not start without it), `isolation` (`in-process`, or `process`: a
    /// process of its own, the default for foreign builds), `capabilities` (what it is granted of what it asks for, by name;
    /// `all` stands for all but `Sign` and `Administer`; left out, a foreign build is granted nothing, one that is built in or
    /// vouched for everything), a table `settings` that it is handed, and a table `limits`: `memory` (default
    /// 512 MiB), `call-time` (processor time of one call, default 5 s), `restarts` (of its process in a minute, default
    /// 5), which hold in a process of its own, and `calls` (at a time, no default), `log-lines` (a second, default 50
    /// in a process of its own), `storage` (bytes that it keeps in the node's database, default 1 GiB) and
    /// `storage-records` (default 4 million), which hold everywhere. `tenon module reload` and SIGHUP apply what changed.
    PluginSettings {
        /// Folder of the plugins. Without it: `plugins` beside the program, then the program's own folder. Built-in plugins that are
        /// not in the folder are found beside the program all the same; `[plugins.NAME] enabled = false` leaves one out.
        dir: Option<PathBuf> = None, "plugins.dir", "plugins";
        /// How long a plugin may take to finish its calls when it is stopped.
        grace: Duration = Duration::from_secs(2), "plugins.grace", "plugins.grace";
        /// SHA-256 (hex) of further builds that are trusted like the built-in ones: they run in the node's own process and are
        /// granted what they ask for, unless their own section says otherwise.
        trusted: Vec<String> = Vec::new(), "plugins.trusted", "plugins.trusted";
        /// Names of plugins whose foreign build is started in its process also where the kernel cannot close the sandbox
        /// around it (seccomp, and Landlock of Linux 5.13).
        unsandboxed: Vec<String> = Vec::new(), "plugins.unsandboxed", "plugins.unsandboxed";
    }
}

section! {
    "Metrics";
    /// What the node counts, for Prometheus, at `/metrics` of a port of its own.
    MetricsSettings {
        /// Serve metrics. At run time: `tenon module enable metrics`.
        enabled: bool = false, "metrics.enabled", "metrics";
        /// Address to listen on. Anything but a loopback address shows them to the network.
        addr: IpAddr = LOOPBACK, "metrics.addr", "metrics.addr", old "metrics-addr";
        /// Port to listen on; 0 takes a free one.
        port: u16 = 6060, "metrics.port", "metrics.port", old "metrics-port";
    }
}

section! {
    "Peers";
    /// The peer-to-peer network, of native chains alone: this node follows the chain of its peers and serves them.
    PeerSettings {
        /// Connect to peers and let them connect. At run time: `tenon module enable network`.
        enabled: bool = false, "p2p.enabled", "p2p";
        /// Address to listen on, for connections (TCP) and discovery (UDP).
        addr: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED), "p2p.addr", "p2p.addr";
        /// Port of both; 0 takes a free one.
        port: u16 = 30303, "p2p.port", "port";
        /// Most peers. One slot in three is for those that this node dials; 0 leaves the network off.
        maxpeers: u32 = 50, "p2p.maxpeers", "maxpeers";
        /// Most handshakes of peers at a time; 0 stands for 50. One address has a fifth of them.
        maxpendpeers: u32 = 0, "p2p.maxpendpeers", "maxpendpeers";
        /// enode URLs at which discovery begins, in place of the network's own.
        bootnodes: Vec<String> = Vec::new(), "p2p.bootnodes", "bootnodes", old "bootnodesv4";
        /// Find no nodes and dial none but those of `p2p.static`; nothing listens on UDP.
        nodiscover: bool = false, "p2p.nodiscover", "nodiscover";
        /// enode URLs of nodes to keep connections with.
        statics: Vec<String> = Vec::new(), "p2p.static", "p2p.static";
        /// enode URLs of nodes that are exempt from limits.
        trusted: Vec<String> = Vec::new(), "p2p.trusted", "p2p.trusted";
        /// Networks (`10.0.0.0/8`): nothing is exchanged with any address outside them.
        netrestrict: Vec<String> = Vec::new(), "p2p.netrestrict", "netrestrict";
        /// Bytes per second that are received from all peers together; 0 is no limit. The lowest limit is 128 KiB, for each of the four.
        download_limit: ByteSize = ByteSize(0), "p2p.download-limit", "p2p.download-limit";
        /// Bytes per second that are sent to all peers together. Votes and blocks are sent at once, then answers, then transactions.
        upload_limit: ByteSize = ByteSize(0), "p2p.upload-limit", "p2p.upload-limit";
        /// The same for what is received from each peer.
        peer_download_limit: ByteSize = ByteSize(0), "p2p.peer-download-limit", "p2p.peer-download-limit";
        /// The same for what is sent to each peer.
        peer_upload_limit: ByteSize = ByteSize(0), "p2p.peer-upload-limit", "p2p.peer-upload-limit";
        /// `none`; `extip:ADDRESS`, the address that others reach this node at; or a way to have the port mapped in the router, and to
        /// learn the address: `upnp`, `natpmp` (PCP too; `natpmp:ROUTER`), `any`. `--nat any` is the reference client's default.
        nat: String = "none".to_owned(), "p2p.nat", "nat";
        /// File of the node key: 64 hexadecimal digits, readable by its owner alone. By default `network/nodekey` of the data
        /// folder, made at the first start.
        nodekey: Option<PathBuf> = None, "p2p.nodekey", "nodekey";
    }
}

section! {
    "Masternode";
    /// A masternode's key, with which this node votes and makes blocks on a native chain, over the peer-to-peer network. Two nodes must
    /// never run with one key at a time.
    MasternodeSettings {
        /// File of the key: 64 hexadecimal digits, readable by its owner alone. A bare name lies in the data folder.
        key: Option<PathBuf> = None, "masternode.key", "masternode.key";
        /// In place of a file: an account of this node's wallets, which must be unlocked (`accounts.unlock`).
        account: Option<String> = None, "masternode.account", "masternode.account";
        /// In place of both: an account of the signing service (`signer.url`), which lists it among its validators.
        signer: Option<String> = None, "masternode.signer", "masternode.signer";
        /// Gas limit of the blocks that this node makes, as far as the rules let it move from block to block.
        gas_limit: u64 = 50_000_000, "masternode.gas-limit", "miner-gaslimit";
    }
}

section! {
    "Accounts";
    /// The keys that this node signs with.
    AccountSettings {
        /// Folder of encrypted key files, which other clients can use too. A bare name lies in the data folder.
        keystore: PathBuf = PathBuf::from("keystore"), "accounts.keystore", "keystore";
        /// Encrypt new key files at a thirtieth of the cost: for small machines, and for keys without value.
        light_kdf: bool = false, "accounts.lightkdf", "lightkdf";
        /// Memory for deriving keys from passwords. The standard cost takes 256 MiB a key; two are derived at a time. A key file
        /// that asks for more is refused.
        memory: ByteSize = ByteSize::mebibytes(512), "accounts.memory", "accounts.memory";
        /// Accounts to unlock at the start, until the node ends: addresses, or positions in the list of key files. Their passwords
        /// stand in `accounts.password`.
        unlock: Vec<String> = Vec::new(), "accounts.unlock", "unlock";
        /// File with the passwords of `accounts.unlock`, a line each; the last line holds for all that follow.
        password: Option<PathBuf> = None, "accounts.password", "password";
        /// Unlock accounts, and sign with unlocked ones, over HTTP and WebSocket without a bearer token too. Everyone who reaches the
        /// port can then spend what they hold.
        allow_insecure_unlock: bool = false, "accounts.allowinsecureunlock", "allow-insecure-unlock";
    }
}

section! {
    "Hardware wallets";
    /// Devices whose accounts this node signs with: those of the machine's USB, and simulators (`docs/device.md`). The module `device`
    /// can be enabled and disabled at run time.
    DeviceSettings {
        /// Look for hardware wallets, and open those that ask for nothing.
        enabled: bool = false, "device.enabled", "device.enabled";
        /// How long a person has at a prompt of a device, and how long a request waits for its turn. Then it is cancelled.
        prompt: Duration = Duration::from_mins(5), "device.prompt", "device.prompt";
        /// Where simulators and emulators listen on this machine, such as 127.0.0.1:21324.
        udp: Vec<String> = Vec::new(), "device.udp", "device.udp";
    }
}

section! {
    "Signing service";
    /// A process that holds keys behind rules, and whose accounts this node signs with (`docs/signer.md`).
    SignerSettings {
        /// Where it listens: the path of its socket, or http://ADDRESS:PORT of this machine.
        url: Option<String> = None, "signer.url", "signer";
        /// File with the bearer token of this node, for HTTP.
        token: Option<PathBuf> = None, "signer.token", "signer.token";
    }
}

section! {
    "Health";
    /// When `GET /health` answers 503. What is not healthy is named in the answer, and in the log when it changes.
    HealthSettings {
        /// Oldest that the head may be; `0s` sets no bound. Without it: 30 times the time that the chain's rules leave between
        /// blocks, one minute at least. Chains that set no pace have no bound then. An older head makes `eth_syncing` say so, without
        /// this setting on the public networks only.
        head_age: Option<Duration> = None, "health.head-age", "health.head-age";
        /// Least free space where the database lies; 0 sets no bound.
        disk_free: ByteSize = ByteSize::mebibytes(256), "health.disk-free", "health.disk-free";
        /// Fewest peers.
        peers: u32 = 0, "health.peers", "health.peers";
        /// How long a failed flush or compaction of the database counts. Writes that fail count until one succeeds.
        database_errors: Duration = Duration::from_secs(60), "health.database-errors", "health.database-errors";
    }
}

section! {
    "Log";
    /// What the node tells on standard error.
    LogSettings {
        /// 0 silent, 1 errors, 2 warnings, 3 information, 4 debug, 5 everything.
        verbosity: u8 = 3, "log.verbosity", "verbosity";
        /// `text` for people, `json` for programs.
        format: LogFormat = LogFormat::Text, "log.format", "log.format";
        /// Finer choice by module, as in `tenon_storage=debug,warn`; wins over the verbosity.
        filter: Option<String> = None, "log.filter", "log.filter";
        /// File that gets the same lines, beside standard error. Its name gets the date of its beginning, as in
        /// `node.log.2026-11-22`. A bare name lies in the data folder.
        file: Option<PathBuf> = None, "log.file", "log.file";
        /// When the next file is begun: `daily`, `hourly`, or `never`, which leaves the name as it is. Dates are UTC.
        rotation: LogRotation = LogRotation::Daily, "log.rotation", "log.rotation";
        /// How many of these files are kept; 0 keeps all.
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

//! HTTP, WebSocket and Unix socket, their authentication, and the limits of requests.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::{LOOPBACK, words};
use crate::lists::{MethodPatterns, OriginList};
use crate::table::section;
use crate::value::ByteSize;

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
        /// How long a connection may be idle between requests. After requests it ends up to twice as late.
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

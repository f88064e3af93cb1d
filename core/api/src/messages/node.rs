//! The node itself. Topics `0x0600..`.

use serde::{Deserialize, Serialize};

use super::request;
use crate::BlockNumber;

/// Name and build of the node (`web3_clientVersion`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetClientVersion;
request!(GetClientVersion => String, topic 0x0600, ReadNode);

/// The peer-to-peer side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetNetworkStatus;
request!(GetNetworkStatus => NetworkStatus, topic 0x0601, ReadNode);

/// The peer-to-peer side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkStatus {
    /// Whether the node accepts peers.
    pub is_listening: bool,
    /// Connected peers.
    pub peers: u64,
}

/// How far behind the network the node is; none when it is not catching up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetSyncStatus;
request!(GetSyncStatus => Option<SyncStatus>, topic 0x0602, ReadNode);

/// Progress of catching up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncStatus {
    /// Head when it began.
    pub starting: BlockNumber,
    /// Head now.
    pub current: BlockNumber,
    /// Best head known of.
    pub highest: BlockNumber,
}

/// The enabled namespaces (`rpc_modules`, `rpc_discover`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListNamespaces;
request!(ListNamespaces => Vec<NamespaceInfo>, topic 0x0603, schema 2, ReadNode);

/// An enabled namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceInfo {
    /// The part of a method's name before the first `_`.
    pub namespace: String,
    /// `<major>.<minor>`.
    pub version: String,
    /// Its methods.
    pub methods: Vec<MethodInfo>,
    /// Its subscription kinds.
    pub subscriptions: Vec<String>,
    /// Other names under which the same methods are served.
    pub aliases: Vec<String>,
}

/// A method as its plugin describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodInfo {
    /// Full name.
    pub name: String,
    /// JSON text of an OpenRPC method object without `name`: `summary`, `params`, `result`.
    pub description: String,
}

/// The data folder (`admin_datadir`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetDataFolder;
request!(GetDataFolder => String, topic 0x0604, Administer);

/// A front-end that listens on a TCP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FrontEnd {
    /// JSON-RPC over HTTP.
    Http,
    /// JSON-RPC over WebSocket.
    WebSocket,
}

/// Starts a front-end that does not listen (`admin_startRPC`, `admin_startWS`). What is left out is narrow, whatever the
/// settings say: `localhost`, port 8546, no web pages of other origins, `eth`, `net` and `web3`. What is asked for is checked
/// as if it stood in the settings, which also say who needs a token and which methods are refused. It holds until the
/// front-end is stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartFrontEnd {
    /// Which one.
    pub front_end: FrontEnd,
    /// The address to listen on: an IP address, or `localhost`.
    pub host: Option<String>,
    /// The port; 0 takes a free one. Where the other front-end listens on it, one listener carries both.
    pub port: Option<u16>,
    /// Origins whose web pages may call.
    pub origins: Option<Vec<String>>,
    /// Namespaces to serve.
    pub namespaces: Option<Vec<String>>,
    /// Host names that requests may be addressed to; WebSocket knows none.
    pub virtual_hosts: Option<Vec<String>>,
}
request!(StartFrontEnd => (), topic 0x0605, Administer);

/// The enabled namespaces by name and version alone: `rpc_modules` is asked for on every connection, and the descriptions of
/// all methods are tens of thousands of bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListNamespaceVersions;
request!(ListNamespaceVersions => Vec<NamespaceVersion>, topic 0x0606, ReadNode);

/// An enabled namespace and its version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceVersion {
    /// The part of a method's name before the first `_`.
    pub namespace: String,
    /// `<major>.<minor>`.
    pub version: String,
    /// Other names under which the same methods are served.
    pub aliases: Vec<String>,
}

/// Changes what a front-end shows while it serves, or will show when it is opened (`admin_setExposure`). What is left out
/// stays. It holds until its time is over, the settings say something else about this front-end when they are read again, or
/// the node ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetExposure {
    /// Which one.
    pub front_end: FrontEnd,
    /// Namespaces to serve.
    pub namespaces: Option<Vec<String>>,
    /// Methods to refuse, by name or by pattern: `eth_sign*`.
    pub denied_methods: Option<Vec<String>>,
    /// Namespaces that need a bearer token; `*` for all.
    pub token_namespaces: Option<Vec<String>>,
    /// How long the change holds, seconds; none sets no end.
    pub seconds: Option<u64>,
    /// Whether to take back what was changed, and go by the settings again. Nothing else counts then.
    pub is_reset: bool,
}
request!(SetExposure => ExposureReport, topic 0x0607, Administer);

/// What a front-end shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExposureReport {
    /// Whether it listens.
    pub is_open: bool,
    /// Namespaces that need no token, by all their names.
    pub open: Vec<String>,
    /// Namespaces that holders of a token are served, by all their names.
    pub with_token: Vec<String>,
    /// Patterns of methods that are refused to everybody.
    pub denied_methods: Vec<String>,
    /// When the settings hold again, seconds after 1970; none when no end is set.
    pub until: Option<u64>,
}

/// How names of the chain family are spelt in answers (`rpc.aliases`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetSpelling;
request!(GetSpelling => Spelling, topic 0x0608, ReadChain);

/// How names of the chain family are spelt in answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Spelling {
    /// As the interface document has it: addresses that are names of members begin with `0x`.
    Own,
    /// As the reference client has it: such addresses begin with `xdc`.
    Reference,
}

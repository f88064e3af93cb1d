//! The node itself. Topics `0x0600..`.

use serde::{Deserialize, Serialize};

use super::request;
use crate::BlockNumber;

/// Name and build of the node (`web3_clientVersion`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetClientVersion;
request!(GetClientVersion => String, topic 0x0600, ReadNode);

/// State of the peer-to-peer network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetNetworkStatus;
request!(GetNetworkStatus => NetworkStatus, topic 0x0601, ReadNode);

/// State of the peer-to-peer network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkStatus {
    /// Whether the node accepts peers.
    pub is_listening: bool,
    /// Connected peers.
    pub peers: u64,
}

/// Progress of synchronisation; `None` if the node is not synchronising.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetSyncStatus;
request!(GetSyncStatus => Option<SyncStatus>, topic 0x0602, ReadNode);

/// Progress of synchronisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncStatus {
    /// Head at the start.
    pub starting: BlockNumber,
    /// Head now.
    pub current: BlockNumber,
    /// Highest known head.
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

/// Starts a front-end that is not listening (`admin_startRPC`, `admin_startWS`). The defaults are restrictive and do
/// not depend on the settings: `localhost`, port 8546, no web pages of other origins, `eth`, `net` and `web3`. The
/// values are checked like settings; the settings still decide which namespaces need a token and which methods are
/// refused. It listens until it is stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartFrontEnd {
    /// The front-end.
    pub front_end: FrontEnd,
    /// The address to listen on: an IP address, or `localhost`.
    pub host: Option<String>,
    /// The port; 0 takes a free one. If the other front-end listens on it, one listener serves both.
    pub port: Option<u16>,
    /// Origins whose web pages may make calls.
    pub origins: Option<Vec<String>>,
    /// Namespaces to serve.
    pub namespaces: Option<Vec<String>>,
    /// Host names that requests may be addressed to; not used by WebSocket.
    pub virtual_hosts: Option<Vec<String>>,
}
request!(StartFrontEnd => (), topic 0x0605, Administer);

/// Name and version of the enabled namespaces only: clients call `rpc_modules` on every connection, and the
/// descriptions of all methods are tens of thousands of bytes.
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

/// Changes the exposure of a front-end, now or for when it is opened (`admin_setExposure`). Missing members stay as
/// they are. The change holds until its time is over, until a reload brings other settings for this front-end, or until
/// the node ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetExposure {
    /// The front-end.
    pub front_end: FrontEnd,
    /// Namespaces to serve.
    pub namespaces: Option<Vec<String>>,
    /// Methods to refuse, by name or by pattern: `eth_sign*`.
    pub denied_methods: Option<Vec<String>>,
    /// Namespaces that need a bearer token; `*` for all.
    pub token_namespaces: Option<Vec<String>>,
    /// Duration of the change, seconds; `None` for no end.
    pub seconds: Option<u64>,
    /// Whether to undo the changes and apply the settings again. The other members are then ignored.
    pub is_reset: bool,
}
request!(SetExposure => ExposureReport, topic 0x0607, Administer);

/// The exposure of a front-end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExposureReport {
    /// Whether it listens.
    pub is_open: bool,
    /// Namespaces that need no token, with all their aliases.
    pub open: Vec<String>,
    /// Namespaces served to holders of a token, with all their aliases.
    pub with_token: Vec<String>,
    /// Patterns of methods that are refused to all clients.
    pub denied_methods: Vec<String>,
    /// When the settings apply again, seconds since 1970; `None` if no end is set.
    pub until: Option<u64>,
}

/// The spelling of the chain family's names in answers (`rpc.aliases`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetSpelling;
request!(GetSpelling => Spelling, topic 0x0608, ReadChain);

/// The spelling of the chain family's names in answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Spelling {
    /// As in the interface document: addresses that are keys of JSON objects begin with `0x`.
    Own,
    /// As in the reference client: such addresses begin with `xdc`.
    Reference,
}

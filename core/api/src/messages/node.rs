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

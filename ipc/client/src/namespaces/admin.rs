//! `admin`: modules, peers, and facts for operators.

use std::future::Future;

use alloy_primitives::{B256, U256};
use jsonrpsee::{
    core::client::{Error as CallError, Subscription, SubscriptionClientT},
    proc_macros::rpc,
    rpc_params,
};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Map, Value, value::RawValue};
use tenon_api::messages::{ModuleReport, SettingsReport, SpaceUsage};

use super::Module;

/// Operations on the node itself.
#[rpc(client, namespace = "admin")]
pub trait Admin {
    /// The data folder.
    #[method(name = "datadir")]
    async fn data_folder(&self) -> RpcResult<String>;

    /// The node's name, chain and, while its network is on, how peers reach it.
    #[method(name = "nodeInfo")]
    async fn node_info(&self) -> RpcResult<NodeInfo>;

    /// The connected peers.
    #[method(name = "peers")]
    async fn peers(&self) -> RpcResult<Vec<Peer>>;

    /// Keeps a connection to a peer, given by its enode URL.
    #[method(name = "addPeer")]
    async fn add_peer(&self, url: &str) -> RpcResult<bool>;

    /// Ends the connection to a peer, and does not dial it again.
    #[method(name = "removePeer")]
    async fn remove_peer(&self, url: &str) -> RpcResult<bool>;

    /// Exempts a peer from the limits.
    #[method(name = "addTrustedPeer")]
    async fn add_trusted_peer(&self, url: &str) -> RpcResult<bool>;

    /// Ends the exemption of a peer.
    #[method(name = "removeTrustedPeer")]
    async fn remove_trusted_peer(&self, url: &str) -> RpcResult<bool>;

    /// All modules.
    #[method(name = "listModules")]
    async fn list_modules(&self) -> RpcResult<Vec<Module>>;

    /// One module.
    #[method(name = "moduleInfo")]
    async fn module_info(&self, name: &str) -> RpcResult<Module>;

    /// Loads a module, by name or by the path of its library, which contains a `/`.
    #[method(name = "loadModule")]
    async fn load_module(&self, name_or_path: &str, options: Option<LoadOptions>) -> RpcResult<ModuleReport>;

    /// Starts a module.
    #[method(name = "enableModule")]
    async fn enable_module(&self, name: &str, options: Option<EnableOptions>) -> RpcResult<ModuleReport>;

    /// Stops a module; it can be enabled again.
    #[method(name = "disableModule")]
    async fn disable_module(&self, name: &str) -> RpcResult<ModuleReport>;

    /// Replaces a module by another build, without an interruption.
    #[method(name = "replaceModule")]
    async fn replace_module(&self, name: &str, options: Option<ReplaceOptions>) -> RpcResult<ModuleReport>;

    /// Stops a module and removes it from the list.
    #[method(name = "unloadModule")]
    async fn unload_module(&self, name: &str) -> RpcResult<ModuleReport>;

    /// Removes a module's stored data. Refused while it is enabled.
    #[method(name = "purgeModuleStorage")]
    async fn purge_module_storage(&self, name: &str) -> RpcResult<SpaceUsage>;

    /// Reads the settings again and applies those that need no restart.
    #[method(name = "reloadSettings")]
    async fn reload_settings(&self) -> RpcResult<SettingsReport>;

    /// Copies the database into a folder of the data folder; returns the copy's path.
    #[method(name = "makeCheckpoint")]
    async fn make_checkpoint(&self) -> RpcResult<String>;
}

/// Subscriptions of `admin`.
pub trait AdminSubscriptions: SubscriptionClientT {
    /// Reports of modules whose state changes.
    fn module_changes(&self) -> impl Future<Output = Result<Subscription<ModuleReport>, CallError>> + Send {
        self.subscribe("admin_subscribe", rpc_params!["modules"], "admin_unsubscribe")
    }

    /// Peers that connect and disconnect.
    fn peer_events(&self) -> impl Future<Output = Result<Subscription<PeerEvent>, CallError>> + Send {
        self.subscribe("admin_subscribe", rpc_params!["peerEvents"], "admin_unsubscribe")
    }
}

impl<T: SubscriptionClientT> AdminSubscriptions for T {}

/// Options of [`AdminClient::load_module`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadOptions {
    /// Name for a library given by its path; by default the library's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether it is enabled at once; by default it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Settings and permissions.
    #[serde(flatten)]
    pub terms: ModuleTerms,
}

/// Options of [`AdminClient::replace_module`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplaceOptions {
    /// The new library; by default the module's path, read again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Settings and permissions.
    #[serde(flatten)]
    pub terms: ModuleTerms,
}

/// A module's own settings, and what the operator permits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleTerms {
    /// The module's own settings; by default unchanged, or those of the settings file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<Map<String, Value>>,
    /// Names of granted capabilities, or `all`; by default unchanged, or those of the settings file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant: Option<Vec<String>>,
    /// Whether the operator vouches for this build: it then runs like a built-in one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub trust: bool,
}

/// Options of [`AdminClient::enable_module`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EnableOptions {
    /// Disables it again after this time, seconds.
    pub seconds: u64,
}

/// A node's facts about itself. Without its network it has no identity and no addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeInfo {
    /// Its identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Program and version.
    pub name: String,
    /// URL for other nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enode: Option<String>,
    /// Address for other nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// Ports for other nodes.
    pub ports: NodePorts,
    /// Address and port at which it listens.
    pub listen_addr: String,
    /// Protocols.
    pub protocols: NodeProtocols,
}

/// Ports of a node; 0 without a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePorts {
    /// UDP port of discovery.
    pub discovery: u16,
    /// TCP port.
    pub listener: u16,
}

/// Protocols of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeProtocols {
    /// Its chain.
    pub eth: NodeChain,
}

/// The chain of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeChain {
    /// Network id.
    pub network: u64,
    /// Total difficulty of the head.
    #[serde(with = "super::digits")]
    pub difficulty: U256,
    /// Hash of the genesis block.
    pub genesis: B256,
    /// Rules of the chain, as in a genesis file.
    pub config: Value,
    /// Hash of the head.
    pub head: B256,
}

/// A connected peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Identity.
    pub id: String,
    /// Program and version, freely chosen by the peer.
    pub name: String,
    /// Protocols with their versions, such as `eth/100`.
    #[serde(default)]
    pub caps: Vec<String>,
    /// The connection.
    pub network: PeerNetwork,
    /// Protocols in use.
    pub protocols: PeerProtocols,
}

/// The connection to a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PeerNetwork {
    /// This node's end.
    #[serde(default)]
    pub local_address: String,
    /// The peer's end.
    pub remote_address: String,
    /// Whether the peer made the connection.
    pub inbound: bool,
    /// Whether the peer is exempt from the limits.
    pub trusted: bool,
    /// Whether the node keeps the connection.
    #[serde(rename = "static")]
    pub is_static: bool,
}

/// Protocols in use with a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerProtocols {
    /// The chain's protocol.
    pub eth: PeerEth,
}

/// A peer's chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum PeerEth {
    /// Not known yet; the text is `handshake`.
    Handshake(String),
    /// As announced in its Status message.
    Chain(PeerChain),
}

/// What a peer announced about its chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerChain {
    /// Version of the protocol.
    pub version: u32,
    /// Total difficulty.
    #[serde(with = "super::digits")]
    pub difficulty: U256,
    /// Hash of the head.
    pub head: B256,
}

impl<'de> Deserialize<'de> for PeerEth {
    /// Not derived: an untagged enum would round a large difficulty.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let parsed = match text.get().starts_with('"') {
            true => serde_json::from_str(text.get()).map(Self::Handshake),
            false => serde_json::from_str(text.get()).map(Self::Chain),
        };
        parsed.map_err(D::Error::custom)
    }
}

/// A peer that connected or disconnected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerEvent {
    /// `add` or `drop`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Identity of the peer.
    pub peer: String,
    /// Why it disconnected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_omit_what_is_not_chosen() {
        let terms = ModuleTerms { grant: Some(vec!["ReadChain".to_owned()]), ..ModuleTerms::default() };
        let load = LoadOptions { enabled: Some(true), terms, ..LoadOptions::default() };

        assert_eq!(json!(load), json!({ "enabled": true, "grant": ["ReadChain"] }));
        assert_eq!(json!(ReplaceOptions::default()), json!({}));
    }

    #[test]
    fn a_difficulty_of_any_size_is_kept() {
        let text = r#"{"version":68,"difficulty":58750003716598352816469,"head":"0x0000000000000000000000000000000000000000000000000000000000000001"}"#;

        let chain: PeerEth = serde_json::from_str(text).unwrap();

        assert!(matches!(&chain, PeerEth::Chain(chain) if chain.version == 68));
        assert_eq!(serde_json::to_string(&chain).unwrap(), text);
        let handshake: PeerEth = serde_json::from_str("\"handshake\"").unwrap();
        assert_eq!(handshake, PeerEth::Handshake("handshake".to_owned()));
    }
}

//! The node's facts about itself and its peers (`docs/spec/rpc-node.md` 3.3, 3.4).
//!
//! If the network is off, the node has no key, so `id`, `enode` and `ip` are omitted rather than made up; its ports are
//! 0, as in the reference for a server that does not listen.

use serde::Serialize;
use serde_json::value::RawValue;

use super::*;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeInfo {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    enode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip: Option<String>,
    ports: Ports,
    listen_addr: String,
    protocols: Protocols,
}

#[derive(Debug, Serialize)]
struct Ports {
    discovery: u16,
    listener: u16,
}

#[derive(Debug, Serialize)]
struct Protocols {
    eth: Eth,
}

#[derive(Debug, Serialize)]
struct Eth {
    network: u64,
    /// A number of any size.
    difficulty: Box<RawValue>,
    genesis: B256,
    config: Box<RawValue>,
    head: B256,
}

pub(crate) async fn node_info(context: AdminContext) -> Result<NodeInfo, Failure> {
    let name = context.call(GetClientVersion).await?;
    let info = context.call(GetChainInfo).await?;
    let head = context.call(GetHead).await?;
    let config = context.call(GetChainConfig).await?;
    let json = |text: String| RawValue::from_string(text).map_err(|error| Failure::server(error.to_string()));
    let eth = Eth {
        network: info.network_id,
        difficulty: json(head.total_difficulty.to_string())?,
        genesis: info.genesis_hash,
        config: json(config)?,
        head: head.header.hash(),
    };
    let protocols = Protocols { eth };
    Ok(match context.call(GetNetworkNode).await? {
        Some(node) => NodeInfo {
            id: Some(node.id),
            name,
            enode: Some(node.enode),
            ip: Some(node.ip),
            ports: Ports { discovery: node.discovery_port, listener: node.listener_port },
            listen_addr: node.listen_address,
            protocols,
        },
        None => NodeInfo {
            id: None,
            name,
            enode: None,
            ip: None,
            ports: Ports { discovery: 0, listener: 0 },
            listen_addr: String::new(),
            protocols,
        },
    })
}

/// A connected peer.
#[derive(Debug, Serialize)]
pub(crate) struct Peer {
    id: String,
    name: String,
    caps: Vec<String>,
    network: PeerNetwork,
    protocols: PeerProtocols,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PeerNetwork {
    local_address: String,
    remote_address: String,
    inbound: bool,
    trusted: bool,
    #[serde(rename = "static")]
    is_static: bool,
}

#[derive(Debug, Serialize)]
struct PeerProtocols {
    eth: PeerEth,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum PeerEth {
    /// Before its Status message.
    Handshake(&'static str),
    Chain {
        version: u32,
        /// A number of any size.
        difficulty: Box<RawValue>,
        head: B256,
    },
}

pub(crate) async fn list_peers(context: AdminContext) -> Result<Vec<Peer>, Failure> {
    context.call(ListPeers).await?.into_iter().map(peer).collect()
}

fn peer(info: PeerInfo) -> Result<Peer, Failure> {
    let eth = match info.chain {
        None => PeerEth::Handshake("handshake"),
        Some(chain) => {
            let difficulty = RawValue::from_string(chain.total_difficulty.to_string());
            let difficulty = difficulty.map_err(|error| Failure::server(error.to_string()))?;
            PeerEth::Chain { version: chain.version, difficulty, head: chain.head }
        }
    };
    let network = PeerNetwork {
        local_address: info.local_address,
        remote_address: info.remote_address,
        inbound: info.is_inbound,
        trusted: info.is_trusted,
        is_static: info.is_static,
    };
    Ok(Peer { id: info.id, name: info.name, caps: info.capabilities, network, protocols: PeerProtocols { eth } })
}

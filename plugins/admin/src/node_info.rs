//! The node's facts about itself and its peers (`docs/spec/rpc-node.md` 3.3, 3.4).
//!
//! A node without a network has no key, so `id`, `enode` and `ip` are omitted rather than made up; its ports are 0, as
//! the reference shows those of a server that does not listen.

use serde::Serialize;
use serde_json::value::RawValue;

use super::*;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeInfo {
    name: String,
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
    let ports = Ports { discovery: 0, listener: 0 };
    Ok(NodeInfo { name, ports, listen_addr: String::new(), protocols: Protocols { eth } })
}

/// None, while the node has no network.
pub(crate) async fn list_peers(context: AdminContext) -> Result<Vec<String>, Failure> {
    match context.call(GetNetworkStatus).await?.peers {
        0 => Ok(Vec::new()),
        count => Err(Failure::server(format!("the network has {count} peers and does not list them"))),
    }
}

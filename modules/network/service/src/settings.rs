//! The settings of the network, and why it cannot start.

use std::net::SocketAddr;
use std::path::PathBuf;

use tenon_api::UnusableNode;
use tenon_network_connection::BandwidthLimits;
use tenon_network_discovery::Networks;
use tenon_network_identity::Enode;
use tenon_network_nat::Mechanism;

/// Settings of the network.
#[derive(Clone, Debug)]
pub struct NetworkSettings {
    /// The folder of the node key, the known nodes and the bans.
    pub folder: PathBuf,
    /// Another file for the node key.
    pub key_file: Option<PathBuf>,
    /// Address and port for connections and datagrams; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The public address, or how to ask a router for it and for port mappings.
    pub nat: Mechanism,
    /// The client's name.
    pub name: String,
    /// Maximum number of distinct peers.
    pub max_peers: usize,
    /// Maximum number of concurrent inbound handshakes.
    pub max_pending: usize,
    /// Whether discovery finds nodes to dial.
    pub is_discovering: bool,
    /// The bootnodes of discovery.
    pub bootnodes: Vec<Enode>,
    /// Static nodes.
    pub statics: Vec<Enode>,
    /// Trusted nodes, which are exempt from limits.
    pub trusted: Vec<Enode>,
    /// The only IP networks of peers.
    pub restrict: Option<Networks>,
    /// Bytes per second.
    pub bandwidth: BandwidthLimits,
    /// Network id of Status.
    pub network_id: u64,
    /// Hash of the genesis block.
    pub genesis: tenon_api::B256,
}

/// Why the network cannot start.
#[derive(Debug, thiserror::Error)]
pub enum NetworkStartError {
    /// The folder cannot be created.
    #[error("network folder {}: {cause}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The operating system's error.
        cause: std::io::Error,
    },
    /// The node key cannot be read or created.
    #[error(transparent)]
    Key(#[from] tenon_network_identity::NodeKeyError),
    /// The port is taken, or the address is not this machine's.
    #[error("the network cannot listen on {address} ({protocol}): {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// TCP or UDP.
        protocol: &'static str,
        /// The operating system's error.
        cause: std::io::Error,
    },
    /// A bootnode cannot be used.
    #[error("bootnode {enode}: {problem}")]
    Bootnode {
        /// The node.
        enode: Box<Enode>,
        /// What is wrong with it.
        problem: UnusableNode,
    },
    /// The actor was not started.
    #[error("{0}")]
    Actor(tenon_supervisor::SpawnError),
}

//! What the network is told at its start.

use std::net::SocketAddr;
use std::path::PathBuf;

use tenon_network_connection::BandwidthLimits;
use tenon_network_discovery::Networks;
use tenon_network_identity::{Enode, UnusableNode};
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
    /// The address that others reach this node at, or how a router is asked for it and for its ports.
    pub nat: Mechanism,
    /// The client's name.
    pub name: String,
    /// Distinct peers at most.
    pub max_peers: usize,
    /// Handshakes of peers at a time.
    pub max_pending: usize,
    /// Whether nodes are found and dialed by discovery.
    pub is_discovering: bool,
    /// Where discovery begins.
    pub bootnodes: Vec<Enode>,
    /// Nodes to keep connections with.
    pub statics: Vec<Enode>,
    /// Nodes that are exempt from limits.
    pub trusted: Vec<Enode>,
    /// The only networks that are spoken with.
    pub restrict: Option<Networks>,
    /// Bytes per second.
    pub bandwidth: BandwidthLimits,
    /// Network, as Status has it.
    pub network_id: u64,
    /// Hash of the genesis block.
    pub genesis: tenon_api::B256,
}

/// Why the network cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The folder cannot be made.
    #[error("folder of the network {}: {cause}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The operating system's error.
        cause: std::io::Error,
    },
    /// There is no node key.
    #[error(transparent)]
    Key(#[from] tenon_network_identity::KeyFileError),
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

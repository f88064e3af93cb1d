//! What goes into the state machine of discovery besides datagrams, and what comes out.

use std::net::SocketAddr;
use std::time::Duration;

use tenon_network_identity::{Endpoint, NodeId};

use crate::addresses::Networks;
use crate::packet::{PacketEndpoint, PacketTypes};
use crate::table::TableSettings;

/// The time of a monotonic clock and of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Since an arbitrary fixed instant.
    pub now: Duration,
    /// Unix seconds, as in packets.
    pub unix: u64,
}

/// The settings of a node's discovery.
#[derive(Clone, Debug)]
pub struct DiscoverySettings {
    /// Type bytes of packets.
    pub types: PacketTypes,
    /// Sizes of the table.
    pub table: TableSettings,
    /// This node's endpoint as announced. If it has no address, receivers use the datagram's.
    pub own: PacketEndpoint,
    /// Nodes that are contacted first.
    pub bootnodes: Vec<(NodeId, Endpoint)>,
    /// If set, packets are exchanged only with these networks.
    pub restrict: Option<Networks>,
    /// Seed of all random choices.
    pub seed: u64,
}

/// Actions for the owner of [`Discovery`](crate::Discovery).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a datagram.
    Send {
        /// To this address.
        to: SocketAddr,
        /// Its bytes.
        datagram: Vec<u8>,
    },
    /// A node has proven its endpoint for the first time.
    Found {
        /// The node.
        id: NodeId,
        /// The address at which it answers.
        endpoint: Endpoint,
    },
    /// A search is complete.
    LookupDone {
        /// Its number.
        lookup: u64,
        /// The closest nodes, closest first.
        nodes: Vec<(NodeId, Endpoint)>,
    },
}

//! Node discovery: version 4 in the variant of native chains (`docs/spec/p2p.md` 4, `docs/spec/upgrades.md`
//! 12.3).
//!
//! It owns the packets, the table of known nodes, the proofs of their endpoints, and lookups. [`Discovery`] is a state
//! machine without I/O: its inputs are datagrams and a clock, its outputs are [`Action`]s.
//!
//! Invariants:
//!
//! - no received packet causes a panic;
//! - every list and map is bounded;
//! - a node that has not proven that it receives packets at its address is sent only Pongs and Pings, no list of nodes
//!   and no record;
//! - a proof is valid for one pair of identifier and address;
//! - each address, and all together, cause a limited number of signatures a second.

#![forbid(unsafe_code)]

mod addresses;
mod interface;
mod lookup;
mod node_file;
mod packet;
mod proofs;
mod rates;
mod service;
mod table;

#[cfg(test)]
mod recorded;

pub use addresses::{AddressRangeError, Network, Networks, RelayError, check_relay};
pub use interface::{Action, Clock, DiscoverySettings};
pub use node_file::{KnownNode, MAX_NODE_FILE_BYTES, read_nodes, write_nodes};
pub use packet::{
    Content, MAX_PACKET_BYTES, MAX_PACKET_NODES, Packet, PacketEndpoint, PacketError, PacketKind, PacketTypes,
};
pub use service::Discovery;
pub use table::{Distance, NodeEntry, Table, TableSettings};
